package enforcer

import (
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// inSync records that production is as intent says.
func (e *Enforcer) inSync(a *asset, g *observation, now time.Time) {
	a.seenAt = e.neighbours.facts.readTime(g, now).UnixNano()
	e.clearTrouble(a, now)
	e.wakeWaiters(a.id, false)
	absent := a.turnsDown()
	report := intent.Report{
		State: intent.StateInSync, Target: g.target, Effective: g.effective,
		ResourceKey: g.difference.ResourceKey, Health: g.difference.Health, Unmanaged: g.difference.Unmanaged,
		Absent: absent,
	}
	e.outputs.note(a.id, g.difference)
	report.OutputProblems = e.outputs.problems[a.id]
	if e.view.modeNow(a) != check.Enforce || a.settled && a.enforcedAs() == g.effective {
		e.report(a, report)
	} else {
		a.recording = true
		e.enforced.Add(sighting{a, report, store.Enforced{
			Asset: a.id, Type: a.kind.name, Effective: g.effective, Policy: e.view.policy.digest,
			Incarnation: g.target, ResourceKey: g.difference.ResourceKey, Absent: absent, At: now,
		}})
	}
	e.again(a, now)
}
