package strategist_test

import (
	"encoding/json"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// TestKilledAroundAnEdit: between the record of an edit and the edit, and between that
// and the record of its revision, nothing is lost and nothing is done twice.
func TestKilledAroundAnEdit(t *testing.T) {
	for _, crash := range []string{"rollout edit", "edited", "saved"} {
		t.Run(crash, func(t *testing.T) {
			simulate(t, 1, setting{}, func(w *world) {
				w.publish(map[intent.AssetID]word{"x1": {text: "one"}}, &intentpb.Policy{
					Plugins: []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"lehr-command"}}},
					Rollouts: []*intentpb.Rollout{{
						Name: "flags", Select: "id.startsWith('x')", Stages: []*intentpb.RolloutStage{{Name: "all"}},
						Field: &intentpb.DocumentField{Document: "knobs", Pointer: "/{id}/flags", Source: "held"},
					}},
				})
				_, err := w.store.CreateDocument(w.ctx, shop, "knobs", []byte(`{"x1":{}}`), "begun", ann)
				w.must(err)
				w.pass(2 * time.Second)
				w.crash = crash
				_, err = w.store.OrderRollout(w.ctx, intent.RolloutOrder{Partition: shop, Name: "flags", Kind: intent.OrderStart, Value: []byte("2"), Reason: "spring", By: ann})
				w.must(err)
				w.pass(10 * time.Second)
				runs, err := w.store.Rollouts(w.ctx, shop, store.RolloutFilter{Name: "flags"})
				w.must(err)
				revisions, err := w.store.DocumentRevisions(w.ctx, shop, "knobs", "", 10)
				w.must(err)
				found, err := w.store.Document(w.ctx, shop, "knobs", "")
				w.must(err)
				if w.crash != "" || len(runs) != 1 || len(runs[0].Edits) != 1 || runs[0].Edits[0].Revision != "2" || runs[0].Edits[0].Changed != "" {
					t.Errorf("it did not end at %q, or has runs %+v", w.crash, runs)
				}
				if len(revisions) != 2 || string(found.Content) != `{"x1":{"flags":2}}` || found.Revision.By != intent.RolloutHolder("flags") {
					t.Errorf("the document is %s, after %+v", found.Content, revisions)
				}
			})
		})
	}
}

// TestASoakByAFieldOutlivesItsServer but for the ten seconds that nobody stored; and that an
// asset tells of its health is known to the next run too.
func TestASoakByAFieldOutlivesItsServer(t *testing.T) {
	simulate(t, 1, setting{}, func(w *world) {
		w.withKnobs()
		rollout := w.fieldRollout()
		rollout.Stages = []*intentpb.RolloutStage{{Name: "all", Soak: durationpb.New(40 * time.Second)}}
		rollout.Validate, rollout.Emergency = nil, nil
		w.publish(map[intent.AssetID]word{}, &intentpb.Policy{Plugins: []*intentpb.PluginBinding{{Type: string(commandType), Run: []string{"lehr-command"}}}, Rollouts: []*intentpb.Rollout{rollout}})
		w.pass(2 * time.Second)
		start := func() {
			value, err := json.Marshal(w.value(true))
			w.must(err)
			_, err = w.store.OrderRollout(w.ctx, intent.RolloutOrder{Partition: shop, Name: "flags", Kind: intent.OrderStart, Value: value, Reason: "spring", By: ann, At: w.now()})
			w.must(err)
		}
		is := func(want intent.RolloutState, why string) {
			t.Helper()
			runs, err := w.store.Rollouts(w.ctx, shop, store.RolloutFilter{Name: "flags", Limit: 1})
			w.must(err)
			if runs[0].State != want {
				t.Errorf("the run is %s, and not %s: %s", runs[0].State, want, why)
			}
		}
		start()
		w.pass(35 * time.Second)
		is(intent.RolloutRunning, "it soaks")
		w.stop()
		w.begin(true)
		w.pass(25 * time.Second)
		is(intent.RolloutDone, "what soaked before its server ended counts")
		w.things["x1"].mute = w.truth().Add(time.Hour)
		start()
		w.pass(60 * time.Second)
		is(intent.RolloutRunning, "x1 told of its health, and tells no more")
	})
}
