package enforcer

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// gates are checks of which none passes: a calendar that opens never, an alert of which
// nobody answers, a minimum age, a condition, a rate limit that is used up, and another
// partition that is not there.
func gates() []*intentpb.Check {
	return []*intentpb.Check{
		{Name: "office", Kind: &intentpb.Check_Calendar{Calendar: &intentpb.Calendar{
			Zone: "UTC", Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: "09:00-09:01"}}},
		}}},
		{Name: "pages", Kind: &intentpb.Check_Alerts{Alerts: &intentpb.Alerts{Alertmanager: "main", Matchers: []string{`severity="page"`}}}},
		{Name: "soak", Kind: &intentpb.Check_MinAge{MinAge: &intentpb.MinimumAge{Age: durationpb.New(100 * time.Hour)}}},
		{Name: "few", Kind: &intentpb.Check_Condition{Condition: &intentpb.Condition{Must: "false"}}},
		rated(2, 10*time.Hour, intentpb.Rate_BY_ASSET, ""),
		{Name: "platform", Kind: &intentpb.Check_Partition{Partition: &intentpb.OtherPartition{Id: "platform"}}},
	}
}

// bad publishes a bad version of web, which is enforced, and then asks of it what does
// not pass.
func (w *world) bad(checks ...*intentpb.Check) (good intent.IncarnationID) {
	for _, check := range checks {
		if check.GetRate() != nil { // That it is used up.
			w.policy.Checks = append(w.policy.Checks, check)
		}
	}
	w.publish(web, db)
	w.inSync(web, db)
	good = w.head
	w.publish(webV2, db)
	w.inSync(webV2, db)
	w.policy.Checks = checks
	w.publish(webV2, db)
	w.inSync(webV2, db)
	return good
}

// TestARollbackIsNotHeldByWhatItIsToEnd: a pin to what was before waits for no calendar,
// alert, metric, age, condition, rate limit or other partition.
func TestARollbackIsNotHeldByWhatItIsToEnd(t *testing.T) {
	for name, rank := range map[string]intent.Rank{"a rollback's": intent.RankRollback, "a person's": intent.RankPerson} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				good := w.bad(gates()...)
				w.limits.Sweep = time.Hour
				w.production.does("web", behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
					time.Sleep(10 * time.Second)
					apply()
					return plugin.PushResult{Ending: plugin.Pushed}
				}})
				_, err := w.store.SetPin(w.ctx, intent.Pin{Asset: "web", Incarnation: good, Rank: rank, Holder: tester, Reason: "it pages"})
				w.must(err)
				w.eventually("its push", func() bool { return w.report("web").State == intent.StatePushing })
				if passed := w.report("web").PassedOver; len(passed) != len(gates()) {
					t.Errorf("it tells that it passes over %q", passed)
				}
				w.inSync(web)
				pushes, err := w.store.Pushes(w.ctx, shop, "web", 1)
				w.must(err)
				if !slices.ContainsFunc(pushes[0].Grounds, func(g intent.Ground) bool {
					return g.Check == "office" && strings.HasPrefix(g.Fact, "passed over")
				}) {
					t.Errorf("its grounds do not tell what it passed over: %+v", pushes[0].Grounds)
				}
				// What goes on again is held as ever.
				w.must(w.store.Unpin(w.ctx, shop, "web", rank, "mended", tester))
				w.pass(time.Minute)
				if w.production.word("web") != web.word || len(w.report("web").PassedOver) > 0 {
					t.Errorf("the bad version came again: %+v", w.report("web"))
				}
			})
		})
	}
}

// TestWhatHoldsARollback: brakes do, what policy says so of, a denied version, and
// destructive plans.
func TestWhatHoldsARollback(t *testing.T) {
	holding := gates()[:1]
	holding[0].Rollbacks = true
	denied := []*intentpb.Check{{Name: "bad", Kind: &intentpb.Check_Deny{Deny: &intentpb.Denylist{
		Version: "payload.input", Entries: []*intentpb.Denied{{What: &intentpb.Denied_Version{Version: web.word}, Reason: "it loses writes"}},
	}}}}
	for name, test := range map[string]struct {
		checks []*intentpb.Check
		brake  func(*world)
		kind   intent.WaitingKind
	}{
		"a check that says so": {holding, func(*world) {}, intent.WaitCalendar},
		"a denied version":     {denied, func(*world) {}, intent.WaitDenied},
		"a hold": {gates(), func(w *world) {
			w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "hands off"}))
		}, intent.WaitHold},
		"a stop": {gates(), func(w *world) {
			w.must(w.store.SetStop(w.ctx, intent.Stop{Owner: tester, Reason: "fire"}))
		}, intent.WaitStop},
		"what it destroys": {gates(), func(w *world) { w.production.does("web", behaviour{destructive: true}) }, intent.WaitApproval},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				good := w.bad(test.checks...)
				test.brake(w)
				w.pin("web", good, time.Time{})
				w.waitsOn("web", test.kind)
				w.pass(time.Minute)
				w.unpushed("web", "something holds its rollback")
			})
		})
	}
}

// TestWhatIsNoRollback: a pin to content that is newer than what the asset follows, or
// that it never had, waits as any change does; so does a push that repairs.
func TestWhatIsNoRollback(t *testing.T) {
	simulate(t, func(w *world) {
		good := w.bad(gates()[0])
		bad := w.head
		w.pin("web", good, time.Time{})
		w.inSync(web)
		w.pin("web", bad, time.Time{})
		w.waitsOn("web", intent.WaitCalendar)
		w.pass(time.Minute)
		if w.production.word("web") != web.word {
			t.Error("a pin that goes forward passed over a calendar")
		}
	})
	simulate(t, func(w *world) {
		w.publish(web, db)
		w.inSync(web, db)
		w.policy.Checks = gates()[:1]
		w.publish(webV2, db)
		never := w.head
		w.waitsOn("web", intent.WaitCalendar)
		w.publish(web, db)
		w.inSync(web)
		w.pin("web", never, time.Time{})
		w.waitsOn("web", intent.WaitCalendar)
		w.pass(time.Minute)
		w.unpushed("web", "it never had that")
	})
}

// TestAnUndoneEditIsARollback: what a document's undo gives an asset back does not wait
// either; the next edit does.
func TestAnUndoneEditIsARollback(t *testing.T) {
	simulate(t, func(w *world) {
		w.bad(gates()[0])
		w.undone = true
		w.publish(web, db)
		w.inSync(web)
		w.undone = false
		w.publish(webV2, db)
		w.waitsOn("web", intent.WaitCalendar)
		w.pass(time.Minute)
		if w.production.word("web") != web.word {
			t.Error("an edit passed over a calendar")
		}
	})
}
