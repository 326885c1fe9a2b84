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
	// leasePoll is how often a replica that has room looks for leases to take.
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

// room is for how many more of so many partitions there is.
func (f *fleet) room(partitions int) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.share(partitions) - len(f.held)
}

// choose returns those of the free partitions that this replica does not have,
// in the order in which it asks for them: each begins at another place, so that
// they are not in each other's way.
func (f *fleet) choose(free []intent.PartitionID) []intent.PartitionID {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	free = slices.DeleteFunc(free, func(id intent.PartitionID) bool { return f.held[id] })
	first := len(free) * max(f.place, 0) / max(f.replicas, 1)
	return slices.Concat(free[first:], free[:first])
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
	f.replicas = len(replicas)
	f.place = slices.IndexFunc(replicas, func(r store.Replica) bool { return r.Name == self })
}

// shares reports whether other replicas may serve the store too.
func (a *App) shares() bool { return a.options.Database != "" || a.options.Parts.Replica != "" }

// live renews this replica's leases until the context ends, and counts those
// that it shares with.
func (a *App) live(ctx context.Context) {
	silent := false
	for ctx.Err() == nil {
		err := a.renew(ctx)
		switch {
		case err != nil && !silent && ctx.Err() == nil:
			a.log.Error("cannot renew the leases: another replica takes over soon", "error", err)
		case err == nil && silent:
			a.log.Info("the leases are renewed again")
		}
		silent = err != nil
		_ = a.runtime.Wait(ctx, renewPause, nil)
	}
}

func (a *App) renew(ctx context.Context) error {
	if err := a.store.Renew(ctx, a.holder, leasePeriod); err != nil {
		return err
	}
	replicas, err := a.store.Replicas(ctx)
	if err == nil {
		a.fleet.count(replicas, a.holder)
	}
	return err
}

// seek offers leases that are free to the partitions that wait for one, until
// the context ends. A replica that has its share asks for nothing: one query
// looks for all partitions, and only while there is room.
func (a *App) seek(ctx context.Context) {
	for ctx.Err() == nil {
		if room := a.fleet.room(a.registered()); room > 0 {
			free, err := a.store.Free(ctx, a.holder)
			if err != nil && ctx.Err() == nil {
				a.log.Warn("cannot look for leases that are free", "error", err)
			}
			a.offer(a.fleet.choose(free), room)
		}
		_ = a.runtime.Wait(ctx, leasePoll, nil)
	}
}

// offer wakes at most so many of the partitions' actors.
func (a *App) offer(free []intent.PartitionID, room int) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, id := range free {
		s := a.states[id]
		if s == nil || room == 0 {
			continue
		}
		select {
		case s.offered <- struct{}{}:
			room--
		default: // It was told, and has not got round to it.
		}
	}
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
