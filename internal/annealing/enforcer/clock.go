package enforcer

import (
	"time"

	"lehr.dev/internal/ground/loop"
)

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
	e.observer.plugins.clockSetBack(e.Limits.Sweep, now)
	e.inquiries.askAnew(now)
	e.neighbours.facts.dropLater(now)
	for a := range e.troubled {
		e.retries.restrain(a.trouble, now)
	}
	for _, a := range e.assets {
		if a.seenAt > now.UnixNano() {
			a.seenAt = 0
		}
		e.pushLimits.requeue(a, now)
		e.queue.Add(a, now, loop.Sweep)
	}
}
