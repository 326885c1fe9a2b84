package enforcer

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
)

func observed() *intentpb.Mode {
	return &intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE}
}

func (w *world) pin(id intent.AssetID, to intent.IncarnationID, until time.Time) {
	w.t.Helper()
	_, err := w.store.SetPin(w.ctx, intent.Pin{Asset: id, Incarnation: to, Rank: intent.RankPerson, Holder: tester, Reason: "a test", Until: until})
	w.must(err)
}

func TestAModeIsThatOfTheContentThatAPinsEndBrings(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web)
		w.inSync(web)
		w.pin("web", w.head, time.Now().Add(time.Minute))
		w.publish(webV2.with(observed()))
		w.pass(5 * time.Minute)
		if got := w.production.word("web"); got != "v1" {
			t.Errorf("what is only observed was pushed when a pin ended: %s", got)
		}
		w.waitsOn("web", intent.WaitMode)
	})
}

// TestAPinThatComesAndGoesWhileAnAssetIsLookedAt: with it goes what was known of
// the asset's mode, which is read again before anything is recorded (S21).
func TestAPinThatComesAndGoesWhileAnAssetIsLookedAt(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web)
		w.inSync(web)
		first := w.head
		w.publish(web.with(observed()))
		w.pass(10 * time.Minute)
		w.production.mu.Lock()
		w.production.slow = 5 * time.Second
		w.production.mu.Unlock()
		w.wake("web")
		time.Sleep(time.Second)
		w.pin("web", first, time.Time{})
		time.Sleep(time.Second)
		w.must(w.store.Unpin(w.ctx, shop, "web", intent.RankPerson, "over", tester))
		w.pass(5 * time.Minute)
		records, err := w.store.EnforcedPage(w.ctx, shop, "", 10)
		w.must(err)
		for _, record := range records {
			if record.Asset == "web" && record.Incarnation != first {
				t.Errorf("web is only looked at, and is recorded as enforced at %s", record.Incarnation)
			}
		}
	})
}

func TestAPinsEndIsNoticedOnTimeAndIsNoFight(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web)
		w.inSync(web)
		first := w.head
		w.publish(webV2)
		w.inSync(webV2)
		for range 5 {
			ends := time.Now().Add(20 * time.Second)
			w.pin("web", first, ends)
			w.inSync(web)
			w.pass(time.Until(ends) + time.Second)
			if got := w.production.word("web"); got != "v2" {
				t.Fatalf("a second after its pin ended, web is %s: %v", got, w.report("web").Waiting)
			}
		}
	})
}

// TestAPinsEndMakesANeighbourUnknown: that db was in sync at its pin says
// nothing of head's content.
func TestAPinsEndMakesANeighbourUnknown(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web, db)
		w.inSync(web, db)
		ends := time.Now().Add(time.Minute)
		w.pin("db", w.head, ends)
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "a test", Until: ends.Add(-500 * time.Microsecond)}))
		w.production.does("db", behaviour{push: func(context.Context, func(), plugin.Push) plugin.PushResult {
			return plugin.PushResult{Ending: plugin.Failed, Reason: "broken"}
		}})
		w.publish(webV2.with(after("db")), dbV2)
		w.pass(time.Until(ends) - time.Second)
		w.wake("db")
		w.pass(5 * time.Minute)
		if got := w.production.word("web"); got != "v1" {
			t.Errorf("web is %s before db is in sync at head", got)
		}
	})
}

// TestANeighboursPinEndsBetweenDecisionAndAdmission: web was let go while db
// was in sync at its pin.
func TestANeighboursPinEndsBetweenDecisionAndAdmission(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web, db)
		w.inSync(web, db)
		gate := w.gated()
		w.production.does("db", behaviour{push: func(context.Context, func(), plugin.Push) plugin.PushResult {
			return plugin.PushResult{Ending: plugin.Failed, Reason: "broken"}
		}})
		w.pin("db", w.head, time.Now().Add(5*time.Second))
		open := gate.shut("admit")
		w.publish(webV2.with(after("db")), dbV2)
		w.pass(6 * time.Second)
		open()
		w.pass(5 * time.Minute)
		if got := w.production.word("web"); got != "v1" {
			t.Errorf("web is %s before db is in sync at head", got)
		}
	})
}

func TestAnAssetThatComesBackWhileItsPushRunsIsLookedAt(t *testing.T) {
	simulate(t, func(w *world) {
		gate := w.gated()
		w.production.does("web", behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
			time.Sleep(10 * time.Second)
			return plugin.PushResult{Ending: plugin.Stopped, Reason: "no permit"}
		}})
		open := gate.shut("admitted")
		w.publish(db, web)
		w.pass(time.Second)
		w.publish(db)
		w.pass(time.Second)
		w.publish(db, webV2)
		w.pass(time.Second)
		open()
		w.pass(5 * time.Second)
		w.production.does("web", behaviour{})
		w.inSync(webV2)
	})
}

func TestAPluginUnboundBetweenAdmissionAndPush(t *testing.T) {
	simulate(t, func(w *world) {
		gate := w.gated()
		open := gate.shut("admitted")
		w.publish(web)
		w.pass(time.Second)
		w.policy.Plugins = nil
		w.publish(web)
		w.pass(time.Second)
		open()
		w.eventually("the push is closed", func() bool {
			left, err := w.store.OpenPushes(w.ctx, shop)
			w.must(err)
			return len(left) == 0
		})
		if err := w.stop(); err != context.Canceled {
			t.Errorf("the enforcer ended by itself: %v", err)
		}
	})
}

func TestAWakeDuringARefusedAdmissionIsNotLost(t *testing.T) {
	simulate(t, func(w *world) {
		other := db
		w.production.does("db", behaviour{key: "one"})
		w.production.does("web", behaviour{key: "one"})
		w.publish(other)
		w.inSync(other)
		w.publish(other, web)
		w.waitsOn("web", intent.WaitClaim)
		w.pass(10 * time.Minute)
		gate := w.gated()
		w.pass(10 * time.Minute)
		open := gate.shut("admitted")
		w.eventually("web is before the store", func() (admitting bool) {
			w.owned(func(e *Enforcer) { admitting = e.assets["web"].trouble != nil && e.assets["web"].admitting })
			return admitting
		})
		asked := w.production.asked()
		w.wake("web")
		w.pass(15 * time.Second)
		open()
		w.pass(100 * time.Millisecond)
		if w.production.asked() == asked {
			t.Error("a person's wish to look now was forgotten")
		}
	})
}

func TestALineForABudgetDoesNotGrow(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Budgets = []*intentpb.Budget{{Scope: "cluster", InFlight: 1}}
		scope := &intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "a"}}
		release := make(chan struct{})
		slow := behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
			<-release
			apply()
			return plugin.PushResult{Ending: plugin.Pushed}
		}}
		w.production.does("web", slow)
		w.production.does("db", slow)
		w.publish(web.with(scope), db.with(scope))
		w.pass(2 * time.Hour)
		w.owned(func(e *Enforcer) {
			for key, line := range e.pushLimits.queues {
				if line.waiting.Len() > 1 {
					t.Errorf("%d stand in line for %q, where one waits", line.waiting.Len(), key)
				}
			}
		})
		close(release)
		w.inSync(web, db)
	})
}

// unreadable is a store whose holds cannot be read while it is broken.
type unreadable struct {
	Stores
	broken atomic.Bool
	asked  atomic.Int64
}

func (u *unreadable) Holds(ctx context.Context, partition intent.PartitionID) ([]intent.Hold, error) {
	u.asked.Add(1)
	if u.broken.Load() {
		return nil, fault.New(fault.Internal, "a body is damaged")
	}
	return u.Stores.Holds(ctx, partition)
}

func TestAStoreThatCannotBeReadIsAskedSeldom(t *testing.T) {
	simulate(t, func(w *world) {
		u := &unreadable{Stores: w.store}
		w.restart(func() { w.stores = u })
		w.publish(web, db)
		w.inSync(web, db)
		u.broken.Store(true)
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "other", Owner: tester, Reason: "a test"}))
		w.pass(time.Second)
		w.production.set("web", "by hand")
		asked := u.asked.Load()
		w.pass(2 * time.Minute)
		if asked = u.asked.Load() - asked; asked > 150 {
			t.Errorf("asked %d times within two minutes", asked)
		}
		if waiting := w.report("web").Waiting; len(waiting) == 0 || waiting[0].Kind != intent.WaitStore || !strings.Contains(waiting[0].Reason, "a body is damaged") {
			t.Errorf("the report does not say so: %v", waiting)
		}
		u.broken.Store(false)
		w.inSync(web)
	})
}

func TestAReportOvertakenWhileItIsStored(t *testing.T) {
	simulate(t, func(w *world) {
		gate := w.gated()
		w.publish(web)
		w.inSync(web)
		w.pass(time.Minute)
		open := gate.shut("save reports")
		w.production.set("web", "by hand")
		w.eventually("repaired", func() bool { return w.production.word("web") == "v1" })
		w.pass(200 * time.Millisecond)
		open()
		synctest.Wait()
		if state := w.report("web").State; state != intent.StateInSync {
			t.Errorf("web is reported as %s after it was repaired", state)
		}
	})
}

func TestWordsThatMovedAreRewrittenWithinAMinute(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("db", behaviour{unknown: "database unreachable"})
		w.publish(web.with(after("db")), db)
		w.waitsOn("web", intent.WaitOrder)
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "db", Owner: tester, Reason: "a test"}))
		w.production.does("db", behaviour{})
		w.waitsOn("db", intent.WaitHold)
		w.pass(3 * time.Minute)
		if waiting := w.report("web").Waiting[0]; !strings.Contains(waiting.Reason, "differs") {
			t.Errorf("the reason is an old one: %s", waiting.Reason)
		}
	})
}

func TestOneAssetThatManyWaitFor(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("db", behaviour{unknown: "database unreachable"})
		things := []thing{db}
		for i := range 50 {
			things = append(things, thing{id: intent.AssetID(fmt.Sprintf("web%d", i)), word: "v1"}.with(after("db")))
		}
		w.publish(things...)
		w.pass(5 * time.Minute)
		waiting := func() (count int) {
			w.owned(func(e *Enforcer) { count = len(e.waiters["db"]) })
			return count
		}
		if got := waiting(); got != 50 {
			t.Errorf("%d wait for db, want 50", got)
		}
		w.publish(db)
		w.pass(time.Minute)
		if got := waiting(); got != 0 {
			t.Errorf("%d assets that are gone still wait for db", got)
		}
	})
}

func TestAFactFromTheFutureIsNone(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	e := New(Options{Limits: DefaultLimits(), Runtime: loop.Real()})
	db := &asset{id: "db", kind: &kind{served: &served{}}, seenAt: now.Add(time.Hour).UnixNano()}
	e.assets["db"] = db
	if n := e.neighbours.inSync("db", false, now); n.Known {
		t.Error("after the clock was set back, an old fact holds for an hour")
	}
	db.seenAt = now.Add(-time.Second).UnixNano()
	n := e.neighbours.inSync("db", false, now)
	if want := now.Add(9 * time.Second); !n.Known || !n.Until.Equal(want) {
		t.Errorf("in sync %t until %s, want %s", n.Known, n.Until, want)
	}
}

// TestARestartWithinTheProcessKnowsItsOwnPushes: that no older process of the
// plugin lives says nothing of what this one was told before.
func TestARestartWithinTheProcessKnowsItsOwnPushes(t *testing.T) {
	simulate(t, func(w *world) {
		alone := make(chan struct{})
		close(alone)
		w.production.alone, w.since = alone, w.lease.Epoch
		w.production.does("web", behaviour{push: func(ctx context.Context, _ func(), _ plugin.Push) plugin.PushResult {
			<-ctx.Done()
			return plugin.PushResult{Ending: plugin.InDoubt}
		}})
		w.publish(web)
		w.eventually("a push is under way", func() bool { return w.production.pushes("web") == 1 })
		w.restart(func() { w.production.does("web", behaviour{}) })
		w.pass(plugin.PermitPeriod + time.Second)
		if w.production.pushes("web") != 1 {
			t.Error("pushed anew while the plugin may still be at the last effect of the old push (S3)")
		}
		w.inSync(web)
	})
}

// TestAnAdmissionThatWaitedIsLookedAtAgain: the process was paused between
// admission and push, or the owner was busy.
func TestAnAdmissionThatWaitedIsLookedAtAgain(t *testing.T) {
	simulate(t, func(w *world) {
		gate := w.gated()
		open := gate.shut("push")
		w.publish(web)
		w.eventually("a push is admitted", func() bool { return w.audited("admit") == 1 })
		w.must(w.store.SetStop(w.ctx, intent.Stop{Owner: tester, Reason: "a test"}))
		w.pass(time.Minute)
		open()
		w.pass(time.Minute)
		if w.production.pushes("web") != 0 || w.production.word("web") != "" {
			t.Error("a push began a minute after the stop (S18)")
		}
		w.waitsOn("web", intent.WaitStop)
	})
}

func TestWhatLeftIntentWhileNobodyLookedIsGone(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web, db)
		w.inSync(web, db)
		w.restart(func() {
			lease, err := w.store.Acquire(w.ctx, shop, "between")
			w.must(err)
			w.lease = lease
			w.publish(web)
		})
		w.eventually("db is gone from intent", func() bool { return w.report("db").State == intent.StateGone })
		at := w.report("db").At
		w.restart(func() {})
		w.pass(time.Minute)
		if w.report("db").At != at {
			t.Error("it is told again at each start")
		}
	})
}

// countingMembers counts how often the place of an asset is read.
type countingMembers struct {
	Stores
	asked atomic.Int64
}

func (c *countingMembers) Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error) {
	c.asked.Add(1)
	return c.Stores.Member(ctx, id, asset)
}

func TestAPinIsReadOnce(t *testing.T) {
	simulate(t, func(w *world) {
		c := &countingMembers{Stores: w.store}
		w.restart(func() { w.stores = c })
		var things []thing
		for i := range 20 {
			things = append(things, thing{id: intent.AssetID(fmt.Sprintf("web%d", i)), word: "v1"})
		}
		w.publish(things...)
		w.inSync(things...)
		for _, th := range things {
			w.pin(th.id, w.head, time.Time{})
		}
		w.pass(time.Minute)
		before := c.asked.Load()
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "other", Owner: tester, Reason: "a test"}))
		w.pass(100 * time.Millisecond)
		if asked := c.asked.Load() - before; asked > 5 {
			t.Errorf("a hold on one asset made the enforcer read %d members", asked)
		}
	})
}

func TestHeadsThatMoveFasterThanDiffsDelayNoOther(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.access(func() { w.production.slow = 3 * time.Second })
		for i := range 30 {
			w.publish(web, thing{id: "noise", word: fmt.Sprint(i)})
			w.pass(time.Second)
		}
		if w.production.word("web") != "v1" {
			t.Errorf("web was not pushed in half a minute, because another asset keeps changing: %v", w.report("web"))
		}
		w.inSync(web, thing{id: "noise", word: "29"})
		w.pass(5 * time.Second) // no diff is under way at the end
	})
}

var _ Stores = store.All(nil)
