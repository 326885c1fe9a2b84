package app

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// Replicas share the partitions of one database evenly. Each says every second
// that it lives, which keeps all its leases; one that is silent for the lease's
// period, by the database's clock, loses them to whoever has room.
const (
	leasePeriod = 3 * time.Second
	renewPause  = time.Second
	// leasePoll is how often it is looked who lives and which leases are free.
	leasePoll = 500 * time.Millisecond
)

// fleet is what a replica knows of its share.
type fleet struct {
	mutex sync.Mutex
	// replicas that live, this one among them; 0: not known, or it serves alone.
	// place is this one's among them, from 0 on in the order of their names.
	replicas, place int
	// heldPartitions are the partitions whose leases this replica has or is asking for.
	heldPartitions map[intent.PartitionID]bool
	// stirred wakes who looks for leases.
	stirred chan struct{}
}

func newFleet() fleet {
	return fleet{heldPartitions: map[intent.PartitionID]bool{}, stirred: make(chan struct{}, 1)}
}

// stir says that the partitions, or those who share them, may be others.
func (f *fleet) stir() { wake(f.stirred) }

// wake wakes who waits for the channel, now or the next time.
func wake(waits chan<- struct{}) {
	select {
	case waits <- struct{}{}:
	default:
	}
}

// share is how many of the partitions this replica acts for. Those of all
// replicas are all partitions.
func (f *fleet) share(partitions int) int {
	if f.replicas == 0 {
		return partitions
	}
	share := partitions / f.replicas
	if f.place < partitions%f.replicas {
		share++
	}
	return share
}

// choose returns those of the free partitions that this replica is to ask for,
// as many as it has room for. Each replica begins at another place, so that they
// are not in each other's way.
func (f *fleet) choose(free []intent.PartitionID, partitions int) []intent.PartitionID {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	free = slices.DeleteFunc(free, func(id intent.PartitionID) bool { return f.heldPartitions[id] })
	replicas, place := max(f.replicas, 1), max(f.place, 0)
	first := place*(len(free)/replicas) + min(place, len(free)%replicas)
	free = slices.Concat(free[first:], free[:first])
	return free[:max(0, min(f.share(partitions)-len(f.heldPartitions), len(free)))]
}

// room: this replica has less than its share.
func (f *fleet) room(partitions int) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return len(f.heldPartitions) < f.share(partitions)
}

// reserve reports whether there is room for one more partition of so many, and
// takes it; one that has its place keeps it.
func (f *fleet) reserve(id intent.PartitionID, partitions int) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if !f.heldPartitions[id] && len(f.heldPartitions) >= f.share(partitions) {
		return false
	}
	f.heldPartitions[id] = true
	return true
}

func (f *fleet) release(id intent.PartitionID) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.heldPartitions, id)
}

// surplus reports whether the partition is one too many, and another replica's
// to take: the last ones go first.
func (f *fleet) surplus(id intent.PartitionID, partitions int) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Index(slices.Sorted(maps.Keys(f.heldPartitions)), id) >= f.share(partitions)
}

func (f *fleet) count(replicas []store.Replica, self string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.replicas = len(replicas)
	f.place = slices.IndexFunc(replicas, func(r store.Replica) bool { return r.Name == self })
}

// shares reports whether other replicas may serve the store too.
func (a *App) shares() bool { return a.options.Database != "" || a.options.Parts.Replica != "" }

// live renews this replica's leases until the context ends.
func (a *App) live(ctx context.Context) {
	for ctx.Err() == nil {
		// A connection may have become mute: it is given up in time for another.
		bounded, cancel := loop.WithTimeout(ctx, a.runtime, renewPause)
		err := a.store.Renew(bounded, a.holder, leasePeriod)
		cancel()
		switch {
		case err == nil:
			a.outage.end(ctx)
		case ctx.Err() == nil:
			a.outage.begin(ctx, err)
		}
		pause := renewPause
		if err != nil {
			pause /= 4
		}
		_ = a.runtime.Wait(ctx, pause, nil)
	}
}

// seek offers leases that are free to the partitions that wait for one, until
// the context ends. That it cannot look is for live to say.
func (a *App) seek(ctx context.Context) {
	for ctx.Err() == nil {
		bounded, cancel := loop.WithTimeout(ctx, a.runtime, renewPause)
		_ = a.share(bounded)
		cancel()
		_ = a.runtime.Wait(ctx, leasePoll, a.fleet.stirred)
	}
}

// share counts who shares the partitions. While there is room for more of them
// one query looks for all that are free.
func (a *App) share(ctx context.Context) error {
	replicas, err := a.store.Replicas(ctx)
	if err != nil {
		return err
	}
	a.fleet.count(replicas, a.holder)
	if !a.fleet.room(a.registered()) {
		return nil
	}
	free, err := a.store.Free(ctx, a.holder)
	if err != nil {
		return err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	free = slices.DeleteFunc(free, func(id intent.PartitionID) bool { return a.states[id] == nil })
	for _, id := range a.fleet.choose(free, len(a.states)) {
		wake(a.states[id].offered)
	}
	return nil
}

// retire tells the others at once that this replica has ended.
func (a *App) retire() {
	if !a.shares() || a.store == nil {
		return
	}
	const most = time.Second
	ctx, cancel := loop.WithTimeout(context.Background(), a.runtime, most)
	defer cancel()
	if err := a.store.Retire(ctx, a.holder); err != nil {
		a.log.Warn("the others wait for the end of this replica's leases", "error", err)
	}
}

// registered is how many partitions there are to share.
func (a *App) registered() int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return len(a.states)
}
