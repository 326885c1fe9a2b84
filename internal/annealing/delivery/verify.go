package delivery

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/store"
)

// Verifying is what is asked of whoever runs verifications.
type Verifying struct {
	intent.Verification
	Spec *intentpb.DeliveryVerification
	// Analysis is what is judged; nil: it is no analysis.
	Analysis *Analysis
}

// Finding is what a verification came to.
type Finding struct {
	Good   bool
	Reason string
}

const (
	defaultTimeout = 5 * time.Minute
	// ending is how long after its time a verification has ended for certain, also one whose
	// process nobody knows any more.
	ending = 15 * time.Second
	// firstRest is how long to wait before a verification that could not be run is run again; it
	// doubles up to mostRest.
	firstRest, mostRest = 10 * time.Second, 30 * time.Minute
)

// environmentKey names an environment of an application.
type environmentKey struct {
	home                     intent.PartitionID
	application, environment string
}

func (k environmentKey) String() string {
	return strings.Join([]string{string(k.home), k.application, k.environment}, "/")
}

func keyOf(v *intent.Verification) environmentKey {
	return environmentKey{v.Home, v.Application, v.Environment}
}

// run is a verification that this process runs. Its row is stored before it begins, and goes
// after it has ended.
type run struct {
	intent.Verification
	cancel context.CancelFunc
	ended  chan struct{}
	// done is set before ended is closed, by then with finding or err.
	done    atomic.Bool
	finding Finding
	err     error
}

// verify goes on with the verification of an environment: it begins the next that is to be run,
// ends one whose content is no longer there, and stores what one came to. Next is when to look
// again; 0: it does not matter.
func (d *Deliverer) verify(ctx context.Context, m *Moment, decision *promotion.Decision, at int) (next time.Duration, stepped bool, err error) {
	place, outcome := &m.Places[at], &decision.Outcomes[at]
	if under := place.Verification; under != nil {
		return d.goOnVerifying(ctx, m, place, under)
	}
	if d.Verify == nil || place.Trouble != 0 {
		return 0, false, nil
	}
	for _, spec := range place.Spec.GetRuns() {
		if !slices.Contains(outcome.Verify, spec.GetName()) {
			continue
		}
		if again, _ := m.nextTry(place, spec.GetName()); again.After(m.Facts.Now) {
			next = again.Sub(m.Facts.Now)
			continue
		}
		stepped, err = d.beginVerification(ctx, m, place, outcome.Has, spec)
		return 0, stepped, err
	}
	return next, false, nil
}

// beginVerification stores its row, and then runs it. What is not stored for certain is not run.
func (d *Deliverer) beginVerification(ctx context.Context, m *Moment, place *Place, has intent.VersionName, spec *intentpb.DeliveryVerification) (stepped bool, err error) {
	timeout := defaultTimeout
	if spec.GetTimeout() != nil {
		timeout = spec.GetTimeout().AsDuration()
	}
	analysis, longest, err := d.analysisOf(ctx, m, place, spec)
	if err != nil {
		return false, err
	}
	if analysis != nil {
		timeout = longest
	}
	v := intent.Verification{
		Partition: d.Partition, Home: m.Home.ID, Application: m.Spec.GetName(), Environment: place.Spec.GetName(), Name: spec.GetName(), Version: has,
		Content: place.Assets.Content, Head: place.Partition.Head, Epoch: d.lease.Epoch, Began: m.Facts.Now, Until: m.Facts.Now.Add(timeout + ending),
	}
	for _, member := range place.Assets.Members {
		v.Assets = append(v.Assets, member.Asset)
	}
	row := d.rowOf(&v, intent.DeliveryVerifying, "")
	d.unanswered = v
	if err := d.promote(ctx, m, store.PromotionStep{Records: []intent.DeliveryRecord{row}, Verify: &v}); err != nil {
		return false, err
	}
	d.start(ctx, Verifying{v, spec, analysis}, timeout)
	return true, nil
}

// start runs a verification beside the actor, until it ends or its time does.
func (d *Deliverer) start(ctx context.Context, v Verifying, timeout time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	r := &run{Verification: v.Verification, cancel: cancel, ended: make(chan struct{})}
	d.runs[keyOf(&r.Verification)] = r
	deadline := v.Began.Add(timeout)
	d.Runtime.Go("verification", func() {
		d.Runtime.Point("verification")
		defer close(r.ended)
		defer r.done.Store(true)
		left := deadline.Sub(d.Runtime.Now())
		if left <= 0 || ctx.Err() != nil {
			r.err = fault.New(fault.Unavailable, "its time was over before it began")
			return
		}
		limited, free := loop.WithTimeout(ctx, d.Runtime, left)
		defer free()
		r.finding, r.err = d.Verify(limited, v)
	})
}

// goOnVerifying with a verification whose row is there.
func (d *Deliverer) goOnVerifying(ctx context.Context, m *Moment, place *Place, under *intent.Verification) (next time.Duration, stepped bool, err error) {
	r := d.runs[keyOf(under)]
	switch {
	case r == nil || !r.Same(*under):
		return d.endLost(ctx, m, under)
	case under.Content != place.Assets.Content || !d.stillHas(m, place, under):
		r.cancel()
		if !r.done.Load() {
			return leastPause, false, nil
		}
		return 0, true, d.endVerification(ctx, m, r, d.rowOf(under, intent.DeliveryVoid, "what it verified is no longer what the environment is to be"))
	case r.done.Load():
		return 0, true, d.endVerification(ctx, m, r, d.resultOf(r, place))
	case under.Head != place.Partition.Head:
		newer := *under
		newer.Head = place.Partition.Head
		return 0, true, d.promote(ctx, m, store.PromotionStep{Verify: &newer})
	}
	return again, false, nil
}

// resultOf a verification that has ended.
func (d *Deliverer) resultOf(r *run, place *Place) intent.DeliveryRecord {
	switch {
	case r.err != nil:
		return d.rowOf(&r.Verification, intent.DeliveryVoid, "it could not be run to its end: "+r.err.Error())
	case r.finding.Good && !place.Assets.AllGood():
		return d.rowOf(&r.Verification, intent.DeliveryVoid, "it was good, and not all assets of the environment were any more when it ended")
	}
	row := d.rowOf(&r.Verification, intent.DeliveryResult, r.finding.Reason)
	row.Good = r.finding.Good
	return row
}

// stillHas reports whether the environment has the version that is verified.
func (d *Deliverer) stillHas(m *Moment, place *Place, under *intent.Verification) bool {
	stays := m.Facts.Environments[place.Spec.GetName()].Stays
	return len(stays) > 0 && stays[len(stays)-1].VersionName == under.Version
}

// endLost ends the row of a verification that this process does not run: it never began, or the
// process that ran it is gone. What it came to nobody knows, so it is run again. One that another
// began may still be running until its time is over.
func (d *Deliverer) endLost(ctx context.Context, m *Moment, under *intent.Verification) (next time.Duration, stepped bool, err error) {
	if left := d.mayRunFor(under, m.Facts.Now); left > 0 {
		return left, false, nil
	}
	row := d.rowOf(under, intent.DeliveryVoid, "who ran it is gone, and what it came to is not known")
	return 0, true, d.promote(ctx, m, store.PromotionStep{Records: []intent.DeliveryRecord{row}, Verified: under})
}

// mayRunFor is for how long a verification that this process does not run may still be running.
func (d *Deliverer) mayRunFor(under *intent.Verification, now time.Time) time.Duration {
	if d.unanswered.Same(*under) {
		return 0 // The answer to its row was lost, and it was not begun.
	}
	return under.Until.Sub(now)
}

// endVerification stores how one ended that this process ran, and lets pushes go on.
func (d *Deliverer) endVerification(ctx context.Context, m *Moment, r *run, row intent.DeliveryRecord) error {
	if err := d.promote(ctx, m, store.PromotionStep{Records: []intent.DeliveryRecord{row}, Verified: &r.Verification}); err != nil {
		return err
	}
	delete(d.runs, keyOf(&r.Verification))
	return nil
}

func (d *Deliverer) rowOf(v *intent.Verification, kind intent.DeliveryKind, reason string) intent.DeliveryRecord {
	return intent.DeliveryRecord{
		Kind: kind, Environment: v.Environment, Version: v.Version, Constraint: v.Name, Content: v.Content, Reason: clip(reason),
	}
}

// endAbandoned ends verifications of environments that are no longer defined, or not in the
// partition any more, so that pushes go on there. Ended: one was, and all is read anew.
func (d *Deliverer) endAbandoned(ctx context.Context, tasks []task) (ended bool, err error) {
	under, err := d.Store.Verifications(ctx, d.Partition)
	if err != nil || len(under) == 0 {
		return false, err
	}
	defined := map[environmentKey]bool{}
	for _, t := range tasks {
		for _, e := range t.spec.GetEnvironments() {
			if PartitionOf(t.home.ID, e) == d.Partition {
				defined[environmentKey{t.home.ID, t.spec.GetName(), e.GetName()}] = d.unread[string(t.home.ID)+"/"+t.spec.GetName()] == ""
			}
		}
	}
	for i := range under {
		v := &under[i]
		if defined[keyOf(v)] {
			continue
		}
		r := d.runs[keyOf(v)]
		switch {
		case r != nil && r.Same(*v):
			r.cancel()
			if !r.done.Load() {
				continue
			}
		case d.mayRunFor(v, d.Runtime.Now()) > 0:
			continue
		}
		if err := d.Store.EndVerification(ctx, d.lease, *v); err != nil {
			return false, err
		}
		delete(d.runs, keyOf(v))
		ended = true
	}
	return ended, nil
}

// endRuns ends what this process still runs, as its lease or the process ends, and gives the
// environments free at once where that can be.
func (d *Deliverer) endRuns(ctx context.Context) {
	for _, r := range d.runs {
		r.cancel()
	}
	const most = 2 * time.Second
	ctx, cancel := loop.WithTimeout(context.WithoutCancel(ctx), d.Runtime, most)
	defer cancel()
	for _, r := range d.runs {
		if d.Runtime.Wait(ctx, -1, r.ended) != nil {
			return // Whoever comes next waits until its time is over.
		}
		if err := d.Store.EndVerification(ctx, d.lease, r.Verification); err != nil {
			d.Log.Warn("a verification that was cut off stays on record until its time is over", "partition", d.Partition, "environment", r.Environment, "error", err)
		}
	}
	clear(d.runs)
}
