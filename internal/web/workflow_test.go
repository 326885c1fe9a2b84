package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
	"lehr.dev/internal/web"
)

const promoteWorkflow = `workflow: v1
name: promote
inputs:
  version: string
  urgent: {type: bool, default: false}
signals: [go_on]
machines:
  approval:
    initial: asking
    states:
      asking: {action: {person: {question: "Deploy ${inputs.version}?", roles: [approver], quorum: 2}, timeout: 24h}}
      given: {end: success}
      refused: {end: failure}
    transitions:
      - {from: asking, to: given, on: approved}
      - {from: asking, to: refused, on: [refused, expired]}
      - {from: asking, to: refused, when: cancelled}
  gate:
    initial: closed
    states:
      closed: {end: neutral}
      open: {end: success}
    transitions:
      - {from: closed, to: open, when: 'signals.go_on && machines.approval == "given"'}
`

// offerWorkflows publishes a head that has workflows.
func (w *world) offerWorkflows(workflows ...*intentpb.Workflow) {
	w.Helper()
	set := schema.Builtin()
	packed, err := set.Pack(&intentpb.Policy{Workflows: workflows})
	w.must(err)
	body, digest, err := set.Encode(intent.Asset{ID: intent.PolicyAsset, Payload: packed})
	w.must(err)
	head := w.head()
	entry := store.Entry{
		Asset: intent.PolicyAsset, Body: body,
		Member: intent.Member{Asset: intent.PolicyAsset, Type: packed.Type, Digest: digest, Effective: digest, Since: head.Sequence + 1},
	}
	parent := intent.IncarnationID{Partition: "shop", Sequence: head.Sequence}
	w.must(w.store.Unstage(w.Context(), w.lease))
	w.must(w.store.Stage(w.Context(), w.lease, parent, []store.Entry{entry}))
	_, err = w.store.Publish(w.Context(), w.lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: "shop", Sequence: head.Sequence + 1}, Parent: parent, Schema: set.Digest(), Created: time.Now(), Author: ann,
		Added: 1, Count: 1, Policy: digest,
	})
	w.must(err)
}

// run is a run as it is stored.
func (w *world) run(number uint64) intent.WorkflowRun {
	w.Helper()
	run, err := w.store.WorkflowRun(w.Context(), "shop", number)
	w.must(err)
	return run
}

// TestWorkflows: the pages show what a run waits for and why, and each act on them is that of the API: shown
// first, by whom it came, bound to the question that was read, and once.
func TestWorkflows(t *testing.T) {
	w := newWorld(t)
	w.shows("/partition/shop/workflows", "There are no workflows", "There is no run")
	w.offerWorkflows(&intentpb.Workflow{Name: "promote", File: "promote.yaml", Text: promoteWorkflow, Digest: "promote-1"})
	listed := words(w.shows("/partition/shop/workflows", `href="partition/shop/act/workflow-start?workflow=promote"`))
	if !strings.Contains(listed, `version: string , urgent: bool = "false" go_on promote.yaml Start a run`) {
		t.Errorf("the workflows are %s", listed)
	}

	// A start asks for the inputs, of which the one with a default may be left out.
	start := "/partition/shop/act/workflow-start?workflow=promote"
	form := w.shows(start, `name="input-version" value="" required`, `name="input-urgent" value="false" autocomplete`)
	if _, err := w.store.WorkflowRun(t.Context(), "shop", 1); err == nil {
		t.Fatal("looking at the form started a run")
	}
	if !strings.Contains(words(form), "version, string") {
		t.Errorf("the form says %s", words(form))
	}
	text := words(w.acts(start, "reason", "the <b>spring</b> release", "input-version", "1.2", "input-urgent", ""))
	if !strings.Contains(text, "Started promote#1. It waits for: approval asks 2 of approver: Deploy 1.2?") {
		t.Errorf("after a start the page says %s", text)
	}
	if run := w.run(1); run.By.Origin != "page" || run.Reason != "the <b>spring</b> release" || run.Request == "" {
		t.Errorf("the run is %+v", run)
	}

	page := w.shows("/partition/shop/workflow-run/1", `class="box state-pushing here"`, `href="partition/shop/act/workflow-approve?machine=approval&amp;run=1"`, "the &lt;b&gt;spring")
	for _, want := range []string{
		"Run promote#1", "waits for: approval asks 2 of approver: Deploy 1.2?", "urgent = false , version = 1.2", "0 of 2 approvals: nobody", "→ given: when the action is approved",
		`→ open: needs signals.go_on (has not come) and machines.approval == "given" (is asking)`, "the run is started by", "lehr workflow cancel 'promote#1' --reason WHY", "lehr workflow signal 'promote#1' go_on",
	} {
		if !strings.Contains(words(page), want) {
			t.Errorf("the run's page does not say %q: %s", want, words(page))
		}
	}
	// It waits for a person, in the inbox and at home; what moves by itself is at home alone.
	for _, path := range []string{"/inbox", "/"} {
		if text := words(w.shows(path, "act/workflow-approve?")); !strings.Contains(text, "promote#1, approval") || !strings.Contains(text, "Deploy 1.2?") {
			t.Errorf("%s says %s", path, text)
		}
	}

	approve := "/partition/shop/act/workflow-approve?machine=approval&run=1"
	shown := words(w.shows(approve, `name="key" value="approval/asking/1"`))
	if !strings.Contains(shown, "Approve what is asked by run 1, machine approval") || !strings.Contains(shown, "asks 2 of approver: Deploy 1.2?") {
		t.Errorf("the form of an approval says %s", shown)
	}
	if text := words(w.acts(approve, "reason", "tried it")); !strings.Contains(text, "has 1 of 2 approvals") {
		t.Errorf("after an approval the page says %s", text)
	}
	// A link of a notification is to one question.
	links := &web.Links{Base: &url.URL{Scheme: "https", Host: "lehr.example.com"}}
	linked := func(key string) string {
		return w.shows(strings.TrimPrefix(links.Question("shop", 1, "approval", key), "https://lehr.example.com"))
	}
	if text := linked("approval/asking/1"); !strings.Contains(text, `name="key" value="approval/asking/1"`) {
		t.Errorf("the link of a question shows %s", words(text))
	}
	if text := linked("approval/asking/0"); strings.Contains(text, `method="post"`) || !strings.Contains(text, "another question now than the link is about") {
		t.Errorf("the link of an earlier question shows %s", words(text))
	}
	// The same person's second word is refused with the reason, in the form.
	again := w.form(approve)
	again.Set("reason", "once more")
	if status, text := w.send(approve, again); status != http.StatusConflict || !strings.Contains(words(text), "approved") {
		t.Errorf("a second approval answered %d: %s", status, words(text))
	}
	// An answer is to the question that was shown, and to no later one.
	again.Set("key", "approval/asking/9")
	if status, text := w.send(approve, again); status != http.StatusNotFound {
		t.Errorf("an answer to another question answered %d: %s", status, words(text))
	}

	signal := "/partition/shop/act/workflow-signal?run=1&signal=go_on"
	if text := words(w.acts(signal, "reason", "the fair is over")); !strings.Contains(text, "promote#1 has signal go_on. It waits for: approval") {
		t.Errorf("after a signal the page says %s", text)
	}
	if text := w.shows("/partition/shop/workflow-run/1"); strings.Contains(text, "act/workflow-signal") {
		t.Error("a signal that came is offered again")
	}
	if text := words(w.shows("/partition/shop/act/workflow-retry?run=1")); !strings.Contains(text, "goes on, so it cannot be started again") {
		t.Errorf("a retry of a run that goes on shows %s", text)
	}
	cancel := "/partition/shop/act/workflow-cancel?run=1"
	if text := words(w.acts(cancel, "reason", "the wrong version")); !strings.Contains(text, "promote#1 is cancelled. Run promote#1 ended: cancelled.") {
		t.Errorf("after a cancel the page says %s", text)
	}
	if run := w.run(1); run.Outcome != "cancelled" {
		t.Errorf("the run is %+v", run)
	}
	if text := w.shows(cancel, "Run promote#1 ended: cancelled."); strings.Contains(text, `method="post"`) {
		t.Error("a run that ended can be cancelled")
	}
	ended := words(w.shows("/partition/shop/workflow-run/1"))
	for _, want := range []string{"Run promote#1 ended: cancelled", "cancels the run: the wrong version", "signal go_on comes from", "lehr workflow retry 'promote#1'"} {
		if !strings.Contains(ended, want) {
			t.Errorf("the page of the run that ended does not say %q: %s", want, ended)
		}
	}
	if text := words(w.shows("/inbox")); strings.Contains(text, "promote#1") {
		t.Errorf("the inbox still says %s", text)
	}

	retry := "/partition/shop/act/workflow-retry?run=1"
	if text := words(w.acts(retry, "reason", "now")); !strings.Contains(text, "Started promote#2.") {
		t.Errorf("after a retry the page says %s", text)
	}
	reject := "/partition/shop/act/workflow-reject?machine=approval&run=2"
	if text := words(w.acts(reject, "reason", "not today")); !strings.Contains(text, "is refused. Run promote#2 ended: failure, because of approval") {
		t.Errorf("after a refusal the page says %s", text)
	}
	runs := words(w.shows("/partition/shop/workflows?workflow=promote", `href="partition/shop/workflow-run/2"`))
	if !strings.Contains(runs, "promote#2 failure") || !strings.Contains(runs, "promote#1 cancelled") {
		t.Errorf("the runs are %s", runs)
	}
	for path, want := range map[string]int{
		"/partition/shop/workflow-run/9": http.StatusNotFound, "/partition/shop/workflow-run/x": http.StatusNotFound,
		"/partition/shop/workflows?before=x": http.StatusBadRequest, "/partition/shop/act/workflow-start?workflow=none": http.StatusNotFound,
	} {
		if status, text := w.get(path); status != want {
			t.Errorf("%s answered %d, want %d: %s", path, status, want, words(text))
		}
	}
}

// TestARunIsMoved to the definition that head has now: the form shows what becomes of each machine, and asks where those go
// that cannot stay.
func TestARunIsMoved(t *testing.T) {
	w := newWorld(t)
	w.offerWorkflows(&intentpb.Workflow{Name: "promote", File: "promote.yaml", Text: promoteWorkflow, Digest: "promote-1"})
	w.acts("/partition/shop/act/workflow-start?workflow=promote", "reason", "spring", "input-version", "1.2", "input-urgent", "")
	if page := w.shows("/partition/shop/workflow-run/1"); strings.Contains(page, "workflow-migrate") {
		t.Error("a run of the newest definition can be moved")
	}
	renamed := strings.ReplaceAll(promoteWorkflow, "asking", "waiting")
	w.offerWorkflows(&intentpb.Workflow{Name: "promote", File: "promote.yaml", Text: renamed, Digest: "promote-2"})
	w.shows("/partition/shop/workflow-run/1", `href="partition/shop/act/workflow-migrate?run=1"`, "lehr workflow migrate")
	form := w.shows("/partition/shop/act/workflow-migrate?run=1", "a state that the other definition does not have", "See what it would do")
	if strings.Contains(form, `method="post"`) {
		t.Errorf("it can be moved while a machine has nowhere to go: %s", words(form))
	}
	w.shows("/partition/shop/act/workflow-migrate?run=1&states=approval", "is no NAME=VALUE")
	path := "/partition/shop/act/workflow-migrate?run=1&states=approval%3Dwaiting"
	w.shows(path, "approval: asking → waiting", "its action is cut off")
	if run := w.run(1); run.Text != promoteWorkflow {
		t.Fatal("looking at the form moved the run")
	}
	if said := words(w.acts(path, "reason", "better words")); !strings.Contains(said, "promote#1 follows the definition that lehr.yaml has now.") {
		t.Errorf("it says %s", said)
	}
	if run := w.run(1); run.Text != renamed || run.Migration == nil || run.Migration.Reason != "better words" {
		t.Errorf("the run is %+v", run)
	}
}
