package enforcer

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
)

// year is how far the clock jumps.
const year = 365 * 24 * time.Hour

// shifted is a runtime whose wall clock can be set.
type shifted struct {
	loop.Runtime
	by atomic.Int64
}

func (s *shifted) Now() time.Time { return time.Now().Round(0).Add(time.Duration(s.by.Load())) }

// jumpy starts the enforcer anew on a clock that can be set.
func (w *world) jumpy() *shifted {
	clock := &shifted{Runtime: loop.Real()}
	w.restart(func() { w.runtime = clock })
	return clock
}

// excursion sets the clock a year ahead for some seconds.
func (w *world) excursion(clock *shifted, meanwhile func()) {
	clock.by.Store(int64(year))
	meanwhile()
	w.pass(14 * time.Second)
	clock.by.Store(0)
}

// repaired waits until what was changed in production is changed back.
func (w *world) repaired(within time.Duration, id intent.AssetID, word string) {
	w.t.Helper()
	began := time.Now()
	w.eventually(string(id)+" is repaired", func() bool { return w.production.word(id) == word })
	if took := time.Since(began); took > within {
		w.t.Errorf("%s was repaired after %s, want within %s", id, took, within)
	}
}

func TestClockSetBackDelaysNoSweep(t *testing.T) {
	simulate(t, func(w *world) {
		clock := w.jumpy()
		w.publish(thing{id: "a", word: "1"})
		w.inSync(thing{id: "a", word: "1"})
		w.pass(time.Minute)
		for range 2 {
			w.excursion(clock, func() { w.pass(time.Minute) })
			w.production.set("a", "drifted")
			w.repaired(time.Minute, "a", "1")
		}
	})
}

func TestClockSetBackDelaysNoPlugin(t *testing.T) {
	simulate(t, func(w *world) {
		clock := w.jumpy()
		w.publish(thing{id: "a", word: "1"})
		w.inSync(thing{id: "a", word: "1"})
		w.excursion(clock, func() { w.production.breakDown(fault.New(fault.Unavailable, "it is down")) })
		w.production.breakDown(nil)
		w.production.set("a", "drifted")
		w.repaired(time.Minute, "a", "1")
	})
}

func TestClockSetBackDelaysNoRetry(t *testing.T) {
	simulate(t, func(w *world) {
		clock := w.jumpy()
		w.production.does("a", behaviour{push: func(context.Context, func(), plugin.Push) plugin.PushResult {
			return plugin.PushResult{Ending: plugin.Failed, Reason: "no room", Retryable: true}
		}})
		w.excursion(clock, func() { w.publish(thing{id: "a", word: "1"}) })
		w.production.does("a", behaviour{})
		w.repaired(time.Minute, "a", "1")
	})
}

// TestClockSetBackDelaysNoRepair: one that was changed back again and again
// during the jump is not taken to flap for ever.
func TestClockSetBackDelaysNoRepair(t *testing.T) {
	simulate(t, func(w *world) {
		clock := w.jumpy()
		w.production.does("a", behaviour{says: func(d *intent.Difference) { d.At = clock.Now() }})
		w.publish(thing{id: "a", word: "1"})
		w.inSync(thing{id: "a", word: "1"})
		w.excursion(clock, func() {
			for range 6 {
				w.production.set("a", "drifted")
				w.pass(5 * time.Second)
			}
		})
		w.repaired(time.Minute, "a", "1")
		w.pass(11 * time.Minute)
		w.production.set("a", "drifted")
		w.repaired(time.Minute, "a", "1")
		if flips := w.flips("a"); flips > 1 {
			t.Errorf("it counts %d flips, want those of late", flips)
		}
	})
}

func (w *world) flips(id intent.AssetID) (flips int) {
	w.owned(func(e *Enforcer) {
		if a := e.assets[id]; a.trouble != nil {
			flips = a.flips
		}
	})
	return flips
}

// TestClockSetBackKeepsWhatPeopleChose: a hold until a time goes by the clock.
func TestClockSetBackKeepsWhatPeopleChose(t *testing.T) {
	simulate(t, func(w *world) {
		clock := w.jumpy()
		w.publish(thing{id: "a", word: "1"})
		w.inSync(thing{id: "a", word: "1"})
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "a", Owner: tester, Reason: "work", Created: clock.Now(), Until: clock.Now().Add(2 * year)}))
		w.excursion(clock, func() { w.production.set("a", "by hand") })
		w.pass(time.Hour)
		if word := w.production.word("a"); word != "by hand" {
			t.Errorf("it was pushed to %q in spite of a hold", word)
		}
		clock.by.Store(int64(3 * year))
		w.repaired(time.Minute, "a", "1")
	})
}

// TestFactsOfTheFuture: what was begun before a clock was set back, and ends
// after, is of a time that is still to come.
func TestFactsOfTheFuture(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("a", behaviour{says: func(d *intent.Difference) { d.At = time.Now().Add(year) }})
		w.publish(thing{id: "a", word: "1"})
		w.inSync(thing{id: "a", word: "1"})
		for range 5 {
			w.production.set("a", "drifted")
			w.repaired(2*time.Minute, "a", "1")
			w.pass(time.Minute)
		}
	})
}

// TestClockSetBackHidesNoPause: how old an admission is cannot be told once the
// clock was set back, so the push is looked at again before it begins (S2).
func TestClockSetBackHidesNoPause(t *testing.T) {
	clock := &shifted{Runtime: loop.Real()}
	e := &Enforcer{Options: Options{Runtime: clock}}
	admitted := clock.Now()
	clock.by.Store(-int64(time.Hour))
	order := plugin.Push{Permit: func(context.Context, string) error { return fault.New(fault.Conflict, "the target moved") }}
	if got := carryOut(t.Context(), e.Runtime, nil, order, admitted); got.Ending != plugin.Stopped {
		t.Errorf("it ended %q", got.Ending)
	}
}
