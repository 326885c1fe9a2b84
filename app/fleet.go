package app

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"lehr.dev/intent"
	"lehr.dev/loop"
	"lehr.dev/store"
)

// Replicas share the partitions of one database evenly. Each says every second
// that it lives, which keeps all its leases; one that is silent for the lease's
// period, by the database's clock, loses them to whoever has room.
const (
	leasePeriod = 3 * time.Second
	renewPause  = time.Second
	// leasePoll is how often a lease that another replica has is asked for.
	leasePoll = 500 * time.Millisecond
)

// fleet is what a replica knows of its share.
type fleet struct {
	mutex sync.Mutex
	// replicas that live, this one among them; 0: not known, or it serves alone.
	// place is this one's among them, from 0 on in the order of their names.
	replicas, place int
	// held are the partitions whose leases this replica has or is asking for.
	held map[intent.PartitionID]bool
	// counted is closed, and replaced, when they are others or more or fewer.
	counted chan struct{}
}

func newFleet() fleet {
	return fleet{held: map[intent.PartitionID]bool{}, counted: make(chan struct{})}
}

// changes is closed when this replica's share may be another.
func (f *fleet) changes() <-chan struct{} {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.counted
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

// reserve reports whether there is room for one more partition of so many, and
// takes it.
func (f *fleet) reserve(id intent.PartitionID, partitions int) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.held) >= f.share(partitions) {
		return false
	}
	f.held[id] = true
	return true
}

func (f *fleet) release(id intent.PartitionID) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.held, id)
}

// surplus reports whether the partition is one too many, and another replica's
// to take: the last ones go first.
func (f *fleet) surplus(id intent.PartitionID, partitions int) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Index(slices.Sorted(maps.Keys(f.held)), id) >= f.share(partitions)
}

func (f *fleet) count(replicas []store.Replica, self string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	place := slices.IndexFunc(replicas, func(r store.Replica) bool { return r.Name == self })
	if f.replicas == len(replicas) && f.place == place {
		return
	}
	f.replicas, f.place = len(replicas), place
	close(f.counted)
	f.counted = make(chan struct{})
}

// shares reports whether other replicas may serve the store too.
func (a *App) shares() bool { return a.options.Database != "" || a.options.Parts.Replica != "" }

// live renews this replica's leases until the context ends, and counts those
// that it shares with.
func (a *App) live(ctx context.Context) {
	silent := false
	for ctx.Err() == nil {
		// A connection may have become mute: it is given up in time for another.
		bounded, cancel := loop.WithTimeout(ctx, a.runtime, renewPause)
		err := a.renew(bounded)
		cancel()
		switch {
		case err != nil && !silent && ctx.Err() == nil:
			a.log.Error("cannot renew the leases: another replica takes over soon", "error", err)
		case err == nil && silent:
			a.log.Info("the leases are renewed again")
		}
		pause := renewPause
		if silent = err != nil; silent {
			pause /= 4
		}
		_ = a.runtime.Wait(ctx, pause, nil)
	}
}

func (a *App) renew(ctx context.Context) error {
	if err := a.store.Renew(ctx, a.holder, leasePeriod); err != nil {
		return err
	}
	return a.countReplicas(ctx)
}

// countReplicas asks who shares the partitions.
func (a *App) countReplicas(ctx context.Context) error {
	replicas, err := a.store.Replicas(ctx)
	if err == nil {
		a.fleet.count(replicas, a.holder)
	}
	return err
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
