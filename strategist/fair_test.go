package strategist_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
	"lehr.dev/store"
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
