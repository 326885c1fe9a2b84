package enforcer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/test/detector"
)

// TestANeighbourMovesBetweenDecisionAndAdmission: lb comes to expect more
// after job was let shrink, and before the store admits either.
func TestANeighbourMovesBetweenDecisionAndAdmission(t *testing.T) {
	for _, quick := range []bool{false, true} {
		t.Run(fmt.Sprintf("quick=%t", quick), func(t *testing.T) {
			simulate(t, func(w *world) {
				w.serving([2]intent.AssetID{"job", "lb"})
				w.publish(job("job", 4, "1", serves("lb")), job("lb", 1, "1"))
				w.inSync(job("job", 4, "1"), job("lb", 1, "1"))
				gate := w.gated()
				w.pass(time.Minute)
				for _, id := range []intent.AssetID{"job", "lb"} {
					w.production.does(id, behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
						if !quick {
							time.Sleep(5 * time.Second)
						}
						apply()
						return plugin.PushResult{Ending: plugin.Pushed}
					}})
				}
				open := gate.shut("admit")
				// No order of the two is safe: one of them must wait for ever.
				w.publish(job("job", 2, "1", serves("lb")), job("lb", 3, "1"))
				w.pass(time.Second)
				open()
				w.pass(10 * time.Minute)
				waits := 0
				for _, id := range []intent.AssetID{"job", "lb"} {
					if w.report(id).State == intent.StateWaiting {
						waits++
					}
				}
				if waits != 1 {
					t.Errorf("%d of the two wait, want 1: job %s, lb %s", waits, w.production.word("job"), w.production.word("lb"))
				}
			})
		})
	}
}

func TestACrashInTheMiddleOfHalving(t *testing.T) {
	simulate(t, func(w *world) {
		w.serving([2]intent.AssetID{"job", "lb"})
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 4, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 4, "1"))
		w.production.does("lb", behaviour{push: func(ctx context.Context, _ func(), _ plugin.Push) plugin.PushResult {
			<-ctx.Done()
			return plugin.PushResult{Ending: plugin.InDoubt}
		}})
		w.publish(job("job", 2, "1", serves("lb")), job("lb", 2, "1"))
		w.eventually("lb is being pushed", func() bool { return w.production.pushes("lb") == 2 })
		w.restart(func() { w.production.does("lb", behaviour{}) })
		w.pass(time.Second)
		if w.production.word("job") != "4 1" {
			t.Error("job shrank while the push of lb was in doubt")
		}
		w.inSync(job("lb", 2, "1"), job("job", 2, "1"))
	})
}

func TestACrashInTheMiddleOfAVersionChange(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("web", 1, "1", needs("schema", "1")), job("schema", 1, "1"))
		w.inSync(job("web", 1, "1"), job("schema", 1, "1"))
		// The push of web takes effect, fails, and is forgotten by a crash.
		w.production.does("web", behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
			apply()
			return plugin.PushResult{Ending: plugin.Failed, Reason: "half done"}
		}, says: func(d *intent.Difference) {
			if d.Outcome == intent.InSync {
				d.Outcome, d.Reason = intent.Unknown, "cannot tell"
			}
		}})
		w.publish(job("web", 1, "2", needs("schema", "2")), job("schema", 1, "2"))
		w.eventually("web was tried", func() bool { return w.production.word("web") == "1 2" })
		w.pass(time.Minute)
		w.restart(func() {})
		w.publish(job("web", 1, "2", needs("schema", "2")), job("schema", 1, "1"))
		waiting := w.waitsOn("schema", intent.WaitVersion)
		if !strings.Contains(waiting.Reason, "web still needs at least 2") {
			t.Errorf("reason %q", waiting.Reason)
		}
	})
}

func TestACycleAcrossPinsIsTold(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("a", 1, "1", comesAfter("b")), job("b", 1, "1"))
		w.inSync(job("a", 1, "1"), job("b", 1, "1"))
		w.pin("a", w.head, time.Time{})
		w.publish(job("a", 1, "1"), job("b", 1, "2", comesAfter("a")))
		w.inSync(job("b", 1, "2"))
		w.restart(func() {
			w.production.set("a", "1 0")
			w.production.set("b", "1 0")
		})
		first, second := w.waitsOn("a", intent.WaitOrder), w.waitsOn("b", intent.WaitOrder)
		if first.Blockers[0] != "b" || second.Blockers[0] != "a" {
			t.Errorf("a waits for %v, b for %v", first.Blockers, second.Blockers)
		}
	})
}

func TestAHubStaysCheap(t *testing.T) {
	detector.SkipSequential(t)
	spokes := 1000
	simulate(t, func(w *world) {
		partition := func(replicas uint32) []thing {
			things := []thing{job("hub", replicas, "1")}
			for i := range spokes {
				things = append(things, job(intent.AssetID(fmt.Sprintf("spoke/%d", i)), replicas, "1", serves("hub")))
			}
			return things
		}
		w.publish(partition(1)...)
		w.eventually("created", func() bool { return w.report("hub").State == intent.StateInSync })
		if pushed := w.production.order(); pushed[len(pushed)-1] != "hub" {
			t.Errorf("the hub was pushed before %s", pushed[len(pushed)-1])
		}
		w.pass(time.Minute)
		reads := 0
		w.restart(func() { w.stores = counting{w.store, &reads} })
		w.publish(partition(2)...)
		asked := w.production.asked()
		w.eventually("doubled", func() bool { return w.report("hub").State == intent.StateInSync && w.production.word("hub") == "2 1" })
		if looks := w.production.asked() - asked; looks > 5*spokes {
			t.Errorf("%d looks at %d assets", looks, spokes+1)
		}
		if reads > 10*spokes {
			t.Errorf("%d contents read for %d assets", reads, spokes+1)
		}
		before := len(w.enforcer.waiters)
		if before != 0 {
			t.Errorf("%d assets are still waited for", before)
		}
	})
}

// counting counts the contents read.
type counting struct {
	*sqlite.Store
	reads *int
}

func (c counting) Content(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, []byte, error) {
	countingLock.Lock()
	*c.reads++
	countingLock.Unlock()
	return c.Store.Content(ctx, id, asset)
}

func (c counting) Contents(ctx context.Context, id intent.IncarnationID, assets []intent.AssetID) (map[intent.AssetID][]byte, error) {
	countingLock.Lock()
	*c.reads += len(assets)
	countingLock.Unlock()
	return c.Store.Contents(ctx, id, assets)
}

var countingLock sync.Mutex

// TestAnAdmissionThatWaitedWhileANeighbourMovedIsTakenBack: the neighbour's
// push begins before the group of the admission goes to the store, and may be
// over when the store looks.
func TestAnAdmissionThatWaitedWhileANeighbourMovedIsTakenBack(t *testing.T) {
	simulate(t, func(w *world) {
		w.publish(job("job", 4, "1", serves("lb")), job("lb", 1, "1"))
		w.inSync(job("job", 4, "1"), job("lb", 1, "1"))
		w.owned(func(e *Enforcer) {
			job, lb := e.assets["job"], e.assets["lb"]
			e.trouble(job).admitting = true
			e.trouble(lb).push = &push{id: "under way"}
			e.pushLimits.queues[""] = &budgetQueue{used: 1, limit: 10}
			if !e.isSuperseded(admission{asset: job, keys: []string{""}, Admission: store.Admission{Asset: "job", Quiet: []intent.AssetID{"lb"}}}) {
				t.Error("an admission rests on a neighbour that is being pushed")
			}
			if job.admitting || e.pushLimits.queues[""].used != 0 {
				t.Error("what was taken back keeps its place")
			}
			lb.push = nil
			if e.isSuperseded(admission{asset: job, keys: []string{""}, Admission: store.Admission{Asset: "job", Quiet: []intent.AssetID{"lb"}}}) {
				t.Error("an admission is taken back for a neighbour that stands still")
			}
			job.admitting = false
		})
		w.pass(100 * time.Millisecond)
	})
}
