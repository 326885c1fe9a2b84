package enforcer

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// wakeWaiters looks again at what waited for an asset: for its sync, or only
// for its facts.
func (e *Enforcer) wakeWaiters(id intent.AssetID, onlyForFacts bool) {
	for _, a := range e.waiters.take(id, onlyForFacts) {
		if e.assets[a.id] == a {
			e.soon(a, loop.Fresh)
		}
	}
}

// leaveWaiters takes an asset out of those that wait for others, or for answers.
func (e *Enforcer) leaveWaiters(a *asset) {
	if a.trouble == nil {
		return
	}
	e.waiters.remove(a)
	a.leaveQuestions()
}

// later runs a step after a pause.
func (e *Enforcer) later(ctx context.Context, pause time.Duration, step func()) {
	e.Runtime.Go("enforcer later", func() {
		if e.Runtime.Wait(ctx, pause, nil) == nil {
			e.inbox.Put(step)
		}
	})
}

// soon puts an asset in the queue for now.
func (e *Enforcer) soon(a *asset, priority loop.Priority) {
	e.queue.Add(a, e.now(), priority)
}

// now is the wall clock, for the owner of the state. It remembers the latest
// time that was told, by which pauses may have been set.
func (e *Enforcer) now() time.Time {
	now := e.Runtime.Now()
	if wall := now.Round(0); wall.After(e.latest) {
		e.latest = wall
	}
	return now
}

// again puts an asset that was looked at back in the queue.
func (e *Enforcer) again(a *asset, now time.Time) {
	due := now.Add(e.pause(a))
	if a.trouble != nil && a.retry != nil && a.retry.Until.After(now) && a.retry.Until.Before(due) {
		due = a.retry.Until
	}
	if a.trouble != nil && a.ends.After(now) {
		e.queue.Add(a, a.ends, loop.Retry)
	}
	a.calm = min(a.calm+1, calmest)
	e.queue.Add(a, due, loop.Sweep)
}

// queueEnds has an asset looked at when a pin or hold of it, what was said of
// its plan, or what a check answered ends by itself.
func (e *Enforcer) queueEnds(a *asset, now time.Time) {
	if end := e.view.holds[a.id].Until; end.After(now) {
		e.queue.Add(a, end, loop.Retry)
	}
	if a.trouble != nil {
		e.queueEndsOfConsents(a, now)
		if a.ends.After(now) {
			e.queue.Add(a, a.ends, loop.Retry)
		}
	}
	for _, pin := range e.view.pins[a.id] {
		if pin.Until.After(now) {
			e.queue.Add(a, pin.Until, loop.Retry)
		}
	}
}

// queueEndsOfConsents has an asset looked at when what people said of it ends.
func (e *Enforcer) queueEndsOfConsents(a *asset, now time.Time) {
	content := contentOf{a.id, a.difference.Effective}
	for _, r := range e.view.rejections[planOf{content, a.plan}] {
		if r.Until.After(now) {
			e.queue.Add(a, r.Until, loop.Retry)
		}
	}
	for _, o := range e.view.overrides[content] {
		if o.InForce(now) {
			e.queue.Add(a, o.Until, loop.Retry)
		}
	}
}

// calmest is how many looks in a row are told apart that found nothing new:
// by then the pause between two is the sweep, or a cadence of at most 24 h.
const calmest = 20

// pause until the next look at an asset in which nothing new was found:
// doubling from one second to its longest pause, spread out.
func (e *Enforcer) pause(a *asset) time.Duration {
	pace := loop.Backoff{First: time.Second, Most: e.longestPause(a)}
	if e.Sight.Watches(a.id) {
		pace.Most = min(pace.Most, e.Limits.Watched)
	}
	return loop.Jitter(pace.After(int(a.calm)+1), string(a.id), int(a.calm))
}
