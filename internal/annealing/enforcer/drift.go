package enforcer

import (
	"cmp"
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
)

// drifted counts how often an asset was changed back, and slows down.
func (r *retries) drifted(a *asset, d intent.Difference) {
	const memory, patience = 10 * time.Minute, 3
	t := a.trouble
	if t.flips == 0 || d.At.Sub(t.flipped) > memory {
		t.flips, t.fought = 0, d.At
	}
	t.flips++
	t.flipped = d.At
	if t.flips <= patience {
		return
	}
	end := d.At.Add(r.pace.After(t.flips - patience))
	t.retry = &intent.WaitingOn{
		Kind:  intent.WaitFlapping,
		Since: t.fought,
		Until: end,
		Reason: fmt.Sprintf("%s changed it back %d times within %s (fields: %s); find that writer, or hold the asset; repairing it again at %s",
			cmp.Or(writersOf(d.Plan), "something else"), t.flips, memory, fieldsOf(d.Plan), end.UTC().Format(time.TimeOnly)),
	}
}

// restrain takes back what of a trouble lies further ahead than was meant.
func (r *retries) restrain(t *trouble, now time.Time) {
	const spread = 5 // Pauses are jittered by up to a fifth.
	if t.retry != nil && t.retry.Until.Sub(now) > r.pace.Most+r.pace.Most/spread {
		t.retry = nil
	}
	if t.apart.Sub(now) > r.pace.Most+r.pace.Most/spread {
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

// differs takes up a difference. One against content that had been in sync
// means that something else changed production; when that goes on, the
// repairs slow down and the report names the fields (L10).
func (e *Enforcer) differs(a *asset, g *observation) {
	drifted := a.seenAt != 0
	t := e.trouble(a)
	t.share, t.broken, t.apart = 0, 0, time.Time{}
	plan := g.difference.Plan.Digest()
	if t.plan != plan {
		t.vain = 0 // The last push had an effect.
	}
	if t.plan != plan || t.difference.Outcome != intent.Differs {
		a.calm = 0
	}
	e.pushLimits.rates.learn(g.requirements.endedPushes)
	g.requirements.endedPushes = nil // Of that time: another look is not to learn it again.
	t.difference, t.plan, t.requirements = g.difference, plan, g.requirements
	t.keepLook(g)
	if drifted {
		a.seenAt = 0
		e.retries.drifted(a, g.difference)
	}
}
