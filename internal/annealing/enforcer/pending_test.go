package enforcer

import (
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// pendingSince makes what a diff finds a change that is under way since then.
func pendingSince(since time.Time) func(*intent.Difference) {
	return func(d *intent.Difference) {
		*d = intent.Difference{Asset: d.Asset, At: d.At, ResourceKey: d.ResourceKey, Outcome: intent.Pending, Reason: "a task runs", PendingSince: since, PendingEnd: "its exit"}
	}
}

// What is pending is told with what, since when and what ends it. It is neither pushed nor
// a failure, and what comes after it waits.
func TestPending(t *testing.T) {
	simulate(t, func(w *world) {
		began := time.Now().Add(-time.Hour)
		w.production.does("db", behaviour{says: pendingSince(began)})
		w.publish(web.with(after("db")), db)
		waiting := w.waitsOn("db", intent.WaitPending)
		if !strings.Contains(waiting.Reason, "a task runs") || !strings.Contains(waiting.Reason, "its exit") || !waiting.Since.Equal(began) {
			t.Errorf("it waits for %+v", waiting)
		}
		behind := w.waitsOn("web", intent.WaitOrder)
		if len(behind.Blockers) != 1 || !strings.Contains(behind.Reason, "pending") {
			t.Errorf("what comes after it waits for %+v", behind)
		}
		w.pass(10 * time.Minute)
		if pushes := w.production.pushes(""); pushes != 0 {
			t.Errorf("%d pushes while a change is pending", pushes)
		}
		w.owned(func(e *Enforcer) {
			if failures := e.assets["db"].failures; failures != 0 {
				t.Errorf("%d failures", failures)
			}
		})
		calls := w.production.asks()
		w.pass(10 * time.Minute)
		if more := w.production.asks() - calls; more > 100 {
			t.Errorf("asked %d times in 10 min", more)
		}
		w.production.does("db", behaviour{})
		w.inSync(db, web)
	})
}

// A change that is pending for the asset takes no place of a budget, and health that was
// told before stands.
func TestPendingKeepsHealth(t *testing.T) {
	simulate(t, func(w *world) {
		healthy := func(d *intent.Difference) { d.Health = intent.Health{State: intent.Healthy} }
		w.production.does("web", behaviour{says: healthy})
		w.publish(web)
		w.inSync(web)
		w.production.does("web", behaviour{says: pendingSince(time.Time{})})
		w.waitsOn("web", intent.WaitPending)
		w.owned(func(e *Enforcer) {
			if e.assets["web"].health != healthGood {
				t.Errorf("its health is %d", e.assets["web"].health)
			}
		})
	})
}

// A sweep takes what a plugin has. Nothing is decided about an old difference: production is
// read for it.
func TestOldAnswers(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.access(func() { w.production.cadence = time.Hour })
		w.publish(web)
		w.inSync(web)
		var sweeps, fresh int
		w.production.does("web", behaviour{reads: func(since time.Time, d *intent.Difference) {
			if !since.IsZero() {
				fresh++
				return
			}
			sweeps++
			d.At = d.At.Add(-30 * time.Minute)
		}})
		w.pass(10 * time.Minute)
		w.production.access(func() {
			if sweeps == 0 || fresh > 0 {
				t.Errorf("at rest it is asked %d times as of then, and %d times as of now", sweeps, fresh)
			}
		})
		w.production.set("web", "somebody's")
		w.inSync(web)
		w.production.access(func() {
			if fresh == 0 {
				t.Error("it was pushed by what was so half an hour before")
			}
		})
	})
}

// An old answer records nothing: a push may have come since it was read (S26).
func TestOldAnswersRecordNothing(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.access(func() { w.production.cadence = time.Hour })
		w.publish(web)
		w.inSync(web)
		var fresh int
		w.production.does("web", behaviour{reads: func(since time.Time, d *intent.Difference) {
			if since.IsZero() {
				d.At = d.At.Add(-30 * time.Minute)
				return
			}
			fresh++
		}})
		w.owned(func(e *Enforcer) {
			a := e.assets["web"]
			a.setEnforced(a.enforced, intent.Digest{1}, false)
		})
		w.pass(10 * time.Minute)
		w.owned(func(e *Enforcer) {
			if a := e.assets["web"]; a.enforcedAs() != a.effective {
				t.Error("that it is in sync is not recorded")
			}
		})
		w.production.access(func() {
			if fresh == 0 {
				t.Error("it was recorded by what was so half an hour before")
			}
		})
	})
}

// A question that is answered pending stays the same until it is answered, so that a slow
// read answers it.
func TestASlowReadAnswersItsQuestion(t *testing.T) {
	simulate(t, func(w *world) {
		const takes = 40 * time.Second
		w.production.access(func() { w.production.cadence = time.Hour })
		var began time.Time
		var reads int
		w.production.does("web", behaviour{reads: func(since time.Time, d *intent.Difference) {
			done := began.Add(takes)
			switch {
			case !began.IsZero() && time.Now().Before(done):
			case !began.IsZero() && !began.Before(since):
				d.At = began
				return
			default:
				began = time.Now()
				reads++
			}
			pendingSince(began)(d)
		}})
		beforePush := 0
		w.production.onEffect(func(intent.AssetID) { beforePush = reads })
		w.publish(web)
		w.inSync(web)
		w.production.access(func() {
			if beforePush != 1 {
				t.Errorf("production was read %d times for one question", beforePush)
			}
		})
	})
}
