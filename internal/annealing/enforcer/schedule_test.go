package enforcer

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/test/detector"
)

// many things of one word.
func many(prefix string, count int) []thing {
	things := make([]thing, count)
	for i := range things {
		things[i] = thing{id: intent.AssetID(fmt.Sprintf("%s/%d", prefix, i)), word: "v1"}
	}
	return things
}

// settled publishes things and waits until all are in sync and at rest.
func (w *world) settled(things ...thing) {
	w.t.Helper()
	w.publish(things...)
	w.eventually("all are in sync", func() bool {
		count, err := w.store.EnforcedCount(w.ctx, shop)
		w.must(err)
		return count == len(things)
	})
}

// TestSweepsDelayNoFreshChange: looks at all assets are due at a plugin that is
// slow, and what a person changes meanwhile is pushed as if there were none.
func TestSweepsDelayNoFreshChange(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	simulate(t, func(w *world) {
		things := many("web", 5*plugin.MaxBatch)
		w.settled(things...)
		w.production.mu.Lock()
		w.production.each = 20 * time.Millisecond // Ten seconds a batch.
		w.production.mu.Unlock()
		w.owned(func(e *Enforcer) {
			for _, a := range e.assets {
				e.soon(a, loop.Sweep)
			}
		})
		w.pass(time.Second)
		things[7].word = "v2"
		w.publish(things...)
		began := time.Now()
		w.eventually("the change is in production", func() bool { return w.production.word("web/7") == "v2" })
		if took := time.Since(began); took > time.Second {
			t.Errorf("a fresh change took %s behind sweeps (L2)", took)
		}
		w.production.mu.Lock()
		w.production.each = 0
		w.production.mu.Unlock()
		w.pass(time.Minute) // Until nothing is looked at in the old pace.
	})
}

// TestFreshChangesDelaySweepsForAWhile: changes that never end let a sweep wait
// its turn, and no longer.
func TestFreshChangesDelaySweepsForAWhile(t *testing.T) {
	simulate(t, func(w *world) {
		w.restart(func() { w.limits.Diffs = 1 })
		things := append(many("web", 5), db)
		w.settled(things...)
		w.production.mu.Lock()
		w.production.slow = time.Second
		w.production.mu.Unlock()
		var stormy atomic.Bool
		stormy.Store(true)
		var storm func()
		storm = func() {
			w.enforcer.inbox.Put(func() {
				for id, a := range w.enforcer.assets {
					if id != "db" {
						w.enforcer.soon(a, loop.Fresh)
					}
				}
			})
			if stormy.Load() {
				time.AfterFunc(100*time.Millisecond, storm)
			}
		}
		storm()
		w.pass(time.Minute)
		w.production.set("db", "by hand")
		began := time.Now()
		w.eventually("the drift is repaired", func() bool { return w.production.word("db") == "v1" })
		if took, most := time.Since(began), 2*w.limits.Sweep; took > most {
			t.Errorf("a sweep waited %s behind fresh changes, want at most %s", took, most)
		}
		stormy.Store(false)
		w.pass(time.Minute)
	})
}

// TestAFreshChangeGoesFirstInTheLine: of those that wait for a push, what a
// person changed goes before what something else changed back.
func TestAFreshChangeGoesFirstInTheLine(t *testing.T) {
	simulate(t, func(w *world) {
		w.restart(func() { w.limits.Pushes = 1 })
		things := append(many("web", 60), db)
		w.settled(things...)
		slow := behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
			time.Sleep(2 * time.Second)
			apply()
			return plugin.PushResult{Ending: plugin.Pushed}
		}}
		for _, th := range things[:60] {
			w.production.does(th.id, slow)
			w.production.set(th.id, "by hand")
		}
		w.pass(time.Minute) // All were found changed, some are repaired.
		before := w.production.pushes("")
		things[60] = dbV2
		w.publish(things...)
		w.eventually("the change is in production", func() bool { return w.production.word("db") == "v2" })
		if ahead := w.production.pushes("") - before; ahead > 4 {
			t.Errorf("%d pushes went before it", ahead)
		}
		w.eventually("all drift is repaired", func() bool {
			for _, th := range things[:60] {
				if w.production.word(th.id) != "v1" {
					return false
				}
			}
			return true
		})
	})
}

// TestAColdStartIsNoStorm: after a start everything is looked at once, and then
// spread over the sweep (L11).
func TestAColdStartIsNoStorm(t *testing.T) {
	detector.SkipSequential(t)
	simulate(t, func(w *world) {
		const assets = 1000
		w.settled(many("web", assets)...)
		w.pass(time.Minute)
		w.stop()
		before := w.production.asked()
		w.start()
		w.eventually("all were looked at", func() bool { return w.production.asked()-before >= assets })
		last, most := w.production.asked(), 0
		for range 120 {
			w.pass(time.Second)
			now := w.production.asked()
			most, last = max(most, now-last), now
		}
		if most > assets/6 {
			t.Errorf("%d of %d assets were looked at within one second (L11)", most, assets)
		}
		if looks := float64(last-before) / float64(assets); looks < 4 || looks > 6 {
			t.Errorf("%.1f looks at each asset within two minutes, want about 5", looks)
		}
	})
}

// TestAtOnceBoundsWhatATypeTakes: pushes and looks at once, as the partition's
// definition says, and who waits says for how many.
func TestAtOnceBoundsWhatATypeTakes(t *testing.T) {
	detector.SkipSequential(t)
	simulate(t, func(w *world) {
		w.policy.Plugins[0].AtOnce = 1
		things := many("web", plugin.MaxBatch+10)
		w.publish(things...)
		w.eventually("one waits for its turn", func() bool {
			for _, th := range things {
				if r := w.report(th.id); len(r.Waiting) > 0 && r.Waiting[0].Kind == intent.WaitTurn && strings.Contains(r.Waiting[0].Reason, "1 pushes are under way of lehr.command.v1.Command") {
					return true
				}
			}
			return false
		})
		w.eventually("all are in sync", func() bool {
			count, err := w.store.EnforcedCount(w.ctx, shop)
			w.must(err)
			return count == len(things)
		})
		w.pass(time.Second)
		p := w.production
		p.access(func() {
			if p.most != 1 || p.crowd != 1 {
				t.Errorf("%d pushes and %d looks at once, want 1 and 1", p.most, p.crowd)
			}
		})
	})
}

// TestPushesOfAHungPluginLeaveRoomToOthers: a plugin whose pushes do not end
// takes all places that it may have, and others push as before (L2).
func TestPushesOfAHungPluginLeaveRoomToOthers(t *testing.T) {
	simulate(t, func(w *world) {
		w.twoPlugins()
		w.restart(func() { w.limits.Pushes = 5 })
		things := many("web", 5)
		for i := range 20 {
			id := intent.AssetID(fmt.Sprintf("job/%d", i))
			things = append(things, job(id, 1, "1"))
			w.other.does(id, behaviour{push: func(ctx context.Context, _ func(), _ plugin.Push) plugin.PushResult {
				<-ctx.Done()
				return plugin.PushResult{Ending: plugin.InDoubt}
			}})
		}
		w.publish(things...)
		began := time.Now()
		w.inSync(things[:5]...)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the others took %s (L2)", took)
		}
		w.pass(time.Minute)
		if w.other.under != 5 {
			t.Errorf("%d pushes of the hung plugin are under way, want 5", w.other.under)
		}
	})
}
