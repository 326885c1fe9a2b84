package enforcer

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

func ends(result plugin.PushResult) behaviour {
	return behaviour{push: func(context.Context, func(), plugin.Push) plugin.PushResult { return result }}
}

// TestPushesWithoutEffectAreTold: apart from pushes that fail, with the fields,
// in the slowest pace; new content and another version of the plugin end it.
func TestPushesWithoutEffectAreTold(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", ends(plugin.PushResult{Ending: plugin.Pushed}))
		w.publish(web)
		if reason := w.waitsOn("web", intent.WaitNoEffect).Reason; !strings.Contains(reason, "pushed 3 times without effect") || !strings.Contains(reason, "(fields: word)") {
			t.Errorf("reason %q", reason)
		}
		before := w.production.pushes("web")
		w.pass(time.Hour)
		if tries := w.production.pushes("web") - before; tries < 9 || tries > 16 {
			t.Errorf("%d pushes in an hour, want one in about five minutes", tries)
		}
		for name, renew := range map[string]func(){
			"new content": func() { w.publish(webV2) },
			"another version of the plugin": func() {
				w.production.mu.Lock()
				w.production.version = "2"
				w.production.mu.Unlock()
				w.pass(w.limits.Sweep * 2)
			},
		} {
			before := w.production.pushes("web")
			renew()
			w.pass(2 * time.Second)
			if w.production.pushes("web") == before {
				t.Errorf("%s did not end the wait", name)
			}
			w.waitsOn("web", intent.WaitNoEffect)
		}
		w.production.does("web", behaviour{})
		w.publish(web)
		w.inSync(web)
	})
}

// TestAPushOfOlderContentTeachesNothing: however it ends, newer content that came
// meanwhile goes at once, and is told no failure that is not its own (L3).
func TestAPushOfOlderContentTeachesNothing(t *testing.T) {
	for name, result := range map[string]plugin.PushResult{
		"failed for good": {Ending: plugin.Failed, Reason: "v1 is bad"},
		"no effect":       {Ending: plugin.Pushed},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				end := make(chan struct{})
				w.production.does("web", behaviour{push: func(context.Context, func(), plugin.Push) plugin.PushResult {
					<-end
					return result
				}})
				w.publish(web)
				w.eventually("it is pushed", func() bool { return w.report("web").State == intent.StatePushing })
				w.publish(webV2)
				w.pass(time.Second)
				w.production.does("web", behaviour{})
				close(end)
				w.pass(200 * time.Millisecond)
				if got := w.production.word("web"); got != "v2" {
					t.Errorf("web is %q, reported %+v", got, w.report("web").Waiting)
				}
			})
		})
	}
}

// TestAPushThatHasSomeEffectIsNotWithout: each brings it nearer.
func TestAPushThatHasSomeEffectIsNotWithout(t *testing.T) {
	simulate(t, func(w *world) {
		steps := []string{"1", "2", "3", "4", "5", "v1"}
		w.production.does("web", behaviour{push: func(context.Context, func(), plugin.Push) plugin.PushResult {
			w.production.set("web", steps[0])
			steps = steps[1:]
			return plugin.PushResult{Ending: plugin.Pushed}
		}})
		w.publish(web)
		w.eventually("it is in sync, and never was without effect", func() bool {
			report := w.report("web")
			if len(report.Waiting) > 0 && report.Waiting[0].Kind == intent.WaitNoEffect {
				t.Fatalf("reason %q", report.Waiting[0].Reason)
			}
			return report.State == intent.StateInSync
		})
	})
}

// TestARetrySaysWhy: how often, what the plugin says, and whether it takes
// trying again to be of use.
func TestARetrySaysWhy(t *testing.T) {
	for _, test := range []struct {
		name        string
		retryable   bool
		says        []string
		least, most time.Duration
	}{
		{"for now", true, []string{"push 1 failed, its plugin says: no room", "doubles from 1s to 5m0s", "tried again at "}, 800 * time.Millisecond, 1200 * time.Millisecond},
		{"for good", false, []string{"push 1 failed, and its plugin does not expect that trying again helps: no room", "doubles from 10s to 5m0s", "tried again at "}, 8 * time.Second, 12 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			simulate(t, func(w *world) {
				w.production.does("web", ends(plugin.PushResult{Ending: plugin.Failed, Reason: "no room", Retryable: test.retryable}))
				w.publish(web)
				waiting := w.waitsOn("web", intent.WaitBackoff)
				for _, says := range test.says {
					if !strings.Contains(waiting.Reason, says) {
						t.Errorf("%q does not say %q", waiting.Reason, says)
					}
				}
				if pause := time.Until(waiting.Until); pause < test.least-200*time.Millisecond || pause > test.most {
					t.Errorf("it waits for %s, want about %s", pause, test.most)
				}
				w.production.does("web", behaviour{})
				w.inSync(web)
			})
		})
	}
}

// TestAFailureIsToldFromItsBeginning: how long pushes fail, are without effect, or are
// changed back is not the time since the last of them.
func TestAFailureIsToldFromItsBeginning(t *testing.T) {
	for kind, breaks := range map[intent.WaitingKind]func(*world){
		intent.WaitBackoff: func(w *world) {
			w.production.does("web", ends(plugin.PushResult{Ending: plugin.Failed, Reason: "no room"}))
			w.publish(webV2)
		},
		intent.WaitNoEffect: func(w *world) {
			w.production.does("web", ends(plugin.PushResult{Ending: plugin.Pushed}))
			w.publish(webV2)
		},
		intent.WaitFlapping: func(w *world) {
			w.publish(webV2)
			w.inSync(webV2)
			for range 600 {
				w.production.set("web", "by hand")
				w.pass(time.Second)
			}
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			simulate(t, func(w *world) {
				w.publish(web)
				w.inSync(web)
				began := time.Now()
				breaks(w)
				w.pass(time.Minute)
				waiting := w.waitsOn("web", kind)
				if since := waiting.Since.Sub(began); since < 0 || since > 5*time.Second {
					t.Errorf("it is told that it began %s after it did", since)
				}
				w.production.does("web", behaviour{})
				w.must(w.store.Retry(w.ctx, shop, "web", "mended", tester))
				w.inSync(webV2)
				w.production.does("web", ends(plugin.PushResult{Ending: plugin.Failed, Reason: "no room"}))
				w.publish(web)
				again := time.Now()
				if since := w.waitsOn("web", intent.WaitBackoff).Since.Sub(again); since < 0 || since > 5*time.Second {
					t.Errorf("another failure began %s after it did", since)
				}
			})
		})
	}
}

// TestARetryOfAPersonEndsThePause: of pushes that fail and of what is kept
// apart, and of nothing that guards.
func TestARetryOfAPersonEndsThePause(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", ends(plugin.PushResult{Ending: plugin.Failed, Reason: "no room"}))
		w.production.does("db", behaviour{breaks: true})
		w.publish(web, db, thing{id: "held", word: "v1"})
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "held", Owner: tester, Reason: "looking"}))
		w.pass(20 * time.Minute)
		w.waitsOn("web", intent.WaitBackoff)
		w.waitsOn("db", intent.WaitQuarantined)
		pushes := w.production.pushes("held")
		w.production.does("web", behaviour{})
		w.production.does("db", behaviour{})
		w.production.set("held", "by hand")
		began := time.Now()
		for _, id := range []intent.AssetID{"web", "db", "held", "nothing"} {
			w.must(w.store.Retry(w.ctx, shop, id, "mended", tester))
		}
		w.inSync(web, db)
		if took := time.Since(began); took > time.Second {
			t.Errorf("they were tried after %s", took)
		}
		w.waitsOn("held", intent.WaitHold)
		if w.production.pushes("held") != pushes {
			t.Error("a retry passed over a hold")
		}
	})
}

// TestSinceWhenItWaits is told of each reason by itself: not when another one ends, head
// moves or the process is another one, but when its content is another.
func TestSinceWhenItWaits(t *testing.T) {
	simulate(t, func(w *world) {
		w.policy.Checks = []*intentpb.Check{
			{Name: "soak", Kind: &intentpb.Check_MinAge{MinAge: &intentpb.MinimumAge{Age: durationpb.New(10 * time.Minute)}}},
			{Name: "bad", Kind: &intentpb.Check_Deny{Deny: &intentpb.Denylist{
				Entries: []*intentpb.Denied{{What: &intentpb.Denied_Version{Version: "v*"}, Reason: "it is bad"}}, Version: "payload.input",
			}}},
		}
		w.publish(thing{id: "web", word: "v1"})
		w.told("web", "it is bad")
		began := time.Now()
		since := func(what string) {
			t.Helper()
			report := w.report("web")
			for _, waiting := range report.Waiting {
				if waiting.Kind != intent.WaitDenied {
					continue
				}
				at := waiting.Since
				if at.IsZero() {
					at = report.At
				}
				if d := at.Sub(began).Abs(); d > 5*time.Second {
					t.Errorf("%s: it waits since %s, %s off", what, at, d)
				}
			}
		}
		since("at first")
		w.pass(20 * time.Minute)
		if w.report("web").At.Before(began.Add(5 * time.Minute)) {
			t.Fatal("the age is over, and its report was not rewritten")
		}
		since("after another reason ended")
		w.publish(thing{id: "web", word: "v1"}, thing{id: "other", word: "x"})
		w.pass(time.Minute)
		since("after head moved")
		w.restart(func() {})
		w.pass(20 * time.Minute)
		since("after a restart")
		w.restart(func() { w.production.does("web", behaviour{unknown: "it is starting"}) })
		w.pass(time.Minute)
		w.waitsOn("web", intent.WaitUnknown)
		w.production.does("web", behaviour{})
		w.pass(20 * time.Minute)
		w.told("web", "it is bad")
		since("after nobody could look")
		w.publish(thing{id: "web", word: "v2"}, thing{id: "other", word: "x"})
		w.pass(time.Minute)
		began = time.Now().Add(-time.Minute)
		since("of other content")
	})
}

// TestAPushUnderWayHasItsOwnNote: while a push is under way, its report does not tell how
// the one before it ended.
func TestAPushUnderWayHasItsOwnNote(t *testing.T) {
	simulate(t, func(w *world) {
		pushes, goOn := 0, make(chan struct{})
		w.production.does("web", behaviour{push: func(ctx context.Context, _ func(), push plugin.Push) plugin.PushResult {
			if pushes++; pushes == 1 {
				return plugin.PushResult{Ending: plugin.Failed, Reason: "no space", Retryable: true}
			}
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			return plugin.PushResult{Ending: plugin.Failed, Reason: "no time", Retryable: true}
		}})
		w.publish(web)
		w.eventually("the first push is told to have failed", func() bool { return strings.Contains(w.report("web").PushNote, "no space") })
		w.eventually("the second is under way", func() bool { return w.report("web").State == intent.StatePushing })
		if note := w.report("web").PushNote; note != "" {
			t.Errorf("the report of the second push tells of the first: %s", note)
		}
		close(goOn)
		w.production.does("web", behaviour{})
		w.inSync(web)
	})
}

// TestAWriterFasterThanLooksIsNamed: who changes it back before anybody looks is told, and not
// that the plugin does nothing, where the provider records it.
func TestAWriterFasterThanLooksIsNamed(t *testing.T) {
	simulate(t, func(w *world) {
		fought := ends(plugin.PushResult{Ending: plugin.Pushed}) // What it writes is gone at once.
		fought.says = func(d *intent.Difference) {
			for i := range d.Plan.Changes {
				d.Plan.Changes[i].Writer = "kubectl of ann"
			}
		}
		w.production.does("web", fought)
		w.publish(web)
		if reason := w.waitsOn("web", intent.WaitFlapping).Reason; !strings.Contains(reason, "kubectl of ann changed it back at once after each of 3 pushes (fields: word)") {
			t.Errorf("reason %q", reason)
		}
		before := w.production.pushes("web")
		w.pass(time.Hour)
		if tries := w.production.pushes("web") - before; tries < 9 || tries > 16 {
			t.Errorf("%d pushes in an hour, want one in about five minutes", tries)
		}
		w.production.does("web", behaviour{})
		w.inSync(web)
	})
}
