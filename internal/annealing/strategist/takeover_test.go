package strategist_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// TestARollbackIsTakenOver: the replica that begins to go back ends in the middle of it,
// before or after the step is stored, or loses its lease. The next one finishes with the
// pins that there are: all are back, each with one pin, and nothing is brought again.
func TestARollbackIsTakenOver(t *testing.T) {
	for _, end := range []string{"rollout", "saved", "lease"} {
		t.Run(end, func(t *testing.T) {
			simulate(t, 1, setting{}, func(w *world) {
				soak := durationpb.New(2 * time.Second)
				policy := &intentpb.Policy{
					Plugins: []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"fake"}}},
					Rollouts: []*intentpb.Rollout{{
						Name: "web", Select: starts("c"), Patience: durationpb.New(3 * time.Second), Stages: []*intentpb.RolloutStage{{Name: "stage-c", Where: starts("c"), Soak: soak}},
					}},
				}
				contents := map[intent.AssetID]word{"c1": {text: "good"}, "c2": {text: "good"}, "c3": {text: "good"}}
				w.publish(contents, policy)
				w.pass(20 * time.Second)
				for id := range contents {
					contents[id] = word{text: "bad", illIn: time.Second}
				}
				w.publish(contents, policy)
				newest := func() intent.Rollout {
					runs, err := w.store.Rollouts(w.ctx, shop, store.RolloutFilter{Newest: true})
					w.must(err)
					return runs[0]
				}
				for w.things["c1"].judge.ill.IsZero() {
					w.pass(tick)
				}
				w.pass(2 * time.Second)
				if end != "lease" { // In the step that goes back, or in one just before it.
					w.crash = end
				}
				for newest().State == intent.RolloutRunning {
					w.pass(tick)
				}
				if end == "lease" {
					w.stop()
					w.takes("other")
				}
				w.pass(30 * time.Second)
				if run := newest(); run.Run != 2 || run.State != intent.RolloutRolledBack || run.Back.Sequence != 1 {
					t.Errorf("the run is %d, %s, to %s", run.Run, run.State, run.Back)
				}
				pins, err := w.store.Pins(w.ctx, shop)
				w.must(err)
				for _, p := range pins {
					if p.Rank != intent.RankRollout || p.Incarnation.Sequence != 1 {
						t.Errorf("a pin is left: %+v", p)
					}
				}
				for _, id := range []intent.AssetID{"c1", "c2", "c3"} {
					if has := w.words[w.things[id].content]; has.text != "good" {
						t.Errorf("%s has %q", id, has.text)
					}
				}
				if len(pins) != 3 {
					t.Errorf("%d pins", len(pins))
				}
			})
		})
	}
}

// TestALostAnswer of the store: whichever step it is of, the run is read again as it is
// stored, and nothing that was told of it is forgotten. The monitor sees to that.
func TestALostAnswer(t *testing.T) {
	for nth := range 4 {
		simulate(t, 1, setting{}, func(w *world) {
			soak := durationpb.New(2 * time.Second)
			policy := &intentpb.Policy{
				Plugins:  []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"fake"}}},
				Rollouts: []*intentpb.Rollout{{Name: "web", Select: starts("c"), Stages: []*intentpb.RolloutStage{{Name: "stage-c", Where: starts("c"), Count: 1, Soak: soak}}}},
			}
			w.publish(map[intent.AssetID]word{"c1": {text: "one"}, "c2": {text: "one"}}, policy)
			for steps := w.steps; w.steps < steps+nth; {
				w.pass(tick)
			}
			w.lost = 2 * time.Second
			w.pass(30 * time.Second)
			if !w.arrived() || w.lost > 0 {
				t.Errorf("of step %d: it did not end", nth+1)
			}
		})
	}
}
