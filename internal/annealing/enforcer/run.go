package enforcer

import (
	"context"
	"time"

	"lehr.dev/internal/store"
)

// Run enforces until the context ends or the lease is lost, and returns why.
// Pushes under way when it returns are told to stop; the next holder of the
// lease settles them.
func (e *Enforcer) Run(ctx context.Context, lease store.Lease) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.lease = lease
	e.retries.epoch = lease.Epoch
	e.Measure.Begin()
	e.PushLog.Clear() // What another lease of this process left.
	if err := e.load(ctx); err != nil {
		return err
	}
	e.Runtime.Go("enforcer watch", func() { e.watch(ctx) })
	for {
		e.Runtime.Point("enforcer step")
		e.Measure.Step.Set(e.Runtime.Now())
		e.watchClock()
		for _, step := range e.inbox.Take() {
			step()
		}
		if e.failed != nil {
			return e.failed
		}
		e.dispatch(ctx)
		e.inquire(ctx)
		e.flush(ctx)
		pause := e.untilDue()
		e.Measure.Assets.Store(int64(len(e.assets)))
		e.Measure.Queued.Store(int64(e.queue.Len()))
		e.Measure.Step.Set(time.Time{})
		if err := e.Runtime.Wait(ctx, pause, e.inbox.Wake()); err != nil {
			return err
		}
	}
}

// watch hands every change of the store to the owner.
func (e *Enforcer) watch(ctx context.Context) {
	for {
		changed := e.Store.Changed(e.Partition)
		e.inbox.Put(func() { e.refresh(ctx) })
		if e.Runtime.Wait(ctx, -1, changed) != nil {
			return
		}
	}
}

// dispatch takes what is due from the queue and starts diffs.
func (e *Enforcer) dispatch(ctx context.Context) {
	now := e.now()
	for {
		a, priority, due := e.queue.Pop(now)
		if !due {
			break
		}
		e.contain(a, func() { e.look(ctx, a, priority, now) })
	}
	e.observer.startReady(ctx, now)
}

// untilDue is the pause until an asset or a question is due; negative: none is.
func (e *Enforcer) untilDue() time.Duration {
	now := e.now()
	pause, next := e.queue.Next(now), e.inquiries.next(now)
	for _, other := range []time.Duration{next, e.outputs.pause(now)} {
		if other >= 0 && (pause < 0 || other < pause) {
			pause = other
		}
	}
	return pause
}

// flush starts the store's writes that wait: each kind in groups of its own.
func (e *Enforcer) flush(ctx context.Context) {
	e.startHealthBudgets(ctx)
	e.startAdmissions(ctx)
	e.startClosings(ctx)
	e.startSightings(ctx)
	e.startReports(ctx)
	e.startOutputs(ctx)
}
