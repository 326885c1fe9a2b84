package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// settling is how long an edit is given to be served, pushed and recorded,
// before the next one builds on it.
const settling = 25 * time.Second

// ends of the capacity edge of a cluster, ready to be changed: nothing but the
// edge is in their way.
func (i *Intent) ends(scope string) (job, balancer *Thing) {
	job, balancer = i.find("job/"+scope), i.find("balancer/"+scope)
	if job == nil || balancer == nil || job.Turndown || balancer.Turndown {
		return nil, nil
	}
	for _, t := range []*Thing{job, balancer} {
		t.Mode, t.Approval, t.Unmanaged = "", false, false
	}
	return job, balancer
}

// cross lets a job shrink and its balancer grow beyond it. Either may go first,
// and then the other must wait: what it was decided by, while both were at
// rest, is not so any more (S1).
func (l *Lab) cross(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	scope := []string{"a", "b"}[r.IntN(2)]
	job, balancer := next.ends(scope)
	if job == nil || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	next.Budget = 3
	job.Count, balancer.Count = 6, 2
	l.save(d.Number, next, job.ID+" has room")
	l.soonApproved(d)
	atOnce := r.IntN(3) == 0
	l.after(settling, func() {
		if !atOnce {
			// The answer to the first admission comes late, and what was decided
			// meanwhile is asked for later still.
			l.armed = append(l.armed,
				armed{Disturbance{Number: d.Number, Kind: DelayAtPoint, Point: "admitted", Length: 2500 * time.Millisecond}, 0},
				armed{Disturbance{Number: d.Number, Kind: DelayAtPoint, Point: "start of admit", Length: 4 * time.Second}, 1})
		}
		l.crossing(d, scope, true, atOnce)
		if !atOnce {
			l.after(800*time.Millisecond, func() { l.crossing(d, scope, true, true) })
		}
	})
}

// crossing edits one of the two, or both.
func (l *Lab) crossing(d Disturbance, scope string, shrinks, grows bool) {
	next := l.intent.clone()
	job, balancer := next.ends(scope)
	if job == nil || next.Slip != "" {
		return
	}
	if shrinks {
		job.Count = 3
	}
	if grows {
		balancer.Count = 5
	}
	l.save(d.Number, next, fmt.Sprintf("%s has %d replicas, and %s %d upstreams", job.ID, job.Count, balancer.ID, balancer.Count))
}

// loosen takes an edge away while the other end is not as it should be, and
// somebody approves. Where nothing else needs an approval, that lets go of the
// edge, once (S9); a marked asset needs one in any case, and still waits (S23).
func (l *Lab) loosen(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t, other := next.wanting(r, "command"), next.wanting(r, "command")
	if t == nil || other == nil || t.ID == other.ID || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	id, first := t.ID, other.ID
	t.After, t.Approval = []string{first}, r.IntN(2) == 0
	other.After, other.Approval = nil, false
	l.save(d.Number, next, fmt.Sprintf("%s comes after %s; marked: %t", id, first, t.Approval))
	l.soonApproved(d)
	l.after(settling, func() {
		next := l.good.clone()
		t, other := next.find(id), next.find(first)
		if t == nil || other == nil {
			return
		}
		l.holdFor(intent.AssetID(first), settling)
		t.After = nil
		action := t.alter(r)
		other.alter(r)
		l.after(500*time.Millisecond, func() { l.save(d.Number, next, action+", and comes after nothing") })
		l.after(settling/4, func() { l.strike(Disturbance{Number: d.Number, Kind: PersonApprove, Seed: d.Seed}) })
	})
}

// curt has plugins show neither state nor amounts while a job is to shrink
// below what its balancer has: what is not known is not nothing (S11).
func (l *Lab) curt(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	job, balancer := next.ends([]string{"a", "b"}[r.IntN(2)])
	if job == nil || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	job.Count, balancer.Count = 1, 1+max(balancer.Count, 1)
	balancer.alter(r)
	asset := intent.AssetID([]string{job.ID, balancer.ID}[r.IntN(2)])
	l.World.Trouble(world.Trouble{Kind: world.DiffBare, Asset: asset, Count: 12, Seed: d.Seed})
	l.save(d.Number, next, fmt.Sprintf("%s has 1 replica, and %s %d upstreams", job.ID, balancer.ID, balancer.Count))
	id := job.ID
	l.after(settling, func() {
		enough := l.good.clone()
		if job := enough.find(id); job != nil {
			job.Count = 6
			l.save(d.Number, enough, id+" has enough")
		}
	})
}

// abandon leaves a job out, which runs on, and lets its balancer expect more
// than is seen to: what an orphan declared guards still (S23).
func (l *Lab) abandon(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	job, balancer := next.ends([]string{"a", "b"}[r.IntN(2)])
	if job == nil || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	left, grows := job.ID, balancer.ID
	next.remove(left)
	next.forget(left)
	l.save(d.Number, next, left+" is left out")
	l.after(settling/3, func() {
		next := l.good.clone()
		balancer := next.find(grows)
		if balancer == nil || next.find(left) != nil {
			return
		}
		balancer.Count += 2
		l.save(d.Number, next, fmt.Sprintf("%s has %d upstreams", grows, balancer.Count))
	})
	l.after(2*settling, func() {
		if l.good.find(left) == nil {
			l.save(d.Number, l.first.clone(), "back to the first intent")
		}
	})
}
