package world

import (
	"context"
	"slices"
	"testing"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/virtual"
)

// once runs something when a plugin first comes to a point.
func (b *bench) once(point string, f func()) {
	b.sim.Hook = func(_ *virtual.Process, at string) virtual.Act {
		if at == point {
			b.sim.Hook = nil
			f()
		}
		return virtual.Act{}
	}
}

// refused are the effects that the target did not let happen.
func (b *bench) refused() (refused []Effect) {
	for _, e := range b.effects {
		if e.Refused != "" {
			refused = append(refused, e)
		}
	}
	return refused
}

func TestFencedTargetRefusesALowerToken(t *testing.T) {
	b := newBench(t, 1)
	if result := b.pushAs(b.diff(1, job), 5); result.Ending != plugin.Pushed {
		t.Fatalf("%+v", result)
	}
	b.world.Drift(jobKey, 1)
	before, _ := b.world.Resource(jobKey)
	result := b.pushAs(b.diff(1, job), 4)
	after, _ := b.world.Resource(jobKey)
	if result.Ending != plugin.Stale || len(b.refused()) != 1 || before.Version != after.Version || after.Token != 5 {
		t.Fatalf("%+v, %+v", result, b.refused())
	}
	if result := b.pushAs(b.diff(1, job), 6); result.Ending != plugin.Pushed {
		t.Errorf("%+v", result)
	}
}

func TestCompareAndSetTargetRefusesAnotherBase(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, balancer)
	b.intend(2, balancer, edge("a", "c"))
	d := b.diff(2, balancer)
	if !d.Plan.Destructive() || len(d.Plan.Changes) != 2 {
		t.Errorf("it takes an upstream away: %+v", d.Plan)
	}
	b.once("effect", func() { b.world.Drift(balancerKey, 1) })
	drifted := len(b.effects)
	if result := b.push(d); result.Ending != plugin.Stale || len(b.refused()) != 1 || len(b.effects) != drifted+2 {
		t.Fatalf("%+v, %+v", result, b.effects[drifted:])
	}
	b.enforce(2, balancer)
}

func TestUnguardedTargetTakesAll(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, command)
	b.intend(2, command, &commandpb.Command{Diff: []string{"a"}, Push: []string{"b"}, Input: "2"})
	d := b.diff(2, command)
	b.once("effect", func() { b.world.Drift(commandKey, 1) })
	if result := b.pushAs(d, 0); result.Ending != plugin.Pushed || len(b.refused()) != 0 {
		t.Errorf("%+v, %+v", result, b.refused())
	}
}

func TestMovedBaseNeedsAPermitThatNamesIt(t *testing.T) {
	b := newBench(t, 1)
	unmanaged := &intentpb.Unmanaged{Fields: []*intentpb.UnmanagedField{{Path: "replicas", Reason: "autoscaled"}}}
	b.intend(1, job, frontend("1"), unmanaged)
	b.intend(2, job, frontend("2"), unmanaged)
	b.enforce(1, job)
	d := b.diff(2, job)
	if !b.world.Autoscale(jobKey, 17) {
		t.Fatal("not scaled")
	}
	now, _ := b.world.Resource(jobKey)
	order := b.order(d, 1)
	var bases []string
	order.Permit = func(_ context.Context, base string) error {
		bases = append(bases, base)
		return nil
	}
	var result plugin.PushResult
	b.do(func() { result = b.plugin.Push(context.Background(), order) })
	if result.Ending != plugin.Pushed || !slices.Contains(bases, snapshot{version: now.Version}.base()) {
		t.Errorf("%+v, permits for %v, the base is %d", result, bases, now.Version)
	}
	d = b.diff(2, job)
	if d.Outcome != intent.InSync || len(d.Unmanaged) != 1 || d.Unmanaged[0].Path != "replicas" || d.Unmanaged[0].Current != `{"replicas":17}` ||
		!slices.Contains(d.Impacts, intent.Impact{Dimension: "replicas", Current: 17, Target: 17}) {
		t.Errorf("%+v", d)
	}
}

func TestAnotherPlanIsStale(t *testing.T) {
	b := newBench(t, 1)
	b.enforce(1, job)
	b.intend(2, job, frontend("2"))
	d := b.diff(2, job)
	d.Plan.Changes[0].Target = "another"
	count := len(b.effects)
	if result := b.push(d); result.Ending != plugin.Stale || len(b.effects) != count {
		t.Errorf("%+v", result)
	}
}

func TestTurndownDeletes(t *testing.T) {
	b := newBench(t, 1)
	b.intend(2, command, &commandpb.Command{Diff: []string{"a"}, Push: []string{"b"}}, &intentpb.Turndown{Reason: "old"})
	if d := b.diff(2, command); d.Outcome != intent.InSync || len(d.Current) != 0 {
		t.Errorf("%+v", d)
	}
	b.enforce(1, command)
	d := b.diff(2, command)
	if d.Plan.Action != intent.ActionDelete || len(d.Plan.Changes) == 0 || !d.Plan.Changes[0].Destructive {
		t.Fatalf("%+v", d)
	}
	b.push(d)
	last := b.effects[len(b.effects)-1]
	if r, _ := b.world.Resource(commandKey); r.Exists || !last.Delete || !last.Destructive || last.Before == "" || last.After != "" {
		t.Errorf("%+v, %+v", r, last)
	}
	if d := b.diff(2, command); d.Outcome != intent.InSync || len(d.Current) != 0 {
		t.Errorf("%+v", d)
	}
}

func TestUnreadableIntentIsUnknown(t *testing.T) {
	b := newBench(t, 1)
	if d := b.diff(9, job); d.Outcome != intent.Unknown || d.Reason == "" {
		t.Errorf("%+v", d)
	}
	if matches, _ := b.world.Matches(context.Background(), at(9), job); matches {
		t.Error("it matches")
	}
}
