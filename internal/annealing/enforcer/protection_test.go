package enforcer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/store"
	"lehr.dev/test/detector"
)

// sentry is a protection whose answers a test says.
type sentry struct {
	mu sync.Mutex
	// blocks and fails are by phase; "" is any.
	blocks map[string]string
	fails  map[string]error
	until  time.Time
	slow   time.Duration
	asked  []check.Question
}

func (s *sentry) ask(ctx context.Context, q check.Question) (check.Answer, error) {
	s.mu.Lock()
	s.asked = append(s.asked, q)
	slow := s.slow
	s.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(time.Millisecond + slow):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	said := &check.Reply{Until: s.until}
	for phase, reason := range s.blocks {
		if strings.Contains(q.Text, `"phase":"`+phase) {
			said.Blocks, said.Reason = true, reason
		}
	}
	for phase, err := range s.fails {
		if strings.Contains(q.Text, `"phase":"`+phase) {
			return check.Answer{}, err
		}
	}
	return check.Answer{Reply: said}, nil
}

func (s *sentry) says(phase, no string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks[phase] = no; no == "" {
		delete(s.blocks, phase)
	}
}

func (s *sentry) breaks(phase string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails[phase] = err; err == nil {
		delete(s.fails, phase)
	}
}

// texts are what it was asked in a phase.
func (s *sentry) texts(phase string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.asked {
		if strings.Contains(q.Text, `"phase":"`+phase) {
			list = append(list, q.Body())
		}
	}
	return list
}

// protected starts the enforcer anew with a protection.
func (w *world) protected(p *intentpb.Protection) *sentry {
	s := &sentry{blocks: map[string]string{}, fails: map[string]error{}}
	p.Ask = &intentpb.Protection_Http{Http: "guard"}
	w.policy.Checks = []*intentpb.Check{{Name: "smoke", Kind: &intentpb.Check_Protection{Protection: p}}}
	w.restart(func() { w.outside = s.ask })
	return s
}

func before() *intentpb.Protection { return &intentpb.Protection{Before: true} }

// long has pushes of an asset ask for a permit each second, take effect after so many,
// and end where there is none, as plugins do.
func (w *world) long(id intent.AssetID, permits int) {
	w.production.does(id, behaviour{push: func(ctx context.Context, apply func(), push plugin.Push) plugin.PushResult {
		for range permits {
			select {
			case <-ctx.Done():
				return plugin.PushResult{Ending: plugin.InDoubt, Reason: "cut off"}
			case <-time.After(time.Second):
			}
			if err := push.Permit(ctx, push.Base); err != nil {
				return plugin.PushResult{Ending: plugin.Stopped, Reason: "no permit: " + err.Error()}
			}
		}
		apply()
		return plugin.PushResult{Ending: plugin.Pushed}
	}})
}

// TestAPushWaitsForAProtection: each of four results is told apart, and only a pass
// passes (S11).
func TestAPushWaitsForAProtection(t *testing.T) {
	simulate(t, func(w *world) {
		s := w.protected(before())
		s.says("before", "the build is red")
		w.publish(web)
		w.waitsOn("web", intent.WaitProtection)
		w.told("web", "check smoke: http guard says no: the build is red; asked at")
		w.unpushed("web", "it says no")
		s.breaks("before", fault.New(fault.Invalid, "it answered 404"))
		w.waitsOn("web", intent.WaitCheckConfig)
		w.told("web", "check smoke cannot be asked as it is configured: http guard: it answered 404")
		w.unpushed("web", "it cannot be asked")
		s.says("before", "")
		s.breaks("before", fault.New(fault.Unavailable, "guard answered 503"))
		w.waitsOn("web", intent.WaitCheckBroken)
		w.told("web", "check smoke cannot answer: http guard: guard answered 503")
		w.unpushed("web", "it does not answer")
		s.breaks("before", errors.New("whatever"))
		w.unpushed("web", "it does not answer")
		s.breaks("before", nil)
		w.inSync(web)
		text := s.texts("before")[0]
		for _, told := range []string{
			`"incarnation":"shop@1"`, `"protection":"smoke"`, `"partition":"shop"`, `"asset":"web"`, `"type":"lehr.command.v1.Command"`, `"content":"`, `"planDigest":"`,
			`"plan":{"action":"update","changes":[{"path":"word","target":"v1"}]}`,
		} {
			if !strings.Contains(text, told) {
				t.Errorf("it is not told %s: %s", told, text)
			}
		}
		// What is in sync asks nothing.
		w.pass(2 * time.Minute)
		asked := len(s.texts(""))
		w.pass(time.Hour)
		if more := len(s.texts("")) - asked; more > 0 {
			t.Errorf("it was asked %d times more", more)
		}
	})
}

// TestAProtectionPassesOnePlan: its pass is none for another content or plan, nor when
// it is too old, nor when it may not be asked any more.
func TestAProtectionPassesOnePlan(t *testing.T) {
	simulate(t, func(w *world) {
		s := w.protected(before())
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "web", Owner: tester, Reason: "looking"}))
		w.publish(web)
		w.eventually("it passed", func() bool {
			r := w.report("web")
			return len(r.Waiting) == 1 && r.Waiting[0].Kind == intent.WaitHold
		})
		s.breaks("before", fault.New(fault.Unavailable, "refused"))
		w.publish(webV2)
		w.eventually("the pass of other content is none", func() bool {
			r := w.report("web")
			return len(r.Waiting) == 2 && r.Waiting[1].Kind == intent.WaitCheckBroken
		})
		s.breaks("before", nil)
		w.eventually("it passed", func() bool { return len(w.report("web").Waiting) == 1 })
		// Another plan to the same content.
		s.breaks("before", fault.New(fault.Unavailable, "refused"))
		w.production.set("web", "other")
		w.wake("web")
		w.eventually("the pass of another plan is none", func() bool { return len(w.report("web").Waiting) == 2 })
		s.breaks("before", nil)
		w.eventually("it passed", func() bool { return len(w.report("web").Waiting) == 1 })
		began := time.Now()
		s.breaks("before", fault.New(fault.Unavailable, "refused"))
		w.eventually("the pass is too old", func() bool { return len(w.report("web").Waiting) == 2 })
		if took := time.Since(began); took < 30*time.Second || took > 2*time.Minute {
			t.Errorf("a pass counted for %s", took)
		}
		s.breaks("before", nil)
		w.eventually("it passed", func() bool { return len(w.report("web").Waiting) == 1 })
		began = time.Now()
		s.breaks("before", fault.New(fault.Denied, "not any more"))
		w.eventually("it may not be asked", func() bool { return len(w.report("web").Waiting) == 2 })
		if took := time.Since(began); took > 50*time.Second {
			t.Errorf("what may not be asked counted for %s", took)
		}
	})
}

// TestHeadsThatMoveDoNotAskAnew: what is asked is of the content, not of the incarnation.
func TestHeadsThatMoveDoNotAskAnew(t *testing.T) {
	simulate(t, func(w *world) {
		s := w.protected(before())
		s.says("before", "not yet")
		w.publish(web)
		w.waitsOn("web", intent.WaitProtection)
		asked := len(s.texts("before"))
		for i := range 20 {
			w.publish(web, thing{id: "other", word: strings.Repeat("x", i+1)})
			w.pass(100 * time.Millisecond)
		}
		for _, text := range s.texts("before")[asked:] {
			if strings.Contains(text, `"asset":"web"`) {
				t.Errorf("it was asked anew: %s", text)
			}
		}
	})
}

// TestAProtectionStopsAPush and lets it go on when it passes: a block is no failure.
func TestAProtectionStopsAPush(t *testing.T) {
	simulate(t, func(w *world) {
		p := before()
		p.During, p.Every = intentpb.Protection_DURING_BLOCK, durationpb.New(2*time.Second)
		s := w.protected(p)
		w.long("web", 30)
		w.publish(web)
		w.eventually("it is asked during the push", func() bool { return len(s.texts("during")) > 3 })
		if text := s.texts("during")[0]; !strings.Contains(text, `"push":"shop/`) || !strings.Contains(text, `"planDigest":"`) {
			t.Errorf("it is told %s", text)
		}
		s.says("during", "errors rise")
		w.waitsOn("web", intent.WaitProtection)
		w.told("web", "check smoke: http guard says no: errors rise")
		w.told("web", "it stopped the last push while that was under way")
		if w.production.word("web") != "" || w.production.pushes("web") != 1 {
			t.Fatal("the push went on")
		}
		w.pass(5 * time.Minute)
		if w.production.pushes("web") != 1 {
			t.Fatal("it was pushed again, and nothing passed")
		}
		pushes, err := w.store.Pushes(w.ctx, shop, "web", 1)
		w.must(err)
		if pushes[0].Ending != string(plugin.Stopped) || !strings.Contains(pushes[0].Reason, "says no: errors rise") {
			t.Errorf("the journal says %s: %s", pushes[0].Ending, pushes[0].Reason)
		}
		began := time.Now()
		s.says("during", "")
		w.inSync(web)
		if took := time.Since(began); took > 50*time.Second {
			t.Errorf("it went on after %s", took)
		}
	})
}

// TestNewerContentIsNotHeldByWhatStoppedTheOlder (L3).
func TestNewerContentIsNotHeldByWhatStoppedTheOlder(t *testing.T) {
	simulate(t, func(w *world) {
		p := before()
		p.During, p.Every = intentpb.Protection_DURING_BLOCK, durationpb.New(2*time.Second)
		s := w.protected(p)
		var once sync.Once
		w.production.does("web", behaviour{push: func(ctx context.Context, apply func(), push plugin.Push) plugin.PushResult {
			result := plugin.PushResult{Ending: plugin.Pushed}
			once.Do(func() {
				for push.Permit(ctx, push.Base) == nil {
					time.Sleep(time.Second)
				}
				w.publish(webV2)
				time.Sleep(time.Minute) // Nothing of it happens any more.
				result = plugin.PushResult{Ending: plugin.Stopped, Reason: "no permit"}
			})
			if result.Ending == plugin.Pushed {
				apply()
			}
			return result
		}})
		w.publish(web)
		w.eventually("it is asked during the push", func() bool { return len(s.texts("during")) > 1 })
		s.says("during", "errors rise")
		w.inSync(webV2)
	})
}

// TestAProtectionThatBreaksStopsAPush and never fails it.
func TestAProtectionThatBreaksStopsAPush(t *testing.T) {
	for _, during := range []intentpb.Protection_During{intentpb.Protection_DURING_BLOCK, intentpb.Protection_DURING_FAIL} {
		simulate(t, func(w *world) {
			p := before()
			p.During, p.Every, p.Keep = during, durationpb.New(2*time.Second), durationpb.New(10*time.Second)
			s := w.protected(p)
			w.long("web", 60)
			w.publish(web)
			w.eventually("it is asked during the push", func() bool { return len(s.texts("during")) > 3 })
			s.breaks("during", fault.New(fault.Unavailable, "connection refused"))
			w.waitsOn("web", intent.WaitCheckBroken)
			w.told("web", "connection refused")
			w.pass(time.Minute)
			if r := w.report("web"); w.production.pushes("web") != 1 || len(r.Waiting) != 1 {
				t.Errorf("%s: it was pushed %d times: %v", during, w.production.pushes("web"), r.Waiting)
			}
			s.breaks("during", nil)
			w.inSync(web)
		})
	}
}

// TestAProtectionFailsAPush: it backs off as one that failed, and the plugin is not
// blamed.
func TestAProtectionFailsAPush(t *testing.T) {
	simulate(t, func(w *world) {
		p := before()
		p.During, p.Every = intentpb.Protection_DURING_FAIL, durationpb.New(2*time.Second)
		s := w.protected(p)
		w.long("web", 30)
		s.says("during", "errors rise")
		w.publish(web)
		w.waitsOn("web", intent.WaitBackoff)
		w.told("web", "says no: errors rise")
		w.pass(10 * time.Minute)
		pushes := w.production.pushes("web")
		if pushes < 3 || pushes > 20 {
			t.Errorf("it was pushed %d times", pushes)
		}
		if w.production.word("web") != "" {
			t.Fatal("one had its effect")
		}
		record, err := w.store.Pushes(w.ctx, shop, "web", 1)
		w.must(err)
		if record[0].Ending != string(plugin.Failed) && !record[0].Ended.IsZero() {
			t.Errorf("the journal says %s: %s", record[0].Ending, record[0].Reason)
		}
		s.says("during", "")
		w.inSync(web)
	})
}

// TestAKillDuringAGuardedPush: the next process asks before it pushes again, and
// during that push.
func TestAKillDuringAGuardedPush(t *testing.T) {
	simulate(t, func(w *world) {
		p := before()
		p.During, p.Every = intentpb.Protection_DURING_BLOCK, durationpb.New(2*time.Second)
		s := w.protected(p)
		w.long("web", 10)
		w.publish(web)
		w.eventually("it is asked during the push", func() bool { return len(s.texts("during")) > 1 })
		s.says("", "errors rise")
		w.restart(func() {})
		w.waitsOn("web", intent.WaitProtection)
		w.pass(time.Minute)
		if w.production.pushes("web") != 1 || w.production.word("web") != "" {
			t.Fatal("it was pushed while it says no")
		}
		s.says("", "")
		w.inSync(web)
	})
}

// TestWhatAPersonLetPassIsNotGuarded.
func TestWhatAPersonLetPassIsNotGuarded(t *testing.T) {
	simulate(t, func(w *world) {
		p := before()
		p.During, p.Every = intentpb.Protection_DURING_BLOCK, durationpb.New(2*time.Second)
		s := w.protected(p)
		w.policy.Overrides = &intentpb.OverridePolicy{Allow: []string{check.KindProtection}}
		w.long("web", 10)
		s.says("", "errors rise")
		w.publish(web)
		w.waitsOn("web", intent.WaitProtection)
		w.must(w.store.Override(w.ctx, intent.Override{
			Partition: shop, Asset: "web", Effective: w.report("web").Effective, Check: "smoke", By: tester, Reason: "it must", Created: time.Now(), Until: time.Now().Add(time.Hour),
		}))
		w.inSync(web)
	})
}

// after is asked a minute after the push, for five.
func afterwards() *intentpb.Protection {
	return &intentpb.Protection{
		After: &intentpb.AfterPush{Delay: durationpb.New(time.Minute), Duration: durationpb.New(5 * time.Minute)}, Every: durationpb.New(10 * time.Second),
	}
}

// TestAPushIsWellWhenWhatIsAskedAfterItPassed, and until then what comes after it waits.
func TestAPushIsWellWhenWhatIsAskedAfterItPassed(t *testing.T) {
	simulate(t, func(w *world) {
		s := w.protected(afterwards())
		began := time.Now()
		next := thing{id: "next", word: "v1"}.with(after("web"))
		w.policy.Checks[0].Where = `id == "web"`
		w.publish(web, next)
		w.inSync(web)
		w.waitsOn("next", intent.WaitOrder)
		w.told("next", "must come after web (after its push: protection smoke is asked from ")
		if h := w.report("web").Health; h.State != intent.HealthUnknown || !strings.Contains(h.Reason, "after its push: protection smoke") {
			t.Errorf("web is %+v", h)
		}
		w.eventually("it is asked", func() bool { return len(s.texts("after")) > 0 })
		if since := time.Since(began); since < time.Minute {
			t.Errorf("it was asked after %s", since)
		}
		s.says("after", "it does not smell right")
		w.eventually("it says no", func() bool { return w.report("web").Health.State == intent.Unhealthy })
		if reason := w.report("web").Health.Reason; !strings.Contains(reason, "after its push: protection smoke says no since ") || !strings.Contains(reason, "it does not smell right") {
			t.Errorf("it is told that %s", reason)
		}
		w.pass(time.Hour)
		if w.production.word("next") != "" || w.report("web").Health.State != intent.Unhealthy {
			t.Fatal("what comes after it was pushed while it says no")
		}
		s.breaks("after", fault.New(fault.Unavailable, "connection refused")) // No better (S11).
		w.pass(10 * time.Minute)
		if w.production.word("next") != "" {
			t.Fatal("what comes after it was pushed, and nobody knows how it is")
		}
		s.says("after", "")
		s.breaks("after", nil)
		w.inSync(next)
		if h := w.report("web").Health; h != (intent.Health{}) {
			t.Errorf("web is %+v", h)
		}
		asked := len(s.texts("after"))
		w.pass(time.Hour)
		if len(s.texts("after")) != asked {
			t.Error("it is asked for ever")
		}
	})
}

// TestARestartSkipsNothingAfterAPush: wherever the server was killed, for however long.
func TestARestartSkipsNothingAfterAPush(t *testing.T) {
	detector.SkipSequential(t)
	for name, kill := range map[string]struct {
		until func(*world, *sentry) func() bool
		away  time.Duration
	}{
		"under way": {func(w *world, s *sentry) func() bool {
			return func() bool { return w.report("web").State == intent.StatePushing }
		}, 0},
		"under way, for long": {func(w *world, s *sentry) func() bool {
			return func() bool { return w.report("web").State == intent.StatePushing }
		}, time.Hour},
		"before it was asked": {func(w *world, s *sentry) func() bool {
			return func() bool { return w.report("web").State == intent.StateInSync }
		}, 0},
		"for all of its time": {func(w *world, s *sentry) func() bool {
			return func() bool { return w.report("web").State == intent.StateInSync }
		}, time.Hour},
		"after it had passed": {func(w *world, s *sentry) func() bool { return func() bool { return len(s.texts("after")) > 3 } }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				s := w.protected(afterwards())
				w.long("web", 5)
				w.policy.Checks[0].Where = `id == "web"`
				next := thing{id: "next", word: "v1"}.with(after("web"))
				w.publish(web, next)
				w.eventually("it is so far", kill.until(w, s))
				w.stop()
				w.pass(kill.away)
				s.says("after", "it does not smell right")
				w.start()
				w.eventually("it says no", func() bool { return w.report("web").Health.State == intent.Unhealthy })
				w.pass(20 * time.Minute)
				w.restart(func() {})
				w.pass(20 * time.Minute)
				if w.production.word("next") != "" {
					t.Fatal("what comes after it was pushed while it says no")
				}
				s.says("after", "")
				w.inSync(next)
			})
		})
	}
}

// TestAProtectionThatSaysNoForLongIsNotForgotten, for longer than the journal keeps the
// push, or the incarnation that was pushed.
func TestAProtectionThatSaysNoForLongIsNotForgotten(t *testing.T) {
	labelled := web.with(&intentpb.Labels{Labels: map[string]string{"tier": "front"}})
	for name, test := range map[string]struct {
		then thing
		keep store.Retention
	}{
		"no push":                    {web, store.Retention{Incarnations: 10, Period: 90 * 24 * time.Hour, History: 30 * 24 * time.Hour}},
		"no push, other metadata":    {labelled, store.Retention{Incarnations: 10, Period: 90 * 24 * time.Hour, History: 30 * 24 * time.Hour}},
		"no incarnation of the push": {labelled, store.Retention{Incarnations: 1, Period: 30 * 24 * time.Hour, History: 90 * 24 * time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				s := w.protected(afterwards())
				w.policy.Checks[0].Where = `id == "web"`
				next := thing{id: "next", word: "v1"}.with(after("web"))
				s.says("after", "it does not smell right")
				w.publish(web)
				w.inSync(web)
				w.eventually("it says no", func() bool { return w.report("web").Health.State == intent.Unhealthy })
				w.publish(test.then, next)
				w.pass(time.Minute)
				w.stop()
				w.pass(31 * 24 * time.Hour)
				w.publish(test.then, next, thing{id: "else", word: "v1"})
				w.start()
				w.pass(time.Minute)
				if _, err := w.store.Collect(w.ctx, w.lease, test.keep, time.Now()); err != nil {
					t.Fatal(err)
				}
				w.restart(func() {})
				w.pass(20 * time.Minute)
				if h := w.report("web").Health; h.State != intent.Unhealthy || w.production.word("next") != "" {
					t.Fatalf("web is %+v, and what comes after it is %q", h, w.production.word("next"))
				}
				s.says("after", "")
				w.inSync(next)
				if h := w.report("web").Health; h != (intent.Health{}) {
					t.Errorf("web is %+v", h)
				}
			})
		})
	}
}

// TestAChangeWithoutAPushSkipsNothing that is asked after the push before it.
func TestAChangeWithoutAPushSkipsNothing(t *testing.T) {
	simulate(t, func(w *world) {
		s := w.protected(afterwards())
		w.policy.Checks[0].Where = `id == "web"`
		next := thing{id: "next", word: "v1"}.with(after("web"))
		s.says("after", "it does not smell right")
		w.publish(web)
		w.inSync(web)
		labelled := web.with(&intentpb.Labels{Labels: map[string]string{"tier": "front"}})
		w.publish(labelled, next)
		w.eventually("it says no", func() bool { return w.report("web").Health.State == intent.Unhealthy })
		w.pass(time.Hour)
		if w.production.word("next") != "" {
			t.Fatal("what comes after it was pushed while it says no")
		}
		s.says("after", "")
		w.inSync(next)
	})
}

// TestALongerTimeAskedLater: what passed to its end stays passed where the longer time is
// over; where it still runs, the rest of it is asked (decision 0085).
func TestALongerTimeAskedLater(t *testing.T) {
	detector.SkipSequential(t)
	for name, test := range map[string]struct {
		longer time.Duration
		asked  bool
	}{"over": {10 * time.Minute, false}, "running": {time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				s := w.protected(afterwards())
				w.policy.Checks[0].Where = `id == "web"`
				w.publish(web)
				w.inSync(web)
				w.eventually("it passed to its end", func() bool { return len(s.texts("after")) > 0 && w.report("web").Health == (intent.Health{}) })
				w.pass(20 * time.Minute)
				asked := len(s.texts("after"))
				s.says("after", "it does not smell right")
				w.policy.Checks[0].GetProtection().After.Duration = durationpb.New(test.longer)
				w.publish(web, thing{id: "next", word: "v1"}.with(after("web")))
				w.pass(10 * time.Minute)
				if again := len(s.texts("after")) > asked; again != test.asked {
					t.Errorf("it is asked again: %t, want %t", again, test.asked)
				}
				if pushed := w.production.word("next") != ""; pushed == test.asked {
					t.Errorf("what comes after it was pushed: %t, want %t", pushed, !test.asked)
				}
			})
		})
	}
}

// TestWhatIsNotWellTakesAPlaceOfItsScope, and newer content that may mend it is pushed.
func TestWhatIsNotWellTakesAPlaceOfItsScope(t *testing.T) {
	simulate(t, func(w *world) {
		p := afterwards()
		s := w.protected(p)
		_, things := w.ward(2, 2, 1)
		s.says("after", "it does not smell right")
		w.publish(things("v1", 0)[:1]...)
		w.inSync(things("v1", 0)[0])
		w.eventually("it says no", func() bool { return w.report("web/0").Health.State == intent.Unhealthy })
		w.publish(things("v1")...)
		w.waitsOn("web/1", intent.WaitBudget)
		w.told("web/1", "1 (web/0)")
		w.pass(10 * time.Minute)
		if w.production.word("web/1") != "" {
			t.Fatal("it was pushed, and web/0 is not well")
		}
		s.says("after", "")
		w.publish(things("v2", 0)...)
		w.inSync(things("v2", 0)...)
	})
}

// TestAProtectionTellsNoHealthOfAPlugin: of an asset whose plugin knows none, what was
// asked after its push leaves none either once it passed, and what a plugin told stays
// known, whenever the process ended.
func TestAProtectionTellsNoHealthOfAPlugin(t *testing.T) {
	detector.SkipSequential(t)
	for name, test := range map[string]struct {
		first, last intent.HealthState
		waits       bool
	}{
		"none":                       {intent.HealthUnknown, intent.HealthUnknown, false},
		"healthy":                    {intent.Healthy, intent.Healthy, false},
		"healthy, and lost since":    {intent.Healthy, intent.HealthUnknown, true},
		"unhealthy":                  {intent.Unhealthy, intent.Unhealthy, true},
		"unhealthy, and lost since":  {intent.Unhealthy, intent.HealthUnknown, true},
		"unhealthy, and well since":  {intent.Unhealthy, intent.Healthy, false},
		"none, and unhealthy since":  {intent.HealthUnknown, intent.Unhealthy, true},
		"healthy, and no more since": {intent.Healthy, intent.Unhealthy, true},
	} {
		for _, no := range []string{"", "it does not smell right"} {
			t.Run(name+"; the protection says "+no, func(t *testing.T) {
				simulate(t, func(w *world) {
					s := w.protected(afterwards())
					c, things := w.ward(2, 2, 1)
					w.policy.Checks[0].Where = `id == "web/0"`
					c.is("web/0", test.first)
					s.says("after", no)
					w.publish(things("v1")...)
					w.eventually("it is asked", func() bool { return len(s.texts("after")) > 0 })
					w.pass(time.Minute)
					for range 2 {
						w.stop()
						c.is("web/0", test.last)
						w.start()
						w.pass(time.Second)
					}
					w.publish(things("v2", 1)...)
					w.pass(time.Minute)
					if w.production.word("web/1") == "v2" {
						t.Fatal("it was pushed, and the protection did not pass to its end")
					}
					s.says("after", "")
					w.pass(20 * time.Minute)
					if waits := w.production.word("web/1") != "v2"; waits != test.waits {
						t.Errorf("web/1 waits: %v; web/0 is %+v", waits, w.report("web/0").Health)
					}
				})
			})
		}
	}
}

// TestACommitDoesNotDropWhatIsAskedAfterItsPush (S23), but a check that is mended, or
// dropped once the asset is in sync, is let go.
func TestACommitDoesNotDropWhatIsAskedAfterItsPush(t *testing.T) {
	detector.SkipSequential(t)
	simulate(t, func(w *world) {
		s := w.protected(afterwards())
		w.publish(web)
		w.inSync(web)
		w.eventually("it passed", func() bool { return w.report("web").Health == (intent.Health{}) })
		checks := w.policy.Checks
		w.policy.Checks = nil
		w.publish(webV2)
		w.told("web", "it was to be asked after a push, and would not be, or not so, after this one")
		w.unpushed("web", "the commit drops what is asked after it")
		w.policy.Checks = checks
		w.publish(webV2)
		s.breaks("after", fault.New(fault.Invalid, "it answered 404"))
		w.inSync(webV2)
		w.eventually("it cannot be asked", func() bool { return strings.Contains(w.report("web").Health.Reason, "404") })
		w.policy.Checks = nil
		w.publish(webV2)
		w.eventually("it is well", func() bool { return w.report("web").Health == (intent.Health{}) })
	})
}

// TestAnApprovalLetsGoOfWhatIsAskedAfterAPush, and is used up: also of an asset that needs
// an approval in any case, which would wait for ever.
func TestAnApprovalLetsGoOfWhatIsAskedAfterAPush(t *testing.T) {
	detector.SkipSequential(t)
	for name, marked := range map[string]bool{"that needs none": false, "that needs one in any case": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				w.protected(afterwards())
				first, second := web, webV2
				if marked {
					mark := &intentpb.Approval{Reason: "precious"}
					first, second = web.with(mark), webV2.with(mark)
				}
				w.publish(first)
				if marked {
					w.waitsOn("web", intent.WaitApproval)
					w.approve("web")
				}
				w.inSync(first)
				w.eventually("it passed", func() bool { return w.report("web").Health == (intent.Health{}) })
				w.policy.Checks = nil
				w.publish(second)
				w.told("web", "it was to be asked after a push, and would not be, or not so, after this one")
				w.told("web", "lehr approve web")
				w.approve("web")
				w.inSync(second)
				consents, err := w.store.Consents(w.ctx, shop)
				w.must(err)
				if len(consents.Approvals) > 0 {
					t.Errorf("the approval is not used up: %+v", consents.Approvals)
				}
			})
		})
	}
}

// TestAPersonLetsPassWhatIsAskedAfterAPush.
func TestAPersonLetsPassWhatIsAskedAfterAPush(t *testing.T) {
	simulate(t, func(w *world) {
		s := w.protected(afterwards())
		w.policy.Overrides = &intentpb.OverridePolicy{Allow: []string{"smoke"}}
		s.says("after", "it does not smell right")
		w.publish(web)
		w.inSync(web)
		w.eventually("it says no", func() bool { return w.report("web").Health.State == intent.Unhealthy })
		w.must(w.store.Override(w.ctx, intent.Override{
			Partition: shop, Asset: "web", Effective: w.report("web").Effective, Check: "smoke", By: tester, Reason: "it smells so", Created: time.Now(), Until: time.Now().Add(time.Hour),
		}))
		w.eventually("it is well", func() bool { return w.report("web").Health == (intent.Health{}) })
		w.pass(2 * time.Hour)
		if h := w.report("web").Health; h != (intent.Health{}) {
			t.Errorf("it is not well again: %+v", h)
		}
	})
}

// TestOneProtectionThatHangsDelaysNoOther (L2), nor do many that say no.
func TestOneProtectionThatHangsDelaysNoOther(t *testing.T) {
	simulate(t, func(w *world) {
		w.protected(before())
		w.policy.Checks = append(w.policy.Checks, &intentpb.Check{Name: "other", Where: `id == "other"`, Kind: &intentpb.Check_Protection{Protection: &intentpb.Protection{
			Before: true, Ask: &intentpb.Protection_Http{Http: "other"},
		}}})
		w.policy.Checks[0].Where = `id != "other"`
		w.restart(func() {
			w.outside = func(ctx context.Context, q check.Question) (check.Answer, error) {
				if q.Place == "guard" {
					<-ctx.Done()
					return check.Answer{}, ctx.Err()
				}
				return check.Answer{Reply: &check.Reply{}}, nil
			}
		})
		other := thing{id: "other", word: "v1"}
		w.publish(web, db, thing{id: "a", word: "x"}, thing{id: "b", word: "x"}, thing{id: "c", word: "x"}, other)
		began := time.Now()
		w.inSync(other)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it waited %s", took)
		}
	})
}
