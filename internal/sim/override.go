package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// override lets a check that is in the way of something pass for a while.
func (p person) override() error {
	list, err := p.c.Reports.ListReports(p.ctx, &apipb.ListReportsRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	for _, report := range list.Reports {
		for _, waiting := range report.Waiting {
			if slices.Contains([]string{string(intent.WaitOrder), string(intent.WaitCapacity), string(intent.WaitVersion)}, waiting.Kind) {
				return p.pass(report, waiting.Kind, min(p.d.Length+time.Second, 30*time.Minute))
			}
		}
	}
	return nil
}

// pass overrides a check, which is called as what waits for it.
func (p person) pass(report *apipb.Report, check string, period time.Duration) error {
	p.tell("%s: %s overrides %s of %s, content %.8s, for %s", p.d, p.name, check, report.Asset, report.Effective, period)
	_, err := p.c.Approvals.OverrideCheck(p.ctx, &apipb.OverrideCheckRequest{
		Partition: string(p.partition), Asset: report.Asset, Check: check, Reason: "its plugin is blind", Period: durationpb.New(period), Content: report.Effective,
	})
	if err == nil {
		p.mark("a check was overridden: " + check)
	}
	return err
}

// follower is a record that comes after another, both ready to be changed.
func (i *Intent) follower(r *rand.Rand) (t, other *Thing) {
	t, other = i.wanting(r, "command"), i.wanting(r, "command")
	if t == nil || other == nil || t.ID == other.ID {
		return nil, nil
	}
	t.After, other.After = []string{other.ID}, nil
	t.Approval, other.Approval = false, false
	return t, other
}

// lift has a record wait for another, which is held, and somebody override the
// order. In a third of the cases that ends before the record may go, in another
// it is a commit of the same change that allows it, which counts for later
// changes only (S1, S23).
func (l *Lab) lift(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t, other := next.follower(r)
	if t == nil || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "API")
	how := []string{"in time", "too early", "not yet allowed"}[r.IntN(3)]
	l.tell("%s: %s after %s, %s", d, t.ID, other.ID, how)
	id, first := t.ID, other.ID
	next.Lifts = how != "not yet allowed"
	l.save(d.Number, next, fmt.Sprintf("%s comes after %s; overrides: %t", id, first, next.Lifts))
	l.soonApproved(d)
	l.after(settling, func() {
		if !l.divide(d, r, id, first) {
			return
		}
		replica, period := l.anyone(), 5*time.Minute
		if how == "too early" {
			period = 3 * time.Second
			l.holdFor(intent.AssetID(id), settling/2)
		}
		if replica == nil || replica.Client == nil {
			return
		}
		l.people.Go("person", func() {
			p := l.named(replica, "bob", d, r)
			if report, err := p.waitsFor(id, string(intent.WaitOrder)); err != nil {
				l.tell("%s: refused: %v", d, err)
			} else if err := p.pass(report, "order", period); err != nil {
				l.tell("%s: refused: %v", d, err)
			} else {
				l.marksLift(how)
			}
		})
	})
}

// marksLift says what an override came to.
func (l *Lab) marksLift(how string) {
	switch how {
	case "too early":
		l.mark("an override ends while its asset is held")
	case "not yet allowed":
		l.mark("an override is allowed by the commit that needs it")
	}
}

// divide changes a record and the one that it comes after, which is held.
func (l *Lab) divide(d Disturbance, r *rand.Rand, id, first string) bool {
	next := l.good.clone()
	t, other := next.find(id), next.find(first)
	if t == nil || other == nil || !slices.Contains(t.After, first) {
		return false
	}
	l.holdFor(intent.AssetID(first), 2*settling)
	next.Lifts = true
	action := t.alter(r)
	other.alter(r)
	l.after(500*time.Millisecond, func() { l.save(d.Number, next, action+", and so does "+first) })
	return true
}

// waitsFor is the report of an asset as soon as it waits for that.
func (p person) waitsFor(asset, kind string) (*apipb.Report, error) {
	for range 30 {
		if err := p.people.Wait(p.ctx, 500*time.Millisecond, nil); err != nil {
			return nil, err
		}
		report, err := p.report(asset)
		if err != nil || slices.ContainsFunc(report.Waiting, func(w *apipb.WaitingOn) bool { return w.Kind == kind }) {
			return report, err
		}
	}
	return nil, context.DeadlineExceeded
}

// liftOther has somebody override the order for the content of head while the
// asset is held, and then a pin bring back another content, which waits for the
// same: the override is not of that (S1).
func (l *Lab) liftOther(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t, other := next.follower(r)
	if t == nil || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "API")
	l.tell("%s: %s after %s", d, t.ID, other.ID)
	id, first := t.ID, other.ID
	next.Lifts = true
	l.save(d.Number, next, fmt.Sprintf("%s comes after %s", id, first))
	l.soonApproved(d)
	l.after(settling, func() {
		previous, replica := l.Head(), l.anyone()
		if replica == nil || replica.Client == nil || previous.IsZero() {
			return
		}
		l.holdFor(intent.AssetID(id), 2*settling)
		if !l.divide(d, r, id, first) {
			return
		}
		l.people.Go("person", func() {
			if err := l.named(replica, "bob", d, r).passOther(id, previous.String()); err != nil {
				l.tell("%s: refused: %v", d, err)
			}
		})
	})
}

func (p person) passOther(asset, before string) error {
	partition := string(p.partition)
	report, err := p.waitsFor(asset, string(intent.WaitOrder))
	if err != nil {
		return err
	}
	if err := p.pass(report, "order", 5*time.Minute); err != nil {
		return err
	}
	p.World.Drift(intent.ResourceKey(report.ResourceKey), p.d.Seed)
	if _, err := p.c.Brakes.SetPin(p.ctx, &apipb.SetPinRequest{
		Partition: partition, Asset: asset, Incarnation: before, Reason: "as it was", Period: durationpb.New(time.Minute),
	}); err != nil {
		return err
	}
	p.mark("a check of other content was overridden")
	_, err = p.c.Brakes.RemoveHold(p.ctx, &apipb.RemoveHoldRequest{Partition: partition, Asset: asset, Reason: "over"})
	return err
}
