package app

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"lehr.dev/intent"
	"lehr.dev/store"
)

// shelf is a store that counts who asks it for leases.
type shelf struct {
	store.All
	replicas []store.Replica
	free     []intent.PartitionID
	asked    int
}

func (s *shelf) Replicas(context.Context) ([]store.Replica, error) { return s.replicas, nil }

func (s *shelf) Free(context.Context, string) ([]intent.PartitionID, error) {
	s.asked++
	return slices.Clone(s.free), nil
}

// TestOneLookForAllLeases: one query tells a replica with room of all leases that
// are free, it asks for as many as it has room for, and one that has its share
// does not even look.
func TestOneLookForAllLeases(t *testing.T) {
	s := &shelf{replicas: []store.Replica{{Name: "a"}, {Name: "b"}}}
	a := &App{store: s, holder: "b", fleet: newFleet(), states: map[intent.PartitionID]*state{}}
	for n := range 10 {
		id := intent.PartitionID(fmt.Sprint("shop-", n))
		a.states[id] = &state{partition: id, offered: make(chan struct{}, 1)}
		s.free = append(s.free, id)
	}
	s.free = append(s.free, "unknown")
	share := func() (offered []intent.PartitionID) {
		t.Helper()
		if err := a.share(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range s.free {
			if st := a.states[id]; st != nil && len(st.offered) > 0 {
				<-st.offered
				offered = append(offered, id)
				if !a.fleet.reserve(id, len(a.states)) {
					t.Errorf("%s is offered, and there is no room for it", id)
				}
			}
		}
		return offered
	}
	if offered := share(); len(offered) != 5 || s.asked != 1 {
		t.Errorf("one of two replicas asks %d times, and for %v of 10", s.asked, offered)
	}
	if offered := share(); len(offered) != 0 || s.asked != 1 {
		t.Errorf("with its share it asks %d times, and for %v", s.asked, offered)
	}
	s.replicas = s.replicas[1:]
	if offered := share(); len(offered) != 5 || s.asked != 2 {
		t.Errorf("when the other is gone it asks %d times, and for %v", s.asked-1, offered)
	}
}

// TestReplicasBeginApart: those that ask at once ask for different leases.
func TestReplicasBeginApart(t *testing.T) {
	free := []intent.PartitionID{"a", "b", "c", "d", "e", "f", "g"}
	var all []intent.PartitionID
	for place := range 3 {
		f := newFleet()
		f.replicas, f.place = 3, place
		all = append(all, f.choose(slices.Clone(free), len(free))...)
	}
	if slices.Sort(all); !slices.Equal(all, free) {
		t.Errorf("of %v they ask for %v", free, all)
	}
}
