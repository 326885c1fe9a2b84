package strategist_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// TestForgottenContentIsNotGood: what was found of content that nobody had any more was removed from the store. Published
// again, and never brought, it is nothing to go back to (S20).
func TestForgottenContentIsNotGood(t *testing.T) {
	simulate(t, 1, setting{}, func(w *world) {
		w.calm = true
		policy := &intentpb.Policy{
			Plugins: []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"fake"}}},
			Rollouts: []*intentpb.Rollout{{
				Name: "web", Select: starts("a"), Newer: intentpb.Rollout_NEWER_IS_HELD, Patience: durationpb.New(10 * time.Second),
				Stages: []*intentpb.RolloutStage{{Name: "stage-a", Where: starts("a"), Soak: durationpb.New(5 * time.Second)}},
			}},
		}
		publish := func(content word) { w.publish(map[intent.AssetID]word{"a1": content}, policy) }
		start := func() {
			_, err := w.store.OrderRollout(w.ctx, intent.RolloutOrder{Partition: shop, Name: "web", Kind: intent.OrderStart, Reason: "so said", By: ann})
			w.must(err)
			w.pass(time.Minute)
		}
		has := func(want string) {
			t.Helper()
			if text := w.words[w.things["a1"].content].text; text != want {
				t.Fatalf("a1 has %q, want %q", text, want)
			}
		}
		publish(word{text: "one"})
		start()
		has("one")
		publish(word{text: "two"})
		start()
		has("two")
		w.forgotten = map[intent.Digest]bool{w.members[1]["a1"]: true}
		publish(word{text: "one"}) // It waits for a person, and is never brought.
		w.pass(10 * time.Second)
		publish(word{text: "three", illIn: time.Second})
		start()
		runs, err := w.store.Rollouts(w.ctx, shop, store.RolloutFilter{Name: "web", Limit: 1})
		w.must(err)
		if len(runs) != 1 || runs[0].State != intent.RolloutRolledBack || runs[0].Back.Sequence != 2 {
			t.Fatalf("the last run is %+v, want it back at shop@2", runs)
		}
		has("two")
	})
}
