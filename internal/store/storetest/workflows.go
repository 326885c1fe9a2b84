package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

func testWorkflows(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("Start", func(t *testing.T) { runsAreStarted(newWorld(t, open)) })
	t.Run("Request", func(t *testing.T) { requestsStartOnce(newWorld(t, open)) })
	t.Run("Step", func(t *testing.T) { stepsCompareVersions(newWorld(t, open)) })
	t.Run("Migration", func(t *testing.T) { runsAreMigrated(newWorld(t, open)) })
	t.Run("Race", func(t *testing.T) { oneOfManyStepsWins(newWorld(t, open)) })
	t.Run("End", func(t *testing.T) { endedRunsStay(newWorld(t, open)) })
	t.Run("Removed", func(t *testing.T) { runsEndWithTheirPartition(newWorld(t, open)) })
	t.Run("Lease", func(t *testing.T) { stepsNeedTheLease(newWorld(t, open)) })
	t.Run("Filters", func(t *testing.T) { runsAreFiltered(newWorld(t, open)) })
	t.Run("Bounds", func(t *testing.T) { runsAreBounded(newWorld(t, open)) })
	t.Run("Edit", func(t *testing.T) { editsAreStepped(newWorld(t, open)) })
	t.Run("EditRefused", func(t *testing.T) { editsAreRefused(newWorld(t, open)) })
	t.Run("SameEdit", func(t *testing.T) { sameEditOfTwoRuns(newWorld(t, open)) })
	t.Run("Authority", func(t *testing.T) { callersHaveRoles(newWorld(t, open)) })
	t.Run("Audit", func(t *testing.T) { workflowsAreAudited(newWorld(t, open)) })
	t.Run("Collected", func(t *testing.T) { runsAreCollected(newWorld(t, open)) })
}

// workflowRun is a run to start, with an action that edits a document.
func workflowRun(workflow string) intent.WorkflowRun {
	return intent.WorkflowRun{
		Partition: shop, Workflow: workflow, Digest: "d1", Text: "machines: {}", State: json.RawMessage(`{"states":{"web":"begun"}}`), By: alice, Reason: "a release",
		Started: noon, Wakes: noon.Add(time.Hour), Actions: map[string]intent.WorkflowAction{"set": workflowAction(), "ask": workflowAction()},
	}
}

func workflowAction() intent.WorkflowAction {
	return intent.WorkflowAction{Machine: "web", Action: json.RawMessage(`{"kind":"set"}`), Begun: noon, Waiting: "for people"}
}

func workflowEvents(kinds ...intent.WorkflowEventKind) (events []intent.WorkflowEvent) {
	for _, kind := range kinds {
		events = append(events, intent.WorkflowEvent{Kind: kind, By: alice, Machine: "web"})
	}
	return events
}

func (w *world) started(run intent.WorkflowRun) intent.WorkflowRun {
	w.t.Helper()
	started, err := w.StartWorkflow(w.t.Context(), run, workflowEvents(intent.WorkflowStarted), intent.Operator)
	w.must(err)
	return started
}

func (w *world) workflowRun(number uint64) intent.WorkflowRun {
	w.t.Helper()
	run, err := w.WorkflowRun(w.t.Context(), shop, number)
	w.must(err)
	return run
}

// runsEndWithTheirPartition: a run does not go on when a removed partition is registered again,
// and its number is not given again.
func runsEndWithTheirPartition(w *world) {
	ctx := w.t.Context()
	w.started(workflowRun("promote"))
	w.must(w.RemovePartition(ctx, shop, "closed", bob))
	w.must(w.AddPartition(ctx, shop, "/srv/shop.yaml", "opened", alice))
	open, err := w.WorkflowRuns(ctx, shop, store.WorkflowFilter{Open: true})
	w.must(err)
	run := w.workflowRun(1)
	if len(open) > 0 || run.Ended.IsZero() || run.Outcome != intent.WorkflowRemoved || !run.Wakes.IsZero() || len(run.Actions) > 0 {
		w.t.Errorf("%d runs go on, and the run is %+v", len(open), run)
	}
	if want := []string{"1 started", "2 ended"}; !cmp.Equal(w.history(1, 0, 10), want) {
		w.t.Errorf("its history is %v", w.history(1, 0, 10))
	}
	if next := w.started(workflowRun("promote")); next.Number != 2 {
		w.t.Errorf("the next run has number %d", next.Number)
	}
}

// history lists a run's rows after one, as "number kind".
func (w *world) history(run, cursor uint64, limit int) (rows []string) {
	w.t.Helper()
	return w.filteredHistory(run, store.WorkflowEventFilter{After: cursor, Limit: limit})
}

func (w *world) filteredHistory(run uint64, filter store.WorkflowEventFilter) (rows []string) {
	w.t.Helper()
	events, err := w.WorkflowEvents(w.t.Context(), shop, run, filter)
	w.must(err)
	for _, e := range events {
		if e.Partition != shop || e.Run != run || e.At.IsZero() {
			w.t.Errorf("a row of run %d is of %s, run %d, at %s", run, e.Partition, e.Run, e.At)
		}
		rows = append(rows, fmt.Sprint(e.Number, " ", e.Kind))
	}
	return rows
}

func (w *world) same(what string, want, have any) {
	w.t.Helper()
	if diff := cmp.Diff(want, have); diff != "" {
		w.t.Errorf("%s:\n%s", what, diff)
	}
}

func (w *world) isTold(changed <-chan struct{}) {
	w.t.Helper()
	select {
	case <-changed:
	case <-time.After(30 * time.Second):
		w.t.Error("nobody was told that a run changed")
	}
}

func runsAreStarted(w *world) {
	ctx := w.t.Context()
	changed := w.Changed(shop)
	first, err := w.StartWorkflow(ctx, workflowRun("promote"), workflowEvents(intent.WorkflowStarted, intent.WorkflowBegan), intent.Operator)
	w.must(err)
	w.isTold(changed)
	want := workflowRun("promote")
	want.Number, want.Version, want.Touched = 1, 1, 1
	w.same("the run as it was started", want, first)
	w.same("the run as it is read", first, w.workflowRun(1))
	w.same("its history", []string{"1 started", "2 began"}, w.history(1, 0, 0))
	w.same("its newest row", []string{"2 began"}, w.filteredHistory(1, store.WorkflowEventFilter{NewestFirst: true, Limit: 1}))
	w.same("the rows before that", []string{"1 started"}, w.filteredHistory(1, store.WorkflowEventFilter{Before: 2, NewestFirst: true}))
	second := w.started(workflowRun("promote"))
	if second.Number != 2 || second.Touched != 2 {
		w.t.Errorf("the second run has the number %d, touched %d", second.Number, second.Touched)
	}
	theirs := workflowRun("promote")
	theirs.Partition = theatre
	_, err = w.StartWorkflow(ctx, theirs, nil, intent.Operator)
	w.refused(err, fault.NotFound)
	w.register(theatre)
	if other := w.started(theirs); other.Number != 1 || other.Touched != 1 {
		w.t.Errorf("the first run of another partition has the number %d, touched %d", other.Number, other.Touched)
	}
	nameless := workflowRun("")
	_, err = w.StartWorkflow(ctx, nameless, nil, intent.Operator)
	w.refused(err, fault.Invalid)
	_, err = w.WorkflowRun(ctx, shop, 3)
	w.refused(err, fault.NotFound)
	w.same("the history of no run", []string(nil), w.history(3, 0, 0))
}

func requestsStartOnce(w *world) {
	ctx := w.t.Context()
	run := workflowRun("promote")
	run.Request = "r1"
	first := w.started(run)
	again := run
	again.Reason = "asked again"
	w.same("the run of the same request", first, w.started(again))
	w.same("its history", []string{"1 started"}, w.history(1, 0, 0))
	if lines := len(w.audited(shop)); lines != 3 { // Registered, leased, started.
		w.t.Errorf("%d audit records, want 3", lines)
	}
	other := run
	other.Workflow = "rotate"
	_, err := w.StartWorkflow(ctx, other, nil, intent.Operator)
	w.refused(err, fault.Conflict)
	other.Request = "r2"
	if second := w.started(other); second.Number != 2 {
		w.t.Errorf("another request started run %d", second.Number)
	}
	for _, bad := range []string{strings.Repeat("x", 501), "a\x00", "\xff"} {
		run.Request = bad
		_, err := w.StartWorkflow(ctx, run, nil, intent.Operator)
		w.refused(err, fault.Invalid)
	}
}

func stepsCompareVersions(w *world) {
	ctx := w.t.Context()
	first := w.started(workflowRun("promote"))
	w.started(workflowRun("promote"))
	changed, revision := w.Changed(shop), w.revision()
	step := store.WorkflowStep{Run: first, Events: workflowEvents(intent.WorkflowMoved, intent.WorkflowBegan)}
	step.Run.State, step.Run.Wakes = json.RawMessage(`{"states":{"web":"live"}}`), time.Time{}
	second, err := w.StepWorkflow(ctx, w.lease, step)
	w.must(err)
	w.isTold(changed)
	want := step.Run
	want.Version, want.Touched = 2, 3
	w.same("the run after a step", want, second)
	w.same("the run as it is read", want, w.workflowRun(1))
	w.same("its history", []string{"1 started", "2 moved", "3 began"}, w.history(1, 0, 0))
	w.same("a page of its history", []string{"2 moved"}, w.history(1, 1, 1))
	if now := w.revision(); now != revision {
		w.t.Errorf("a step moved the partition's revision from %d to %d", revision, now)
	}
	// The same step again, by the actor or by a caller.
	_, err = w.StepWorkflow(ctx, w.lease, step)
	w.refused(err, fault.Conflict)
	if !strings.Contains(err.Error(), "the run changed meanwhile") {
		w.t.Errorf("the conflict says: %v", err)
	}
	_, err = w.StepWorkflowAs(ctx, step, []intent.Role{intent.Operator}, "workflow-signal", "")
	w.refused(err, fault.Conflict)
	step.Run.Version = 3
	_, err = w.StepWorkflow(ctx, w.lease, step)
	w.refused(err, fault.Conflict)
	step.Run.Version, step.Run.Number = 1, 9
	_, err = w.StepWorkflow(ctx, w.lease, step)
	w.refused(err, fault.NotFound)
	renamed := store.WorkflowStep{Run: second}
	renamed.Run.Text = "machines: {other: {}}"
	_, err = w.StepWorkflow(ctx, w.lease, renamed)
	w.refused(err, fault.Invalid)
	w.same("the run after steps that were refused", want, w.workflowRun(1))
	w.same("its history after steps that were refused", 3, len(w.history(1, 0, 0)))
}

// runsAreMigrated: only a step that says so takes up another definition, with its history and audit, or not at all.
func runsAreMigrated(w *world) {
	ctx := w.t.Context()
	operator := []intent.Role{intent.Operator}
	first := w.started(workflowRun("promote"))
	step := store.WorkflowStep{Run: first, Migrates: true, Events: []intent.WorkflowEvent{
		{Kind: intent.WorkflowMigrated, By: alice, From: "d1", To: "d2", Reason: "a fix"},
		{Kind: intent.WorkflowMigrated, By: alice, Machine: "web", From: "begun", To: "asking"},
		{Kind: intent.WorkflowMigrated, By: alice, Machine: "test", To: "idle"},
		{Kind: intent.WorkflowMigrated, By: alice, Machine: "old", From: "done"},
	}}
	step.Run.Digest, step.Run.Text, step.Run.Sources = "d2", "machines: {test: {}}", map[string]string{"web": "knobs"}
	step.Run.Incarnation = intent.IncarnationID{Partition: shop, Sequence: 7}
	step.Run.Migration = &intent.WorkflowMigration{At: noon, By: alice, Reason: "a fix", Digest: "d1"}
	unsaid := step
	unsaid.Migrates = false
	w.refused(errorOf(w.StepWorkflowAs(ctx, unsaid, operator, "workflow-signal", "")), fault.Invalid)
	w.refused(errorOf(w.StepWorkflow(ctx, w.lease, unsaid)), fault.Invalid)
	w.refused(errorOf(w.StepWorkflow(ctx, w.lease, step)), fault.Invalid)
	nowhere := step
	nowhere.Run.Digest = "d1"
	w.refused(errorOf(w.StepWorkflowAs(ctx, nowhere, operator, "workflow-migrate", "a fix")), fault.Invalid)
	other := step
	other.Run.Workflow = "rotate"
	w.refused(errorOf(w.StepWorkflowAs(ctx, other, operator, "workflow-migrate", "a fix")), fault.Invalid)
	w.same("the run after steps that were refused", first, w.workflowRun(1))
	changed := w.Changed(shop)
	second, err := w.StepWorkflowAs(ctx, step, operator, "workflow-migrate", "a fix")
	w.must(err)
	w.isTold(changed)
	want := step.Run
	want.Version, want.Touched = 2, 2
	w.same("the run after its migration", want, second)
	w.same("the run as it is read", want, w.workflowRun(1))
	w.same("its history", []string{"1 started", "2 migrated", "3 migrated", "4 migrated", "5 migrated"}, w.history(1, 0, 0))
	w.refused(errorOf(w.StepWorkflowAs(ctx, step, operator, "workflow-migrate", "a fix")), fault.Conflict)
	w.must(errorOf(w.StepWorkflow(ctx, w.lease, store.WorkflowStep{Run: second})))
	records := w.audited(shop)
	last := records[len(records)-1]
	w.same("its audit", "workflow-migrate|promote#1|a fix|definition d2 in place of d1, machine web from begun to asking, machine test is new, in idle, machine old is dropped, in done",
		fmt.Sprintf("%s|%s|%s|%s", last.Verb, last.Subject, last.Reason, last.Detail))
}

func oneOfManyStepsWins(w *world) {
	run := w.started(workflowRun("promote"))
	const callers = 8
	results := make(chan error, callers)
	for i := range callers {
		go func() {
			step := store.WorkflowStep{Run: run, Events: workflowEvents(intent.WorkflowMoved)}
			if i%2 == 0 {
				results <- errorOf(w.StepWorkflow(w.t.Context(), w.lease, step))
			} else {
				results <- errorOf(w.StepWorkflowAs(w.t.Context(), step, []intent.Role{intent.Operator}, "workflow-signal", ""))
			}
		}()
	}
	wins := 0
	for range callers {
		err := <-results
		if err == nil {
			wins++
		} else if !fault.Is(err, fault.Conflict) {
			w.t.Error(err)
		}
	}
	w.same("steps that were stored", 1, wins)
	w.same("its history", []string{"1 started", "2 moved"}, w.history(1, 0, 0))
}

func endedRunsStay(w *world) {
	ctx := w.t.Context()
	end := store.WorkflowStep{Run: w.started(workflowRun("promote")), Events: workflowEvents(intent.WorkflowEnded)}
	end.Run.Ended, end.Run.Outcome = noon.Add(time.Minute), "succeeded"
	ended, err := w.StepWorkflow(ctx, w.lease, end)
	w.must(err)
	for name, err := range map[string]error{
		"the actor": errorOf(w.StepWorkflow(ctx, w.lease, store.WorkflowStep{Run: ended})),
		"a caller":  errorOf(w.StepWorkflowAs(ctx, store.WorkflowStep{Run: ended}, []intent.Role{intent.Operator}, "workflow-cancel", "")),
	} {
		w.refused(err, fault.Conflict)
		if !strings.Contains(err.Error(), "the run has ended (succeeded)") {
			w.t.Errorf("%s is told: %v", name, err)
		}
	}
	w.same("the run that ended", ended, w.workflowRun(1))
}

func errorOf(_ intent.WorkflowRun, err error) error { return err }

func stepsNeedTheLease(w *world) {
	ctx := w.t.Context()
	run := w.started(workflowRun("promote"))
	w.refused(errorOf(w.StepWorkflow(ctx, w.register(theatre), store.WorkflowStep{Run: run})), fault.Invalid)
	stale := w.lease
	var err error
	w.lease, err = w.Acquire(ctx, shop, "server-2")
	w.must(err)
	w.created(`{"version":"0.9"}`)
	w.refused(errorOf(w.StepWorkflow(ctx, stale, store.WorkflowStep{Run: run, Events: workflowEvents(intent.WorkflowMoved)})), fault.Conflict)
	w.refused(errorOf(w.StepWorkflow(ctx, stale, w.edits(1, "1", "1.0"))), fault.Conflict)
	w.same("the run after steps without the lease", run, w.workflowRun(1))
	w.must(errorOf(w.StepWorkflow(ctx, w.lease, store.WorkflowStep{Run: run})))
}

func runsAreFiltered(w *world) {
	ctx := w.t.Context()
	for _, name := range []string{"promote", "rotate", "promote", "promote"} {
		w.started(workflowRun(name))
	}
	end := store.WorkflowStep{Run: w.workflowRun(3)}
	end.Run.Ended, end.Run.Outcome = noon, "failed"
	w.must(errorOf(w.StepWorkflow(ctx, w.lease, end)))                                       // touched 5
	w.must(errorOf(w.StepWorkflow(ctx, w.lease, store.WorkflowStep{Run: w.workflowRun(1)}))) // touched 6
	since := func(number uint64) *uint64 { return &number }
	for _, c := range []struct {
		name   string
		filter store.WorkflowFilter
		want   []uint64
	}{
		{"all, the newest first", store.WorkflowFilter{}, []uint64{4, 3, 2, 1}},
		{"of a workflow", store.WorkflowFilter{Workflow: "promote"}, []uint64{4, 3, 1}},
		{"those that go on", store.WorkflowFilter{Open: true}, []uint64{4, 2, 1}},
		{"a page", store.WorkflowFilter{Limit: 2}, []uint64{4, 3}},
		{"the next page", store.WorkflowFilter{Before: 3, Limit: 2}, []uint64{2, 1}},
		{"before the greatest number that there can be", store.WorkflowFilter{Before: 1<<64 - 1}, []uint64{4, 3, 2, 1}},
		{"by change", store.WorkflowFilter{Touched: since(0)}, []uint64{2, 4, 3, 1}},
		{"changed since", store.WorkflowFilter{Touched: since(4), Limit: 1}, []uint64{3}},
		{"changed since the last change", store.WorkflowFilter{Touched: since(6)}, nil},
		{"all conditions", store.WorkflowFilter{Workflow: "promote", Open: true, Touched: since(2), Before: 4}, []uint64{1}},
		{"of no workflow", store.WorkflowFilter{Workflow: "none"}, nil},
	} {
		runs, err := w.WorkflowRuns(ctx, shop, c.filter)
		w.must(err)
		var have []uint64
		for _, run := range runs {
			have = append(have, run.Number)
			w.same(c.name, w.workflowRun(run.Number), run)
		}
		w.same(c.name, c.want, have)
	}
	runs, err := w.WorkflowRuns(ctx, theatre, store.WorkflowFilter{})
	w.must(err)
	w.same("of another partition", 0, len(runs))
}

func runsAreBounded(w *world) {
	ctx := w.t.Context()
	run := w.started(workflowRun("promote"))
	large := workflowRun("promote")
	large.Text = strings.Repeat("x", store.MaxWorkflowRecord)
	w.refused(errorOf(w.StartWorkflow(ctx, large, nil, intent.Operator)), fault.Invalid)
	step := store.WorkflowStep{Run: run, Events: workflowEvents(intent.WorkflowMoved)}
	step.Run.State = json.RawMessage(`"` + large.Text + `"`)
	err := errorOf(w.StepWorkflow(ctx, w.lease, step))
	w.refused(err, fault.Invalid)
	if !strings.Contains(err.Error(), "at most 1048576 are stored") {
		w.t.Errorf("the bound is told as: %v", err)
	}
	step.Run.State, step.Events[0].Reason = run.State, large.Text
	w.refused(errorOf(w.StepWorkflow(ctx, w.lease, step)), fault.Invalid)
	step.Run.State, step.Events = json.RawMessage("{"), nil
	w.refused(errorOf(w.StepWorkflow(ctx, w.lease, step)), fault.Invalid)
	w.same("the run after steps that were refused", run, w.workflowRun(1))
	w.same("its history", []string{"1 started"}, w.history(1, 0, 0))
	large.Text = large.Text[:store.MaxWorkflowRecord*9/10]
	if second := w.started(large); w.workflowRun(second.Number).Text != large.Text {
		w.t.Error("a run that is almost as large as it may be comes back as another")
	}
}
