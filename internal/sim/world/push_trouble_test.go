package world

import (
	"context"
	"errors"
	"testing"
	"time"

	commandpb "lehr.dev/gen/lehr/command/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

var errRefused = errors.New("stop")

func TestPushTroubles(t *testing.T) {
	tests := []struct {
		name   string
		kind   TroubleKind
		lasts  time.Duration
		seed   uint64
		ending plugin.Ending
		// effects that it has, and whether production is then as asked.
		effects, matches bool
		// permits asked for, at least.
		permits int
		// after is when it wants to be asked again.
		after time.Duration
	}{
		{name: "hangs with permits", kind: PushHang, lasts: 15 * time.Second, seed: 2, ending: plugin.Pushed, effects: true, matches: true, permits: 14},
		{name: "hangs without", kind: PushHang, lasts: time.Hour, seed: 1, ending: plugin.InDoubt},
		{name: "slow", kind: PushSlow, lasts: 7 * time.Second, ending: plugin.Pushed, effects: true, matches: true, permits: 6},
		{name: "start lost", kind: PushStartLost, ending: plugin.InDoubt},
		{name: "start late", kind: PushStartLate, lasts: 2 * time.Second, ending: plugin.Pushed, effects: true, matches: true},
		{name: "start too late", kind: PushStartLate, lasts: 3 * plugin.PermitPeriod, ending: plugin.InDoubt},
		{name: "start twice", kind: PushStartTwice, ending: plugin.Pushed, effects: true, matches: true},
		{name: "reply lost", kind: PushReplyLost, ending: plugin.InDoubt, effects: true, matches: true},
		{name: "reply late", kind: PushReplyLate, lasts: 2 * time.Second, ending: plugin.Pushed, effects: true, matches: true},
		{name: "reply too late", kind: PushReplyLate, lasts: 4 * plugin.PermitPeriod, ending: plugin.InDoubt, effects: true, matches: true},
		{name: "partial", kind: PushPartialThenFail, ending: plugin.Failed, effects: true},
		{name: "applied, but an error", kind: PushAppliedButError, ending: plugin.Failed, effects: true, matches: true},
		{name: "not applied", kind: PushSuccessButNotApplied, ending: plugin.Pushed},
		{name: "stale", kind: PushStaleAnswer, ending: plugin.Stale},
		{name: "refused", kind: PushRefused, ending: plugin.Failed},
		{name: "too busy", kind: PushBusy, seed: 7, ending: plugin.Failed, after: 12 * time.Second},
		{name: "cut off", kind: PushCutOff, ending: plugin.InDoubt}, // What it asked for was lost.
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, 2)
			b.bodies[at(1)] = nil
			b.intend(1, job, frontend("1"))
			d := b.diff(1, job)
			b.trouble(test.kind, job, test.lasts, test.seed)
			asked := 0
			b.permit = func() error { asked++; return nil }
			result := b.push(d)
			b.settled(result)
			b.run(2 * time.Minute)
			matches, _ := b.world.Matches(context.Background(), at(1), job)
			if result.Ending != test.ending || (len(b.effects) > 0) != test.effects || matches != test.matches || asked < test.permits {
				t.Fatalf("%+v, %d effects, matches %t, %d permits asked", result, len(b.effects), matches, asked)
			}
			if result.RetryAfter != test.after {
				t.Errorf("it wants to be asked again after %s, want %s", result.RetryAfter, test.after)
			}
			if (result.Gone != nil) != (test.ending == plugin.InDoubt) || len(b.world.Pushing()) != 0 {
				t.Errorf("%+v, %+v", result, b.world.Pushing())
			}
			if test.kind == PushStartTwice {
				for i, e := range b.effects {
					if e.Step != i+1 {
						t.Errorf("an effect happened twice: %+v", e)
					}
				}
			}
			b.enforce(1, job)
		})
	}
}

func TestPermitsAreLostOrLate(t *testing.T) {
	for _, kind := range []TroubleKind{PermitLost, PermitLate} {
		b := newBench(t, 1)
		d := b.diff(1, job)
		b.world.Trouble(Trouble{Kind: kind, Asset: job, Count: 99, For: 5 * time.Second})
		b.trouble(PushSlow, job, 4500*time.Millisecond, 1)
		if result := b.push(d); result.Ending != plugin.Stopped || len(b.effects) != 0 || b.world.Struck()[kind] < 3 {
			t.Errorf("%s: %+v, %d effects, struck %v", kind, result, len(b.effects), b.world.Struck())
		}
	}
}

func TestNoPermitNoEffect(t *testing.T) {
	b := newBench(t, 1)
	d := b.diff(1, job)
	b.trouble(PushSlow, job, 3*time.Second, 1)
	b.permit = func() error { return errRefused }
	if result := b.push(d); result.Ending != plugin.Stopped || len(b.effects) != 0 {
		t.Errorf("%+v, %d effects", result, len(b.effects))
	}
}

func TestLehrEndsAPush(t *testing.T) {
	b := newBench(t, 1)
	order := b.order(b.diff(1, job), 1)
	b.trouble(PushSlow, job, 3*time.Second, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var result plugin.PushResult
	b.replica.Go("ends it", func() {
		_ = b.replica.Wait(context.Background(), time.Second, nil)
		cancel()
	})
	b.do(func() { result = b.plugin.Push(ctx, order) })
	b.run(time.Minute)
	if result.Ending != plugin.InDoubt || len(b.effects) != 0 || len(b.world.Pushing()) != 0 {
		t.Errorf("%+v, %d effects", result, len(b.effects))
	}
}

// TestLateEffectIsRefused has a plugin that ignores its permit's end act after
// another replica has pushed something newer.
func TestLateEffectIsRefused(t *testing.T) {
	for _, asset := range []intent.AssetID{job, balancer} {
		b := newBench(t, 1)
		b.world.options.Apart = true
		b.enforce(1, asset)
		b.intend(2, job, frontend("2"))
		b.intend(3, job, frontend("3"))
		b.intend(2, balancer, edge("a", "b", "c"))
		b.intend(3, balancer, edge("a", "b", "d"))
		order := b.order(b.diff(2, asset), 1)
		b.trouble(PushIgnoresPermitEnd, asset, 10*time.Second, 1)
		old, first := b.replica, b.plugin
		old.Go("push", func() { first.Push(context.Background(), order) })
		b.run(time.Second)
		old.Pause(time.Minute)
		b.start("another")
		d := b.diff(3, asset)
		if result := b.pushAs(d, 2); result.Ending != plugin.Pushed {
			t.Fatalf("%+v", result)
		}
		b.run(20 * time.Second)
		if refused := b.refused(); len(refused) != 1 || refused[0].PermitLeft >= 0 || refused[0].Token != 1 {
			t.Errorf("%+v", refused)
		}
		if d := b.diff(3, asset); d.Outcome != intent.InSync {
			t.Errorf("%+v", d)
		}
	}
}

func TestUnguardedTargetsHaveNoPluginThatIgnoresPermits(t *testing.T) {
	b := newBench(t, 1)
	b.world.Trouble(Trouble{Kind: PushIgnoresPermitEnd})
	b.intend(1, command, &commandpb.Command{Diff: []string{"a"}, Push: []string{"b"}})
	b.enforce(1, command)
	if b.world.Struck()[PushIgnoresPermitEnd] != 0 {
		t.Error("it struck")
	}
	b.enforce(1, job)
	if b.world.Struck()[PushIgnoresPermitEnd] != 1 {
		t.Error("it did not strike")
	}
}
