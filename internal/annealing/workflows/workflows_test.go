package workflows

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/workflow"
)

const editing = `
workflow: v1
name: try
inputs: {version: string}
machines:
  web:
    initial: editing
    states:
      editing:
        action:
          edit: {document: knobs, field: /web, value: "${inputs.version}"}
          runs: at-least-once
          timeout: 1h
          leaves: []
      done: {end: success}
      failed: {end: failure}
    transitions:
      - {from: editing, to: done, on: done}
      - {from: editing, to: failed, on: [failed, expired]}
`

func version(text string) map[string]workflow.Value {
	return map[string]workflow.Value{"version": {Type: rule.ScalarString, Text: text}}
}

// TestEditWaitsForItsEnforcement edits once, and is done when the asset that follows is in sync:
// not when it is published, and not while the asset waits.
func TestEditWaitsForItsEnforcement(t *testing.T) {
	w := newWorld(t)
	run := w.start(editing, version("2"))
	before := w.revisions()
	w.pass()
	w.pass()
	if got, _, err := document.TextAt(w.document().Content, "/web"); err != nil || got != "2" || w.revisions() != before+1 {
		t.Fatalf("the field holds %q after %d edits: %v", got, w.revisions()-before, err)
	}
	const key = "web/editing/1"
	if text := w.waiting(run.Number, key); !strings.Contains(text, "not published yet") {
		t.Errorf("it waits: %s", text)
	}
	w.build()
	w.pass()
	if text := w.waiting(run.Number, key); !strings.Contains(text, "0 of 1 assets") {
		t.Errorf("it waits: %s", text)
	}
	w.enforce("web")
	w.pass()
	w.expectState(run.Number, "web", "editing")
	if text := w.waiting(run.Number, key); !strings.Contains(text, "web waits (hold): ann looks") {
		t.Errorf("it waits: %s", text)
	}
	w.enforce()
	w.pass()
	w.expectState(run.Number, "web", "done")
	ended := w.run(run.Number)
	if ended.Outcome != string(workflow.EndSuccess) || ended.Ended.IsZero() || len(ended.Actions) > 0 || !ended.Wakes.IsZero() {
		t.Errorf("it ended so: %+v", ended)
	}
	if w.events(run.Number, intent.WorkflowAnswered) != 1 || w.events(run.Number, intent.WorkflowMoved) != 1 || w.events(run.Number, intent.WorkflowEnded) != 1 {
		t.Error("the history does not say what happened")
	}
}

// TestEditHappensOnce although the answer to its step is lost.
func TestEditHappensOnce(t *testing.T) {
	w := newWorld(t)
	run := w.start(editing, version("2"))
	before := w.revisions()
	w.lost = true
	_, _ = w.driver().pass(t.Context())
	for range 3 {
		w.tick(time.Minute)
		w.pass()
	}
	if w.revisions() != before+1 || w.run(run.Number).Actions["web/editing/1"].Revision == "" {
		t.Errorf("%d edits, %+v", w.revisions()-before, w.run(run.Number).Actions)
	}
}

// TestEditOfAFieldThatHoldsTheValue makes no revision, and is done at once.
func TestEditOfAFieldThatHoldsTheValue(t *testing.T) {
	w := newWorld(t)
	run := w.start(editing, version("1"))
	before := w.revisions()
	w.pass()
	w.expectState(run.Number, "web", "done")
	if w.revisions() != before {
		t.Errorf("%d edits", w.revisions()-before)
	}
}

// TestEditFails where what is built of it is refused, or somebody sets the field to something
// else meanwhile.
func TestEditFails(t *testing.T) {
	for name, after := range map[string]func(*world){
		"refused":     func(w *world) { w.refuse("no such release") },
		"overwritten": func(w *world) { w.set("/web", "3") },
		"deleted": func(w *world) {
			_, err := w.store.DeleteDocument(w.t.Context(), shop, "knobs", w.document().Revision.ID, "a try", ann)
			w.must(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.start(editing, version("2"))
			w.pass()
			after(w)
			w.pass()
			w.expectState(run.Number, "web", "failed")
			if got := w.run(run.Number).Outcome; got != string(workflow.EndFailure) {
				t.Errorf("it ended as %s", got)
			}
		})
	}
}

// TestAnEarlierRefusalIsNotAnEditsFault: a finding that was there before the edit does not fail
// it.
func TestAnEarlierRefusalIsNotAnEditsFault(t *testing.T) {
	w := newWorld(t)
	w.set("/db", "2")
	w.refuse("the network is away")
	run := w.start(editing, version("2"))
	w.pass()
	w.tick(time.Second)
	w.refuse("the network is away")
	w.pass()
	w.expectState(run.Number, "web", "editing")
}

// TestTimeoutExpires by the clock of the driver, once.
func TestTimeoutExpires(t *testing.T) {
	w := newWorld(t)
	run := w.start(editing, version("2"))
	w.pass()
	w.tick(59 * time.Minute)
	w.pass()
	w.expectState(run.Number, "web", "editing")
	w.tick(2 * time.Minute)
	w.pass()
	w.expectState(run.Number, "web", "failed")
}

// TestStopHoldsEffects: a stopped partition's document is not edited and nobody is called, and
// the run says why.
func TestStopHoldsEffects(t *testing.T) {
	w := newWorld(t)
	called := 0
	w.call = func(context.Context, Call) (Answer, error) { called++; return Answer{Status: 200}, nil }
	edits, tells := w.start(editing, version("2")), w.start(telling("at-least-once"), nil)
	w.must(w.store.SetStop(t.Context(), intent.Stop{Partition: shop, Owner: ann, Reason: "fire"}))
	before := w.revisions()
	d := w.driver()
	for range 3 {
		if _, err := d.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.tick(time.Second)
	}
	if called > 0 || w.revisions() != before {
		t.Errorf("%d calls, %d edits", called, w.revisions()-before)
	}
	for number, key := range map[uint64]string{edits.Number: "web/editing/1", tells.Number: "ci/telling/1"} {
		if text := w.waiting(number, key); !strings.Contains(text, "ann stopped the partition: fire") {
			t.Errorf("run %d waits: %s", number, text)
		}
	}
	w.must(w.store.Resume(t.Context(), shop, "over", ann))
	if _, err := d.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.revisions() != before+1 {
		t.Error("it does not go on after the stop")
	}
}

// leaving is a run that edits, or tells, and takes back what it left.
func leaving(action string) string {
	return `
workflow: v1
name: try
machines:
  web:
    initial: editing
    states:
      editing:
        action: {` + action + `, runs: at-least-once, timeout: 1h, leaves: new}
      done: {end: success}
      undoing:
        action: {edit: {document: knobs, field: /web, value: "1"}, runs: at-least-once, undoes: new}
      undone: {end: failure}
      unclear: {end: failure, accepts: new}
    transitions:
      - {from: editing, to: done, on: done}
      - {from: editing, to: undoing, on: [failed, expired]}
      - {from: undoing, to: undone, on: done}
      - {from: undoing, to: unclear, on: failed}
`
}

// leftovers of a run, as it is stored.
func (w *world) leftovers(number uint64) []string {
	w.t.Helper()
	state, err := workflow.StateOf(w.run(number))
	w.must(err)
	return state.Leftovers
}

// TestWhatAStopHeldIsNotLeft: an edit or a call that a stop held until its timeout was never made, so the run does not
// call it left. One that began is left, whoever looks next, until its clean-up is done.
func TestWhatAStopHeldIsNotLeft(t *testing.T) {
	for name, action := range map[string]string{
		"edit": `edit: {document: knobs, field: /web, value: "2"}`, "tell": `tell: {url: "https://ci.example.com/builds"}`,
	} {
		for _, held := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, held: %t", name, held), func(t *testing.T) {
				w := newWorld(t)
				called := make(chan struct{})
				w.call = func(ctx context.Context, _ Call) (Answer, error) {
					close(called)
					<-ctx.Done()
					return Answer{}, fault.New(fault.Unavailable, "it did not answer")
				}
				run, before := w.start(leaving(action), nil), w.revisions()
				stop := intent.Stop{Partition: shop, Owner: ann, Reason: "fire"}
				var left []string
				if !held {
					d := w.driver()
					if _, err := d.pass(t.Context()); err != nil {
						t.Fatal(err)
					}
					if name == "tell" {
						<-called
					}
					d.endCalls(t.Context())
					w.build()
					left = []string{"new"}
				}
				w.must(w.store.SetStop(t.Context(), stop))
				w.pass()
				if got := w.leftovers(run.Number); !slices.Equal(got, left) {
					t.Errorf("under way, left are %v, not %v", got, left)
				}
				w.tick(2 * time.Hour)
				w.pass()
				w.expectState(run.Number, "web", "undoing")
				if got := w.leftovers(run.Number); !slices.Equal(got, left) {
					t.Errorf("after the timeout, left are %v, not %v", got, left)
				}
				if edits := w.revisions() - before; held && edits > 0 || !held && name == "edit" && edits != 1 {
					t.Errorf("%d edits", edits)
				}
				w.must(w.store.Resume(t.Context(), shop, "over", ann))
				w.pass()
				w.build()
				w.enforce()
				w.tick(time.Second)
				w.pass()
				w.expectState(run.Number, "web", "undone")
				if got := w.leftovers(run.Number); len(got) > 0 {
					t.Errorf("after the clean-up, left are %v", got)
				}
			})
		}
	}
}

// TestNothingBeginsAfterItsTimeout: nobody looked at the run until the timeout of its action was over. The action
// has expired, and its effect does not begin.
func TestNothingBeginsAfterItsTimeout(t *testing.T) {
	for name, action := range map[string]string{
		"edit": `edit: {document: knobs, field: /web, value: "2"}`, "tell": `tell: {url: "https://ci.example.com/builds"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.call = func(context.Context, Call) (Answer, error) {
				t.Error("it is called")
				return Answer{Status: 200}, nil
			}
			run, before := w.start(leaving(action), nil), w.revisions()
			w.tick(2 * time.Hour)
			d := w.driver()
			if _, err := d.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.endCalls(t.Context())
			w.expectState(run.Number, "web", "undone") // The field has the value already.
			if got := w.leftovers(run.Number); len(got) > 0 || w.revisions() != before {
				t.Errorf("left are %v, after %d edits", got, w.revisions()-before)
			}
		})
	}
}

// TestWaitAndFacts: a wait is over by the clock, and a fact by the report of its asset.
func TestWaitAndFacts(t *testing.T) {
	w := newWorld(t)
	run := w.start(`
workflow: v1
name: try
facts: {quiet: {asset: web, when: 'report.state == "in-sync"'}}
machines:
  m:
    initial: waiting
    states:
      waiting: {action: {wait: {for: 10m}}}
      ready: {}
      gone: {end: success}
    transitions:
      - {from: waiting, to: ready, on: done}
      - {from: ready, to: gone, when: facts.quiet}
`, nil)
	w.enforce("web")
	w.pass()
	w.expectState(run.Number, "m", "waiting")
	w.tick(10 * time.Minute)
	w.pass()
	w.expectState(run.Number, "m", "ready")
	w.enforce()
	w.tick(time.Second)
	w.pass()
	w.expectState(run.Number, "m", "gone")
}

func telling(runs string) string {
	other := ""
	if runs == string(workflow.AtMostOnce) {
		other = "\n      - {from: telling, to: unclear, on: unknown}"
	}
	return `
workflow: v1
name: try
machines:
  ci:
    initial: telling
    states:
      telling:
        action:
          tell: {url: "https://ci.example.com/builds", body: "{}"}
          runs: ` + runs + `
          outputs: {image: string}
          leaves: []
      told: {end: success}
      failed: {end: failure}
      unclear: {end: neutral}
    transitions:
      - {from: telling, to: told, on: done}
      - {from: telling, to: failed, on: failed}` + other
}

// passes of one driver until a run ended, with time for its calls.
func (w *world) passUntilEnd(d *Driver, number uint64) intent.WorkflowRun {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := d.pass(w.t.Context()); err != nil && !fault.Is(err, fault.Unavailable) {
			w.t.Fatal(err)
		}
		if run := w.run(number); !run.Ended.IsZero() {
			return run
		}
		w.tick(time.Second)
	}
	w.t.Fatalf("it does not end: %+v", w.run(number).Actions)
	return intent.WorkflowRun{}
}

// TestCallIsRepeatedWithItsKey until it is answered, and its outputs are read.
func TestCallIsRepeatedWithItsKey(t *testing.T) {
	w := newWorld(t)
	var keys []string
	w.call = func(_ context.Context, c Call) (Answer, error) {
		keys = append(keys, c.Key)
		if len(keys) < 3 {
			return Answer{Status: 503}, fault.New(fault.Unavailable, "ci.example.com answered 503")
		}
		return Answer{Status: 201, Text: `{"image": "web:1", "more": 3}`}, nil
	}
	run := w.start(telling("at-least-once"), nil)
	ended := w.passUntilEnd(w.driver(), run.Number)
	if len(keys) != 3 || keys[0] != "shop/try#1/ci/telling/1" || keys[0] != keys[2] || ended.Outcome != string(workflow.EndSuccess) {
		t.Errorf("%q, ended as %s", keys, ended.Outcome)
	}
	state, err := workflow.StateOf(ended)
	if err != nil || state.Machines[0].Outputs["image"].Text != "web:1" {
		t.Errorf("outputs %+v, %v", state.Machines[0].Outputs, err)
	}
}

// TestCallAtMostOnce is not repeated by another process, nor after an answer that says nothing:
// what became of it is unknown.
func TestCallAtMostOnce(t *testing.T) {
	for name, ends := range map[string]bool{"the process ended": true, "no answer": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			called, begun := 0, make(chan struct{})
			w.call = func(ctx context.Context, _ Call) (Answer, error) {
				called++
				if ends {
					close(begun)
					<-ctx.Done()
				}
				return Answer{}, fault.New(fault.Unavailable, "it did not answer")
			}
			run := w.start(telling("at-most-once"), nil)
			d := w.driver()
			if _, err := d.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if ends {
				<-begun
				d.endCalls(t.Context())
				d = w.driver()
			}
			ended := w.passUntilEnd(d, run.Number)
			w.expectState(run.Number, "ci", "unclear")
			if called != 1 || ended.Outcome != string(workflow.EndSuccess) {
				t.Errorf("%d calls, %s", called, ended.Outcome)
			}
		})
	}
}

// TestCallThatIsRefused, or whose answer lacks an output, has failed.
func TestCallThatIsRefused(t *testing.T) {
	for name, given := range map[string]struct {
		answer Answer
		err    error
	}{
		"status":  {Answer{Status: 404}, nil},
		"denied":  {Answer{}, fault.New(fault.Denied, "the operator's file does not list it")},
		"no JSON": {Answer{Status: 200, Text: "fine"}, nil},
		"lacking": {Answer{Status: 200, Text: "{}"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.call = func(context.Context, Call) (Answer, error) { return given.answer, given.err }
			run := w.start(telling("at-least-once"), nil)
			if ended := w.passUntilEnd(w.driver(), run.Number); ended.Outcome != string(workflow.EndFailure) {
				t.Errorf("it ended as %s", ended.Outcome)
			}
		})
	}
}

// TestLostLeaseStepsNothing: a driver whose lease is over stores nothing (S4).
func TestLostLeaseStepsNothing(t *testing.T) {
	w := newWorld(t)
	run := w.start(editing, version("2"))
	old := w.driver()
	w.tick(time.Hour)
	lease, err := w.store.Acquire(t.Context(), shop, "another")
	w.must(err)
	before := w.revisions()
	if _, err := old.pass(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
	if w.revisions() != before {
		t.Error("it edited under a lease that is over")
	}
	w.lease = lease
	w.pass()
	w.expectState(run.Number, "web", "failed") // Its timeout passed meanwhile.
}

// TestNumbersStayNumbers in a document, and what is no number fails.
func TestNumbersStayNumbers(t *testing.T) {
	w := newWorld(t)
	text := strings.ReplaceAll(editing, "/web", "/count")
	good, bad := w.start(text, version("4")), w.start(text, version("many"))
	w.pass()
	if content := string(w.document().Content); !strings.Contains(content, `"count":4`) && !strings.Contains(content, `"count": 4`) {
		t.Errorf("the document is %s", content)
	}
	w.expectState(bad.Number, "web", "failed")
	w.build()
	w.enforce()
	w.pass()
	w.expectState(good.Number, "web", "done")
}

// TestTaskTellsItsOutputs, which are read once the enforcer has had time to write them, and not
// while it says that it could not.
func TestTaskTellsItsOutputs(t *testing.T) {
	w := newWorld(t)
	_, err := w.store.CreateDocument(t.Context(), shop, outputs.Document, []byte(`{"web":{"image":"old"}}`), "told", ann)
	w.must(err)
	run := w.start(strings.NewReplacer(
		`edit: {document: knobs, field: /web, value: "${inputs.version}"}`, `task: {asset: web, document: knobs, field: /web, value: "${inputs.version}"}`,
		"leaves: []", "outputs: {image: string}\n          leaves: []").Replace(editing), version("2"))
	w.pass()
	w.build()
	w.enforce()
	w.pass()
	w.expectState(run.Number, "web", "editing")
	w.edit(outputs.Document, "/web/image", `"web:2"`)
	w.tick(outputDelay)
	w.enforce()
	w.pass()
	state, err := workflow.StateOf(w.run(run.Number))
	if err != nil || state.Machines[0].State != "done" || state.Machines[0].Outputs["image"].Text != "web:2" {
		t.Errorf("%+v, %v", state, err)
	}
}

// TestTaskThatTellsNoOutputIsNamed: before any asset told an output there is no document of them.
func TestTaskThatTellsNoOutputIsNamed(t *testing.T) {
	w := newWorld(t)
	run := w.start(strings.NewReplacer(
		`edit: {document: knobs, field: /web, value: "${inputs.version}"}`, `task: {asset: web, document: knobs, field: /web, value: "${inputs.version}"}`,
		"leaves: []", "outputs: {image: string}\n          leaves: []").Replace(editing), version("2"))
	w.pass()
	w.build()
	w.enforce()
	w.pass()
	w.tick(outputDelay)
	w.enforce()
	w.pass()
	if text := w.waiting(run.Number, "web/editing/1"); text != "web has not told the output image" {
		t.Errorf("it waits: %s", text)
	}
	_, err := w.store.CreateDocument(t.Context(), shop, outputs.Document, []byte(`{"web":{"image":"web:2"}}`), "told", ann)
	w.must(err)
	w.enforce()
	w.pass()
	w.expectState(run.Number, "web", "done")
}

// TestDamagedRunKeepsNoOthersBack: a run whose definition cannot be read is left, and the others
// go on.
func TestDamagedRunKeepsNoOthersBack(t *testing.T) {
	w := newWorld(t)
	damaged := w.start(editing, version("2"))
	damaged.Text, damaged.Digest, damaged.Number, damaged.Request = "no definition", "sha256:none", 0, "another"
	_, err := w.store.StartWorkflow(t.Context(), damaged, nil, intent.Operator)
	w.must(err)
	w.pass()
	w.build()
	w.enforce()
	w.pass()
	w.expectState(1, "web", "done")
}

// TestReasonsAreStoredNowAndThen: a reason that changes with every look is not stored each time.
func TestReasonsAreStoredNowAndThen(t *testing.T) {
	w := newWorld(t)
	run := w.start(editing, version("2"))
	d := w.driver()
	look := func() {
		t.Helper()
		if _, err := d.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.tick(again)
	}
	look()
	w.build()
	before := w.run(run.Number).Version
	for i := range 10 {
		w.enforce("web")
		report, err := w.store.Report(t.Context(), shop, "web")
		w.must(err)
		report.Waiting[0].Reason = strings.Repeat("x", i)
		w.must(w.store.SaveReports(t.Context(), w.lease, []intent.Report{report}))
		look()
	}
	if stored := w.run(run.Number).Version - before; stored < 1 || stored > 3 {
		t.Errorf("a reason was stored %d times in ten seconds", stored)
	}
}

// TestWaitingRunsAreNotRead: runs that wait for people or time cost no look.
func TestWaitingRunsAreNotRead(t *testing.T) {
	w := newWorld(t)
	for range 50 {
		w.start(`
workflow: v1
name: try
machines:
  m:
    initial: asking
    states:
      asking: {action: {person: {question: "Really?", roles: [approver]}, timeout: 24h}}
      yes: {end: success}
      no: {end: failure}
    transitions:
      - {from: asking, to: yes, on: approved}
      - {from: asking, to: no, on: [refused, expired]}
`, nil)
	}
	counting := &readCounter{Store: w.store}
	d := w.driver()
	d.Store = counting
	for range 20 {
		pause, err := d.pass(t.Context())
		if err != nil || pause != 24*time.Hour {
			t.Fatalf("pause %s, %v", pause, err)
		}
	}
	if counting.runs > 0 {
		t.Errorf("%d runs were read", counting.runs)
	}
	w.tick(24 * time.Hour)
	if _, err := d.pass(t.Context()); err != nil || counting.runs != 50 {
		t.Errorf("%d runs were read, %v", counting.runs, err)
	}
	w.expectState(1, "m", "no")
}

type readCounter struct {
	Store
	runs int
}

func (c *readCounter) WorkflowRun(ctx context.Context, partition intent.PartitionID, number uint64) (intent.WorkflowRun, error) {
	c.runs++
	return c.Store.WorkflowRun(ctx, partition, number)
}
