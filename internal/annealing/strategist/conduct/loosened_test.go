package conduct_test

import (
	"strings"
	"testing"

	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/intent"
)

// TestWhatComesWithItsGuardsLoosenedWaits for a person, who either starts it or resumes
// it (S23).
func TestWhatComesWithItsGuardsLoosenedWaits(t *testing.T) {
	a := asset("a", "old")
	a.Selected, a.Head = true, intent.Sum("new")
	a.Known[a.Pinned] = true
	f := facts(a)
	asked := []intent.AssetID(nil)
	f.Loosened = func(_ intent.IncarnationID, assets []intent.AssetID) []string {
		asked = assets
		return []string{"the validation errors is dropped"}
	}
	begun := conduct.Decide(f)
	if begun.Run == nil || begun.Run.State != intent.RolloutPaused || len(begun.Step.Pins) > 0 || len(asked) != 1 {
		t.Fatalf("it began %+v, and asked of %v", begun.Run, asked)
	}
	f.Run = begun.Run
	goal := f.Assets[0]
	goal.Goal = goal.Head
	f.Assets[0] = goal
	waits := conduct.Decide(f)
	if said := waits.Run.Progress.Waits; len(waits.Step.Pins) > 0 || !strings.Contains(said, "the validation errors is dropped") || !strings.Contains(said, "lehr rollout resume web") {
		t.Errorf("it waits %q, with pins %v", said, waits.Step.Pins)
	}
	f.Orders = []intent.RolloutOrder{{Kind: intent.OrderResume, Number: 1, By: intent.Actor{Name: "ann"}, Reason: "seen", At: noon}}
	if on := conduct.Decide(f); on.Run.State != intent.RolloutRunning || len(on.Step.Pins) != 1 {
		t.Errorf("resumed it is %s, with pins %v", on.Run.State, on.Step.Pins)
	}
	f.Run = nil
	f.Orders = []intent.RolloutOrder{{Kind: intent.OrderStart, Number: 1, By: intent.Actor{Name: "ann"}, Reason: "seen", At: noon}}
	if on := conduct.Decide(f); on.Run.State != intent.RolloutRunning {
		t.Errorf("started by a person it is %s", on.Run.State)
	}
}
