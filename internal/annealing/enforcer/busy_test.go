package enforcer

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// asks notes when a target is asked: to be looked at, or pushed to.
type asks struct {
	mutex sync.Mutex
	at    []time.Time
}

func (a *asks) note() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.at = append(a.at, time.Now())
}

// after is the first one after a moment; zero: there is none.
func (a *asks) after(moment time.Time) time.Time {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if i := slices.IndexFunc(a.at, func(at time.Time) bool { return at.After(moment) }); i >= 0 {
		return a.at[i]
	}
	return time.Time{}
}

// TestATargetThatIsBusyIsLetBe: by a look and by a push, no sooner than it asks, not
// much later, and not for longer than the ceiling, whatever its intent becomes.
func TestATargetThatIsBusyIsLetBe(t *testing.T) {
	for _, test := range []struct {
		name        string
		asked       time.Duration
		least, most time.Duration
	}{
		{"as it asks", 40 * time.Second, 40 * time.Second, 45 * time.Second},
		{"at most the ceiling", 10 * time.Hour, 5 * time.Minute, 5*time.Minute + 35*time.Second},
		{"at least the first pause", time.Nanosecond, time.Second, 2 * time.Second},
	} {
		for _, way := range []string{"look", "push"} {
			t.Run(test.name+" by a "+way, func(t *testing.T) {
				simulate(t, func(w *world) {
					var told asks
					var busy time.Time
					var mutex sync.Mutex
					first := func() bool {
						told.note()
						mutex.Lock()
						defer mutex.Unlock()
						if busy.IsZero() {
							busy = time.Now()
							return true
						}
						return false
					}
					does := behaviour{says: func(d *intent.Difference) {
						if way == "look" && first() {
							*d = intent.Difference{Asset: d.Asset, Incarnation: d.Incarnation, At: d.At, Reason: "429", RetryAfter: test.asked}
						} else if way == "push" {
							told.note()
						}
					}}
					if way == "push" {
						does.push = func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
							if first() {
								return plugin.PushResult{Ending: plugin.Failed, Reason: "429", RetryAfter: test.asked}
							}
							apply()
							return plugin.PushResult{Ending: plugin.Pushed}
						}
					}
					w.production.does("web", does)
					w.publish(web)
					waiting := w.waitsOn("web", intent.WaitBackoff)
					if !strings.Contains(waiting.Reason, "too busy") || !strings.Contains(waiting.Reason, "429") || waiting.Until.IsZero() {
						t.Errorf("it waits for %+v", waiting)
					}
					mutex.Lock()
					began := busy
					mutex.Unlock()
					if test.asked > time.Second {
						w.publish(thing{id: "web", word: "v9"})
					}
					w.pass(test.most)
					next := told.after(began)
					if next.IsZero() {
						t.Fatal("it is not asked again")
					}
					if after := next.Sub(began); after < test.least || after > test.most {
						t.Errorf("it is asked again after %s, want from %s to %s", after, test.least, test.most)
					}
					w.eventually("it is in sync", func() bool { return w.report("web").State == intent.StateInSync })
				})
			})
		}
	}
}

// TestATargetIsBusyForWhatCameMeanwhileToo: other content that came while it was looked
// at makes no target less busy.
func TestATargetIsBusyForWhatCameMeanwhileToo(t *testing.T) {
	simulate(t, func(w *world) {
		var told asks
		w.publish(web)
		w.inSync(web)
		var first sync.Once
		w.production.does("web", behaviour{says: func(d *intent.Difference) {
			told.note()
			first.Do(func() {
				*d = intent.Difference{Asset: d.Asset, Incarnation: d.Incarnation, At: d.At, Reason: "429", RetryAfter: time.Minute}
			})
		}})
		w.production.mu.Lock()
		w.production.slow = 2 * time.Second
		w.production.mu.Unlock()
		w.publish(thing{id: "web", word: "v8"})
		w.pass(time.Second) // It is looked at.
		w.publish(thing{id: "web", word: "v9"})
		w.waitsOn("web", intent.WaitBackoff)
		busy := time.Now()
		w.pass(2 * time.Minute)
		if next := told.after(busy); next.Sub(busy) < 50*time.Second {
			t.Errorf("it is looked at again %s after it was busy for a minute", next.Sub(busy))
		}
		w.inSync(thing{id: "web", word: "v9"})
	})
}

// A person who knows better is heard.
func TestARetryOfAPersonEndsBusy(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", behaviour{says: func(d *intent.Difference) {
			*d = intent.Difference{Asset: d.Asset, Incarnation: d.Incarnation, At: d.At, Reason: "429", RetryAfter: time.Hour}
		}})
		w.publish(web)
		w.waitsOn("web", intent.WaitBackoff)
		w.production.does("web", behaviour{})
		began := time.Now()
		w.must(w.store.Retry(w.ctx, shop, "web", "it is mended", tester))
		w.inSync(web)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it was tried after %s", took)
		}
	})
}
