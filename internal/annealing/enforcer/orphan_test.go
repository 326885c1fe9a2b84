package enforcer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

// TestAnOrphanStillGuardsWhatItNeeds: a commit that drops an asset removes
// nothing; what it needs does not go under it (S23).
func TestAnOrphanStillGuardsWhatItNeeds(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%t", restarted), func(t *testing.T) {
			simulate(t, func(w *world) {
				w.publish(job("db", 1, "1"), job("web", 1, "1", comesAfter("db")))
				w.inSync(job("db", 1, "1"), job("web", 1, "1"))
				w.publish(job("db", 1, "1").down())
				w.eventually("its plan is shown", func() bool { return !w.report("db").PlanDigest.IsZero() })
				if restarted {
					w.restart(func() {})
				}
				w.approve("db")
				waiting := w.waitsOn("db", intent.WaitTurndown)
				if want := "web still depends on it (an orphan: "; !strings.HasPrefix(waiting.Reason, want) {
					t.Errorf("reason %q, want %q", waiting.Reason, want)
				}
				w.pass(time.Hour)
				if w.production.word("db") == "" {
					t.Fatal("removed under an orphan that needs it")
				}
				w.must(w.store.Disown(w.ctx, shop, "web", "removed by hand", tester))
				began := time.Now()
				w.inSync(job("db", 1, "1").down())
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("the removal was let %s after web was disowned", took)
				}
			})
		})
	}
}

func TestAnOrphanThatIsTurnedDownGuardsNoMore(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("db", 1, "1"), job("web", 1, "1", comesAfter("db")))
		w.inSync(job("db", 1, "1"), job("web", 1, "1"))
		w.publish(job("db", 1, "1").down())
		w.waitsOn("db", intent.WaitTurndown)
		w.publish(job("db", 1, "1").down(), job("web", 1, "1", comesAfter("db")).down())
		for _, id := range []intent.AssetID{"db", "web"} {
			w.eventually("its plan is shown", func() bool { return !w.report(id).PlanDigest.IsZero() })
			w.approve(id)
		}
		w.order()
		w.inSync(job("web", 1, "1").down(), job("db", 1, "1").down())
		if got := w.order(); got != "[web db]" {
			t.Errorf("removed in the order %s", got)
		}
		w.publish()
		w.eventually("gone", func() bool { return w.report("db").State == intent.StateGone })
		w.owned(func(e *Enforcer) {
			if len(e.incarnations.lagging) != 0 {
				t.Errorf("incarnations of what is absent are still searched: %v", e.incarnations.lagging)
			}
		})
	})
}

func TestABalancerDoesNotExpectMoreOfAnOrphan(t *testing.T) {
	simulate(t, func(w *world) {
		w.serving([2]intent.AssetID{"job", "lb"})
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 3, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 3, "1"))
		w.publish(job("lb", 9, "1"))
		if waiting := w.waitsOn("lb", intent.WaitCapacity); !strings.Contains(waiting.Reason, "job (an orphan") {
			t.Errorf("reason %q", waiting.Reason)
		}
		// What expects less, or as much, does not ask.
		w.publish(job("lb", 3, "2"))
		w.inSync(job("lb", 3, "2"))
		w.publish(job("lb", 2, "2"))
		w.inSync(job("lb", 2, "2"))
		// A person knows better.
		w.publish(job("lb", 4, "2"))
		w.waitsOn("lb", intent.WaitCapacity)
		w.approve("lb")
		w.inSync(job("lb", 4, "2"))
	})
}

// TestWhatIsExpectedOfAnOrphanMustBeKnown: an amount that nobody tells is not
// nothing (S11).
func TestWhatIsExpectedOfAnOrphanMustBeKnown(t *testing.T) {
	simulate(t, func(w *world) {
		client := func(replicas uint32) thing { return job("lb", replicas, "1").with() }
		w.publish(job("job", 4, "1"), client(3))
		w.inSync(job("job", 4, "1"), client(3))
		w.publish(job("job", 4, "1", serves("lb")), client(3))
		w.pass(time.Minute)
		w.publish(client(9))
		if waiting := w.waitsOn("lb", intent.WaitCheckBroken); !strings.Contains(waiting.Reason, "how much of capacity lb has is not known") {
			t.Errorf("reason %q", waiting.Reason)
		}
		w.approve("lb")
		w.inSync(client(9))
	})
}

func TestAVersionIsNotTakenFromUnderAnOrphan(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("web", 1, "2", needs("schema", "2")), job("schema", 1, "2"))
		w.inSync(job("web", 1, "2"), job("schema", 1, "2"))
		w.publish(job("schema", 1, "1"))
		if waiting := w.waitsOn("schema", intent.WaitVersion); !strings.Contains(waiting.Reason, "web still needs at least 2 of schema") {
			t.Errorf("reason %q", waiting.Reason)
		}
		w.publish(job("schema", 1, "3"))
		w.inSync(job("schema", 1, "3"))
	})
}

// TestARenameIsNoOrphan: the real thing lives on by another name, which
// declares what it declares.
func TestARenameIsNoOrphan(t *testing.T) {
	simulate(t, func(w *world) {
		key := behaviour{key: "fake/the-job"}
		w.production.does("old", key)
		w.production.does("new", key)
		w.publish(job("old", 4, "1", serves("lb")), job("lb", 4, "1"))
		w.inSync(job("old", 4, "1"), job("lb", 4, "1"))
		w.production.set("new", "4 1")
		w.publish(job("new", 6, "1", serves("lb")), job("lb", 6, "1"))
		w.inSync(job("new", 6, "1"), job("lb", 6, "1"))
	})
}

// TestARemovalWaitsForWhoTakesTheResourceOver: under another name the resource
// stays, though that one cannot take it yet.
func TestARemovalWaitsForWhoTakesTheResourceOver(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("old", behaviour{key: "thing"})
		w.production.does("new", behaviour{key: "thing"})
		w.publish(job("old", 1, "1"))
		w.inSync(job("old", 1, "1"))
		w.production.set("new", "1 1")
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "new", Owner: tester, Reason: "not yet"}))
		w.publish(job("old", 1, "1").down(), job("new", 1, "2"))
		w.waitsOn("new", intent.WaitHold)
		if waiting := w.waitsOn("old", intent.WaitTurndown); !strings.Contains(waiting.Reason, "new still depends on it") {
			t.Errorf("reason %q", waiting.Reason)
		}
		w.approve("old")
		w.pass(time.Hour)
		if w.production.word("old") == "" {
			t.Fatal("removed what another asset names, and keeps")
		}
		w.must(w.store.Unhold(w.ctx, shop, "new", "a try", tester))
		w.inSync(job("new", 1, "2"))
		w.waitsOn("old", intent.WaitClaim)
	})
}

// TestACapacityAddonThatListsAllButTheDimension of an edge breaks the check:
// what is not listed may rise unseen (S11).
func TestACapacityAddonThatListsAllButTheDimension(t *testing.T) {
	simulate(t, func(w *world) {
		edge := serves("lb")
		edge.Expects = "a"
		lists := func(th thing) thing {
			return th.with(&intentpb.Capacity{Dimensions: map[string]string{"connections": "100"}})
		}
		w.production.set("lb", "2 1")
		w.publish(job("job", 2, "1", edge), lists(job("lb", 2, "1")))
		w.inSync(job("job", 2, "1"), job("lb", 2, "1"))
		w.publish(job("job", 2, "1", edge), lists(job("lb", 4, "1")))
		if waiting := w.waitsOn("lb", intent.WaitCheckBroken); !strings.Contains(waiting.Reason, "how much of a lb has is not known") {
			t.Errorf("reason %q", waiting.Reason)
		}
		if w.production.word("lb") != "2 1" {
			t.Error("it came to expect more than is served")
		}
		w.publish(job("job", 2, "1", edge), job("lb", 2, "2").with(&intentpb.Capacity{Dimensions: map[string]string{"a": "payload.replicas"}}))
		w.inSync(job("lb", 2, "2"))
	})
}

// TestTheLoserOfAGroupIsWoken: of two in one group of admissions the one that
// was refused is looked at as soon as the other's push has ended.
func TestTheLoserOfAGroupIsWoken(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 1, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 1, "1"))
		hold := func(id intent.AssetID) {
			w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: id, Owner: tester, Reason: "later"}))
		}
		hold("job")
		hold("lb")
		w.publish(job("job", 3, "1", serves("lb")), job("lb", 2, "1"))
		w.pass(time.Hour) // By now both are looked at seldom.
		w.must(w.store.Unhold(w.ctx, shop, "job", "a try", tester))
		w.must(w.store.Unhold(w.ctx, shop, "lb", "a try", tester))
		began := time.Now()
		w.inSync(job("job", 3, "1"), job("lb", 2, "1"))
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

// TestRandomOrphansStayServed: assets leave intent and come back, with those
// that serve them, and whatever is asked of the others meanwhile, nobody comes
// to expect more than what runs serves.
func TestRandomOrphansStayServed(t *testing.T) {
	seeds := 25
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			simulate(t, func(w *world) { randomOrphans(w, rand.New(rand.NewPCG(uint64(seed), 8))) })
		})
	}
}

func randomOrphans(w *world, r *rand.Rand) {
	count := 3 + r.IntN(5)
	id := func(i int) intent.AssetID { return intent.AssetID(fmt.Sprintf("job/%d", i)) }
	serving := map[int][]int{}
	var pairs [][2]intent.AssetID
	for client := range count {
		w.production.does(id(client), hiccups(rand.New(rand.NewPCG(r.Uint64(), 1))))
		for server := range client {
			if r.IntN(2) == 0 {
				serving[server] = append(serving[server], client)
				pairs = append(pairs, [2]intent.AssetID{id(server), id(client)})
			}
		}
	}
	// What was turned down and then left intent serves nobody, and says so no
	// more: nothing is told of whom it served.
	var intended atomic.Pointer[map[intent.AssetID]bool]
	intended.Store(&map[intent.AssetID]bool{})
	before := map[intent.AssetID]uint32{}
	w.production.onEffect(func(moved intent.AssetID) {
		now := jobOf(w.production.state[moved]).Replicas
		for _, pair := range pairs {
			server, client := w.production.state[pair[0]], jobOf(w.production.state[pair[1]])
			dangerous := moved == pair[0] && now < before[moved] || moved == pair[1] && now > before[moved]
			if dangerous && client.Replicas > jobOf(server).Replicas && (server != "" || (*intended.Load())[pair[0]]) {
				w.t.Errorf("after the push of %s, %s expects %d of %s, which is %q", moved, pair[1], client.Replicas, pair[0], server)
			}
		}
		before[moved] = now
	})
	publish := func(things []thing) {
		next := map[intent.AssetID]bool{}
		for _, th := range things {
			next[th.id] = true
		}
		w.publish(things...)
		intended.Store(&next)
	}
	ask := func(most int, leaves int) []thing {
		var things []thing
		left := map[int]bool{}
		amounts := 20
		for server := count - 1; server >= 0; server-- {
			// Who serves one that leaves, leaves: references do not dangle.
			left[server] = leaves > 0 && r.IntN(leaves) == 0 || slices.ContainsFunc(serving[server], func(client int) bool { return left[client] })
		}
		for server := range count {
			amounts -= min(amounts, r.IntN(most))
			if left[server] {
				continue
			}
			var edges []*intentpb.Dependency
			for _, client := range serving[server] {
				edges = append(edges, serves(string(id(client))))
			}
			amount := uint32(amounts)
			if leaves > 0 {
				amount = uint32(r.IntN(20)) // Whether or not it goes together.
			}
			next := job(id(server), amount, "1", edges...)
			if leaves > 0 && r.IntN(6) == 0 {
				next = next.down()
			}
			things = append(things, next)
		}
		return things
	}
	all := ask(4, 0)
	publish(all)
	w.settle(all)
	for range 12 {
		if r.IntN(4) == 0 {
			w.restart(func() {})
		}
		publish(ask(4, 4))
		for range r.IntN(4) {
			w.pass(time.Duration(r.IntN(4000)) * time.Millisecond)
			w.approveAll()
		}
	}
	all = ask(4, 0)
	publish(all)
	w.settle(all)
	w.stop()
	w.pass(10 * time.Second) // For what is under way still.
}

// approveAll approves whatever asks for it.
func (w *world) approveAll() {
	reports, err := w.store.ListReports(w.ctx, shop, store.ReportFilter{State: intent.StateWaiting, Limit: 100})
	w.must(err)
	for _, report := range reports {
		if slices.ContainsFunc(report.Waiting, func(on intent.WaitingOn) bool { return on.Kind == intent.WaitApproval }) {
			_ = w.store.Approve(w.ctx, intent.Approval{Partition: shop, Asset: report.Asset, Effective: report.Effective, Plan: report.PlanDigest, By: tester})
		}
	}
}

// TestAnOrphanThatIsPinnedIsStillGuarded: a pin to older content takes nothing
// from what is there now but by the guards of what is there now.
func TestAnOrphanThatIsPinnedIsStillGuarded(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("job", 2, "1"), job("lb", 2, "1"))
		w.inSync(job("job", 2, "1"), job("lb", 2, "1"))
		old := w.head
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 4, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 4, "1"))
		w.publish(job("lb", 4, "1"))
		w.eventually("job is an orphan", func() bool { return w.report("job").State == intent.StateGone })
		w.pin("job", old, time.Time{})
		if waiting := w.waitsOn("job", intent.WaitCapacity); !strings.Contains(waiting.Reason, "lb still expects 4") {
			t.Errorf("reason %q", waiting.Reason)
		}
		if got := w.production.word("job"); got != "4 1" {
			t.Errorf("job is %s", got)
		}
	})
}

// TestAPushOfWhatLeftForgetsNoGuard: web left intent while its push was cut
// off, and comes back without the edge that it was enforced with. The process
// that took the push over knows of that edge.
func TestAPushOfWhatLeftForgetsNoGuard(t *testing.T) {
	simulate(t, func(w *world) {
		w.since = 1 // Only time tells when the push is over.
		w.publish(db, web.with(after("db")))
		w.inSync(db, web)
		w.production.does("web", behaviour{push: func(ctx context.Context, _ func(), _ plugin.Push) plugin.PushResult {
			<-ctx.Done()
			return plugin.PushResult{Ending: plugin.InDoubt}
		}})
		w.publish(db, webV2.with(after("db")))
		w.eventually("web is being pushed", func() bool { return w.production.pushes("web") == 2 })
		w.restart(func() { w.publish(db) })
		w.production.does("web", behaviour{})
		w.production.does("db", behaviour{push: func(context.Context, func(), plugin.Push) plugin.PushResult {
			return plugin.PushResult{Ending: plugin.Failed, Reason: "broken"}
		}})
		w.publish(dbV2, webV2)
		w.pass(10 * time.Minute)
		if got := w.production.word("web"); got != "v1" {
			t.Errorf("web is %s before db, which it came after when it was enforced, is in sync (S23)", got)
		}
	})
}
