package sim

import (
	"math/rand/v2"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// In caching runs plugins keep what they read, and answer from it as long as they are
// allowed to; some reads take seconds, and are pending until then. Changes are under way
// that no push hastens.

// OldNews is the disturbance of caching runs.
const OldNews Kind = "somebody shrinks a job, and its balancer is to grow"

// OldOrder is a disturbance of those in which plugins read ahead.
const OldOrder Kind = "somebody changes what another thing comes after, and that one is to change"

// cachingKinds are the disturbances of caching runs without a rollout.
var cachingKinds = []weighed{
	{OldNews, 30}, {OldOrder, 40}, {pluginKind + Kind(world.DiffPending), 30}, {pluginKind + Kind(world.DiffOld), 6}, {Drift, 12}, {Superseding, 6}, {Edit, 10},
}

// Caches reports whether plugins keep what they read in runs of a seed: in those with a
// rollout, or in those in which plugins also read ahead.
func Caches(seed uint64) bool { return seed%27 == 3 || ReadsAhead(seed) }

// ReadsAhead reports whether plugins also read by themselves in runs of a seed, so that what
// others changed is in an answer that is old already when it is given first.
func ReadsAhead(seed uint64) bool { return seed%27 == 19 }

// readsAhead reports whether they do so in this run.
func (l *Lab) readsAhead() bool { return l.options.Definition == "" && ReadsAhead(l.options.Seed) }

// caching reports whether they do in this run.
func (l *Lab) caching() bool { return l.options.Definition == "" && Caches(l.options.Seed) }

// cadence is how old an answer may be that nobody asked for in particular; 0: plugins keep
// nothing.
func (l *Lab) cadence() time.Duration {
	if l.shares() {
		return sharingCadence
	}
	if !l.caching() {
		return 0
	}
	if l.readsAhead() {
		return []time.Duration{2 * time.Minute, 10 * time.Minute, 10 * time.Minute}[l.options.Seed/27%3]
	}
	return []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute}[l.options.Seed/27%3]
}

// oldNews has somebody shrink a job beside Lehr, and its balancer grow soon after: what a
// plugin read of the job before is nothing that the balancer's push may rest on (S1).
func (l *Lab) oldNews(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	scope := []string{"a", "b"}[r.IntN(2)]
	job, balancer := next.ends(scope)
	if job == nil {
		return
	}
	l.note(d.Kind, "production")
	next.Budget = 3
	job.Count, balancer.Count = 6, 2
	id := intent.AssetID(job.ID)
	l.save(d.Number, next, job.ID+" has room")
	l.soonApproved(d)
	l.after(settling+time.Duration(r.Int64N(int64(30*time.Second))), func() {
		for _, resource := range l.World.Resources() {
			if resource.Asset == id && resource.Exists {
				l.tell("%s: %s", d, id)
				l.World.Autoscale(resource.Key, 1)
			}
		}
		delay := time.Second + time.Duration(r.Int64N(int64(35*time.Second)))
		if l.readsAhead() && r.IntN(4) > 0 { // When nobody may rely any more on how it was.
			delay += trusted
		}
		l.after(delay, func() {
			l.crossing(d, scope, false, true)
			l.soonApproved(d)
		})
	})
}

// oldOrder has somebody change a balancer beside Lehr, and later what comes after it change
// in intent, just after a look at the balancer was answered by what its plugin had read
// before: nobody may rely on that (S1).
func (l *Lab) oldOrder(d Disturbance, r *rand.Rand) {
	const dependent = "record/www"
	t := l.good.find(dependent)
	if t == nil || len(t.After) == 0 || !l.readsAhead() {
		return
	}
	on := intent.AssetID(t.After[r.IntN(len(t.After))])
	l.note(d.Kind, "production")
	for _, resource := range l.World.Resources() {
		if resource.Asset == on && resource.Exists {
			l.tell("%s: %s", d, on)
			l.World.Drift(resource.Key, d.Seed)
		}
	}
	l.after(trusted+time.Duration(r.Int64N(int64(10*time.Second))), func() {
		start := l.Now()
		for !l.answered[on].After(start) && l.Now().Sub(start) < 2*l.sweep() {
			if l.people.Wait(l.ctx, 100*time.Millisecond, nil) != nil {
				return
			}
		}
		next := l.intent.clone()
		if t := next.find(dependent); t != nil && next.Slip == "" && !l.healing {
			l.save(d.Number, next, t.alter(r))
			l.soonApproved(d)
		}
	})
}
