package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// In sharing runs targets are as a Kubernetes API server is: they compare versions, record which
// manager set each field, and are looked at by watches, which lag. Other managers take fields
// that Lehr had, and some take them again and again.

// Disturbances of sharing runs.
const (
	ManagerTakes  Kind = "another manager takes fields"
	ManagerFights Kind = "another manager takes a field again and again"
	WatchesLag    Kind = "watches lag, and managers take fields"
)

var sharingKinds = []weighed{{ManagerTakes, 40}, {ManagerFights, 20}, {WatchesLag, 30}, {Edit, 14}, {Superseding, 6}}

// Shares reports whether others share objects with Lehr in runs of a seed.
func Shares(seed uint64) bool { return seed%27 == 23 }

// shares reports whether they do in this run.
func (l *Lab) shares() bool { return l.options.Definition == "" && Shares(l.options.Seed) }

// sharingCadence is how old an answer may be that nobody asked for in particular.
const sharingCadence = time.Minute

// takes has other managers set fields of what there is, within so long.
func (l *Lab) takes(d Disturbance, r *rand.Rand, length time.Duration) {
	for n := range 1 + r.IntN(3) {
		which, seed := r.IntN(1<<16), r.Uint64()
		manager := fmt.Sprintf("manager-%d", n)
		l.after(within(r, length), func() {
			if key, ok := l.anyThere(which); ok {
				l.tell("%s: %s by %s", d, key, manager)
				l.World.TakeField(key, manager, seed)
			}
		})
	}
}

// anyThere is one of the resources that exist.
func (l *Lab) anyThere(which int) (intent.ResourceKey, bool) {
	var keys []intent.ResourceKey
	for _, resource := range l.World.Resources() {
		if resource.Exists {
			keys = append(keys, resource.Key)
		}
	}
	if len(keys) == 0 {
		return "", false
	}
	return keys[which%len(keys)], true
}

func (l *Lab) managerTakes(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "production")
	l.takes(d, r, time.Minute)
	l.soonApproved(d)
}

// managerFights has one write back at once what Lehr pushes.
func (l *Lab) managerFights(d Disturbance, r *rand.Rand) {
	key, ok := l.anyThere(r.IntN(1 << 16))
	if !ok {
		return
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, key)
	l.World.Writer(key, 200*time.Millisecond, 30+r.IntN(200))
	l.soonApproved(d)
}

func (l *Lab) watchesLag(d Disturbance, r *rand.Rand) {
	const longest = 40 * time.Second
	length := time.Minute + within(r, 5*time.Minute)
	l.note(d.Kind, "production")
	l.World.LagWatches(2*time.Second+within(r, longest), length)
	l.takes(d, r, length)
	l.soonApproved(d)
}

// shared notes what an effect did to fields of others.
func (l *Lab) shared(e world.Effect) {
	if e.By != world.ByLehr || e.Refused != "" || len(e.Took) == 0 {
		return
	}
	l.mark("fields of others: taken by a push")
	if !e.AsLooked {
		l.mark("fields of others: taken by a push that looked again")
	}
}
