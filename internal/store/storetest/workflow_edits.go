package storetest

import (
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// edits is a step of a run that sets /version of the document knobs.
func (w *world) edits(run uint64, base, version string) store.WorkflowStep {
	w.t.Helper()
	return store.WorkflowStep{
		Run: w.workflowRun(run), Events: workflowEvents(intent.WorkflowBegan), Document: knobs, EditKey: "set", Revision: w.revision(), By: intent.WorkflowHolder(shop, "promote"),
		Edit: &document.Edit{Base: base, Operations: []document.Operation{{Path: "/version", Value: fmt.Appendf(nil, "%q", version)}}, Reason: "promoted"},
	}
}

// hasVersion fails the test unless the newest content of knobs is this.
func (w *world) hasVersion(version string) {
	w.t.Helper()
	doc, err := w.Document(w.t.Context(), shop, knobs, "")
	w.must(err)
	w.same("the document", fmt.Sprintf(`{"version":%q}`, version), string(doc.Content))
}

func editsAreStepped(w *world) {
	ctx := w.t.Context()
	w.created(`{"version":"0.9"}`)
	w.started(workflowRun("promote"))
	step := w.edits(1, "1", "1.0")
	stepped, err := w.StepWorkflow(ctx, w.lease, step)
	w.must(err)
	want := workflowRun("promote")
	want.Number, want.Version, want.Touched = 1, 2, 2
	action := workflowAction()
	action.Document, action.Revision = knobs, "2"
	want.Actions["set"] = action
	w.same("the run after an edit", want, stepped)
	w.same("the run as it is read", want, w.workflowRun(1))
	if action := step.Run.Actions["set"]; action.Revision != "" {
		w.t.Errorf("the caller's step was changed: %+v", action)
	}
	w.hasVersion("1.0")
	doc, err := w.Document(ctx, shop, knobs, "2")
	w.must(err)
	w.same("who edited", "workflow/shop/promote", doc.Revision.By.Name)
	// The answer was lost, and it is asked again: it is done once.
	again, err := w.StepWorkflow(ctx, w.lease, step)
	w.must(err)
	w.same("the run after the same step", want, again)
	w.same("its history", []string{"1 started", "2 began"}, w.history(1, 0, 0))
	// Once the run has gone on, it is too late to ask.
	w.must(errorOf(w.StepWorkflow(ctx, w.lease, store.WorkflowStep{Run: stepped})))
	w.refused(errorOf(w.StepWorkflow(ctx, w.lease, step)), fault.Conflict)
	w.must(w.VerifyAudit(ctx, shop))
}

func editsAreRefused(w *world) {
	ctx := w.t.Context()
	w.created(`{"version":"0.9"}`)
	w.started(workflowRun("promote"))
	_, err := w.EditDocument(ctx, shop, knobs, setting("1", "/version", `"0.95"`), bob)
	w.must(err)
	before := w.workflowRun(1)
	refused := func(what string, step store.WorkflowStep, kind fault.Kind) error {
		w.t.Helper()
		err := errorOf(w.StepWorkflow(ctx, w.lease, step))
		if !fault.Is(err, kind) {
			w.t.Errorf("%s: %v, want that it is of kind %q", what, err, kind)
		}
		w.same(what+": the run", before, w.workflowRun(1))
		w.same(what+": its history", []string{"1 started"}, w.history(1, 0, 0))
		w.hasVersion("0.95")
		return err
	}
	refused("the document moved", w.edits(1, "1", "1.0"), fault.Conflict)
	moved := w.edits(1, "2", "1.0")
	moved.Run.Version++
	refused("the run moved", moved, fault.Conflict)
	unknown := w.edits(1, "2", "1.0")
	unknown.EditKey = "other"
	refused("the action is not there", unknown, fault.Invalid)
	large := w.edits(1, "2", "1.0")
	large.Events[0].Reason = strings.Repeat("x", store.MaxWorkflowRecord)
	refused("the history is too large", large, fault.Invalid)
	missing := w.edits(1, "2", "1.0")
	missing.Document = "nowhere"
	refused("the document is not there", missing, fault.NotFound)
	w.refused(errorOf(w.StepWorkflowAs(ctx, w.edits(1, "2", "1.0"), []intent.Role{intent.Operator}, "workflow-signal", "")), fault.Invalid)
	decided := w.edits(1, "2", "1.0")
	w.must(w.SetHold(ctx, shop, intent.Hold{Asset: "a", Owner: bob}))
	refused("the partition moved", decided, fault.Conflict)
	for _, scope := range []intent.PartitionID{shop, ""} {
		w.must(w.SetStop(ctx, intent.Stop{Partition: scope, Owner: bob, Reason: "fire"}))
		if err := refused("stopped", w.edits(1, "2", "1.0"), fault.Conflict); err != nil && !strings.Contains(err.Error(), "stopped by bob: fire") {
			w.t.Errorf("the stop is told as: %v", err)
		}
		w.must(w.Resume(ctx, scope, "out", bob))
	}
	w.must(errorOf(w.StepWorkflow(ctx, w.lease, w.edits(1, "2", "1.0"))))
	w.hasVersion("1.0")
	// A step without an edit goes on while the partition is stopped.
	w.must(w.SetStop(ctx, intent.Stop{Partition: shop, Owner: bob}))
	w.must(errorOf(w.StepWorkflow(ctx, w.lease, store.WorkflowStep{Run: w.workflowRun(1)})))
}

// sameEditOfTwoRuns: the second run has not stepped although the document has what it asks for.
func sameEditOfTwoRuns(w *world) {
	ctx := w.t.Context()
	w.created(`{"version":"0.9"}`)
	w.started(workflowRun("promote"))
	other := w.started(workflowRun("promote"))
	late := w.edits(2, "1", "1.0")
	w.must(errorOf(w.StepWorkflow(ctx, w.lease, w.edits(1, "1", "1.0"))))
	w.refused(errorOf(w.StepWorkflow(ctx, w.lease, late)), fault.Conflict)
	w.same("the run that came late", other, w.workflowRun(2))
}

func callersHaveRoles(w *world) {
	w.policy(
		intent.Grant{Subject: "user:ann", Role: intent.Approver, Partition: shop}, intent.Grant{Subject: "user:ann", Role: intent.Editor, Partition: shop},
		intent.Grant{Subject: "user:vic", Role: intent.Viewer, Partition: shop}, intent.Grant{Subject: "user:eve", Role: intent.Operator, Partition: theatre},
	)
	as := func(who string) (roles []intent.Role, start, step error) {
		ctx := w.contextOf(w.token(who, who, nil))
		roles, err := w.RolesOf(ctx, shop)
		w.must(err)
		start = errorOf(w.StartWorkflow(ctx, workflowRun("promote"), nil, intent.Editor))
		run := w.started(workflowRun("promote"))
		step = errorOf(w.StepWorkflowAs(ctx, store.WorkflowStep{Run: run}, []intent.Role{intent.Operator, intent.Approver}, "workflow-vote", "seen"))
		return roles, start, step
	}
	roles, start, step := as("ann")
	w.same("roles of ann", []intent.Role{intent.Viewer, intent.Editor, intent.Approver}, roles)
	w.must(start)
	w.must(step)
	for who, want := range map[string][]intent.Role{"vic": {intent.Viewer}, "eve": nil} {
		roles, start, step := as(who)
		w.same("roles of "+who, want, roles)
		w.refused(start, fault.Denied)
		w.refused(step, fault.Denied)
	}
	roles, err := w.RolesOf(w.t.Context(), shop)
	w.must(err)
	w.same("roles of Lehr itself", intent.Roles(), roles)
	run := w.started(workflowRun("promote"))
	w.refused(errorOf(w.StartWorkflow(w.t.Context(), workflowRun("promote"), nil, "")), fault.Invalid)
	w.refused(errorOf(w.StepWorkflowAs(w.t.Context(), store.WorkflowStep{Run: run}, nil, "workflow-vote", "")), fault.Invalid)
	w.refused(errorOf(w.StepWorkflowAs(w.t.Context(), store.WorkflowStep{Run: run}, []intent.Role{intent.Operator}, "", "")), fault.Invalid)
}

func workflowsAreAudited(w *world) {
	ctx := w.t.Context()
	run := w.started(workflowRun("promote"))
	run, err := w.StepWorkflowAs(ctx, store.WorkflowStep{Run: run, By: bob, Events: []intent.WorkflowEvent{
		{Kind: intent.WorkflowVoted, Key: "ask"}, {Kind: intent.WorkflowSignalled, Word: "go"}, {Kind: intent.WorkflowMoved},
	}}, []intent.Role{intent.Operator}, "workflow-vote", "too early")
	w.must(err)
	cancel := store.WorkflowStep{Run: run, Events: workflowEvents(intent.WorkflowCancelled, intent.WorkflowEnded)}
	cancel.Run.Ended, cancel.Run.Outcome = noon, "cancelled"
	ann := store.WithCaller(ctx, store.Caller{Actor: intent.Actor{Name: "ann", Origin: "api"}, Local: true, From: "127.0.0.1:9"})
	w.must(errorOf(w.StepWorkflowAs(ann, cancel, []intent.Role{intent.Operator}, "workflow-cancel", "over")))
	var lines []string
	for _, r := range w.audited(shop)[2:] { // Without those of newWorld.
		lines = append(lines, fmt.Sprintf("%s|%s|%s|%s|%s", r.By.Name, r.Verb, r.Subject, r.Reason, r.Detail))
	}
	w.same("the audit", []string{
		"alice|workflow-start|promote#1|a release|definition d1",
		"bob|workflow-vote|promote#1|too early|rejection of the action ask, signal go",
		"ann|workflow-cancel|promote#1|over|",
		"workflow/shop/promote|workflow-end|promote#1||cancelled",
	}, lines)
	w.must(w.VerifyAudit(ctx, shop))
}

func runsAreCollected(w *world) {
	ctx := w.t.Context()
	end := func(number uint64, at time.Time) {
		w.t.Helper()
		step := store.WorkflowStep{Run: w.workflowRun(number), Events: workflowEvents(intent.WorkflowEnded)}
		step.Run.Ended, step.Run.Outcome = at, "succeeded"
		w.must(errorOf(w.StepWorkflow(ctx, w.lease, step)))
	}
	for range 5 {
		w.started(workflowRun("promote"))
	}
	end(5, noon)
	end(1, noon)
	end(3, noon.Add(2*time.Hour))
	end(2, noon)
	collected := func(now time.Time, want ...uint64) {
		w.t.Helper()
		_, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 1, History: time.Hour}, now)
		w.must(err)
		runs, err := w.WorkflowRuns(ctx, shop, store.WorkflowFilter{})
		w.must(err)
		var have []uint64
		for _, run := range runs {
			have = append(have, run.Number)
		}
		w.same("runs that stay", want, have)
	}
	collected(noon.Add(time.Hour), 5, 4, 3, 2, 1)
	// Run 1 goes. 5 is the newest, 4 goes on, 3 ended later, 2 was changed last.
	collected(noon.Add(2*time.Hour), 5, 4, 3, 2)
	w.same("the history of one that went", []string(nil), w.history(1, 0, 0))
	w.same("the history of one that stays", []string{"1 started", "2 ended"}, w.history(2, 0, 0))
	end(4, noon)
	collected(noon.Add(24*time.Hour), 5, 4)
	if next := w.started(workflowRun("promote")); next.Number != 6 || next.Touched != 11 {
		w.t.Errorf("the next run has the number %d, touched %d", next.Number, next.Touched)
	}
}
