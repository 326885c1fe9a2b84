package enforcer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/test/detector"
)

// TestRandomWorldsStayServed: whatever is asked of a random graph of jobs, no
// effect leaves one expecting more than another serves it, and what is asked
// consistently comes about.
func TestRandomWorldsStayServed(t *testing.T) {
	seeds := 25
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			simulate(t, func(w *world) { randomWorld(w, rand.New(rand.NewPCG(uint64(seed), 7))) })
		})
	}
}

func randomWorld(w *world, r *rand.Rand) {
	count := 3 + r.IntN(8)
	ids := make([]intent.AssetID, count)
	var pairs [][2]intent.AssetID
	for i := range ids {
		ids[i] = intent.AssetID(fmt.Sprintf("job/%d", i))
		w.production.does(ids[i], hiccups(rand.New(rand.NewPCG(r.Uint64(), 1))))
	}
	for i := range ids {
		for j := range i {
			if r.IntN(3) == 0 {
				pairs = append(pairs, [2]intent.AssetID{ids[j], ids[i]})
			}
		}
	}
	w.serving(pairs...)
	// Each serves those with a higher number, so amounts fall along the order.
	const rounds = 6
	for round := range rounds {
		top := uint32(1 + r.IntN(20))
		things := make([]thing, count)
		for i, id := range ids {
			var edges []*intentpb.Dependency
			for _, pair := range pairs {
				if pair[0] == id {
					edges = append(edges, serves(string(pair[1])))
				}
			}
			top -= min(top, uint32(r.IntN(3)))
			things[i] = job(id, top, "1", edges...)
			if r.IntN(6) == 0 {
				things[i] = things[i].down()
				top = 0
			}
		}
		if r.IntN(3) == 0 {
			w.restart(func() {})
		}
		w.publish(things...)
		if round < rounds-1 && r.IntN(2) == 0 {
			w.pass(time.Duration(r.IntN(300)) * time.Millisecond)
			continue // Another intent overtakes this one.
		}
		w.settle(things)
	}
	w.pass(10 * time.Second)
}

// settle approves whatever asks for it until all is as intent says.
func (w *world) settle(things []thing) {
	w.t.Helper()
	w.eventually("all is as intent says", func() bool {
		for _, th := range things {
			report := w.report(th.id)
			for _, waiting := range report.Waiting {
				if waiting.Kind == intent.WaitApproval {
					_ = w.store.Approve(w.ctx, intent.Approval{Partition: shop, Asset: th.id, Effective: report.Effective, Plan: report.PlanDigest, By: tester})
				}
			}
		}
		return !slices.ContainsFunc(things, func(th thing) bool {
			return w.production.word(th.id) != th.word || w.report(th.id).State != intent.StateInSync
		})
	})
}

// hiccups fail now and then, before or after their effect, and take long; one
// that is cut off by a crash may still have its effect, within its permit.
func hiccups(r *rand.Rand) behaviour {
	return behaviour{push: func(ctx context.Context, apply func(), _ plugin.Push) plugin.PushResult {
		dice, slow, late := r.IntN(10), time.Duration(r.IntN(200))*time.Millisecond, time.Duration(r.IntN(4000))*time.Millisecond
		select {
		case <-ctx.Done():
			if dice < 5 {
				go func() {
					time.Sleep(late)
					apply()
				}()
			}
			return plugin.PushResult{Ending: plugin.InDoubt}
		case <-time.After(slow):
		}
		if dice == 0 {
			return plugin.PushResult{Ending: plugin.Failed, Reason: "before", Retryable: true}
		}
		apply()
		if dice == 1 {
			return plugin.PushResult{Ending: plugin.Failed, Reason: "after", Retryable: true}
		}
		return plugin.PushResult{Ending: plugin.Pushed}
	}}
}

// TestRandomVersionsStayMet: versions go up and down over a random graph, and
// nothing that runs ever misses the version that it needs.
func TestRandomVersionsStayMet(t *testing.T) {
	detector.SkipSequential(t)
	seeds := 15
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			simulate(t, func(w *world) { randomVersions(w, rand.New(rand.NewPCG(uint64(seed), 11))) })
		})
	}
}

func randomVersions(w *world, r *rand.Rand) {
	count := 3 + r.IntN(6)
	needed := make([][]int, count)
	id := func(i int) intent.AssetID { return intent.AssetID(fmt.Sprintf("job/%d", i)) }
	for i := range count {
		w.production.does(id(i), hiccups(rand.New(rand.NewPCG(r.Uint64(), 1))))
		for j := range i {
			if r.IntN(2) == 0 {
				needed[i] = append(needed[i], j)
			}
		}
	}
	w.production.mu.Lock()
	w.production.effect = func(changed intent.AssetID) {
		for i := range count {
			for _, j := range needed[i] {
				mine, theirs := jobOf(w.production.state[id(i)]).Version, jobOf(w.production.state[id(j)]).Version
				if mine != "" && (theirs == "" || theirs < mine) {
					w.t.Errorf("after the push of %s, %s runs at %s, and %s is at %q", changed, id(i), mine, id(j), theirs)
				}
			}
		}
	}
	w.production.mu.Unlock()
	const rounds = 6
	for round := range rounds {
		version := fmt.Sprint(1 + r.IntN(9))
		things := make([]thing, count)
		for i := range things {
			var edges []*intentpb.Dependency
			for _, j := range needed[i] {
				edges = append(edges, needs(string(id(j)), version))
			}
			things[i] = job(id(i), 1, version, edges...)
		}
		if r.IntN(3) == 0 {
			w.restart(func() {})
		}
		w.publish(things...)
		if round < rounds-1 && r.IntN(2) == 0 {
			w.pass(time.Duration(r.IntN(500)) * time.Millisecond)
			continue
		}
		w.settle(things)
	}
	w.pass(10 * time.Second)
}
