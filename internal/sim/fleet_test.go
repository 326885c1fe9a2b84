package sim

import (
	"maps"
	"testing"
)

// TestReplicasShareAStore lets three replicas die, stand still and lose the
// store under each other's hands, and requires of each run what is required of
// all, that another one acts soon, and that nobody takes a lease that runs. It
// draws runs until each situation has come up: a plugin that outlives its
// replica does in one of eight. "make test" has a campaign of many more.
func TestReplicasShareAStore(t *testing.T) {
	// The first two meet all of the situations, as long as Lehr draws and decides as it did when
	// they were chosen; then others have to.
	seeds := []uint64{35, 19}
	for seed := range uint64(100) {
		seeds = append(seeds, seed)
	}
	hours := 1.0
	if testing.Short() {
		hours = 0.2
	}
	unmet := map[string]bool{}
	for _, mark := range []string{
		"replica: another one takes over", "replica: it stood still", "replica: a call did not reach the store", "replica: all were restarted",
		"effect: of a plugin that outlived its replica", "lease: lost, and noticed",
	} {
		unmet[mark] = true
	}
	for i, seed := range seeds {
		if len(unmet) == 0 {
			break
		}
		o := Options{Seed: seed, Hours: hours, Density: 60, Replicas: 3}
		outcome, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, violation := range outcome.Violations {
			t.Errorf("seed %d: %v", seed, violation)
		}
		maps.DeleteFunc(unmet, func(mark string, _ bool) bool { return outcome.Marks[mark] > 0 })
		if i > 0 {
			continue
		}
		again, err := Run(t.Context(), o)
		if err != nil || again.Hash != outcome.Hash {
			t.Errorf("seed %d: %s, then %s; %v", seed, outcome.Hash, again.Hash, err)
		}
		if testing.Short() {
			return
		}
	}
	for mark := range unmet {
		t.Errorf("no run met the situation %q", mark)
	}
}
