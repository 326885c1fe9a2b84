package enforcer

import (
	"context"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// cutOff is how a push ends whose plugin died while a request of it was on its
// way: the request takes effect after the time.
func cutOff(gone chan struct{}, after time.Duration) behaviour {
	die := sync.OnceFunc(func() { close(gone) })
	return behaviour{push: func(_ context.Context, apply func(), _ plugin.Push) plugin.PushResult {
		die()
		go func() {
			time.Sleep(after)
			apply()
		}()
		return plugin.PushResult{Ending: plugin.InDoubt, Reason: "it died", Gone: gone}
	}}
}

// TestWhatADeadPluginAskedForLandsBeforeItsPushIsSettled: nothing fences a
// request on its way, so the journal lets go of its push only after E (S3).
func TestWhatADeadPluginAskedForLandsBeforeItsPushIsSettled(t *testing.T) {
	for name, down := range map[string]error{"up again": nil, "down for long": fault.New(fault.Unavailable, "it crashes again and again")} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(w *world) {
				const nearlyE = 990 * time.Millisecond
				gone := make(chan struct{})
				landed := make(chan int, 3)
				w.production.onEffect(func(intent.AssetID) {
					open, err := w.store.OpenPushes(w.ctx, shop)
					if err != nil {
						t.Error(err)
					}
					landed <- len(open)
				})
				w.production.does("web", cutOff(gone, nearlyE))
				w.publish(web)
				<-gone
				w.production.breakDown(down)
				if open := <-landed; open != 1 {
					w.t.Fatal("the push was settled before its last effect had landed (S3)")
				}
				// The plugin that was told of the push said how long that takes,
				// so it does not matter whether it is there again.
				w.pass(500 * time.Millisecond)
				open, err := w.store.OpenPushes(w.ctx, shop)
				w.must(err)
				if len(open) != 0 {
					t.Errorf("%d pushes are open half a second later (L6)", len(open))
				}
				w.production.breakDown(nil)
				w.inSync(web)
				if w.production.pushes("web") != 1 {
					t.Errorf("%d pushes", w.production.pushes("web"))
				}
			})
		})
	}
}

// TestARestartWaitsForWhatADeadPluginAskedFor: the longest effect of the type is
// not known before the plugin's next process says it.
func TestARestartWaitsForWhatADeadPluginAskedFor(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", behaviour{push: func(ctx context.Context, _ func(), _ plugin.Push) plugin.PushResult {
			<-ctx.Done()
			return plugin.PushResult{Ending: plugin.InDoubt}
		}})
		w.publish(web)
		w.eventually("a push is under way", func() bool { return w.production.pushes("web") == 1 })
		w.restart(func() {
			w.production.breakDown(fault.New(fault.Unavailable, "the plugin is starting"))
			w.production.does("web", behaviour{})
			alone := make(chan struct{})
			close(alone)
			w.production.alone = alone
		})
		isOpen := func() bool {
			open, err := w.store.OpenPushes(w.ctx, shop)
			w.must(err)
			return len(open) == 1
		}
		w.pass(20 * time.Second)
		if !isOpen() {
			t.Error("settled while nobody knew how long its last effect takes")
		}
		w.production.breakDown(nil)
		w.pass(1500 * time.Millisecond)
		if isOpen() {
			t.Error("not settled though its longest effect is long over (L6)")
		}
		w.inSync(web)
	})
}

// TestAnotherPolicySinceMayMeanAnotherPlugin: that the plugin of head's policy is
// alone tells nothing of a push under an older one, which may have gone to a
// server that still runs.
func TestAnotherPolicySinceMayMeanAnotherPlugin(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", behaviour{push: func(ctx context.Context, _ func(), _ plugin.Push) plugin.PushResult {
			<-ctx.Done()
			return plugin.PushResult{Ending: plugin.InDoubt}
		}})
		w.policy.Plugins[0].Run, w.policy.Plugins[0].Dial = nil, "plugin.example.com:7443"
		w.publish(web)
		w.eventually("a push is under way", func() bool { return w.production.pushes("web") == 1 })
		w.restart(func() {
			w.policy.Plugins[0].Run, w.policy.Plugins[0].Dial = []string{"commands"}, ""
			w.publish(web)
			w.production.does("web", behaviour{})
			alone := make(chan struct{})
			close(alone)
			w.production.alone = alone
		})
		w.pass(plugin.PermitPeriod)
		open, err := w.store.OpenPushes(w.ctx, shop)
		w.must(err)
		if len(open) != 1 {
			t.Error("settled while the server that was told of it may be at work (S3)")
		}
		w.inSync(web)
	})
}

// TestAStartingPluginDoesNotDelayTheNextHolder: where only time tells, the
// longest effect is asked for again, and not taken for the longest there may be
// because the plugin was not up when the lease was taken (L5, L6).
func TestAStartingPluginDoesNotDelayTheNextHolder(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("web", behaviour{push: func(ctx context.Context, _ func(), _ plugin.Push) plugin.PushResult {
			<-ctx.Done()
			return plugin.PushResult{Ending: plugin.InDoubt}
		}})
		w.publish(web)
		w.eventually("a push is under way", func() bool { return w.production.pushes("web") == 1 })
		w.restart(func() {
			w.production.breakDown(fault.New(fault.Unavailable, "the plugin is starting"))
			w.production.does("web", behaviour{})
		})
		began := time.Now()
		w.pass(time.Second)
		w.production.breakDown(nil)
		w.eventually("it is settled", func() bool {
			open, err := w.store.OpenPushes(w.ctx, shop)
			w.must(err)
			return len(open) == 0
		})
		const lockDelay = plugin.PermitPeriod + time.Second + plugin.LockDelayMargin
		if took := time.Since(began); took < lockDelay || took > lockDelay+time.Second {
			t.Errorf("settled after %s, want %s", took, lockDelay)
		}
		w.inSync(web)
	})
}

// TestAPushSaysWhenItWasChecked: its plugin asks again for one that comes late.
func TestAPushSaysWhenItWasChecked(t *testing.T) {
	simulate(t, func(w *world) {
		checked := make(chan time.Time, 1)
		w.production.does("web", behaviour{push: func(_ context.Context, apply func(), push plugin.Push) plugin.PushResult {
			checked <- push.Checked
			apply()
			return plugin.PushResult{Ending: plugin.Pushed}
		}})
		w.publish(web)
		if at := <-checked; !at.Equal(time.Now()) {
			t.Errorf("checked at %s, pushed at %s", at, time.Now())
		}
		w.inSync(web)
	})
}

// TestAdmissionsGoInOneGroup: one left over could be sent after a neighbour's
// push, of which it knows nothing.
func TestAdmissionsGoInOneGroup(t *testing.T) {
	e := New(Options{})
	all := make([]admission, 100_000)
	if e.admissions.Add(all...); len(e.admissions.Take()) != len(all) {
		t.Error("a group of admissions is cut")
	}
}
