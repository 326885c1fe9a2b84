package enforcer

import (
	"time"

	"lehr.dev/internal/ground/loop"
)

// now is the wall clock, for the owner of the state. It remembers the latest
// time that was told, by which pauses may have been set.
func (e *Enforcer) now() time.Time {
	now := e.Runtime.Now()
	if wall := now.Round(0); wall.After(e.latest) {
		e.latest = wall
	}
	return now
}

// watchClock sees to it that a clock that was set back, as after a jump that
// was found out, lengthens no pause that Lehr chose by itself: nobody would be
// looked at for as long as the jump was. What people chose (holds, pins and
// approvals until a time) goes by the clock, whatever it is.
func (e *Enforcer) watchClock() {
	const slight = time.Second
	now := e.Runtime.Now()
	jump := e.latest.Sub(now.Round(0))
	if jump <= slight {
		return
	}
	e.latest = now.Round(0)
	e.Log.Warn("the clock was set back; looking at all assets anew", "partition", e.Partition, "by", jump)
	for _, s := range e.pluginOrder {
		s.pace = pace{}
		if s.until.Sub(now) > e.Limits.Sweep {
			s.until = now
			s.measureBreaker()
		}
	}
	e.inquiries.askAnew(now)
	e.neighbours.facts.dropLater(now)
	for a := range e.troubled {
		e.restrain(a.trouble, now)
	}
	for _, a := range e.assets {
		if a.seenAt > now.UnixNano() {
			a.seenAt = 0
		}
		e.pushLimits.requeue(a, now)
		e.queue.Add(a, now, loop.Sweep)
	}
}

// restrain takes back what of a trouble lies further ahead than was meant.
func (e *Enforcer) restrain(t *trouble, now time.Time) {
	const spread = 5 // Pauses are jittered by up to a fifth.
	if t.retry != nil && t.retry.Until.Sub(now) > e.Limits.Retry.Most+e.Limits.Retry.Most/spread {
		t.retry = nil
	}
	if t.apart.Sub(now) > e.Limits.Retry.Most+e.Limits.Retry.Most/spread {
		t.apart = time.Time{}
	}
	if t.flipped.After(now) {
		t.flipped = now
	}
	if t.fought.After(t.flipped) {
		t.fought = t.flipped
	}
	if t.difference.At.After(now) {
		t.difference.At = time.Time{}
	}
}
