package conduct_test

import (
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/annealing/strategist/conduct"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/selection"
)

// TestAPluginOnlyTakesAway: it lets no more go on than the stage does, and nothing where
// it gave no answer, or one about what was before (S11, S19).
func TestAPluginOnlyTakesAway(t *testing.T) {
	decide := func(wave int, promoted bool, picked func(key string) conduct.Picked) conduct.Decision {
		f := facts()
		for _, id := range []intent.AssetID{"a", "b", "c"} {
			one := asset(id, "old")
			one.Selected, one.Head = true, intent.Sum("new")
			one.Goal = one.Head
			one.Known = map[intent.Digest]bool{one.Pinned: true}
			f.Assets = append(f.Assets, one)
		}
		f.Run = &intent.Rollout{Partition: "shop", Name: "web", Run: 1, State: intent.RolloutRunning, To: at(2), From: at(1), Promoted: promoted}
		f.Course = func(bool) selection.Policy {
			return selection.Policy{Stages: []selection.Stage{{Name: "all", Plugin: "quietest", Wave: selection.Wave{Count: wave}}}}
		}
		first := conduct.Decide(f)
		if len(first.Pick) == 0 {
			return first
		}
		f.Picked = map[string]conduct.Picked{"all": picked(first.Pick[0].Key)}
		return conduct.Decide(f)
	}
	all := func(key string) conduct.Picked {
		return conduct.Picked{Key: key, Assets: []intent.AssetID{"a", "b", "c"}}
	}
	for name, c := range map[string]struct {
		wave     int
		promoted bool
		picked   func(key string) conduct.Picked
		goes     []intent.AssetID
		waits    string
	}{
		"all":               {0, false, all, []intent.AssetID{"a", "b", "c"}, ""},
		"one at a time":     {1, false, all, []intent.AssetID{"a"}, ""},
		"not the first":     {1, false, func(key string) conduct.Picked { return conduct.Picked{Key: key, Assets: []intent.AssetID{"c"}} }, []intent.AssetID{"c"}, ""},
		"none":              {0, false, func(key string) conduct.Picked { return conduct.Picked{Key: key, Reason: "it is noon"} }, nil, "lets it wait: it is noon"},
		"what was before":   {0, false, func(string) conduct.Picked { return all("before") }, nil, "was not asked yet"},
		"broken":            {0, false, func(key string) conduct.Picked { return conduct.Picked{Key: key, Broken: "it hangs"} }, nil, "cannot be asked which go on: it hangs"},
		"a person promotes": {0, true, all, []intent.AssetID{"a", "b", "c"}, ""},
	} {
		decided := decide(c.wave, c.promoted, c.picked)
		goes := []intent.AssetID(nil)
		for _, pin := range decided.Step.Pins {
			goes = append(goes, pin.Asset)
		}
		if !slices.Equal(goes, c.goes) || !strings.Contains(decided.Run.Progress.Waits, c.waits) {
			t.Errorf("%s: %v go on, and it waits %q", name, goes, decided.Run.Progress.Waits)
		}
	}
}
