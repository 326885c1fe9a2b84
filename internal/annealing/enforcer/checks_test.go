package enforcer

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

func aged(least time.Duration, where string) *intentpb.Check {
	return &intentpb.Check{Name: "soak", Where: where, Kind: &intentpb.Check_MinAge{MinAge: &intentpb.MinimumAge{Age: durationpb.New(least)}}}
}

// TestAnIncarnationBecomesOldEnough: the asset is looked at when it is, not at
// the next sweep.
func TestAnIncarnationBecomesOldEnough(t *testing.T) {
	simulate(t, func(w *world) {
		w.restart(func() { w.limits.Sweep = time.Hour })
		w.policy.Checks = []*intentpb.Check{aged(30*time.Minute+time.Second, `id == "web"`)}
		published := time.Now()
		w.publish(web, db)
		w.inSync(db)
		waiting := w.waitsOn("web", intent.WaitAge)
		old := published.Add(30*time.Minute + time.Second)
		if !waiting.Until.Equal(old) {
			t.Errorf("it waits until %s, want %s", waiting.Until, old)
		}
		w.pass(time.Until(old) - 1)
		if w.production.pushes("web") > 0 {
			t.Fatal("it was pushed before")
		}
		w.pass(100 * time.Millisecond)
		if w.production.pushes("web") != 1 {
			t.Fatal("it was not looked at in time")
		}
	})
}

func TestADeniedVersionIsNotPushed(t *testing.T) {
	simulate(t, func(w *world) {
		version := &intentpb.Version{Expression: "payload.input"}
		w.publish(web.with(version), db)
		w.inSync(web, db)
		w.policy.Checks = []*intentpb.Check{{Name: "bad", Kind: &intentpb.Check_Deny{Deny: &intentpb.Denylist{
			Entries: []*intentpb.Denied{{What: &intentpb.Denied_Version{Version: webV2.word}, Reason: "it loses writes"}},
		}}}}
		w.policy.Overrides = &intentpb.OverridePolicy{Allow: []string{"denylist"}}
		w.publish(webV2.with(version), dbV2)
		w.waitsOn("web", intent.WaitDenied)
		w.told("web", "it loses writes")
		w.inSync(dbV2)
		w.unpushed("web", "its version was denied")
		// The policy that it was enforced under last does not allow overriding.
		w.override("web", "bad", time.Hour)
		w.told("web", "does not count")
		w.publish(web.with(version), dbV2)
		w.inSync(web)
		w.publish(webV2.with(version), dbV2)
		w.waitsOn("web", intent.WaitDenied)
		w.override("web", "bad", time.Hour)
		w.inSync(webV2)
	})
}

// TestContentOfADeniedCommitIsNotPushed, also from a later incarnation.
func TestContentOfADeniedCommitIsNotPushed(t *testing.T) {
	simulate(t, func(w *world) {
		w.sources = []intent.SourceRevision{{Source: "service", Revision: "aaaaaaaaaa"}}
		w.publish(web, db)
		w.inSync(web, db)
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "reading"}))
		w.sources[0].Revision = "bbbbbbbbbb"
		w.publish(webV2, db)
		w.waitsOn("web", intent.WaitHold)
		w.sources[0].Revision = "cccccccccc"
		w.policy.Checks = []*intentpb.Check{{Name: "bad", Kind: &intentpb.Check_Deny{Deny: &intentpb.Denylist{
			Entries: []*intentpb.Denied{{What: &intentpb.Denied_Commit{Commit: "bbbbbbb"}, Reason: "half of it"}},
		}}}}
		w.publish(webV2, dbV2)
		w.must(w.store.Unhold(w.ctx, shop, "web", "done", tester))
		w.inSync(dbV2)
		w.waitsOn("web", intent.WaitDenied)
		w.told("web", "came with shop@2 from commit bbbbbbbbbb of source service")
		w.publish(web, dbV2)
		w.inSync(web)
	})
}

// TestACommitDoesNotDropItsOwnChecks: what is last enforced is asked too, until
// the asset is in sync at its target, or people approve the plan (S23).
func TestACommitDoesNotDropItsOwnChecks(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Checks = []*intentpb.Check{aged(5*time.Minute, "")}
		w.publish(web, db)
		w.inSync(web, db)
		// The commit makes the check milder, and takes web out of it.
		w.policy.Checks = []*intentpb.Check{aged(time.Minute, `id == "db"`)}
		published := time.Now()
		w.publish(webV2, dbV2)
		w.waitsOn("web", intent.WaitAge)
		w.told("web", "dropped from the policy")
		w.told("db", "must be 5m0s old")
		w.as("bob", "db")
		w.inSync(dbV2)
		if since := time.Since(published); since < time.Minute || since > 2*time.Minute {
			t.Errorf("the milder check, which is in force, was let go after %s", since)
		}
		w.pass(time.Until(published.Add(5*time.Minute)) - time.Second)
		if w.production.word("web") == webV2.word {
			t.Fatal("the commit disarmed its own check")
		}
		w.inSync(webV2)
		// Now that it is enforced without, it is asked no more.
		published = time.Now()
		w.publish(web, dbV2)
		w.inSync(web)
		if since := time.Since(published); since > time.Minute {
			t.Errorf("it went on being asked for %s", since)
		}
		// A pin to older intent avoids nothing that head asks for.
		w.policy.Checks = []*intentpb.Check{{Name: "moon", Kind: &intentpb.Check_Deny{Deny: &intentpb.Denylist{
			Version: `"1"`, Entries: []*intentpb.Denied{{What: &intentpb.Denied_Version{Version: "*"}, Reason: "no moon"}},
		}}}}
		w.publish(web, dbV2)
		w.inSync(web)
		w.pin("web", intent.IncarnationID{Partition: shop, Sequence: 2}, time.Time{})
		w.waitsOn("web", intent.WaitDenied)
		w.unpushed("web", "head denies it")
	})
}

// TestAConditionIsOfWhatWouldBePushed: of the plan, and of what is known now.
func TestAConditionIsOfWhatWouldBePushed(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Checks = []*intentpb.Check{
			{Name: "calm", Kind: &intentpb.Check_Condition{Condition: &intentpb.Condition{
				Must: `diff.changes.all(c, c.current != "v1") && facts.health != "unhealthy"`, Message: "v1 stays",
			}}},
			{Name: "late", Where: `id == "db"`, Kind: &intentpb.Check_Condition{Condition: &intentpb.Condition{Must: `facts.age > duration("2m")`}}},
		}
		w.publish(web)
		w.inSync(web)
		published := time.Now()
		w.publish(webV2, db)
		w.waitsOn("web", intent.WaitCondition)
		w.told("web", "check calm: v1 stays")
		w.unpushed("web", "it is v1")
		// What depends on the time comes about by itself.
		w.inSync(db)
		if since := time.Since(published); since < 2*time.Minute || since > 3*time.Minute {
			t.Errorf("it was in sync after %s", since)
		}
		w.production.set("web", "v0")
		w.production.does("web", behaviour{says: func(d *intent.Difference) { d.Health.State = intent.Unhealthy }})
		w.unpushed("web", "it is unhealthy")
		w.production.does("web", behaviour{})
		w.inSync(webV2)
		// What cannot be evaluated is broken, and says so.
		w.policy.Checks[0].GetCondition().Must = `payload.env["X"] == "y"`
		w.publish(web, db)
		w.waitsOn("web", intent.WaitCheckBroken)
		w.unpushed("web", "its check is broken")
	})
}

// TestPushesBeginWhileTheCalendarIsOpen: at the moment that it opens, not at
// the next sweep, and not before; none begin from its end on.
func TestPushesBeginWhileTheCalendarIsOpen(t *testing.T) {
	simulate(t, func(w *world) {
		w.restart(func() { w.limits.Sweep = time.Hour })
		w.policy.Checks = []*intentpb.Check{{Name: "office", Where: `id == "web"`, Kind: &intentpb.Check_Calendar{Calendar: &intentpb.Calendar{
			Zone: "UTC", Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: "09:00-17:00"}}},
		}}}}
		today := time.Now().UTC().Truncate(24 * time.Hour)
		opens, closes := today.Add(33*time.Hour), today.Add(41*time.Hour)
		w.pass(time.Until(today.Add(20 * time.Hour)))
		w.publish(web, db)
		w.inSync(db)
		if waiting := w.waitsOn("web", intent.WaitCalendar); !waiting.Until.Equal(opens) {
			t.Errorf("it waits until %s, want %s", waiting.Until, opens)
		}
		w.told("web", "check office: outside its windows; opens at ")
		w.pass(time.Until(opens) - 1)
		if w.production.pushes("web") > 0 {
			t.Fatal("it was pushed before it opened")
		}
		w.pass(100 * time.Millisecond)
		if w.production.pushes("web") != 1 {
			t.Fatal("it was not pushed when it opened")
		}
		w.pass(time.Until(closes))
		w.publish(webV2, db)
		w.waitsOn("web", intent.WaitCalendar)
		w.unpushed("web", "it is closed")
	})
}

// TestAWindowThatClosesBeforeTheAdmission: the store asks again.
func TestAWindowThatClosesBeforeTheAdmission(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Checks = []*intentpb.Check{{Name: "office", Kind: &intentpb.Check_Calendar{Calendar: &intentpb.Calendar{
			Zone: "UTC", Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: "09:00-17:00"}}},
		}}}}
		closes := time.Now().UTC().Truncate(24 * time.Hour).Add(41 * time.Hour)
		w.pass(time.Until(closes.Add(-time.Minute)))
		g := w.gated()
		open := g.shut("admit")
		w.publish(web)
		w.pass(30 * time.Second) // It is open, and decided.
		w.pass(time.Until(closes))
		open()
		w.waitsOn("web", intent.WaitCalendar)
		if w.production.pushes("web") > 0 {
			t.Fatal("it was pushed after it closed")
		}
	})
}
