package server_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/server"
	"lehr.dev/internal/store"
	"lehr.dev/sdk/client"
)

// runs is a store of runs in memory, for the handlers.
type runs struct {
	mutex  sync.Mutex
	rows   []intent.WorkflowRun
	events map[uint64][]intent.WorkflowEvent
	// roles of every caller.
	roles []intent.Role
	// verbs of steps that were stored.
	verbs []string
	// conflicts are refused before a step is stored; meanwhile is called at each.
	conflicts int
	meanwhile func()
}

func (r *runs) StartWorkflow(_ context.Context, run intent.WorkflowRun, events []intent.WorkflowEvent, _ intent.Role) (intent.WorkflowRun, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, row := range r.rows {
		if run.Request != "" && row.Request == run.Request {
			return row, nil
		}
	}
	run.Number, run.Version = uint64(len(r.rows)+1), 1
	r.rows = append(r.rows, run)
	r.add(run.Number, events)
	return run, nil
}

func (r *runs) add(number uint64, events []intent.WorkflowEvent) {
	if r.events == nil {
		r.events = map[uint64][]intent.WorkflowEvent{}
	}
	for _, e := range events {
		e.Number, e.At = uint64(len(r.events[number])+1), time.Now()
		r.events[number] = append(r.events[number], e)
	}
}

func (r *runs) StepWorkflowAs(_ context.Context, step store.WorkflowStep, anyOf []intent.Role, verb, _ string) (intent.WorkflowRun, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.conflicts > 0 {
		r.conflicts--
		if r.meanwhile != nil {
			r.meanwhile()
		}
	}
	row := &r.rows[step.Run.Number-1]
	if row.Version != step.Run.Version {
		return intent.WorkflowRun{}, fault.New(fault.Conflict, "the run has version %d", row.Version)
	}
	if !slices.ContainsFunc(anyOf, func(role intent.Role) bool { return slices.Contains(r.roles, role) }) {
		return intent.WorkflowRun{}, fault.New(fault.Denied, "the caller has none of the roles")
	}
	*row = step.Run
	row.Version++
	r.verbs = append(r.verbs, verb)
	r.add(row.Number, step.Events)
	return *row, nil
}

func (r *runs) WorkflowRun(_ context.Context, _ intent.PartitionID, number uint64) (intent.WorkflowRun, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if number > uint64(len(r.rows)) {
		return intent.WorkflowRun{}, fault.New(fault.NotFound, "no run %d", number)
	}
	return r.rows[number-1], nil
}

func (r *runs) WorkflowRuns(_ context.Context, _ intent.PartitionID, filter store.WorkflowFilter) (found []intent.WorkflowRun, _ error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, row := range slices.Backward(r.rows) {
		fits := (filter.Workflow == "" || row.Workflow == filter.Workflow) && (!filter.Open || row.Ended.IsZero()) && (filter.Before == 0 || row.Number < filter.Before)
		if fits && len(found) < filter.Limit {
			found = append(found, row)
		}
	}
	return found, nil
}

func (r *runs) WorkflowEvents(_ context.Context, _ intent.PartitionID, run uint64, filter store.WorkflowEventFilter) ([]intent.WorkflowEvent, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	all := slices.DeleteFunc(slices.Clone(r.events[run]), func(e intent.WorkflowEvent) bool {
		return e.Number <= filter.After || filter.Before > 0 && e.Number >= filter.Before
	})
	if filter.NewestFirst {
		slices.Reverse(all)
	}
	return all[:min(filter.Limit, len(all))], nil
}

func (r *runs) RolesOf(context.Context, intent.PartitionID) ([]intent.Role, error) {
	return r.roles, nil
}

// flows is a world whose head has workflows.
type flows struct {
	*world
	runs *runs
	now  time.Time
}

// shifted is real time, moved by a test.
type shifted struct {
	loop.Runtime
	flows *flows
}

func (s shifted) Now() time.Time { return s.flows.now }

func newFlows(t *testing.T) *flows {
	t.Helper()
	f := &flows{world: newWorld(t), runs: &runs{roles: []intent.Role{intent.Operator, intent.Approver, intent.Viewer}}, now: time.Now()}
	api := server.New(server.Options{
		Store: f.store, Schemas: builtin{}, Runtime: shifted{loop.Real(), f}, Identify: access.CallerOf, Location: "memory", Version: "test", Workflows: f.runs,
	})
	local := access.Local{Token: access.NewToken(), Tokens: f.store}
	listening := httptest.NewServer(local.Guard(api.Handler()))
	t.Cleanup(listening.Close)
	f.url, f.client = listening.URL, client.Dial(listening.URL, local.Token, ann)
	return f
}

// serve publishes the workflows of files as the next incarnation.
func (f *flows) serve(base intent.Sequence, texts ...string) {
	f.Helper()
	policy := &intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE}
	for _, text := range texts {
		definition, findings := workflow.Read("test.yaml", []byte(text))
		if definition == nil {
			f.Fatalf("the workflow of the test cannot be read: %+v", findings)
		}
		policy.Workflows = append(policy.Workflows, &intentpb.Workflow{
			Name: definition.Name, Digest: definition.Digest(), Text: text, File: definition.Name + ".yaml", Sources: map[string]string{"web": "knobs"},
		})
	}
	payload, err := schema.Builtin().Pack(policy)
	f.must(err)
	f.publish(base, intent.Asset{ID: intent.PolicyAsset, Payload: payload})
}

func promotion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../ground/workflow/testdata/promote.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// asks is a workflow that asks people at once, in two machines.
const asks = `workflow: v1
name: asks
signals: [go_on]
machines:
  first:
    initial: asking
    states:
      asking: {action: {person: {question: "First?", roles: [operator], quorum: 1}, timeout: 1h}}
      given: {end: success}
      refused: {end: failure}
    transitions:
      - {from: asking, to: given, on: approved}
      - {from: asking, to: refused, on: [refused, expired]}
  second:
    initial: asking
    states:
      asking: {action: {person: {question: "Second?", roles: [approver], quorum: 2}, timeout: 3h}}
      given: {end: success}
      refused: {end: failure}
    transitions:
      - {from: asking, to: given, on: approved}
      - {from: asking, to: refused, on: [refused, expired]}
  third:
    initial: idle
    states:
      idle: {end: neutral}
      on: {end: success}
    transitions:
      - {from: idle, to: on, when: signals.go_on}
`

// begin starts a run of the workflow asks.
func (f *flows) begin() *apipb.WorkflowRun {
	f.Helper()
	response, err := f.client.Workflows.StartRun(f.Context(), &apipb.StartRunRequest{Partition: "shop", Workflow: "asks", Reason: "a try"})
	f.must(err)
	return response.Run
}

// wasIgnored checks kind and words of an error, and the typed reason.
func (f *flows) wasIgnored(err error, kind fault.Kind, reason, says string) {
	f.Helper()
	f.refused(err, kind, says)
	if got := client.Detail(err).GetWorkflowIgnored(); got != reason {
		f.Errorf("the reason of %v is %q, want %q", err, got, reason)
	}
}

// TestWorkflowStarts: the run keeps the definition, and says where it is and what it lacks.
func TestWorkflowStarts(t *testing.T) {
	f := newFlows(t)
	f.serve(0, promotion(t), asks)
	listed, err := f.client.Workflows.ListWorkflows(t.Context(), &apipb.ListWorkflowsRequest{Partition: "shop"})
	f.must(err)
	if len(listed.Workflows) != 2 || listed.Workflows[0].Name != "promote" || listed.Workflows[0].File != "promote.yaml" || len(listed.Workflows[0].Signals) != 1 {
		t.Fatalf("listed are %v", listed.Workflows)
	}
	if inputs := listed.Workflows[0].Inputs; len(inputs) != 2 || inputs[0].Optional || !inputs[1].Optional || inputs[1].Default != "false" || inputs[1].Type != "bool" {
		t.Errorf("its inputs are %v", inputs)
	}
	request := &apipb.StartRunRequest{Partition: "shop", Workflow: "promote", Inputs: map[string]string{"version": "1.2"}, Reason: "a release", Request: "once"}
	started, err := f.client.Workflows.StartRun(t.Context(), request)
	f.must(err)
	again, err := f.client.Workflows.StartRun(t.Context(), request)
	f.must(err)
	run := started.Run
	if again.Run.Number != run.Number || run.Number != 1 || run.By.Name != "ann" || run.Inputs["urgent"] != "false" || run.Facts["quiet"] || !run.DefinitionIsNewest {
		t.Errorf("the run is %v, and a repeated start is %v", run, again.Run)
	}
	build, approval := run.Machines[0], run.Machines[1]
	if build.Action.GetKind() != "task" || build.Action.Key != "build/building/1" || build.Action.Due == nil || !strings.Contains(build.Action.Text, "1.2") {
		t.Errorf("build is %v", build)
	}
	if to := approval.Transitions[0]; to.To != "asking" || to.Holds != "unknown" || len(to.Missing) != 1 || to.Missing[0].Text != `machines.build == "built" (is building)` {
		t.Errorf("what approval lacks is %v", to)
	}
	if row := f.runs.rows[0]; row.Sources["web"] != "knobs" || row.Wakes.IsZero() || row.Text == "" || row.Reason != "a release" {
		t.Errorf("the stored row is %+v", row)
	}
	f.serve(1, asks)
	got, err := f.client.Workflows.GetRun(t.Context(), &apipb.GetRunRequest{Partition: "shop", Number: 1})
	f.must(err)
	if got.Run.DefinitionIsNewest || got.Run.Definition == "" || got.Run.Machines[0].Since == nil {
		t.Errorf("after the workflow was removed the run is %v", got.Run)
	}
}

// TestWorkflowStartRefusals: each says what to do.
func TestWorkflowStartRefusals(t *testing.T) {
	f := newFlows(t)
	start := func(request *apipb.StartRunRequest) error {
		_, err := f.client.Workflows.StartRun(t.Context(), request)
		return err
	}
	f.refused(start(&apipb.StartRunRequest{Partition: "shop", Workflow: "promote", Reason: "r"}), fault.NotFound, "has no workflows")
	f.serve(0, promotion(t))
	for _, test := range []struct {
		request *apipb.StartRunRequest
		kind    fault.Kind
		says    string
	}{
		{&apipb.StartRunRequest{Partition: "none", Workflow: "promote", Reason: "r"}, fault.NotFound, "none"},
		{&apipb.StartRunRequest{Partition: "shop", Reason: "r"}, fault.Invalid, "no workflow was named"},
		{&apipb.StartRunRequest{Partition: "shop", Workflow: "promotes", Reason: "r"}, fault.NotFound, "did you mean promote"},
		{&apipb.StartRunRequest{Partition: "shop", Workflow: "promote", Inputs: map[string]string{"version": "1"}}, fault.Invalid, "needs a reason"},
		{&apipb.StartRunRequest{Partition: "shop", Workflow: "promote", Reason: "r"}, fault.Invalid, "needs input version"},
		{&apipb.StartRunRequest{Partition: "shop", Workflow: "promote", Reason: "r", Inputs: map[string]string{"version": "1", "urgent": "very"}}, fault.Invalid, "urgent"},
		{&apipb.StartRunRequest{Partition: "shop", Workflow: "promote", Reason: "r", Inputs: map[string]string{"version": "1", "size": "1"}}, fault.Invalid, "has no input"},
	} {
		f.refused(start(test.request), test.kind, test.says)
	}
	if len(f.runs.rows) != 0 {
		t.Errorf("%d runs were stored", len(f.runs.rows))
	}
	_, err := f.client.Workflows.GetRun(t.Context(), &apipb.GetRunRequest{Partition: "shop", Number: 7})
	f.refused(err, fault.NotFound, "no run 7")
	_, err = f.client.Workflows.GetRun(t.Context(), &apipb.GetRunRequest{Partition: "shop"})
	f.refused(err, fault.Invalid, "no run was named")
}

// TestWorkflowVotes: a question is found by its machine or key, counted, and refused with the reason.
func TestWorkflowVotes(t *testing.T) {
	f := newFlows(t)
	f.serve(0, asks)
	run := f.begin()
	vote := func(change func(*apipb.VoteOnRunRequest)) (*apipb.VoteOnRunResponse, error) {
		request := &apipb.VoteOnRunRequest{Partition: "shop", Number: run.Number, Approve: true}
		change(request)
		return f.client.Workflows.VoteOnRun(t.Context(), request)
	}
	_, err := vote(func(*apipb.VoteOnRunRequest) {})
	f.refused(err, fault.Invalid, "first, second")
	_, err = vote(func(r *apipb.VoteOnRunRequest) { r.Machine = "fourth" })
	f.refused(err, fault.NotFound, "fourth")
	_, err = vote(func(r *apipb.VoteOnRunRequest) { r.Machine = "third" })
	f.refused(err, fault.Conflict, "first, second")
	_, err = vote(func(r *apipb.VoteOnRunRequest) { r.Key = "first/asking/9" })
	f.wasIgnored(err, fault.NotFound, "unknown-action", "first/asking/9")
	_, err = vote(func(r *apipb.VoteOnRunRequest) { r.Approve = false })
	f.refused(err, fault.Invalid, "needs a reason")

	counted, err := vote(func(r *apipb.VoteOnRunRequest) { r.Machine = "second" })
	f.must(err)
	if counted.Outcome != "" || counted.Approvals != 1 || counted.Quorum != 2 || counted.Key != "second/asking/1" {
		t.Errorf("one of two approvals is answered by %v", counted)
	}
	_, err = vote(func(r *apipb.VoteOnRunRequest) { r.Machine = "second" })
	f.wasIgnored(err, fault.Conflict, "voted-before", "ann approved")

	mayAnswer := func() (machines []string) {
		got, err := f.client.Workflows.GetRun(t.Context(), &apipb.GetRunRequest{Partition: "shop", Number: run.Number})
		f.must(err)
		for _, m := range got.Run.Machines {
			if m.Action.GetMayAnswer() {
				machines = append(machines, m.Name)
			}
		}
		return machines
	}
	for role, want := range map[intent.Role][]string{intent.Viewer: nil, intent.Operator: {"first"}, intent.Approver: {"second"}} {
		f.runs.roles = []intent.Role{role}
		if got := mayAnswer(); !slices.Equal(got, want) {
			t.Errorf("a %s may answer %q, want %q", role, got, want)
		}
	}

	f.runs.roles = []intent.Role{intent.Viewer}
	_, err = vote(func(r *apipb.VoteOnRunRequest) { r.Machine = "first" })
	f.wasIgnored(err, fault.Denied, "role-is-missing", "operator")
	f.runs.roles = []intent.Role{intent.Operator}
	decided, err := vote(func(r *apipb.VoteOnRunRequest) { r.Machine = "first" })
	f.must(err)
	if decided.Outcome != "approved" || decided.Run.Machines[0].State != "given" {
		t.Errorf("an approval is answered by %v", decided)
	}
	_, err = vote(func(r *apipb.VoteOnRunRequest) { r.Key = "first/asking/1" })
	f.refused(err, fault.Conflict, "first/asking/1")

	f.runs.roles = []intent.Role{intent.Approver}
	refused, err := vote(func(r *apipb.VoteOnRunRequest) { r.Approve, r.Reason = false, "not today" }) // The only question left.
	f.must(err)
	if refused.Outcome != "refused" || refused.Run.Machines[1].State != "refused" {
		t.Errorf("a refusal is answered by %v", refused)
	}
	if want := []string{"workflow-vote", "workflow-vote", "workflow-vote"}; !slices.Equal(f.runs.verbs, want) {
		t.Errorf("stored are %q, want %q", f.runs.verbs, want)
	}
	events, err := f.client.Workflows.ListRunEvents(t.Context(), &apipb.ListRunEventsRequest{Partition: "shop", Number: run.Number})
	f.must(err)
	var kinds []string
	for _, e := range events.Events {
		kinds = append(kinds, e.Kind)
	}
	if got := strings.Join(kinds, " "); got != "started began began voted voted answered moved voted answered moved" {
		t.Errorf("the history is %s", got)
	}
	page, err := f.client.Workflows.ListRunEvents(t.Context(), &apipb.ListRunEventsRequest{Partition: "shop", Number: run.Number, After: 3, Limit: 2})
	f.must(err)
	if len(page.Events) != 2 || page.Events[0].Number != 4 || page.Next != 5 {
		t.Errorf("a page of it is %v", page)
	}
	page, err = f.client.Workflows.ListRunEvents(t.Context(), &apipb.ListRunEventsRequest{Partition: "shop", Number: run.Number, NewestFirst: true, Before: 9, Limit: 2})
	f.must(err)
	if len(page.Events) != 2 || page.Events[0].Number != 8 || page.Events[1].Number != 7 || page.Next != 7 {
		t.Errorf("the newest page is %v", page)
	}
}

// TestWorkflowSignalsAndCancels: each counts once, and not after the end.
func TestWorkflowSignalsAndCancels(t *testing.T) {
	f := newFlows(t)
	f.serve(0, asks)
	run := f.begin()
	signal := func(name string) (*apipb.SignalRunResponse, error) {
		return f.client.Workflows.SignalRun(t.Context(), &apipb.SignalRunRequest{Partition: "shop", Number: run.Number, Signal: name})
	}
	cancel := func(reason string) (*apipb.CancelRunResponse, error) {
		return f.client.Workflows.CancelRun(t.Context(), &apipb.CancelRunRequest{Partition: "shop", Number: run.Number, Reason: reason})
	}
	if !slices.Equal(run.SignalsOpen, []string{"go_on"}) {
		t.Errorf("signals that can come are %q", run.SignalsOpen)
	}
	_, err := signal("go_of")
	f.wasIgnored(err, fault.Invalid, "unknown-signal", "did you mean go_on")
	given, err := signal("go_on")
	f.must(err)
	if given.Run.Machines[2].State != "on" || !slices.Equal(given.Run.Signals, []string{"go_on"}) || len(given.Run.SignalsOpen) != 0 {
		t.Errorf("with the signal the run is %v", given.Run)
	}
	_, err = signal("go_on")
	f.wasIgnored(err, fault.Conflict, "signalled-before", "go_on")
	_, err = cancel("")
	f.refused(err, fault.Invalid, "needs a reason")
	cancelled, err := cancel("a mistake")
	f.must(err)
	if cancelled.Run.Outcome != "cancelled" || cancelled.Run.Ended == nil || !cancelled.Run.Cancelled {
		t.Errorf("after the cancel the run is %v", cancelled.Run)
	}
	_, err = cancel("a mistake")
	f.wasIgnored(err, fault.Conflict, "run-is-over", "is over: cancelled")
	_, err = f.client.Workflows.VoteOnRun(t.Context(), &apipb.VoteOnRunRequest{Partition: "shop", Number: run.Number, Approve: true})
	f.wasIgnored(err, fault.Conflict, "run-is-over", "is over")
}

// TestWorkflowStepsAgain: a step that somebody else was faster than is decided anew, a bounded number of times.
func TestWorkflowStepsAgain(t *testing.T) {
	f := newFlows(t)
	f.serve(0, asks)
	run := f.begin()
	f.runs.conflicts, f.runs.meanwhile = 3, func() { f.runs.rows[0].Version++ }
	_, err := f.client.Workflows.SignalRun(t.Context(), &apipb.SignalRunRequest{Partition: "shop", Number: run.Number, Signal: "go_on"})
	f.must(err)
	f.runs.conflicts = 100
	_, err = f.client.Workflows.CancelRun(t.Context(), &apipb.CancelRunRequest{Partition: "shop", Number: run.Number, Reason: "r"})
	f.refused(err, fault.Conflict, "stepped by others")
}

// TestWorkflowTimersComeFirst: what time did is not said to be done by who comes after it.
func TestWorkflowTimersComeFirst(t *testing.T) {
	f := newFlows(t)
	f.serve(0, asks)
	run := f.begin()
	f.now = f.now.Add(2 * time.Hour)
	_, err := f.client.Workflows.VoteOnRun(t.Context(), &apipb.VoteOnRunRequest{Partition: "shop", Number: run.Number, Key: "first/asking/1", Approve: true})
	f.wasIgnored(err, fault.Conflict, "came-late", "any more")
	if f.runs.rows[0].Version != 1 {
		t.Error("something was stored of what was ignored")
	}
	_, err = f.client.Workflows.VoteOnRun(t.Context(), &apipb.VoteOnRunRequest{Partition: "shop", Number: run.Number, Approve: true}) // Only one question is left.
	f.must(err)
	var history []string
	for _, e := range f.runs.events[1][3:] {
		history = append(history, fmt.Sprintf("%s %s %s", e.Kind, e.Machine, e.By.Name))
	}
	want := []string{"answered first workflow/shop/asks", "moved first workflow/shop/asks", "voted second ann"}
	if !slices.Equal(history, want) {
		t.Errorf("the history is %q, want %q", history, want)
	}
}

// TestWorkflowRunsArePaged, and chosen by workflow and by whether they go on.
func TestWorkflowRunsArePaged(t *testing.T) {
	f := newFlows(t)
	f.serve(0, asks, promotion(t))
	for range 3 {
		f.begin()
	}
	_, err := f.client.Workflows.CancelRun(t.Context(), &apipb.CancelRunRequest{Partition: "shop", Number: 2, Reason: "r"})
	f.must(err)
	numbers := func(request *apipb.ListWorkflowRunsRequest) (list []uint64, next uint64) {
		request.Partition = "shop"
		response, err := f.client.Workflows.ListWorkflowRuns(t.Context(), request)
		f.must(err)
		for _, run := range response.Runs {
			list = append(list, run.Number)
		}
		return list, response.Next
	}
	if list, next := numbers(&apipb.ListWorkflowRunsRequest{Limit: 2}); !slices.Equal(list, []uint64{3, 2}) || next != 2 {
		t.Errorf("the first page is %d, then before %d", list, next)
	}
	if list, next := numbers(&apipb.ListWorkflowRunsRequest{Limit: 2, Before: 2}); !slices.Equal(list, []uint64{1}) || next != 0 {
		t.Errorf("the second page is %d, then before %d", list, next)
	}
	if list, _ := numbers(&apipb.ListWorkflowRunsRequest{OpenOnly: true}); !slices.Equal(list, []uint64{3, 1}) {
		t.Errorf("those that go on are %d", list)
	}
	if list, _ := numbers(&apipb.ListWorkflowRunsRequest{Workflow: "promote"}); list != nil {
		t.Errorf("of another workflow are %d", list)
	}
}
