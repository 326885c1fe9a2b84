package enforcer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
)

// withOutputs makes an asset in sync tell outputs.
func withOutputs(list ...intent.Output) func(*intent.Difference) {
	return func(d *intent.Difference) {
		if d.Outcome == intent.InSync {
			d.Outputs = list
		}
	}
}

// outputsNow is the document; empty: there is none.
func (w *world) outputsNow() string {
	w.t.Helper()
	doc, err := w.store.Document(context.Background(), shop, outputs.Document, "")
	if fault.Is(err, fault.NotFound) {
		return ""
	}
	w.must(err)
	return string(doc.Content)
}

func (w *world) outputsBecome(want string) {
	w.t.Helper()
	w.eventually("outputs "+want, func() bool { return w.outputsNow() == want })
}

// TestOutputsAreWritten: what an asset in sync tells is in the document, what it tells no
// more is not, and what a person wrote of others stays. At rest nothing is written.
func TestOutputsAreWritten(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("db", behaviour{says: withOutputs(intent.Output{Name: "address", Value: []byte(`"10.0.0.1"`)}, intent.Output{Name: "port", Value: []byte(`5432`)})})
		w.publish(web, db)
		w.inSync(web, db)
		w.outputsBecome(`{"db":{"address":"10.0.0.1","port":5432}}`)
		_, err := w.store.EditDocument(context.Background(), shop, outputs.Document, document.Edit{Base: "1", Reason: "no plugin tells it", Operations: []document.Operation{{Path: "/vpc", Value: []byte(`{"id":"v-1"}`)}}}, intent.Actor{Name: "ann", Origin: "cli"})
		w.must(err)
		w.production.does("db", behaviour{says: withOutputs(intent.Output{Name: "port", Value: []byte(`5433`)})})
		w.wake("db")
		w.outputsBecome(`{"db":{"port":5433},"vpc":{"id":"v-1"}}`)
		revisions, err := w.store.DocumentRevisions(context.Background(), shop, outputs.Document, "", 10)
		w.must(err)
		if revisions[0].By != intent.OutputActor || revisions[0].Reason != "told by db" {
			t.Errorf("it was written by %v: %s", revisions[0].By, revisions[0].Reason)
		}
		w.restart(func() {})
		w.pass(10 * time.Minute)
		again, err := w.store.DocumentRevisions(context.Background(), shop, outputs.Document, "", 10)
		w.must(err)
		if len(again) != len(revisions) {
			t.Errorf("%d revisions at rest", len(again)-len(revisions))
		}
		// A person's edit of what a plugin tells is put right.
		_, err = w.store.EditDocument(context.Background(), shop, outputs.Document, document.Edit{Base: revisions[0].ID, Reason: "mine", Operations: []document.Operation{{Path: "/db/port", Value: []byte(`1`)}}}, intent.Actor{Name: "ann", Origin: "cli"})
		w.must(err)
		w.outputsBecome(`{"db":{"port":5433},"vpc":{"id":"v-1"}}`)
	})
}

// TestFlappingOutputsAreDamped: an output that changes with each look is written ever less
// often, also across a restart, and the asset's report names it.
func TestFlappingOutputsAreDamped(t *testing.T) {
	simulate(t, func(w *world) {
		looks := 0
		w.production.does("db", behaviour{says: func(d *intent.Difference) {
			looks++
			withOutputs(intent.Output{Name: "now", Value: fmt.Append(nil, looks)}, intent.Output{Name: "name", Value: []byte(`"db"`)})(d)
		}})
		w.publish(db)
		w.pass(30 * time.Minute)
		w.restart(func() {})
		w.pass(30 * time.Minute)
		revisions, err := w.store.DocumentRevisions(context.Background(), shop, outputs.Document, "", 100)
		w.must(err)
		if looks < 50 || len(revisions) < 5 || len(revisions) > 10 {
			t.Errorf("%d revisions of %d looks within an hour", len(revisions), looks)
		}
		problems := w.report("db").OutputProblems
		if len(problems) != 1 || problems[0].Kind != intent.OutputChanging || problems[0].Name != "now" || !problems[0].Until.After(time.Now()) {
			t.Errorf("its report says %+v", problems)
		}
		w.production.does("db", behaviour{says: withOutputs(intent.Output{Name: "now", Value: []byte(`0`)}, intent.Output{Name: "name", Value: []byte(`"db"`)})})
		w.pass(time.Hour) // The pause is over by then.
		w.outputsBecome(`{"db":{"name":"db","now":0}}`)
		w.eventually("no problem", func() bool { return len(w.report("db").OutputProblems) == 0 })
	})
}

// TestDampedOutputsHoldNoOthers: while the output of one asset keeps changing and waits, what another one tells is
// written at once.
func TestDampedOutputsHoldNoOthers(t *testing.T) {
	simulate(t, func(w *world) {
		looks := 0
		w.production.does("db", behaviour{says: func(d *intent.Difference) {
			looks++
			withOutputs(intent.Output{Name: "now", Value: fmt.Append(nil, looks)})(d)
		}})
		w.production.does("web", behaviour{says: withOutputs(intent.Output{Name: "address", Value: []byte(`"old"`)})})
		w.publish(web, db)
		w.inSync(web)
		w.pass(20 * time.Minute)
		if problems := w.report("db").OutputProblems; len(problems) != 1 || !problems[0].Until.After(time.Now().Add(time.Minute)) {
			t.Fatalf("the output that keeps changing does not wait: %+v", problems)
		}
		w.production.does("web", behaviour{says: withOutputs(intent.Output{Name: "address", Value: []byte(`"new"`)})})
		w.wake("web")
		w.pass(2 * time.Second)
		if now := w.outputsNow(); !strings.Contains(now, `"web":{"address":"new"}`) {
			t.Errorf("2 s later the document has %s", now)
		}
	})
}

// TestNothingIsPushedWithAGap: content that asks for what nobody told waits, and says for
// what of whom.
func TestNothingIsPushedWithAGap(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("db", behaviour{says: withOutputs(intent.Output{Name: "address", Value: []byte(`"a"`)})})
		needs := web
		needs.addons = append(slices.Clone(web.addons), &intentpb.ReadsOutputs{Reads: []*intentpb.ReadOutput{{Asset: "db", Output: "adress", Unknown: true}}})
		w.publish(needs, db)
		w.inSync(db)
		w.eventually("it says what db tells", func() bool {
			waiting := w.waitsOn("web", intent.WaitOutput)
			return slices.Equal(waiting.Blockers, []intent.AssetID{"db"}) && strings.Contains(waiting.Reason, "did you mean address?")
		})
		w.pass(time.Hour)
		if pushes := w.production.pushes("web"); pushes != 0 {
			t.Errorf("%d pushes", pushes)
		}
	})
}

// TestRefusedOutputsAreNamed: what stands stays as it is.
func TestRefusedOutputsAreNamed(t *testing.T) {
	simulate(t, func(w *world) {
		w.production.does("db", behaviour{says: withOutputs(intent.Output{Name: "address", Value: []byte(`"a"`)})})
		w.publish(db)
		w.outputsBecome(`{"db":{"address":"a"}}`)
		w.production.does("db", behaviour{says: func(d *intent.Difference) { d.OutputProblem = "too large" }})
		w.eventually("it is named", func() bool {
			problems := w.report("db").OutputProblems
			return len(problems) == 1 && problems[0].Kind == intent.OutputRefused
		})
		w.outputsBecome(`{"db":{"address":"a"}}`)
		w.production.does("db", behaviour{says: withOutputs(intent.Output{Name: "address", Value: []byte(`"a"`)})})
		w.eventually("it is over", func() bool { return len(w.report("db").OutputProblems) == 0 })
	})
}
