package world

import (
	"context"
	"slices"
	"testing"
	"time"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

func TestPermitHoldsFromItsAsking(t *testing.T) {
	b := newBench(t, 1)
	b.up()
	l := b.world.children[0].life
	now := b.sim.Now()
	c := &carried{life: l, start: start{push: plugin.Push{ID: "p"}}, wanted: "v2", until: now.Add(time.Second), changed: make(chan struct{}, 1)}
	l.carrying = append(l.carrying, c)
	for _, g := range []grant{
		{ok: true, base: "v1", asked: now},
		{ok: true, base: "v2", asked: now.Add(-plugin.PermitPeriod - 1)},
	} {
		if l.granted("p", g); c.holds {
			t.Errorf("it holds by %+v", g)
		}
	}
	l.granted("p", grant{ok: true, base: "v2", asked: now.Add(-time.Second)})
	if !c.holds || !c.until.Equal(now.Add(plugin.PermitPeriod-time.Second)) {
		t.Errorf("until %s", c.until.Sub(now))
	}
	l.granted("p", grant{reason: "stop"})
	if c.refused == "" {
		t.Error("not refused")
	}
}

// TestWhatWasUnderWayMayLandAfterThePluginIsGone: at most one effect, of that
// push, which had begun, before the longest effect is over.
func TestWhatWasUnderWayMayLandAfterThePluginIsGone(t *testing.T) {
	landed, lost := 0, 0
	for after := 20 * time.Millisecond; after < 3*time.Second; after += 20 * time.Millisecond {
		b := newBench(t, uint64(after))
		order := b.order(b.diff(1, job), 1)
		b.replica.Go("push", func() { b.plugin.Push(context.Background(), order) })
		b.run(after)
		process, pushing := b.world.children[0].life.process, len(b.world.Pushing()) == 1
		b.sim.Kill(process)
		died, count := b.sim.Now(), len(b.effects)
		b.run(3 * time.Second)
		late := b.effects[count:]
		if process.Alive() || len(late) > 1 || len(late) > 0 && !pushing {
			t.Fatalf("killed after %s, %d effects, then %d", after, count, len(late))
		}
		for _, e := range b.effects[:count] {
			if e.Posthumous {
				t.Errorf("%+v", e)
			}
		}
		for _, e := range late {
			if !e.Posthumous || e.Push != order.ID || e.By != ByLehr || e.Began.After(died) || e.PermitLeft <= 0 || e.At.Sub(e.Began) > time.Second {
				t.Errorf("killed at %s: %+v", died, e)
			}
		}
		switch {
		case len(late) > 0:
			landed++
		case pushing:
			lost++
		}
	}
	if landed < 10 || lost < 10 {
		t.Errorf("%d effects landed after all, %d pushes had none", landed, lost)
	}
}

func TestAPushIsCarriedOutOnce(t *testing.T) {
	b := newBench(t, 1)
	d := b.diff(1, job)
	b.push(d)
	b.world.Vanish(jobKey)
	count := len(b.effects)
	// The same plan, under a permit that holds, but an old id.
	again := b.order(d, 1)
	again.ID, again.Base = "push-1", b.world.snapshot(jobKey).base()
	b.do(func() { b.world.children[0].life.receive(start{push: again, asked: b.sim.Now()}) })
	b.run(10 * time.Second)
	if len(b.effects) != count {
		t.Errorf("%+v", b.effects[count:])
	}
}

func TestEmptyThings(t *testing.T) {
	b := newBench(t, 1)
	b.intend(1, command, &commandpb.Command{})
	b.intend(2, command, &commandpb.Command{}, &intentpb.Turndown{Reason: "old"})
	b.enforce(1, command)
	if r, _ := b.world.Resource(commandKey); !r.Exists || len(r.Payload) != 0 {
		t.Errorf("%+v", r)
	}
	b.enforce(2, command)
	last := b.effects[len(b.effects)-1]
	if r, _ := b.world.Resource(commandKey); r.Exists || !last.Destructive {
		t.Errorf("%+v, %+v", r, last)
	}
}

func TestOrphanThatHangsEndsWithItsPermit(t *testing.T) {
	b := newBench(t, 1)
	order := b.order(b.diff(1, job), 1)
	b.trouble(PluginOutlivesParent, job, 0, 0)
	b.trouble(PushHang, job, time.Hour, 2)
	old, first := b.replica, b.plugin
	old.Go("push", func() { first.Push(context.Background(), order) })
	b.run(time.Second)
	process := b.world.children[0].life.process
	b.sim.Kill(old)
	b.run(plugin.PermitPeriod + time.Second)
	if process.Alive() || len(b.effects) > 0 {
		t.Errorf("alive %t, %d effects", process.Alive(), len(b.effects))
	}
}

func TestWriterEndsWhenAllHeals(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, job)
	b.world.Writer(jobKey, 10*time.Second, 100)
	b.run(11 * time.Second)
	b.enforce(1, job)
	b.world.Heal()
	count := len(b.effects)
	b.run(time.Minute)
	if len(b.effects) != count || b.effects[count-1].By != ByLehr {
		t.Errorf("%+v", b.effects[count-1:])
	}
}

func TestWriterWantsTheSameEachTime(t *testing.T) {
	for seed := range uint64(20) {
		b := newBench(t, seed)
		b.enforce(1, balancer)
		count := len(b.effects)
		b.world.Writer(balancerKey, time.Second, 10)
		b.run(time.Minute)
		if len(b.effects) != count+1 {
			t.Errorf("it wrote %d times", len(b.effects)-count)
		}
	}
}

func TestMessagesKeepTheirOrder(t *testing.T) {
	b := newBench(t, 1)
	m := &mailbox{world: b.world, to: b.replica}
	var read []int
	for i := range 50 {
		m.send(func() { read = append(read, i) })
	}
	b.run(time.Second)
	if len(read) != 50 || !slices.IsSorted(read) {
		t.Errorf("%v", read)
	}
}

func TestResourcesAreInTheOrderOfTheirKeys(t *testing.T) {
	for range 10 {
		b := newBench(t, 1)
		for _, asset := range []intent.AssetID{job, command, balancer} {
			b.enforce(1, asset)
		}
		var keys []intent.ResourceKey
		for _, r := range b.world.Resources() {
			keys = append(keys, r.Key)
		}
		if len(keys) != 3 || !slices.IsSorted(keys) {
			t.Errorf("%v", keys)
		}
	}
}
