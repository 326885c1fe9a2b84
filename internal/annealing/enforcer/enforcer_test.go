package enforcer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

var (
	web   = thing{id: "web", word: "v1"}
	db    = thing{id: "db", word: "v1"}
	webV2 = thing{id: "web", word: "v2"}
	dbV2  = thing{id: "db", word: "v2"}
)

func (th thing) with(addons ...proto.Message) thing {
	th.addons = addons
	return th
}

func TestFromNothingToInSyncAndThenQuiet(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web, db)
		w.inSync(web, db)
		if got := w.production.pushes(""); got != 2 {
			t.Errorf("%d pushes, want 2", got)
		}
		w.pass(time.Minute)
		before, err := w.store.AuditRecords(w.ctx, shop, 0, 1000)
		w.must(err)
		reported := w.report("web").At
		w.pass(10 * time.Minute)
		after, err := w.store.AuditRecords(w.ctx, shop, 0, 1000)
		w.must(err)
		if len(after) != len(before) || w.report("web").At != reported || w.production.pushes("") != 2 {
			t.Error("a fixed point is not quiet (L10)")
		}
		count, err := w.store.EnforcedCount(w.ctx, shop)
		w.must(err)
		if count != 2 {
			t.Errorf("%d enforced records, want 2", count)
		}
	})
}

func TestOnlyWhatChangedIsPushed(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web, db)
		w.inSync(web, db)
		w.publish(webV2, db)
		w.inSync(webV2, db)
		if w.production.pushes("web") != 2 || w.production.pushes("db") != 1 {
			t.Errorf("pushes: web %d, db %d", w.production.pushes("web"), w.production.pushes("db"))
		}
	})
}

func TestDriftIsRepairedAndAFightIsNamed(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web)
		w.inSync(web)
		for range 3 {
			w.production.set("web", "by hand")
			w.eventually("repaired", func() bool { return w.production.word("web") == "v1" })
			w.inSync(web)
		}
		w.production.set("web", "by hand")
		waiting := w.waitsOn("web", intent.WaitFlapping)
		if !strings.Contains(waiting.Reason, "word") {
			t.Errorf("the reason does not name the field: %s", waiting.Reason)
		}
		w.inSync(web)
	})
}

// TestAFightNamesItsWriter: where the provider records who wrote what is there.
func TestAFightNamesItsWriter(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", behaviour{says: func(d *intent.Difference) {
			for i := range d.Plan.Changes {
				d.Plan.Changes[i].Writer = "kubectl of ann"
			}
		}})
		w.publish(web)
		w.inSync(web)
		for range 3 {
			w.production.set("web", "by hand")
			w.eventually("repaired", func() bool { return w.production.word("web") == "v1" })
			w.inSync(web)
		}
		w.production.set("web", "by hand")
		if waiting := w.waitsOn("web", intent.WaitFlapping); !strings.Contains(waiting.Reason, "kubectl of ann changed it back 4 times") {
			t.Errorf("reason %q", waiting.Reason)
		}
		w.restart(func() {}) // What was counted is forgotten: three repairs in a row, and it is slow again.
		before := w.production.pushes("web")
		for range 600 {
			w.production.set("web", "by hand")
			w.pass(time.Second)
		}
		if tries := w.production.pushes("web") - before; tries > 15 {
			t.Errorf("%d repairs within ten minutes of a fight that goes on after a restart (L10)", tries)
		}
	})
}

func TestAbsenceDeletesNothing(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web, db)
		w.inSync(web, db)
		pushes := w.production.pushes("")
		w.publish(web)
		w.eventually("db is gone from intent", func() bool { return w.report("db").State == intent.StateGone })
		w.pass(10 * time.Minute)
		if w.production.word("db") != "v1" || w.production.pushes("") != pushes {
			t.Error("production changed because intent names it no more (S5)")
		}
		w.publish()
		w.pass(10 * time.Minute)
		if w.production.word("web") != "v1" || w.production.pushes("") != pushes {
			t.Error("an empty intent changed production (S5)")
		}
	})
}

func TestOrder(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("db", behaviour{unknown: "database unreachable"})
		w.publish(web.with(after("db")), db)
		waiting := w.waitsOn("web", intent.WaitOrder)
		if len(waiting.Blockers) != 1 || waiting.Blockers[0] != "db" {
			t.Errorf("blockers %v", waiting.Blockers)
		}
		w.waitsOn("db", intent.WaitUnknown)
		w.pass(10 * time.Minute)
		if w.production.pushes("web") != 0 {
			t.Error("web was pushed before db")
		}
		w.production.does("db", behaviour{})
		w.inSync(db, web)
		if got := fmt.Sprint(w.production.order()); got != "[db web]" {
			t.Errorf("pushed %s", got)
		}
	})
}

func TestABlockerThatNobodyLooksAtIsTold(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web.with(after("db")), db.with(&intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF}))
		w.eventually("web names the mode of db", func() bool {
			report := w.report("web")
			return len(report.Waiting) > 0 && strings.Contains(report.Waiting[0].Reason, "its mode is off")
		})
	})
}

func TestACommitDoesNotDisarmItsOwnGuard(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web.with(after("db")), db)
		w.inSync(web, db)
		w.production.does("db", behaviour{unknown: "database unreachable"})
		w.pass(time.Minute)
		w.publish(webV2, dbV2)
		waiting := w.waitsOn("web", intent.WaitOrder)
		if !strings.Contains(waiting.Reason, "lehr approve web") {
			t.Errorf("the way out is not named: %s", waiting.Reason)
		}
		report := w.report("web")
		w.must(w.store.Approve(w.ctx, intent.Approval{Partition: shop, Asset: "web", Effective: report.Effective, Plan: report.PlanDigest, By: tester}))
		w.inSync(webV2)
	})
}

func TestDestructiveWaitsForItsApproval(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("db", behaviour{destructive: true})
		w.production.set("db", "precious")
		w.publish(db)
		w.waitsOn("db", intent.WaitApproval)
		w.must(w.store.Approve(w.ctx, intent.Approval{Partition: shop, Asset: "db", Effective: w.report("db").Effective, Plan: intent.Sum("another plan"), By: tester}))
		w.pass(time.Minute)
		if w.production.pushes("db") != 0 {
			t.Fatal("pushed with an approval of another plan (S9)")
		}
		report := w.report("db")
		w.must(w.store.Approve(w.ctx, intent.Approval{Partition: shop, Asset: "db", Effective: report.Effective, Plan: report.PlanDigest, By: tester}))
		w.inSync(db)
		w.production.set("db", "precious")
		w.waitsOn("db", intent.WaitApproval)
		w.pass(10 * time.Minute)
		if w.production.pushes("db") != 1 {
			t.Error("an approval was used twice (S9)")
		}
	})
}

func TestHoldsAndPins(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web)
		w.inSync(web)
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "looking", Until: time.Now().Add(time.Hour)}))
		w.publish(webV2)
		w.waitsOn("web", intent.WaitHold)
		w.pass(50 * time.Minute)
		if w.production.word("web") != "v1" {
			t.Fatal("pushed under a hold")
		}
		w.pass(11 * time.Minute)
		w.inSync(webV2)
		_, err := w.store.SetPin(w.ctx, intent.Pin{
			Asset: "web", Incarnation: intent.IncarnationID{Partition: shop, Sequence: 1}, Rank: intent.RankPerson, Holder: tester, Reason: "v2 is slow",
		})
		w.must(err)
		w.inSync(web)
		if pinned := w.report("web").Pinned; !strings.Contains(pinned, "v2 is slow") {
			t.Errorf("the report does not tell of the pin: %q", pinned)
		}
		w.must(w.store.Unpin(w.ctx, shop, "web", intent.RankPerson, "a try", tester))
		w.inSync(webV2)
	})
}

func TestStopStopsAndResumeCatchesUp(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web)
		w.inSync(web)
		w.must(w.store.SetStop(w.ctx, intent.Stop{Owner: tester, Reason: "fire", Since: time.Now()}))
		w.publish(webV2)
		w.production.set("db", "x")
		w.waitsOn("web", intent.WaitStop)
		w.pass(time.Hour)
		if w.production.pushes("") != 1 {
			t.Error("pushed under a stop (S18)")
		}
		w.must(w.store.Resume(w.ctx, "", "out", tester))
		w.inSync(webV2)
	})
}

func TestStopReachesAPushUnderWay(t *testing.T) {
	simulate(t, func(w *world) {
		refused := make(chan time.Duration, 1)
		w.production.does("web", behaviour{push: func(ctx context.Context, apply func(), push plugin.Push) plugin.PushResult {
			for range 100 {
				time.Sleep(time.Second)
				if err := push.Permit(ctx, push.Base); err != nil {
					refused <- 0
					return plugin.PushResult{Ending: plugin.Stopped, Reason: err.Error()}
				}
			}
			apply()
			return plugin.PushResult{Ending: plugin.Pushed}
		}})
		w.publish(web)
		w.eventually("a push is under way", func() bool { return w.report("web").State == intent.StatePushing })
		w.pass(10 * time.Second)
		w.must(w.store.SetStop(w.ctx, intent.Stop{Owner: tester, Reason: "fire", Since: time.Now()}))
		w.pass(plugin.PermitPeriod)
		if len(refused) != 1 {
			t.Error("a push went on after the stop (S18)")
		}
		w.waitsOn("web", intent.WaitStop)
	})
}

func TestObserveShowsAndDoesNotPush(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Mode = intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE
		w.publish(web)
		w.waitsOn("web", intent.WaitMode)
		if report := w.report("web"); len(report.Plan.Changes) != 1 {
			t.Errorf("the difference is not shown: %+v", report.Plan)
		}
		w.pass(time.Hour)
		if w.production.pushes("") != 0 {
			t.Error("pushed in observe mode")
		}
		w.policy = proto.CloneOf(w.policy)
		w.policy.Mode = intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE
		w.publish(web.with(&intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE}), db)
		w.inSync(db)
		w.waitsOn("web", intent.WaitMode)
		w.publish(web.with(&intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OFF}), db)
		w.eventually("off", func() bool { return w.report("web").State == intent.StateOff })
		w.publish(web, db)
		w.inSync(web)
	})
}

func TestAFailingPushBacksOffUntilANewerIncarnation(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", behaviour{push: func(_ context.Context, apply func(), push plugin.Push) plugin.PushResult {
			if push.Incarnation.Sequence == 1 {
				return plugin.PushResult{Ending: plugin.Failed, Reason: "no space", Retryable: true}
			}
			apply()
			return plugin.PushResult{Ending: plugin.Pushed}
		}})
		w.publish(web)
		if waiting := w.waitsOn("web", intent.WaitBackoff); !strings.Contains(waiting.Reason, "no space") {
			t.Errorf("reason %q", waiting.Reason)
		}
		w.pass(time.Hour)
		if tries := w.production.pushes("web"); tries < 8 || tries > 40 {
			t.Errorf("%d tries in an hour", tries)
		}
		w.publish(webV2)
		began := time.Now()
		w.inSync(webV2)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("a newer incarnation took %s to unblock it (L3)", took)
		}
	})
}

func TestATargetThatKnowsAHigherEpochStopsOnlyItsAsset(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", behaviour{push: func(_ context.Context, _ func(), push plugin.Push) plugin.PushResult {
			return plugin.PushResult{Ending: plugin.Failed, Reason: "a lower token", KnownToken: push.Token + 50}
		}})
		w.publish(web, db)
		w.inSync(db)
		if waiting := w.waitsOn("web", intent.WaitStop); !strings.Contains(waiting.Reason, "lehr store adopt --beyond") {
			t.Errorf("reason %q", waiting.Reason)
		}
		w.pass(time.Hour)
		if tries := w.production.pushes("web"); tries != 1 {
			t.Errorf("%d pushes to a target that refuses them all", tries)
		}
		w.waitsOn("web", intent.WaitStop)
	})
}

func TestSuccessThatDidNotHappenIsNotBelieved(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", behaviour{push: func(context.Context, func(), plugin.Push) plugin.PushResult {
			return plugin.PushResult{Ending: plugin.Pushed}
		}})
		w.publish(web)
		w.waitsOn("web", intent.WaitBackoff)
		w.pass(time.Hour)
		if tries := w.production.pushes("web"); tries > 40 {
			t.Errorf("%d pushes in an hour", tries)
		}
	})
}

func TestOneBrokenAssetDelaysNoOther(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("poison", behaviour{breaks: true})
		things := []thing{{id: "poison", word: "x"}}
		for i := range 50 {
			things = append(things, thing{id: intent.AssetID(fmt.Sprintf("web/%d", i)), word: "v1"})
		}
		w.publish(things...)
		began := time.Now()
		w.inSync(things[1:]...)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the others took %s (L2)", took)
		}
		w.waitsOn("poison", intent.WaitPlugin)
		w.production.does("poison", behaviour{})
		w.inSync(things[0])
	})
}

// TestAPluginThatStartsDoesNotFail: while it starts, that is the reason, and it is asked
// seldom; what comes of it afterwards counts from then on.
func TestAPluginThatStartsDoesNotFail(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.breakDown(fault.New(fault.Unavailable, "plugin fake %w", plugin.ErrStarting))
		w.publish(web)
		w.waitsOn("web", intent.WaitPlugin)
		w.pass(time.Minute)
		waiting := w.waitsOn("web", intent.WaitPlugin)
		if !strings.Contains(waiting.Reason, "plugin fake is starting; asked again at") || strings.Contains(waiting.Reason, "fails") {
			t.Errorf("reason %q", waiting.Reason)
		}
		if asks := w.production.asks(); asks > 60 {
			t.Errorf("it was asked %d times in a minute", asks)
		}
		w.production.breakDown(fault.New(fault.Unavailable, "no program named fake"))
		w.eventually("it fails from its start on", func() bool {
			return strings.Contains(w.waitsOn("web", intent.WaitPlugin).Reason, "fails (1 in a row")
		})
		w.production.breakDown(nil)
		w.inSync(web)
	})
}

func TestAPluginThatIsDownIsTheReason(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.breakDown(fault.New(fault.Unavailable, "no program named fake"))
		w.publish(web)
		if waiting := w.waitsOn("web", intent.WaitPlugin); !strings.Contains(waiting.Reason, "no program named fake") {
			t.Errorf("reason %q", waiting.Reason)
		}
		w.production.breakDown(nil)
		w.inSync(web)
	})
}

func TestAnEnforcedTypeWithoutItsPluginIsTold(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web)
		w.inSync(web)
		w.policy = proto.CloneOf(w.policy)
		w.policy.Plugins = nil
		w.publish(web, db)
		w.waitsOn("web", intent.WaitPluginMissing)
		w.eventually("nobody looks at db", func() bool { return w.report("db").State == intent.StateUnserved })
		w.policy = proto.CloneOf(w.policy)
		w.policy.Models = []string{"lehr.command.v1.Command"}
		w.publish(web, db)
		w.eventually("db is a model", func() bool { return w.report("db").State == intent.StateModel })
		w.waitsOn("web", intent.WaitPluginMissing) // It was enforced: that it is a model now does not settle it.
	})
}

// TestAPushInDoubtTellsWhenItSettles: where only time tells that it is over.
func TestAPushInDoubtTellsWhenItSettles(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", behaviour{push: func(context.Context, func(), plugin.Push) plugin.PushResult {
			w.production.does("web", behaviour{})
			return plugin.PushResult{Ending: plugin.InDoubt, Reason: "reply lost"}
		}})
		w.publish(web)
		w.waitsOn("web", intent.WaitSettling)
		until := w.report("web").Waiting[0].Until
		if left := time.Until(until); left < plugin.PermitPeriod || left > plugin.PermitPeriod+plugin.LockDelayMargin+time.Minute {
			t.Fatalf("it settles in %s", left)
		}
		w.pass(time.Until(until) - time.Second)
		if state := w.report("web").State; state != intent.StateWaiting {
			t.Errorf("a second before it is %s", state)
		}
		w.pass(3 * time.Second)
		w.inSync(web)
	})
}

func TestAPushInDoubtIsNotRepeatedBeforeItIsOver(t *testing.T) {
	simulate(t, func(w *world) {
		gone := make(chan struct{})
		w.production.does("web", behaviour{push: func(_ context.Context, _ func(), push plugin.Push) plugin.PushResult {
			return plugin.PushResult{Ending: plugin.InDoubt, Reason: "reply lost", Gone: gone}
		}})
		w.publish(web)
		w.waitsOn("web", intent.WaitSettling)
		w.pass(time.Hour)
		if w.production.pushes("web") != 1 {
			t.Fatal("a second push while the first may still be running (S3)")
		}
		w.production.does("web", behaviour{})
		close(gone)
		w.inSync(web)
		open, err := w.store.OpenPushes(w.ctx, shop)
		w.must(err)
		if len(open) != 0 {
			t.Errorf("open pushes remain: %v (L6)", open)
		}
	})
}

func TestARestartSettlesWhatWasLeftOpen(t *testing.T) {
	for _, test := range []struct {
		name  string
		alone bool
		least time.Duration
	}{{"when its plugin is gone", true, time.Second}, {"when the lock delay has passed", false, plugin.PermitPeriod + time.Second}} {
		t.Run(test.name, func(t *testing.T) {
			simulate(t, func(w *world) {
				w.production.does("web", behaviour{push: func(ctx context.Context, _ func(), _ plugin.Push) plugin.PushResult {
					<-ctx.Done()
					return plugin.PushResult{Ending: plugin.InDoubt}
				}})
				w.publish(web)
				w.eventually("a push is under way", func() bool { return w.production.pushes("web") == 1 })
				w.stop()
				w.production.does("web", behaviour{})
				alone := make(chan struct{})
				if test.alone {
					w.production.alone = alone
					close(alone)
				}
				began := time.Now()
				w.start()
				w.inSync(web)
				if took := time.Since(began); took < test.least || took > test.least+3*time.Second {
					t.Errorf("settled after %s, want %s or a little more", took, test.least)
				}
			})
		})
	}
}

func TestALostLeaseEndsTheLoop(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(web)
		w.inSync(web)
		old := w.enforcer
		ended := make(chan error, 1)
		stale := w.lease
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		w.stop()
		go func() { ended <- old.Run(ctx, stale) }()
		w.start()
		w.publish(webV2)
		w.inSync(webV2)
		synctest.Wait()
		select {
		case err := <-ended:
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("ended with %v, want a conflict", err)
			}
		default:
			t.Error("a stale holder goes on (S4)")
		}
	})
}

func TestBudgetPerScope(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Budgets = []*intentpb.Budget{{Scope: "cluster", InFlight: 2}}
		var things []thing
		for i := range 10 {
			id := intent.AssetID(fmt.Sprintf("web/%d", i))
			things = append(things, thing{id: id, word: "v1"}.with(&intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "a"}}))
			w.production.does(id, behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
				time.Sleep(30 * time.Second)
				apply()
				return plugin.PushResult{Ending: plugin.Pushed}
			}})
		}
		w.publish(things...)
		w.waitsOn("web/9", intent.WaitBudget)
		w.inSync(things...)
		if most := w.production.mostAtOnce(); most != 2 {
			t.Errorf("%d pushes at once, want 2 (S8)", most)
		}
	})
}

func TestAResourceBelongsToOneAsset(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", behaviour{key: "shared"})
		w.production.does("db", behaviour{key: "shared"})
		w.publish(web)
		w.inSync(web)
		w.publish(web, db)
		if waiting := w.waitsOn("db", intent.WaitClaim); !strings.Contains(waiting.Reason, "web") {
			t.Errorf("the holder is not named: %q", waiting.Reason)
		}
		w.pass(10 * time.Minute)
		if w.production.pushes("db") != 0 {
			t.Error("two assets push one resource")
		}
	})
}
