package app

import (
	"slices"
	"testing"

	"lehr.dev/intent"
)

// TestRoom: who has its share asks for nothing, and replicas that ask at once
// begin at different partitions.
func TestRoom(t *testing.T) {
	free := []intent.PartitionID{"a", "b", "c", "d", "e", "f"}
	first := map[intent.PartitionID]bool{}
	for place := range 3 {
		f := &fleet{replicas: 3, place: place, held: map[intent.PartitionID]bool{"x": true}}
		if room := f.room(7); room != 2-min(place, 1) {
			t.Errorf("replica %d of 3 has room for %d more of 7, with one", place, room)
		}
		chosen := f.choose(slices.Clone(free))
		first[chosen[0]] = true
		if slices.Sort(chosen); !slices.Equal(chosen, free) {
			t.Errorf("of %v are chosen %v", free, chosen)
		}
		f.held["b"] = true
		if slices.Contains(f.choose(slices.Clone(free)), "b") {
			t.Error("it asks for what it has")
		}
	}
	if len(first) != 3 {
		t.Errorf("all begin at %v", first)
	}
}
