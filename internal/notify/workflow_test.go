package notify_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/notify"
	"lehr.dev/internal/store"
)

// TestRunsOfWorkflowsAreToldOfOverRestarts: what happens in runs is told of once, a question with a
// link to its own confirmation, over restarts and while nobody takes it.
func TestRunsOfWorkflowsAreToldOfOverRestarts(t *testing.T) {
	w := newSending(t)
	partition := string(w.lease.Partition)
	ann, itself := intent.Actor{Name: "ann", Origin: "cli"}, intent.WorkflowHolder(w.lease.Partition, "promote")
	began := func(machine, kind, words string) intent.WorkflowEvent {
		return intent.WorkflowEvent{Kind: intent.WorkflowBegan, By: itself, Machine: machine, Key: machine + "/asking/1", Word: kind, Reason: words}
	}
	start := func(events ...intent.WorkflowEvent) intent.WorkflowRun {
		t.Helper()
		run := intent.WorkflowRun{Partition: w.lease.Partition, Workflow: "promote", Digest: "d", Text: "t", State: json.RawMessage("{}"), Started: time.Now(), By: ann}
		stored, err := w.store.StartWorkflow(t.Context(), run, append([]intent.WorkflowEvent{{Kind: intent.WorkflowStarted, By: ann, Reason: "a try"}}, events...), intent.Operator)
		must(t, err)
		return stored
	}
	step := func(run *intent.WorkflowRun, events ...intent.WorkflowEvent) {
		t.Helper()
		for _, e := range events {
			if e.Kind == intent.WorkflowEnded {
				run.Ended, run.Outcome = time.Now(), e.Word
			}
		}
		stored, err := w.store.StepWorkflow(t.Context(), w.lease, store.WorkflowStep{Run: *run, Events: events})
		must(t, err)
		*run = stored
	}
	w.publish([]*intentpb.Notification{{Name: "runs", OfWorkflow: true, When: `workflow.event != "started"`, To: []string{"chat"}}})
	// What was before nobody is told.
	older := start(began("approval", "person", "asks approver: Deploy 1.0?"))
	end := w.begin()
	w.target.await(t, "it follows runs", func() bool { return w.state().Workflows != nil })
	end()
	// It happens while nobody looks: of these, only the question is asked for.
	newer := start(began("build", "ask", "asks https://ci.example.com"), began("approval", "person", "asks approver: Deploy 1.1?"))
	w.target.set(true)
	end = w.begin()
	w.target.await(t, "it is sent, and not taken", func() bool { return w.target.refused > 0 })
	end()
	step(&older, intent.WorkflowEvent{Kind: intent.WorkflowMoved, By: itself, Machine: "approval", From: "asking", To: "given"}, intent.WorkflowEvent{Kind: intent.WorkflowEnded, By: itself, Word: "success"})
	end = w.begin()
	w.target.set(false)
	w.target.await(t, "both are taken", func() bool { return len(w.target.got) >= 2 })
	w.target.await(t, "that is stored", func() bool { return len(w.state().Outbox) == 0 })
	end()
	end = w.begin()
	step(&newer, intent.WorkflowEvent{Kind: intent.WorkflowCancelled, By: ann, Reason: "the wrong version"}, intent.WorkflowEvent{Kind: intent.WorkflowEnded, By: ann, Word: "cancelled"})
	w.target.await(t, "what comes after is taken", func() bool { return len(w.target.got) >= 4 })
	w.target.await(t, "runs that ended are forgotten", func() bool { s := w.state(); return s.Workflows != nil && len(s.Workflows.Rows) == 0 })
	end()
	page := "https://lehr.example.com/partition/" + partition
	want := []struct{ event, title, link string }{
		{"asks", "promote#2, approval: asks approver: Deploy 1.1?", page + "/act/workflow-approve?machine=approval&question=approval%2Fasking%2F1&run=2"},
		{"ended", "promote#1 ended: success", page + "/workflow-run/1"},
		{"cancelled", "promote#2 is cancelled by ann: the wrong version", page + "/workflow-run/2"},
		{"ended", "promote#2 ended: cancelled", page + "/workflow-run/2"},
	}
	ids := map[string]bool{}
	for i, m := range w.target.got {
		if i >= len(want) || m.Workflow == nil || string(m.Workflow.Event) != want[i].event || !strings.HasSuffix(m.Title, "runs: "+want[i].title) || m.Link != want[i].link || m.Status != "happened" || ids[m.ID] {
			t.Fatalf("message %d is %+v of %+v", i, m, m.Workflow)
		}
		ids[m.ID] = true
	}
	rehearsal, err := notify.Rehearse(t.Context(), w.store, w.lease.Partition, time.Now().Add(-time.Hour), time.Now())
	must(t, err)
	if len(rehearsal.Messages) != 5 {
		t.Errorf("the past would have told %d messages, want 5: %+v", len(rehearsal.Messages), rehearsal)
	}
	for _, m := range rehearsal.Messages {
		if m.Workflow == nil {
			t.Errorf("the past would have told %+v", m)
		}
	}
}
