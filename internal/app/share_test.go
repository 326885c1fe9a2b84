package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
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

// unsure is a store that carries out what it is asked, or not, and does not say
// so the first times.
type unsure struct {
	store.All
	mute            int
	acquired, freed int
}

var errMute = fault.New(fault.Unavailable, "the connection was lost")

func (u *unsure) answer() error {
	if u.mute--; u.mute >= 0 {
		return errMute
	}
	return nil
}

func (u *unsure) Acquire(_ context.Context, partition intent.PartitionID, holder string) (store.Lease, error) {
	u.acquired++
	return store.Lease{Partition: partition, Holder: holder, Epoch: uint64(u.acquired)}, u.answer()
}

func (u *unsure) Release(context.Context, store.Lease) error {
	u.freed++
	return u.answer()
}

// TestALeaseThatMayBeHeldIsAskedForAgain: a lease that was acquired, or not given
// back, without an answer is renewed with the others, so its place stays taken
// until it is known whose it is.
func TestALeaseThatMayBeHeldIsAskedForAgain(t *testing.T) {
	u := &unsure{mute: 1}
	a := &App{store: u, holder: "b", fleet: newFleet(), runtime: loop.Real(), log: slog.New(slog.DiscardHandler)}
	a.options.Parts.Replica = "b"
	s := &state{partition: "shop", offered: make(chan struct{}, 1), problems: map[string]string{}}
	a.states = map[intent.PartitionID]*state{"shop": s}
	wake(s.offered)
	if lease, err := a.await(t.Context(), s); !errors.Is(err, errMute) {
		t.Fatalf("without an answer there is %v, %v", lease, err)
	}
	// Meanwhile others came, and the share of this replica is nothing.
	a.fleet.count([]store.Replica{{Name: "a"}, {Name: "b"}}, "b")
	lease, err := a.await(t.Context(), s)
	if err != nil || lease.Epoch != 2 {
		t.Fatalf("asked for again it is %v, %v", lease, err)
	}
	if !a.fleet.surplus("shop", 1) {
		t.Error("it is not one too many")
	}
	u.mute = 2
	if a.giveUp(t.Context(), lease); u.freed != 3 {
		t.Errorf("it was given back %d times, the first two without an answer", u.freed)
	}
}
