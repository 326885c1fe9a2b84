package enforcer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/sight"
	"lehr.dev/internal/pluginhost/plugin"
)

// hintingProduction is a production that gives the hints that a test makes.
type hintingProduction struct {
	*production
	cadence time.Duration

	hinting sync.Mutex
	take    func(plugin.Hints)
}

func (h *hintingProduction) Describe() (plugin.Description, error) {
	d, err := h.production.Describe()
	for i := range d.Types {
		d.Types[i].Cadence = h.cadence
	}
	return d, err
}

func (h *hintingProduction) WatchHints(ctx context.Context, partition intent.PartitionID, take func(plugin.Hints)) {
	h.hinting.Lock()
	h.take = take
	h.hinting.Unlock()
	<-ctx.Done()
}

// tell has the enforcer told something.
func (h *hintingProduction) tell(hints plugin.Hints) {
	h.hinting.Lock()
	defer h.hinting.Unlock()
	h.take(hints)
}

// withHints starts the enforcer anew with a plugin that gives hints, and declares a cadence.
func (w *world) withHints(cadence time.Duration, more ...func(*Options)) *hintingProduction {
	h := &hintingProduction{production: w.production, cadence: cadence}
	w.restart(func() { w.hinting, w.alter = h, more }) // While nobody reads them.
	w.eventually("the enforcer wants hints", func() bool {
		h.hinting.Lock()
		defer h.hinting.Unlock()
		return h.take != nil
	})
	return h
}

func words(n int, word string) (things []thing) {
	for i := range n {
		things = append(things, thing{id: intent.AssetID(fmt.Sprintf("web/%d", i)), word: word})
	}
	return things
}

// While hints are reliable and the cadence is long, the plugin is asked nothing; a hint
// has one asset looked at, and when hints are lost all are, spread over one sweep.
func TestRestCostsNothing(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(words(50, "v1")...)
		h := w.withHints(6 * time.Hour)
		h.tell(plugin.Hints{Reliable: true})
		w.inSync(words(50, "v1")...)
		w.pass(11 * time.Hour) // Pauses double from one second to the cadence; no longer after that.
		w.eventually("a pause of hours begins", func() bool { return w.quietFor(time.Hour) })

		calls := w.production.asks()
		w.pass(2 * time.Hour)
		asked := w.production.asks() - calls
		if asked > 60 { // The cadences of 50 assets, jittered, may end meanwhile; sweeps would be 240 batches or more.
			t.Errorf("%d diffs in 2 h of rest", asked)
		}

		w.eventually("a pause of minutes begins", func() bool { return w.quietFor(5 * time.Minute) })
		calls = w.production.asks()
		w.production.set("web/7", "changed by hand")
		h.tell(plugin.Hints{Reliable: true, Assets: []intent.AssetID{"web/7"}})
		w.pass(2 * time.Second)
		if word := w.production.word("web/7"); word != "v1" {
			t.Errorf("2 s after the hint it is %q", word)
		}

		w.pass(time.Minute)
		assets := w.production.asked()
		began := time.Now()
		h.tell(plugin.Hints{})
		w.pass(time.Second)
		if first := w.production.asked() - assets; first > 10 {
			t.Errorf("%d of 50 assets are looked at in the second after hints were lost: a herd", first)
		}
		w.eventually("all are looked at", func() bool { return w.production.asked()-assets >= 50 })
		if took := time.Since(began); took > w.limits.Sweep+5*time.Second {
			t.Errorf("it took %s until all were looked at", took)
		}
		assets = w.production.asked()
		w.pass(10 * w.limits.Sweep)
		if looks := w.production.asked() - assets; looks < 8*50 {
			t.Errorf("without hints there are %d looks in 10 sweeps of 50 assets", looks)
		}
	})
}

// quietFor reports whether no asset is due for so long.
func (w *world) quietFor(d time.Duration) (isQuiet bool) {
	w.owned(func(e *Enforcer) {
		next := e.queue.Next(e.now())
		isQuiet = next > d
	})
	return isQuiet
}

// Without a cadence hints make nothing rarer.
func TestHintsAloneLengthenNothing(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(words(3, "v1")...)
		w.withHints(0).tell(plugin.Hints{Reliable: true})
		w.inSync(words(3, "v1")...)
		w.pass(5 * time.Minute)
		w.production.set("web/1", "changed by hand") // No hint: it is lost.
		w.pass(w.limits.Sweep*3/2 + time.Second)
		if word := w.production.word("web/1"); word != "v1" {
			t.Errorf("after a sweep it is %q", word)
		}
	})
}

// A hint that is lost delays a repair by the cadence at most.
func TestLostHint(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(words(3, "v1")...)
		w.withHints(10 * time.Minute).tell(plugin.Hints{Reliable: true})
		w.inSync(words(3, "v1")...)
		w.pass(time.Hour)
		w.production.set("web/1", "changed by hand")
		w.pass(12*time.Minute + 10*time.Second)
		if word := w.production.word("web/1"); word != "v1" {
			t.Errorf("after a cadence it is %q", word)
		}
	})
}

// False hints cost one look an asset a second, and those about what the plugin does not
// serve nothing.
func TestFalseAndForeignHints(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(words(3, "v1")...)
		h := w.withHints(time.Hour)
		h.tell(plugin.Hints{Reliable: true})
		w.inSync(words(3, "v1")...)
		w.pass(3 * time.Hour)
		w.eventually("a pause begins", func() bool { return w.quietFor(time.Minute) })
		assets := w.production.asked()
		for range 100 {
			h.tell(plugin.Hints{Reliable: true, Assets: []intent.AssetID{"web/1", "web/1", "no/such", intent.PolicyAsset}})
			w.pass(100 * time.Millisecond)
		}
		w.pass(2 * time.Second)
		if looks := w.production.asked() - assets; looks < 8 || looks > 13 {
			t.Errorf("%d looks for 10 s of false hints, want one a second", looks)
		}
		if state := w.report("web/1").State; state != intent.StateInSync || w.production.pushes("") != 3 {
			t.Errorf("it is %s, after %d pushes in all", state, w.production.pushes(""))
		}
	})
}

// Hints end no quarantine and no pause after failures, and lengthen none.
func TestHintsResetNothing(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web/0", behaviour{breaks: true})
		w.production.does("web/1", behaviour{unknown: "nobody knows"})
		w.publish(words(3, "v1")...)
		h := w.withHints(time.Hour)
		h.tell(plugin.Hints{Reliable: true})
		w.waitsOn("web/0", intent.WaitQuarantined)
		w.waitsOn("web/1", intent.WaitUnknown)
		w.pass(time.Second)
		var apart time.Time
		var failures int
		read := func(e *Enforcer) { apart, failures = e.assets["web/0"].apart, e.assets["web/1"].failures }
		w.owned(read)
		before, failed := apart, failures
		for range 5 {
			h.tell(plugin.Hints{Reliable: true, Assets: []intent.AssetID{"web/0", "web/1"}})
			w.pass(1100 * time.Millisecond)
		}
		w.owned(read)
		if apart != before {
			t.Errorf("kept apart until %s, was %s", apart, before)
		}
		if failures < failed || failures > failed+3 { // Its own pauses may end meanwhile.
			t.Errorf("%d failures, were %d before 5 hints", failures, failed)
		}
		w.production.does("web/1", behaviour{})
		h.tell(plugin.Hints{Reliable: true, Assets: []intent.AssetID{"web/1"}})
		w.pass(3 * time.Second)
		if state := w.report("web/1").State; state != intent.StateInSync {
			t.Errorf("after a true hint it is %s", state)
		}
	})
}

// What a rollout begins to watch is looked at within a sweep, and often from then on.
func TestWatchedInSpiteOfACadence(t *testing.T) {
	simulate(t, func(w *world) {
		board := &sight.Board{Gap: time.Minute}
		w.publish(words(3, "v1")...)
		h := w.withHints(6*time.Hour, func(o *Options) { o.Sight = board })
		h.tell(plugin.Hints{Reliable: true})
		w.inSync(words(3, "v1")...)
		w.pass(12 * time.Hour)
		w.eventually("a pause begins", func() bool { return w.quietFor(time.Minute) })
		board.Watch([]intent.AssetID{"web/2"})
		assets := w.production.asked()
		w.pass(w.limits.Sweep + 10*time.Second)
		if looks := w.production.asked() - assets; looks < 3 {
			t.Errorf("%d looks in a sweep at what is watched", looks)
		}
	})
}

// Health that a budget counts is looked at each sweep, whatever the cadence is.
func TestCountedHealthInSpiteOfACadence(t *testing.T) {
	simulate(t, func(w *world) {
		_, things := w.ward(3, 1, 1)
		w.publish(things("v1")...)
		w.withHints(6 * time.Hour).tell(plugin.Hints{Reliable: true})
		w.inSync(things("v1")...)
		w.pass(time.Hour)
		assets := w.production.asked()
		w.pass(10 * w.limits.Sweep)
		if looks := w.production.asked() - assets; looks < 3*8 {
			t.Errorf("%d looks in 10 sweeps at 3 assets", looks)
		}
	})
}

// A clock that was set back makes no hint wait: not for as long as it was ahead.
func TestHintAfterTheClockWasSetBack(t *testing.T) {
	simulate(t, func(w *world) {
		clock := &shifted{Runtime: loop.Real()}
		w.publish(words(3, "v1")...)
		h := w.withHints(6*time.Hour, func(o *Options) { o.Runtime = clock })
		h.tell(plugin.Hints{Reliable: true})
		w.inSync(words(3, "v1")...)
		w.excursion(clock, func() { h.tell(plugin.Hints{Reliable: true, Assets: []intent.AssetID{"web/1"}}) })
		w.pass(11 * time.Hour)
		w.eventually("a pause begins", func() bool { return w.quietFor(5 * time.Minute) })
		w.production.set("web/1", "changed by hand")
		h.tell(plugin.Hints{Reliable: true, Assets: []intent.AssetID{"web/1"}})
		w.repaired(5*time.Second, "web/1", "v1")
	})
}

// A hint waits behind what failed, and goes before what is swept.
func TestPriorityOfHints(t *testing.T) {
	if loop.Hint <= loop.Retry || loop.Hint >= loop.Sweep {
		t.Errorf("hints have the priority %d, retries %d, sweeps %d", loop.Hint, loop.Retry, loop.Sweep)
	}
}

// A plugin that is down tells no cadence, and its hints are taken all the same.
func TestHintsOfAPluginThatIsDown(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(words(1, "v1")...)
		h := w.withHints(time.Hour)
		w.inSync(words(1, "v1")...)
		w.production.breakDown(fault.New(fault.Unavailable, "down"))
		h.tell(plugin.Hints{Reliable: true, Assets: []intent.AssetID{"web/0"}})
		w.waitsOn("web/0", intent.WaitPlugin)
		w.production.breakDown(nil)
		w.inSync(words(1, "v1")...)
	})
}
