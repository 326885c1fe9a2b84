package conduct_test

import (
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
	"lehr.dev/internal/ground/sight"
)

// TestAStageThatIsDoneStaysSo when a server begins anew and has not looked at it yet; what
// is not well any more is not done.
func TestAStageThatIsDoneStaysSo(t *testing.T) {
	first, rest := asset("a", "new"), asset("b", "new")
	first.Selected, first.Pin.Incarnation, first.Target.Stage = true, at(2), "canary"
	rest.Selected, rest.Pinned, rest.Target.Stage = true, intent.Sum("old"), "rest"
	ended := noon.Add(-time.Minute)
	first.Seen = intent.Observation{Rollout: "web", Asset: "a", Effective: first.Goal, Selected: noon.Add(-time.Hour), Arrived: noon.Add(-time.Hour), Seen: ended, Healthy: time.Minute}
	for _, test := range []struct {
		what string
		look sight.Look
		done bool
	}{
		{"it was not looked at yet", sight.Look{}, true},
		{"it is well", sight.Look{At: noon, Effective: first.Goal, State: intent.StateInSync, Health: intent.Healthy}, true},
		{"it is ill", sight.Look{At: noon, Effective: first.Goal, State: intent.StateInSync, Health: intent.Unhealthy}, false},
	} {
		first.Look = test.look
		f := facts(first, rest)
		f.Spec = &intentpb.Rollout{Name: "web"}
		f.Course = func(bool) selection.Policy {
			of := func(name string) func(selection.Target) bool {
				return func(t selection.Target) bool { return t.Stage == name }
			}
			return selection.Policy{Stages: []selection.Stage{{Name: "canary", Soak: time.Minute, Wants: of("canary")}, {Name: "rest", Soak: time.Minute, Wants: of("rest")}}}
		}
		f.Run = &intent.Rollout{Partition: "shop", Name: "web", Run: 1, State: intent.RolloutRunning, To: at(2), From: at(1)}
		f.Run.Progress.Stages = []intent.StageProgress{{Name: "canary", Total: 1, Selected: 1, Done: 1, Began: ended, Ended: ended}, {Name: "rest", Total: 1}}
		run := conduct.Decide(f).Run
		if got := run.Progress.Stages[0].Ended; got.Equal(ended) != test.done {
			t.Errorf("%s, and it ended at %s: %+v", test.what, got, run.Progress)
		}
		for _, e := range run.Events {
			if e.Kind == "stage" {
				t.Errorf("%s, and it is told again: %s", test.what, e.Text)
			}
		}
	}
}
