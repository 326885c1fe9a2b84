package sim

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// In braked runs stops count before the store has them, as they do in life: in memory,
// and in a file beside the store, which is a real one. People stop while the store takes
// nothing, or does not answer (S18).

// StopUnwritten is the disturbance of braked runs.
const StopUnwritten Kind = "a stop that the store cannot take"

var brakedKinds = []weighed{{StopUnwritten, 40}}

// Braked reports whether runs of a seed are braked.
func Braked(seed uint64) bool { return seed%27 == 24 }

// braked reports whether this run is. A fleet has a file on each machine, and its members
// do not know each other's.
func (l *Lab) braked() bool {
	return l.options.Definition == "" && !l.fleet() && Braked(l.options.Seed)
}

// beside is the path of the store that the brake file lies beside: in a third of the runs
// there can be none, and memory alone counts.
func (l *Lab) beside() string {
	if l.brakes == "" {
		folder, err := os.MkdirTemp("", "lehr-sim-")
		if err != nil {
			l.wrong("simulator", "making a folder for the brake file: %v", err)
		}
		l.brakes = folder
	}
	if l.options.Seed/27%3 == 2 {
		return filepath.Join(l.brakes, "not there", "lehr.db")
	}
	return filepath.Join(l.brakes, "lehr.db")
}

// stopAnswered takes up what a person was told of a stop.
func (p person) stopAnswered(stop *apipb.Stop) {
	scope := partitionID(stop.GetPartition())
	switch intent.Reach(stop.GetReach()) {
	case intent.ReachMemory:
		p.mark("stop: in memory alone")
		p.Monitor.StopUnwritten(scope, p.Now(), p.replica.Name(), p.replica.Alive)
	case intent.ReachFile:
		p.mark("stop: in the file beside the store")
		p.Monitor.StopUnwritten(scope, p.Now(), "", nil)
	default:
		p.Monitor.StopAcknowledged(scope, p.Now())
	}
}

// stopUnwritten has somebody stop while the store takes nothing, in the middle of a push
// if there is one; the process may end before the store is well.
func (l *Lab) stopUnwritten(d Disturbance, r *rand.Rand) {
	next, id := l.good.clone(), intent.AssetID("")
	if t := next.wanting(r, "job", "balancer", "command"); t != nil {
		id = intent.AssetID(t.ID)
		// An even seed: the plugin goes on asking for permits.
		l.World.Trouble(world.Trouble{Kind: world.PushSlow, Asset: id, For: 30 * time.Second, Seed: d.Seed &^ 1})
		l.save(d.Number, next, t.alter(r))
		l.soonApproved(d)
	}
	l.note(d.Kind, "store call")
	l.tell("%s: %s", d, id)
	const least, most = 3 * time.Second, 40 * time.Second
	lasts, moment := least+min(d.Length, most), time.Duration(r.Int64N(int64(3*time.Second)))
	hangs, previous := r.IntN(3) == 0, r.IntN(5)
	l.whilePushed(id, func() {
		_ = l.people.Wait(l.ctx, moment, nil)
		end := l.Now().Add(lasts)
		if hangs {
			l.store.hung = end
			l.holdsUp(lasts)
		} else {
			l.store.full = end
		}
		stops := d
		stops.Kind, stops.Length = PersonStop, lasts+30*time.Second
		l.strike(stops)
		switch previous {
		case 0:
			l.after(lasts/2, func() {
				if r := l.replica(); r != nil {
					r.Kill("in the middle of a stop")
				}
			})
		case 1:
			l.after(lasts/2, func() { l.restart(d, r) })
		case 2:
			l.after(lasts/2, func() { l.takeover(d, r) })
		}
		l.written(end)
	})
}

// written asks that the store takes what is in force once it can.
func (l *Lab) written(start time.Time) {
	const soon = 10 * time.Second
	for l.people.Wait(l.ctx, time.Second, nil) == nil {
		s, replica := l.store, l.replica()
		if replica == nil || replica.brakes == nil || replica.Client == nil || len(replica.brakes.Unwritten()) == 0 {
			if !l.Now().Before(start) {
				return
			}
			continue
		}
		for _, bad := range []time.Time{s.full, s.hung, l.heldUp, l.wrongUntil, l.failover} {
			start = later(start, bad)
		}
		if s.left > 0 || replica.Paused() || len(l.armed) > 0 {
			start = later(start, l.Now())
		}
		if l.Now().Sub(start) > soon {
			l.wrong("S18", "the store could take a stop for %s, and %s has not written it", l.Now().Sub(start), replica.Name())
			return
		}
	}
}
