package campaign

import (
	"slices"
	"testing"

	"lehr.dev/internal/sim"
)

func TestChoose(t *testing.T) {
	first, second, third := sim.Required[0], sim.Required[1], sim.Required[2]
	marks := map[uint64][]string{
		7: {first, second}, 3: {first, second}, 9: {third}, 11: {first, "no situation that is required"}, 12: {third}, 13: {third},
	}
	if got, want := Choose(marks, 2), []uint64{3, 7, 9, 12}; !slices.Equal(got, want) {
		t.Errorf("chosen are %v, want %v: each twice, and none in vain", got, want)
	}
}

// TestTheCoverIsOfRunsOfItsKind: other runs meet other situations.
func TestTheCoverIsOfRunsOfItsKind(t *testing.T) {
	as := sim.Options{Seed: 1, Hours: 8, Density: 4}
	if seeds := Cover(as); len(seeds) == 0 || !slices.Equal(slices.Compact(slices.Sorted(slices.Values(seeds))), slices.Sorted(slices.Values(seeds))) {
		t.Errorf("the cover is %v, want seeds, each once", seeds)
	}
	for name, other := range map[string]sim.Options{
		"hours": {Seed: 1, Hours: 2, Density: 4}, "density": {Seed: 1, Hours: 8, Density: 12}, "replicas": {Seed: 1, Hours: 8, Density: 4, Replicas: 3},
		"a partition of its own": {Seed: 1, Hours: 8, Density: 4, Definition: "lehr.yaml"}, "less": {Seed: 1, Hours: 8, Density: 4, Without: []sim.Kind{"kill"}},
	} {
		if seeds := Cover(other); len(seeds) > 0 {
			t.Errorf("%s: %v", name, seeds)
		}
	}
}

func TestSeedsThatGoFirst(t *testing.T) {
	c := &campaign{Options: Options{Runs: 6, Seeds: []uint64{3, 1, 40}}, seed: 1}
	var got []uint64
	for {
		seed, more := c.next(t.Context())
		if !more {
			break
		}
		got = append(got, seed)
	}
	if want := []uint64{3, 1, 40, 2, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("the seeds are %v, want %v", got, want)
	}
}
