package world

import (
	"context"
	"testing"
	"time"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"

	"google.golang.org/protobuf/proto"
)

func TestDriftChangesOneField(t *testing.T) {
	paths := map[string]bool{}
	for seed := range uint64(40) {
		b := newBench(t, 1)
		if b.world.Drift(jobKey, seed) {
			t.Fatal("nothing is there")
		}
		b.enforce(1, job)
		if !b.world.Drift(jobKey, seed) {
			t.Fatal("nothing changed")
		}
		d := b.diff(1, job)
		if last := b.effects[len(b.effects)-1]; last.By != ByDrift || last.Push != "" || len(d.Plan.Changes) != 1 {
			t.Fatalf("%+v, %+v", last, d)
		}
		paths[d.Plan.Changes[0].Path] = true
		b.enforce(1, job)
	}
	if len(paths) < 5 || paths["name"] {
		t.Errorf("%v", paths)
	}
}

func TestVanish(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, job)
	before, _ := b.world.Resource(jobKey)
	if !b.world.Vanish(jobKey) || b.world.Vanish(jobKey) {
		t.Error("once")
	}
	d := b.diff(1, job)
	if d.Plan.Action != intent.ActionCreate || d.Base == (snapshot{version: before.Version}).base() || !b.effects[len(b.effects)-1].Delete {
		t.Errorf("%+v", d)
	}
	b.enforce(1, job)
}

func TestWriterChangesItBack(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, job)
	b.world.Writer(jobKey, 10*time.Second, 5)
	path, written := "", 0
	for range 60 {
		if d := b.diff(1, job); d.Outcome == intent.Differs {
			if path != "" && d.Plan.Changes[0].Path != path {
				t.Errorf("it wrote %s and %s", path, d.Plan.Changes[0].Path)
			}
			path = d.Plan.Changes[0].Path
			b.push(d)
		}
		b.run(time.Second)
	}
	for _, e := range b.effects {
		if e.By == ByWriter {
			written++
		}
	}
	if written != 5 {
		t.Errorf("written %d times", written)
	}
}

func TestAutoscaleSetsTheReplicas(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, job)
	b.world.Autoscale(jobKey, 42)
	r, _ := b.world.Resource(jobKey)
	state := &processpb.Job{}
	if err := proto.Unmarshal(r.Payload, state); err != nil || state.Replicas != 42 || state.Version != "1" {
		t.Errorf("%v, %v", state, err)
	}
}

func TestSickAndDegraded(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, job)
	b.world.Sick(jobKey, true)
	if d := b.diff(1, job); d.Health.State != intent.Unhealthy || d.Outcome != intent.InSync {
		t.Errorf("%+v", d)
	}
	b.world.Degrade(jobKey, true)
	if d := b.diff(1, job); d.Health.State != intent.HealthUnknown {
		t.Errorf("%+v", d)
	}
	b.world.Heal()
	if d := b.diff(1, job); d.Health.State != intent.Healthy || d.Health.ObservedVersion != "1" {
		t.Errorf("%+v", d)
	}
}

func TestHealEndsAll(t *testing.T) {
	for _, kind := range Kinds() {
		b := newBench(t, 1)
		d := b.diff(1, job)
		b.world.Trouble(Trouble{Kind: kind, For: time.Hour, Count: 3, Seed: 1})
		b.world.Writer(jobKey, 5*time.Second, 1000)
		order := b.order(d, 1)
		b.replica.Go("push", func() { b.plugin.Push(context.Background(), order) })
		b.replica.Go("diff", func() {
			_, _ = b.plugin.Diff(context.Background(), plugin.DiffRequest{Incarnation: at(1), Assets: []intent.AssetID{job}})
		})
		b.run(20 * time.Second)
		b.world.Heal()
		if kind == PluginPaused {
			b.replica.Scheduler().Kill(b.world.children[0].life.process)
		}
		b.run(35 * time.Second)
		if open := b.world.Pushing(); len(open) > 0 {
			t.Errorf("%s: still pushing %+v", kind, open)
		}
		b.enforce(1, job)
		count := len(b.effects)
		b.run(time.Minute)
		if d := b.diff(1, job); d.Outcome != intent.InSync || len(b.effects) != count {
			t.Errorf("%s: %+v", kind, d)
		}
	}
}
