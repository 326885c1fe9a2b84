package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

// asked waits until an asset asks for an approval.
func (p person) asked(asset string) (*apipb.Report, error) {
	for range 60 {
		if err := p.people.Wait(p.ctx, time.Second, nil); err != nil {
			return nil, err
		}
		report, err := p.report(asset)
		if err != nil || asksForApproval(report) {
			return report, err
		}
	}
	return nil, context.DeadlineExceeded
}

// approveTogether lets as many people approve what waits as are asked for.
func (p person) approveTogether() error {
	list, err := p.c.Reports.ListReports(p.ctx, &apipb.ListReportsRequest{Partition: string(p.partition)})
	if err != nil {
		return err
	}
	for _, report := range list.Reports {
		if !asksForApproval(report) {
			continue
		}
		for _, name := range everybody {
			response, err := p.as(name).agree(report)
			if err == nil && len(response.Consent.Approved) >= int(response.Consent.Need) {
				break
			}
			if err != nil && !fault.Is(err, fault.Denied) {
				return err
			}
		}
	}
	return nil
}

// quorum marks an asset, so that two others than who pinned it must approve,
// and has the one who did and one other, from two places, do so first (S9).
func (l *Lab) quorum(d Disturbance, r *rand.Rand) {
	next, replica := l.good.clone(), l.anyone()
	t := next.wanting(r, "command", "command", "job")
	if t == nil || l.options.Definition != "" || replica == nil || replica.Client == nil {
		return
	}
	l.note(d.Kind, "API")
	l.tell("%s: %s", d, t.ID)
	if t.Approval, t.Quorum = true, 2; r.IntN(2) == 0 {
		t.Quorum, next.Quorum = 0, 2
	}
	id := t.ID
	l.save(d.Number, next, t.alter(r))
	l.people.Go("person", func() {
		if err := l.named(replica, "bob", d, r).formQuorum(id); err != nil {
			l.tell("%s: refused: %v", d, err)
			return
		}
		l.mark("two others than the author approved")
	})
}

// formQuorum has the author approve, one other twice, and then another.
func (p person) formQuorum(asset string) error {
	const looked = 3 * time.Second
	report, err := p.asked(asset)
	if err != nil {
		return err
	}
	if _, err := p.c.Brakes.SetPin(p.ctx, &apipb.SetPinRequest{
		Partition: string(p.partition), Asset: asset, Incarnation: report.Target, Reason: "just this", Period: durationpb.New(2 * time.Minute),
	}); err != nil {
		return err
	}
	defer func() {
		_, _ = p.c.Brakes.RemovePin(p.ctx, &apipb.RemovePinRequest{Partition: string(p.partition), Asset: asset, Reason: "over"})
	}()
	if err := p.people.Wait(p.ctx, looked, nil); err != nil {
		return err
	}
	if report, err = p.asked(asset); err != nil {
		return err
	}
	if _, err := p.agree(report); fault.Is(err, fault.Denied) {
		p.mark("an approval was denied: of an author")
	}
	carol, elsewhere := p.as("carol"), p.as("carol")
	elsewhere.c = p.replica.as("carol", "api")
	for _, one := range []person{carol, elsewhere} {
		if _, err := one.agree(report); err != nil {
			return err
		}
	}
	if err := p.people.Wait(p.ctx, looked, nil); err != nil {
		return err
	}
	_, err = p.as("dave").agree(report)
	return err
}
