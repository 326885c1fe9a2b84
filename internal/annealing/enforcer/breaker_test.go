package enforcer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/test/detector"
)

// twoPlugins has jobs served by another plugin than commands.
func (w *world) twoPlugins() {
	w.policy = proto.CloneOf(w.policy)
	w.policy.Plugins[1].Run = []string{"other"}
}

// TestAHungPluginDelaysNoOther: of the assets a tenth is behind a plugin that
// never answers. It is asked seldom, and what others serve is looked at and
// pushed as if it were not there (L2).
func TestAHungPluginDelaysNoOther(t *testing.T) {
	simulate(t, func(w *world) {
		w.twoPlugins()
		things := many("web", 90)
		for i := range 10 {
			things = append(things, job(intent.AssetID(fmt.Sprintf("job/%d", i)), 1, "1"))
		}
		w.settled(things...)
		w.pass(2 * time.Minute)
		looks := func() int {
			before := w.production.asked()
			w.pass(10 * time.Minute)
			return w.production.asked() - before
		}
		healthy := looks()
		const timeout = 30 * time.Second
		w.other.mu.Lock()
		w.other.slow, w.other.down = timeout, fault.New(fault.Unavailable, "plugin other hung")
		w.other.calls = 0
		w.other.mu.Unlock()
		hung := looks()
		if hung < healthy*95/100 {
			t.Errorf("%d looks in ten minutes beside a hung plugin, %d beside a healthy one (L2)", hung, healthy)
		}
		if calls := w.other.asks(); calls > 20 {
			t.Errorf("the hung plugin was asked %d times in ten minutes", calls)
		}
		things[0].word = "v2"
		w.publish(things...)
		began := time.Now()
		w.inSync(things[0])
		if took := time.Since(began); took > time.Second {
			t.Errorf("a change of what another plugin serves took %s (L2)", took)
		}
		if reason := w.waitsOn("job/3", intent.WaitPlugin).Reason; !strings.Contains(reason, "plugin other fails") || !strings.Contains(reason, "plugin other hung") {
			t.Errorf("reason %q", reason)
		}
		w.other.mu.Lock()
		w.other.slow, w.other.down = 0, nil
		w.other.mu.Unlock()
		w.eventually("the jobs are looked at again", func() bool { return w.report("job/3").State == intent.StateInSync })
		w.pass(timeout)
	})
}

// TestAnOpenBreakerLetsOneLookThrough: of many batches one at a time is tried.
func TestAnOpenBreakerLetsOneLookThrough(t *testing.T) {
	detector.SkipSequential(t)
	simulate(t, func(w *world) {
		things := many("web", 3*plugin.MaxBatch)
		w.settled(things...)
		w.production.breakDown(fault.New(fault.Unavailable, "no program named fake"))
		w.pass(time.Minute)
		w.production.mu.Lock()
		w.production.calls, w.production.crowd, w.production.slow = 0, 0, time.Second
		w.production.mu.Unlock()
		w.pass(10 * time.Minute)
		w.production.mu.Lock()
		calls, crowd := w.production.calls, w.production.crowd
		w.production.slow = 0
		w.production.mu.Unlock()
		if crowd > 1 || calls > 25 {
			t.Errorf("a plugin that is down was asked %d times in ten minutes, %d at once", calls, crowd)
		}
		w.production.breakDown(nil)
		began := time.Now()
		w.eventually("all are in sync", func() bool {
			return w.report("web/0").State == intent.StateInSync && w.report(things[len(things)-1].id).State == intent.StateInSync
		})
		if took := time.Since(began); took > w.limits.Sweep+5*time.Second {
			t.Errorf("it took %s to see that the plugin is back", took)
		}
	})
}

// TestAPluginThatFailsAtAllIsAskedSeldom: one that is up and answers
// nothing opens its breaker, too.
func TestAPluginThatFailsAtAllIsAskedSeldom(t *testing.T) {
	simulate(t, func(w *world) {
		things := many("web", 100)
		for _, th := range things {
			w.production.does(th.id, behaviour{breaks: true})
		}
		w.publish(things...)
		w.pass(time.Minute)
		before := w.production.asks()
		w.pass(10 * time.Minute)
		if calls := w.production.asks() - before; calls > 60 {
			t.Errorf("it was asked %d times in ten minutes", calls)
		}
		for _, th := range things {
			w.production.does(th.id, behaviour{})
		}
		w.inSync(things...)
	})
}

// TestAPluginThatDiesOfAPushIsSpared: pushes that end with their plugin slow
// down, and say so, and those of others go on.
func TestAPluginThatDiesOfAPushIsSpared(t *testing.T) {
	simulate(t, func(w *world) {
		gone := make(chan struct{})
		close(gone)
		w.production.does("web", behaviour{push: func(context.Context, func(), plugin.Push) plugin.PushResult {
			return plugin.PushResult{Ending: plugin.InDoubt, Reason: "plugin fake exited: signal 11", Gone: gone}
		}})
		w.publish(web, db)
		w.inSync(db)
		waiting := w.waitsOn("web", intent.WaitQuarantined)
		if !strings.Contains(waiting.Reason, "3 pushes in a row ended with their plugin") || !strings.Contains(waiting.Reason, "signal 11") {
			t.Errorf("reason %q", waiting.Reason)
		}
		before := w.production.pushes("web")
		w.pass(time.Hour)
		if tries := w.production.pushes("web") - before; tries < 5 || tries > 15 {
			t.Errorf("%d more pushes within an hour", tries)
		}
		w.production.does("web", behaviour{})
		w.publish(webV2, db)
		began := time.Now()
		w.inSync(webV2)
		if took := time.Since(began); took > time.Second {
			t.Errorf("new content was held back for %s (L3)", took)
		}
	})
}

// TestWhatBreaksItsPluginIsKeptApart: it is found, told, asked about seldom,
// whatever else changes, and released by new content or another plugin.
func TestWhatBreaksItsPluginIsKeptApart(t *testing.T) {
	simulate(t, func(w *world) {
		things := many("web", 50)
		w.production.does("web/7", behaviour{breaks: true})
		w.publish(things...)
		if waiting := w.waitsOn("web/7", intent.WaitQuarantined); !strings.Contains(waiting.Reason, "the plugin crashed") {
			t.Errorf("reason %q", waiting.Reason)
		}
		crashes := 0
		w.production.does("web/7", behaviour{says: func(*intent.Difference) { crashes++ }})
		for i := range 10 {
			things[0].word = fmt.Sprintf("v%d", i+2)
			w.publish(things...)
			w.inSync(things[0])
		}
		if crashes > 0 {
			t.Errorf("it was looked at %d times while it was kept apart", crashes)
		}
		w.production.does("web/7", behaviour{})
		things[7].word = "v2"
		w.publish(things...)
		began := time.Now()
		w.inSync(things[7])
		if took := time.Since(began); took > time.Second {
			t.Errorf("new content was kept apart for %s (L3)", took)
		}
	})
}

// TestWhatIsKeptApartIsToldOfWhatItFollows: under a pin that is not head's content.
func TestWhatIsKeptApartIsToldOfWhatItFollows(t *testing.T) {
	simulate(t, func(w *world) {
		web := many("web", 1)[0]
		w.publish(web)
		w.inSync(web)
		pinned := w.report("web/0").Target
		w.pin("web/0", pinned, time.Time{})
		w.production.does("web/0", behaviour{breaks: true})
		web.word = "v2"
		w.publish(web)
		w.waitsOn("web/0", intent.WaitQuarantined)
		if report := w.report("web/0"); report.Target != pinned {
			t.Errorf("it is told of as of %s, and is pinned to %s", report.Target, pinned)
		}
	})
}

// panicking is a store that panics where the content of one asset is read.
type panicking struct{ Stores }

func (p panicking) Content(ctx context.Context, at intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error) {
	if asset == "web" {
		panic("a bug")
	}
	return p.Stores.Content(ctx, at, asset)
}

func (p panicking) Contents(ctx context.Context, at intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID][]byte, error) {
	if slices.Contains(assets, "web") {
		panic("a bug")
	}
	return p.Stores.Contents(ctx, at, assets)
}

// TestAPanicIsItsAssetsOwn: where the pass over one asset panics, that one is
// kept apart, and the others go on (L2, S12).
func TestAPanicIsItsAssetsOwn(t *testing.T) {
	panics := map[string]func(w *world){
		"in the plugin": func(w *world) {
			w.production.does("web", behaviour{says: func(*intent.Difference) { panic("a bug") }})
		},
		"in a check": func(w *world) {
			w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "looking"}))
			w.publish(web, db)
			w.waitsOn("web", intent.WaitHold)
			w.owned(func(e *Enforcer) {
				a := e.assets["web"]
				a.requirements.checks = []check.Required{{}}
				e.soon(a, loop.Fresh)
			})
		},
		"in reading it": func(w *world) {
			w.restart(func() { w.stores = panicking{w.store} })
		},
	}
	for name, begin := range panics {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				begin(w)
				w.publish(web, db)
				w.inSync(db)
				if waiting := w.waitsOn("web", intent.WaitQuarantined); !strings.Contains(waiting.Reason, "panicked") {
					t.Errorf("reason %q", waiting.Reason)
				}
				w.publish(web, dbV2)
				w.inSync(dbV2)
			})
		})
	}
}
