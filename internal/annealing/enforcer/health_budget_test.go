package enforcer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
	"lehr.dev/test/detector"
)

// clinic is what production tells of health.
type clinic struct {
	mu     sync.Mutex
	states map[intent.AssetID]intent.HealthState
}

func (c *clinic) is(id intent.AssetID, state intent.HealthState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states[id] = state
}

// ward publishes assets of the scope cluster=a, all of them healthy.
func (w *world) ward(count, inFlight, unhealthy int) (c *clinic, things func(word string, changed ...int) []thing) {
	w.policy.Budgets = []*intentpb.Budget{{Scope: "cluster", InFlight: uint32(inFlight), Unhealthy: uint32(unhealthy)}}
	c = &clinic{states: map[intent.AssetID]intent.HealthState{}}
	id := func(i int) intent.AssetID { return intent.AssetID(fmt.Sprintf("web/%d", i)) }
	for i := range count {
		c.is(id(i), intent.Healthy)
		w.production.does(id(i), behaviour{says: func(d *intent.Difference) {
			c.mu.Lock()
			defer c.mu.Unlock()
			d.Health.State = c.states[id(i)]
		}})
	}
	things = func(word string, changed ...int) (list []thing) {
		for i := range count {
			t := thing{id: id(i), word: "v1"}
			if slices.Contains(changed, i) || len(changed) == 0 {
				t.word = word
			}
			list = append(list, t.with(&intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "a"}}))
		}
		return list
	}
	return c, things
}

// TestAnUnhealthyScopeWaits, but for the push that may mend it, until what is
// unhealthy is well; what is elsewhere, and what never tells, does not matter.
func TestAnUnhealthyScopeWaits(t *testing.T) {
	simulate(t, func(w *world) {
		c, things := w.ward(4, 2, 1)
		c.is("web/3", "") // It never tells.
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		c.is("web/0", intent.Unhealthy)
		w.pass(time.Minute)
		other := thing{id: "other", word: "v1"}.with(&intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "b"}})
		w.publish(append(things("v2", 1), other)...)
		w.inSync(other)
		w.told("web/1", "unhealthy, or not known to be healthy, in scope cluster=a: 1 (web/0); pushes in flight there: 0; at most 1 together")
		if blockers := w.report("web/1").Waiting[0].Blockers; !slices.Equal(blockers, []intent.AssetID{"web/0"}) {
			t.Errorf("blockers %v", blockers)
		}
		w.restart(func() {}) // It is not forgotten.
		w.unpushed("web/1", "web/0 is unhealthy")
		w.publish(append(things("v2", 0, 1), other)...)
		w.inSync(things("v2", 0, 1)[0]) // That may mend it.
		if w.production.word("web/1") == "v2" {
			t.Fatal("it was pushed while web/0 is unhealthy")
		}
		c.is("web/0", intent.HealthUnknown) // No better (S11).
		w.unpushed("web/1", "nobody knows how web/0 is")
		c.is("web/0", intent.Healthy)
		w.inSync(things("v2", 0, 1)[1])
	})
}

// TestAPushThatHarmsIsTheLast: the next one begins when a look has told that the
// one before is healthy, not when its push has ended.
func TestAPushThatHarmsIsTheLast(t *testing.T) {
	simulate(t, func(w *world) {
		c, things := w.ward(6, 1, 1)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		before := w.production.pushes("")
		w.production.onEffect(func(id intent.AssetID) { c.is(id, intent.Unhealthy) })
		w.publish(things("v2")...)
		w.pass(10 * time.Minute)
		if got := w.production.pushes("") - before; got != 1 {
			t.Errorf("%d pushes began, though the first made its asset unhealthy", got)
		}
		w.production.mu.Lock()
		w.production.effect = nil
		w.production.mu.Unlock()
		for i := range 6 {
			c.is(intent.AssetID(fmt.Sprintf("web/%d", i)), intent.Healthy)
		}
		w.inSync(things("v2")...)
	})
}

// TestHealthEnds: what could not be looked at for long counts as unhealthy; off,
// nobody looks at it, and it does not count.
func TestHealthEnds(t *testing.T) {
	simulate(t, func(w *world) {
		_, things := w.ward(3, 1, 1)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		w.production.does("web/2", behaviour{unknown: "no answer"})
		w.pass(2 * time.Minute)
		w.publish(things("v2", 0)...)
		w.waitsOn("web/0", intent.WaitBudget)
		w.unpushed("web/0", "nobody knows how web/2 is")
		off := things("v2", 0)
		off[2] = off[2].with(&intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF})
		w.publish(off...)
		w.inSync(off[0])
	})
}

// TestLostHealthOutlivesAProcess: what was told once and is not known now counts as
// unhealthy for the next process too, whether nobody can look or nothing is told
// (S11); what never told has no health to lose, whoever looks.
func TestLostHealthOutlivesAProcess(t *testing.T) {
	for name, loses := range map[string]func(*world, *clinic){
		"looks fail":      func(w *world, _ *clinic) { w.production.does("web/2", behaviour{unknown: "no answer"}) },
		"nothing is told": func(_ *world, c *clinic) { c.is("web/2", intent.HealthUnknown) },
		"it differs": func(w *world, c *clinic) {
			w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web/2", Owner: tester, Reason: "looking"}))
			w.production.set("web/2", "by hand")
			c.is("web/2", intent.HealthUnknown)
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				c, things := w.ward(4, 1, 1)
				c.is("web/3", intent.HealthUnknown) // It never tells.
				w.publish(things("v1")...)
				w.inSync(things("v1")...)
				loses(w, c)
				w.pass(2 * time.Minute)
				for range 2 {
					w.restart(func() {})
				}
				w.publish(things("v2", 0)...)
				w.unpushed("web/0", "nobody knows how web/2 is")
				w.told("web/0", "in scope cluster=a: 1 (web/2)")
				w.production.does("web/2", behaviour{says: func(d *intent.Difference) { d.Health.State = intent.Healthy }})
				w.inSync(things("v2", 0)[0])
			})
		})
	}
}

// TestUnknownAndUnhealthy: a plugin that does not say what is to be done, and says that the asset is
// not well, is believed, also by the next process; so is one that never told of health before.
func TestUnknownAndUnhealthy(t *testing.T) {
	simulate(t, func(w *world) {
		c, things := w.ward(3, 1, 1)
		c.is("web/2", intent.HealthUnknown)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		w.production.does("web/2", behaviour{unknown: "run 1 failed, and is not repeated", says: func(d *intent.Difference) {
			d.Health = intent.Health{State: intent.Unhealthy, Reason: "it is isolated"}
		}})
		w.pass(2 * time.Minute)
		if h := w.report("web/2").Health; h.State != intent.Unhealthy || h.Reason != "it is isolated" {
			t.Errorf("its health is told as %+v", h)
		}
		w.publish(things("v2", 0)...)
		w.unpushed("web/0", "web/2 is unhealthy")
		w.restart(func() {})
		w.unpushed("web/0", "web/2 was unhealthy before")
		w.told("web/0", "in scope cluster=a: 1 (web/2)")
		w.production.does("web/2", behaviour{says: func(d *intent.Difference) { d.Health.State = intent.Healthy }})
		w.inSync(things("v2", 0)[0])
	})
}

// TestAPluginsWordsMeanNothing: a healthy asset is healthy whatever its plugin says, also
// to the next process; Lehr's own words are no exception.
func TestAPluginsWordsMeanNothing(t *testing.T) {
	for _, words := range []string{
		"after its push: all 4 tasks answered", "it was told before", "after its push: its plugin says that it is unhealthy", "check smoke: no", "for the rollout canary",
	} {
		t.Run(words, func(t *testing.T) {
			simulate(t, func(w *world) {
				_, things := w.ward(2, 1, 1)
				w.production.does("web/1", behaviour{says: func(d *intent.Difference) { d.Health = intent.Health{State: intent.Healthy, Reason: words} }})
				w.publish(things("v1")...)
				w.inSync(things("v1")...)
				for range 2 {
					w.restart(func() {})
				}
				w.publish(things("v2", 0)...)
				w.inSync(things("v2", 0)[0])
				if h := w.report("web/1").Health; h.IsAfterPush() || h.State != intent.Healthy || h.Plugin != "" {
					t.Errorf("its health is %+v", h)
				}
			})
		})
	}
}

// TestTheUnhealthyAreMendedOneAfterAnother: who waits for a place and is unhealthy
// itself is called when one is free, though nobody else is (L1).
func TestTheUnhealthyAreMendedOneAfterAnother(t *testing.T) {
	simulate(t, func(w *world) {
		c, things := w.ward(8, 1, 1)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		for i := range 8 {
			c.is(intent.AssetID(fmt.Sprintf("web/%d", i)), intent.Unhealthy)
		}
		w.pass(2 * time.Minute)
		w.production.onEffect(func(id intent.AssetID) { c.is(id, intent.Healthy) })
		w.publish(things("v2")...)
		w.pass(20 * time.Second) // Less than a sweep.
		for _, th := range things("v2") {
			if got := w.production.word(th.id); got != "v2" {
				t.Errorf("%s is %s", th.id, got)
			}
		}
	})
}

// TestAScopeThatIsReadIsNothingInTheWay: a plan waits for it, and nobody is told.
func TestAScopeThatIsReadIsNothingInTheWay(t *testing.T) {
	simulate(t, func(w *world) {
		gate := w.gated()
		_, things := w.ward(2, 1, 1)
		open := gate.shut("ward")
		w.publish(things("v1")...)
		w.waitsOn("web/0", intent.WaitTurn)
		if !w.report("web/0").Settled() {
			t.Error("it counts as in the way")
		}
		open()
		w.inSync(things("v1")...)
	})
}

// TestWhatIsOffHasNoHealth, from the look on that reads that it is.
func TestWhatIsOffHasNoHealth(t *testing.T) {
	simulate(t, func(w *world) {
		c, things := w.ward(3, 1, 1)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		c.is("web/2", intent.Unhealthy)
		w.pass(2 * time.Minute)
		off := things("v2", 0)
		off[2] = off[2].with(&intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF})
		w.publish(off...)
		w.pass(5 * time.Second)
		if got := w.production.word("web/0"); got != "v2" {
			t.Errorf("web/0 is %q, reported %+v", got, w.report("web/0").Waiting)
		}
		if health := w.report("web/2").Health; health != (intent.Health{}) {
			t.Errorf("it is reported %+v", health)
		}
	})
}

// TestScopesOfAnyName: which assets are in a scope is told whatever the scope and
// its value are called; where no index holds them, nothing is pushed (S11).
func TestScopesOfAnyName(t *testing.T) {
	for name, scope := range map[string][2]string{
		"equals signs": {"env=prod", "a=b"}, "end of line": {"x\ny", "a\nb"}, "quotes": {`"`, `\"`}, "beyond ASCII": {"größe", "\u00a0"},
		"too long": {"cluster", strings.Repeat("a", 5000)},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				c, things := w.ward(2, 1, 1)
				list := things("v1")
				for i := range list {
					list[i] = thing{id: list[i].id, word: "v1"}.with(&intentpb.ImpactedScope{Scopes: map[string]string{scope[0]: scope[1]}})
				}
				w.policy.Budgets = nil
				w.publish(list...)
				w.inSync(list...)
				c.is("web/0", intent.Unhealthy)
				w.pass(time.Minute)
				w.policy.Budgets = []*intentpb.Budget{{Scope: scope[0], InFlight: 1, Unhealthy: 1}}
				list[1].word = "v2"
				w.publish(list...)
				w.unpushed("web/1", "web/0 is unhealthy")
				if name == "too long" {
					w.told("web/1", "longer than the 256 bytes that are indexed")
					list[1] = things("v2")[1] // The way out.
					w.publish(list...)
					w.inSync(list[1])
				}
			})
		})
	}
}

// TestWhatIsGoneIsNotUnhealthy: a thing that was turned down has no health, also
// where nobody could look right after, or somebody else took it away.
func TestWhatIsGoneIsNotUnhealthy(t *testing.T) {
	for name, goes := range map[string]func(w *world, c *clinic){
		"by a push": func(w *world, c *clinic) {
			w.eventually("the plan is shown", func() bool { return !w.report("web/2").PlanDigest.IsZero() })
			w.production.onEffect(func(intent.AssetID) {
				w.production.behave["web/2"] = behaviour{unknown: "no answer"}
			})
			w.approve("web/2")
			w.waitsOn("web/2", intent.WaitUnknown)
			w.production.does("web/2", behaviour{})
		},
		"by hand": func(w *world, c *clinic) {
			c.is("web/2", intent.HealthUnknown)
			w.production.set("web/2", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				c, things := w.ward(3, 1, 1)
				gone := job("web/2", 1, "1").with(&intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "a"}})
				w.publish(append(things("v1")[:2], gone)...)
				w.inSync(append(things("v1")[:2], gone)...)
				gone = gone.down()
				w.publish(append(things("v1")[:2], gone)...)
				goes(w, c)
				w.inSync(gone)
				w.publish(append(things("v2", 0)[:2], gone)...)
				w.inSync(things("v2", 0)[0])
			})
		})
	}
}

// TestAWardCostsNoLooks: a push in a large scope looks at its own asset.
func TestAWardCostsNoLooks(t *testing.T) {
	simulate(t, func(w *world) {
		w.restart(func() { w.limits.Sweep = 10 * time.Hour })
		count := detector.Scale(1000, 100)
		_, things := w.ward(count, count, count)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		w.pass(time.Hour)
		before := w.production.asked()
		w.publish(things("v2", 7)...)
		w.inSync(things("v2", 7)[7])
		if looks := w.production.asked() - before; looks > 20 {
			t.Errorf("a push in a scope of %d assets took %d looks", count, looks)
		}
	})
}

// TestWhatElseIsInTheWayIsTold: the scope of what waits for a person has no room either.
func TestWhatElseIsInTheWayIsTold(t *testing.T) {
	simulate(t, func(w *world) {
		c, things := w.ward(3, 1, 1)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		c.is("web/0", intent.Unhealthy)
		w.pass(time.Minute)
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web/1", Owner: tester, Reason: "looking"}))
		w.publish(things("v2", 1)...)
		w.waitsOn("web/1", intent.WaitHold)
		w.told("web/1", "unhealthy, or not known to be healthy, in scope cluster=a: 1 (web/0)")
		c.is("web/0", intent.Healthy)
		w.pass(2 * time.Minute)
		if waiting := w.report("web/1").Waiting; len(waiting) != 1 {
			t.Errorf("%+v", waiting)
		}
	})
}

// TestWhoWaitsForHealthIsCalled at the look that finds it, not at its own next one.
func TestWhoWaitsForHealthIsCalled(t *testing.T) {
	simulate(t, func(w *world) {
		w.restart(func() { w.limits.Sweep = time.Hour })
		c, things := w.ward(3, 1, 1)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web/1", Owner: tester, Reason: "looking"}))
		w.publish(things("v2", 1, 2)...)
		w.waitsOn("web/1", intent.WaitHold)
		w.inSync(things("v2", 1, 2)[2]) // So which assets are in the scope is known.
		c.is("web/0", intent.Unhealthy)
		w.wake("web/0")
		w.pass(time.Second)
		w.must(w.store.Unhold(w.ctx, shop, "web/1", "looked", tester))
		w.waitsOn("web/1", intent.WaitBudget)
		w.unpushed("web/1", "web/0 is unhealthy")
		c.is("web/0", intent.Healthy)
		w.wake("web/0")
		w.pass(time.Second)
		if got := w.production.word("web/1"); got != "v2" {
			t.Errorf("it is %q: %+v", got, w.report("web/1").Waiting)
		}
	})
}

// slowWards takes its time to read which assets are in a scope, and counts how often
// all of them were read.
type slowWards struct {
	loop.Runtime
	Stores
	whole atomic.Int32
}

func (s *slowWards) Point(name string) {
	if name == "ward" {
		time.Sleep(time.Second)
	}
}

func (s *slowWards) Members(ctx context.Context, id intent.IncarnationID, filter store.AssetFilter) ([]intent.Member, error) {
	if strings.Contains(filter.Field, "ImpactedScope") && filter.Prefix == "" {
		s.whole.Add(1)
	}
	return s.Stores.Members(ctx, id, filter)
}

// TestAScopeIsReadOnce, and then what heads change of it: those that move faster than
// it is read keep nothing waiting (L1).
func TestAScopeIsReadOnce(t *testing.T) {
	simulate(t, func(w *world) {
		slow := &slowWards{Runtime: loop.Real(), Stores: w.store}
		w.restart(func() { w.runtime, w.stores = slow, slow })
		_, things := w.ward(20, 2, 2)
		w.publish(things("v1")...)
		w.inSync(things("v1")...)
		for i := range 20 {
			w.publish(append(things("v2", 1), thing{id: "other", word: fmt.Sprint(i)})...)
			w.pass(300 * time.Millisecond)
		}
		if w.production.word("web/1") != "v2" {
			t.Errorf("it waits: %+v", w.report("web/1").Waiting)
		}
		if whole := slow.whole.Load(); whole != 1 {
			t.Errorf("the whole scope was read %d times", whole)
		}
	})
}

// TestAssetsChangeTheirScope: what is ill counts where head has it, and, until that was
// read, wherever it may be (S11).
func TestAssetsChangeTheirScope(t *testing.T) {
	simulate(t, func(w *world) {
		gate := w.gated()
		c, things := w.ward(4, 1, 1)
		in := func(list []thing, i int, cluster string) []thing {
			list[i] = thing{id: list[i].id, word: list[i].word}.with(&intentpb.ImpactedScope{Scopes: map[string]string{"cluster": cluster}})
			return list
		}
		w.publish(in(in(things("v1"), 2, "b"), 3, "b")...)
		w.inSync(things("v1")...)
		c.is("web/3", intent.Unhealthy)
		w.pass(time.Minute)
		w.publish(in(in(things("v2", 0), 2, "b"), 3, "b")...)
		w.inSync(things("v2", 0)[0]) // What is ill is elsewhere.

		open := gate.shut("ward")
		w.publish(in(things("v2", 0, 1), 2, "b")...) // It comes to a.
		w.unpushed("web/1", "web/3 may be in its scope")
		w.told("web/1", "in scope cluster=a: 1 (web/3)")
		open()
		w.unpushed("web/1", "web/3 is in its scope")
		w.publish(in(things("v2", 0, 1, 2), 2, "b")...)
		w.inSync(things("v2", 0, 1, 2)[2]) // It left b.
		list := in(in(things("v2", 0, 1, 2), 2, "b"), 3, "c")
		w.publish(list...)
		w.inSync(list[1])

		w.publish(in(in(things("v3", 2), 2, "c"), 3, "c")...)
		w.unpushed("web/2", "web/3 is where it came to")
		w.publish(in(things("v3", 2), 2, "c")[:3]...) // Gone, it is in nobody's way.
		w.inSync(in(things("v3", 2), 2, "c")[2])
	})
}
