package monitor

import (
	"slices"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// TestWhoseIllnessItIs: what a run brought, and is known to be ill, is held against that run
// (L8), and not against another one to the same incarnation that comes after it.
func TestWhoseIllnessItIs(t *testing.T) {
	for name, fails := range map[string]bool{"first": true, "second": false} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t)
			r.Monitor.options.Well = func(intent.IncarnationID, intent.AssetID) bool { return false }
			head := r.at(r.head)
			r.report("a", func(report *intent.Report) {
				report.State, report.Health.State, report.Effective = intent.StateInSync, intent.Unhealthy, r.saved["a"].Effective
			})
			r.Monitor.rolling.soaks["a"] = &soak{called: called{"a", r.saved["a"].Effective}, at: head}
			r.Monitor.pins["a"] = []intent.Pin{{Asset: "a", Incarnation: head, Rank: intent.RankRollout, Holder: intent.Actor{Name: intent.RolloutPrefix + "first"}}}
			since := func(at time.Time) time.Duration { return r.now.Sub(at) }
			running := intent.Rollout{Name: name, Run: 1, To: head, State: intent.RolloutRunning}
			r.knownIll(running, r.now, since, time.Minute)
			r.pass(time.Hour)
			r.knownIll(running, r.now, since, time.Minute)
			told := slices.ContainsFunc(r.Violations(), func(v Violation) bool { return v.Property == "L8" })
			if told != fails {
				t.Errorf("that a is ill is held against %s: %t", name, told)
			}
		})
	}
}
