package strategist_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// TestARolloutThatActsInEveryPass keeps none after it waiting: of its asset something new is
// seen after each of its steps, and so there is another to store.
func TestARolloutThatActsInEveryPass(t *testing.T) {
	simulate(t, 1, setting{}, func(w *world) {
		policy := &intentpb.Policy{
			Plugins: []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"fake"}}},
			Rollouts: []*intentpb.Rollout{
				{Name: "first", Select: starts("a"), Stages: []*intentpb.RolloutStage{{Name: "stage-a", Where: starts("a"), Soak: durationpb.New(time.Hour)}}},
				{Name: "second", Select: starts("b"), Stages: []*intentpb.RolloutStage{{Name: "stage-b", Where: starts("b")}}},
			},
		}
		w.publish(map[intent.AssetID]word{"a1": {text: "one"}, "b1": {text: "one"}}, policy)
		w.pass(20 * time.Second)
		steps := 0
		w.stored = func(step store.RolloutStep) {
			if step.Rollout != "first" {
				return
			}
			steps++
			if a := w.things["a1"]; w.truth().Before(a.sick) {
				a.sick = time.Time{}
			} else {
				a.sick = w.truth().Add(time.Hour)
			}
			w.enforceOne("a1", w.things["a1"])
		}
		w.things["a1"].sick = w.truth().Add(time.Hour)
		w.pass(5 * time.Second)
		if steps < 10 {
			t.Fatalf("it acted %d times, and was to do so in every pass", steps)
		}
		w.publish(map[intent.AssetID]word{"a1": {text: "one"}, "b1": {text: "two"}}, policy)
		w.pass(20 * time.Second)
		if has := w.words[w.things["b1"].content].text; has != "two" {
			t.Errorf("the second rollout brought nothing: b1 has %q", has)
		}
		if runs, err := w.store.Rollouts(w.ctx, shop, store.RolloutFilter{Name: "second", Limit: 1}); err != nil || len(runs) != 1 || runs[0].State != intent.RolloutDone {
			t.Errorf("its run did not end: %+v, %v", runs, err)
		}
		w.stored, w.things["a1"].sick = nil, time.Time{}
		w.pass(20 * time.Second)
	})
}

// TestASoakIsLeftAlone: while all is as well as it was, however often that is looked at, a
// rollout is not gone on with until its soak is over, or something is not so any more.
func TestASoakIsLeftAlone(t *testing.T) {
	simulate(t, 1, setting{}, func(w *world) {
		policy := &intentpb.Policy{
			Plugins: []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"fake"}}},
			Rollouts: []*intentpb.Rollout{{Name: "web", Select: starts("ab"), Patience: durationpb.New(time.Second), Stages: []*intentpb.RolloutStage{
				{Name: "first", Where: starts("a"), Soak: durationpb.New(10 * time.Minute)}, {Name: "rest", Where: starts("b"), Soak: durationpb.New(time.Second)},
			}}},
		}
		has := func(asset intent.AssetID) string { return w.words[w.things[asset].content].text }
		one := map[intent.AssetID]word{"a1": {text: "one"}, "b1": {text: "one"}}
		w.publish(one, policy)
		w.pass(25 * time.Minute)
		w.publish(map[intent.AssetID]word{"a1": {text: "two"}, "b1": {text: "two"}}, policy)
		w.pass(10 * time.Second)
		before := w.reads
		w.pass(8 * time.Minute)
		// Two by the time, and two for what is kept of it, in ten seconds.
		if passes := w.reads - before; passes > 200 {
			t.Errorf("%d passes in eight minutes of a soak in which nothing happened", passes)
		}
		w.pass(105 * time.Second)
		if has("a1") != "two" || has("b1") != "one" {
			t.Fatalf("before the soak is over a1 has %s and b1 %s", has("a1"), has("b1"))
		}
		w.pass(15 * time.Second)
		if has("b1") != "two" {
			t.Fatalf("after the soak b1 has %s", has("b1"))
		}
		w.publish(map[intent.AssetID]word{"a1": {text: "three"}, "b1": {text: "three"}}, policy)
		w.pass(time.Minute)
		w.things["a1"].sick = w.truth().Add(time.Hour)
		w.pass(6 * time.Second)
		if has("a1") != "two" {
			t.Errorf("a1 is ill for 6 s, and has %s still", has("a1"))
		}
		w.things["a1"].sick = time.Time{}
	})
}

// TestWhatSoakedIsWrittenNoMore: a run that waits for a person, with all that it let go on
// well, writes nothing.
func TestWhatSoakedIsWrittenNoMore(t *testing.T) {
	simulate(t, 1, setting{}, func(w *world) {
		policy := &intentpb.Policy{
			Plugins: []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"fake"}}},
			Rollouts: []*intentpb.Rollout{{Name: "web", Select: starts("ab"), Stages: []*intentpb.RolloutStage{
				{Name: "first", Where: starts("a"), Soak: durationpb.New(time.Minute)}, {Name: "rest", Where: starts("b"), Soak: durationpb.New(time.Minute)},
			}}},
		}
		w.publish(map[intent.AssetID]word{"a1": {text: "one"}, "b1": {text: "one"}}, policy)
		w.pass(5 * time.Minute)
		w.must(w.store.SetHold(w.ctx, shop, intent.Hold{Asset: "b1", Owner: ann, Reason: "moving racks", Created: w.now()}))
		w.publish(map[intent.AssetID]word{"a1": {text: "two"}, "b1": {text: "two"}}, policy)
		w.pass(5 * time.Minute)
		if a, b := w.words[w.things["a1"].content].text, w.words[w.things["b1"].content].text; a != "two" || b != "one" {
			t.Fatalf("a1 has %s, and b1, which is held, %s", a, b)
		}
		before := w.steps
		w.pass(30 * time.Minute)
		if steps := w.steps - before; steps > 0 {
			t.Errorf("%d steps were stored of a run in which nothing happened", steps)
		}
		w.must(w.store.Unhold(w.ctx, shop, "b1", "over", ann))
		w.pass(2 * time.Minute)
	})
}
