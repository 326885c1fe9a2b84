package sim

import "testing"

// TestReplicasShareAStore lets three replicas die, stand still and lose the
// store under each other's hands, and requires of each run what is required of
// all, that another one acts soon, and that nobody takes a lease that runs.
func TestReplicasShareAStore(t *testing.T) {
	const first, hours = 12, 1.0
	seeds := uint64(12)
	if testing.Short() {
		seeds = 1
	}
	marks := map[string]int{}
	for seed := uint64(first); seed < first+seeds; seed++ {
		o := Options{Seed: seed, Hours: hours, Density: 60, Replicas: 3}
		outcome, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, violation := range outcome.Violations {
			t.Errorf("seed %d: %v", seed, violation)
		}
		for mark, n := range outcome.Marks {
			marks[mark] += n
		}
		if seed > first {
			continue
		}
		again, err := Run(t.Context(), o)
		if err != nil || again.Hash != outcome.Hash {
			t.Errorf("seed %d: %s, then %s; %v", seed, outcome.Hash, again.Hash, err)
		}
	}
	if testing.Short() {
		return
	}
	for _, mark := range []string{
		"replica: another one takes over", "replica: it stood still", "replica: a call did not reach the store", "replica: all were restarted",
		"effect: of a plugin that outlived its replica", "lease: lost, and noticed",
	} {
		if marks[mark] == 0 {
			t.Errorf("no run met the situation %q", mark)
		}
	}
}
