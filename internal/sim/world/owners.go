package world

import (
	"maps"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
)

// Targets of a world with Options.Owners record who set each field last, where that was not
// Lehr; plugins tell it with each change. Looks that need not be of now are answered from what a
// watch knows, which is as old as the watch lags; plugins tell honestly how old.

// leastLag of a watch.
const leastLag = time.Second

// own notes that a manager sets the fields in which a payload differs from what is there.
func (w *World) own(r *resource, payload []byte, manager string) {
	if !w.options.Owners {
		return
	}
	oldMessage, err := decode(r.set, r.Type, r.Payload)
	if err != nil {
		return
	}
	newMessage, err := decode(r.set, r.Type, payload)
	if err != nil {
		return
	}
	owners := maps.Clone(r.owners)
	if owners == nil {
		owners = map[string]string{}
	}
	for _, change := range compare(r.set, oldMessage, newMessage, false) {
		owners[change.Path] = manager
	}
	r.owners = owners
}

// take gives fields that others had to Lehr, and returns who had them.
func (w *World) take(r *resource, changes []change) (took map[string]string) {
	for _, change := range changes {
		if owner, ok := r.owners[change.Path]; ok {
			if took == nil {
				took, r.owners = map[string]string{}, maps.Clone(r.owners)
			}
			took[change.Path] = owner
			delete(r.owners, change.Path)
		}
	}
	return took
}

// TakeField has a manager set a field, and reports whether there was one to set.
func (w *World) TakeField(key intent.ResourceKey, manager string, seed uint64) bool {
	return w.writeAs(key, ByWriter, manager, func(state protoreflect.Message) bool {
		return mutate(state, rand.New(rand.NewPCG(seed, 0x0e4e)))
	})
}

// LagWatches has all watches tell what was so long ago, for so long.
func (w *World) LagWatches(lag, length time.Duration) {
	w.lag, w.lagsUntil = lag, w.now().Add(length)
}

// watched is what a plugin's watch knows of a resource, and as of when; where the call wants
// something newer, what is there now.
func (l *life) watched(call *diffCall, key intent.ResourceKey, arrived time.Time) (state snapshot, asOf time.Time) {
	w := l.world
	lag := leastLag
	if arrived.Before(w.lagsUntil) {
		lag = w.lag
	}
	asOf = arrived.Add(-lag)
	if !call.since.IsZero() && asOf.Before(arrived.Add(-call.sent.Sub(call.since))) {
		return w.snapshot(key), arrived
	}
	return w.stateAsOf(key, asOf, arrived)
}

// stateAsOf is what a resource was at a time; now, if that is not remembered.
func (w *World) stateAsOf(key intent.ResourceKey, at, now time.Time) (snapshot, time.Time) {
	r := w.resources[key]
	if r == nil || !r.since.After(at) {
		return w.snapshot(key), at
	}
	for i := len(r.past) - 1; i >= 0; i-- {
		if !r.past[i].since.After(at) {
			return r.past[i], at
		}
	}
	return w.snapshot(key), now
}
