package world

import (
	"context"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/virtual"
)

func TestPluginCrashesInTheMiddle(t *testing.T) {
	effects := map[uint64]int{}
	for seed := range uint64(stages + 1) {
		b := newBench(t, 5)
		d := b.diff(1, job)
		b.trouble(PluginCrash, job, 0, seed)
		life := b.world.children[0].life
		result := b.push(d)
		if result.Ending != plugin.InDoubt || life.process.Alive() {
			t.Fatalf("at %d: %+v", seed, result)
		}
		b.settled(result)
		effects[seed] = len(b.effects)
		b.run(time.Minute)
		if len(b.effects) != effects[seed] {
			t.Errorf("at %d: an effect after it was gone", seed)
		}
		b.enforce(1, job)
	}
	if effects[0] != 0 || effects[1] != 0 || effects[2] != 1 || effects[3] < 2 {
		t.Errorf("effects by stage: %v", effects)
	}
}

func TestPluginCrashesInADiff(t *testing.T) {
	b := newBench(t, 1)
	b.trouble(PluginCrash, job, 0, 1)
	if _, err := b.diffs(1, job); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	b.enforce(1, job)
}

// stays runs until the plugin is up again, and returns how long it was not,
// and why.
func (b *bench) stays() (time.Duration, error) {
	b.t.Helper()
	b.run(100 * time.Millisecond)
	_, why := b.plugin.Describe()
	began := b.sim.Now()
	b.up()
	return b.sim.Now().Sub(began), why
}

func TestPluginIsDown(t *testing.T) {
	for _, kind := range []TroubleKind{PluginCrashLoop, PluginDown} {
		b := newBench(t, 1)
		b.trouble(kind, job, 20*time.Second, 1)
		if _, err := b.diffs(1, job); !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		if d, why := b.stays(); !fault.Is(why, fault.Unavailable) || d < 19*time.Second || d > 20*time.Second+maxBackoff {
			t.Errorf("%s: down for %s: %v", kind, d, why)
		}
		b.enforce(1, job)
	}
}

func TestPluginIsOfAnotherVersion(t *testing.T) {
	b := newBench(t, 1)
	b.trouble(PluginVersionSkew, job, 20*time.Second, 2)
	if _, err := b.diffs(1, job); err == nil {
		t.Fatal("no error")
	}
	b.run(3 * time.Second)
	if d, why := b.stays(); !fault.Is(why, fault.Invalid) || d < 15*time.Second {
		t.Errorf("another protocol for %s: %v", d, why)
	}
	b = newBench(t, 1)
	b.trouble(PluginVersionSkew, job, 20*time.Second, 1)
	if _, err := b.diffs(1, job); err == nil {
		t.Fatal("no error")
	}
	d := b.diff(1, job)
	if description, _ := b.plugin.Describe(); d.Outcome != intent.Unknown || description.Types[0].Type == jobType {
		t.Errorf("%+v, %+v", d, description)
	}
	b.run(20 * time.Second)
	b.enforce(1, job)
}

func TestPluginStandsStill(t *testing.T) {
	b := newBench(t, 1)
	d := b.diff(1, job)
	b.trouble(PluginPaused, job, 4*time.Second, 1)
	if result := b.push(d); result.Ending != plugin.Stopped || len(b.effects) != 0 {
		t.Errorf("its permit is over: %+v, %d effects", result, len(b.effects))
	}
	d = b.diff(1, job)
	b.trouble(PluginPaused, job, 30*time.Second, 1)
	result := b.push(d)
	if result.Ending != plugin.InDoubt {
		t.Errorf("%+v", result)
	}
	b.settled(result)
	b.run(time.Minute)
	if len(b.effects) != 0 {
		t.Errorf("%d effects", len(b.effects))
	}
}

func TestPushToAPluginThatStandsStill(t *testing.T) {
	b := newBench(t, 1)
	d := b.diff(1, job)
	life := b.world.children[0].life
	life.process.Pause(2 * time.Second)
	asked := 0
	b.permit = func() error { asked++; return nil }
	if result := b.push(d); result.Ending != plugin.Pushed || asked == 0 {
		t.Errorf("%+v, %d permits", result, asked)
	}
	b.world.Drift(jobKey, 1)
	d = b.diff(1, job)
	count := len(b.effects)
	life.process.Pause(time.Second)
	b.permit = func() error { return errRefused }
	if result := b.push(d); result.Ending != plugin.Stopped || len(b.world.Pushing()) != 0 || len(b.effects) != count {
		t.Errorf("no second look: %+v", result)
	}
	life.process.Pause(time.Minute)
	if result := b.push(d); result.Ending != plugin.Failed {
		t.Errorf("%+v", result)
	}
	b.run(time.Second)
	if life.process.Alive() {
		t.Error("a plugin that asks for no permits goes on")
	}
}

func TestPluginOutlivesItsParent(t *testing.T) {
	for _, outlives := range []bool{false, true} {
		b := newBench(t, 1)
		order := b.order(b.diff(1, job), 1)
		if outlives {
			b.trouble(PluginOutlivesParent, job, 0, 0)
		}
		b.trouble(PushSlow, job, 2*time.Second, 1)
		old, first := b.replica, b.plugin
		old.Go("push", func() { first.Push(context.Background(), order) })
		b.run(time.Second)
		process := b.world.children[0].life.process
		b.sim.Kill(old)
		died := b.sim.Now()
		b.run(time.Millisecond)
		if process.Alive() != outlives {
			t.Fatalf("outlives: %t", process.Alive())
		}
		b.start("another")
		alone := b.plugin.(interface{ Alone() <-chan struct{} }).Alone()
		b.do(func() { _ = b.replica.Wait(context.Background(), -1, alone) })
		took := b.sim.Now().Sub(died)
		if process.Alive() || outlives != (took > time.Second) || took > plugin.PermitPeriod+time.Second {
			t.Errorf("outlives %t: alone after %s", outlives, took)
		}
		if happened := len(b.effects) > 0; happened != outlives {
			t.Errorf("outlives %t, %d effects", outlives, len(b.effects))
		}
		for _, e := range b.effects {
			if e.PermitLeft <= 0 || e.At.Sub(died) > plugin.PermitPeriod+time.Second {
				t.Errorf("%+v", e)
			}
		}
		b.enforce(1, job)
	}
}

func TestReplicasApartHaveNoAlone(t *testing.T) {
	b := newBench(t, 1)
	b.world.options.Apart = true
	b.start("apart")
	if _, ok := b.plugin.(interface{ Alone() <-chan struct{} }); ok {
		t.Error("it has")
	}
	b.enforce(1, job)
}

func TestOneReplicaHasOnePlugin(t *testing.T) {
	b := newBench(t, 1)
	if b.world.Plugin(b.replica, []string{"sim"}) != b.plugin || b.world.Plugin(b.replica, []string{"other"}) == b.plugin {
		t.Error("one for each command line")
	}
}

// TestHonestPluginNeedsPermits kills and stops plugins wherever they are: no
// effect begins without a permit, none lands later than E after, and all comes
// in sync in the end.
func TestHonestPluginNeedsPermits(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	kills, pauses := 0, 0
	for seed := range seeds {
		b := newBench(t, seed)
		b.sim.Hook = func(p *virtual.Process, point string) virtual.Act {
			if p == b.replica {
				return virtual.Act{}
			}
			switch b.world.random.IntN(60) {
			case 0:
				kills++
				return virtual.Act{Kill: true}
			case 1:
				pauses++
				return virtual.Act{Pause: time.Duration(b.world.random.Int64N(int64(8 * time.Second)))}
			}
			return virtual.Act{}
		}
		for sequence := range intent.Sequence(6) {
			sequence++
			b.intend(sequence, job, frontend(string(rune('0'+sequence))))
			for range 3 {
				if d := b.diff(sequence, job); d.Outcome == intent.Differs {
					b.settled(b.push(d))
				}
			}
		}
		b.sim.Hook = nil
		b.enforce(6, job)
		for _, e := range b.effects {
			if e.PermitLeft <= 0 || e.PermitLeft > plugin.PermitPeriod || e.At.Sub(e.Began) > time.Second {
				t.Fatalf("seed %d: %+v", seed, e)
			}
		}
	}
	if kills == 0 || pauses == 0 {
		t.Errorf("%d kills, %d pauses", kills, pauses)
	}
}
