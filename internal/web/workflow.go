package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/ground/workflowtext"
)

// runEventsShown is how many rows of a run's history a page has.
const runEventsShown = 200

// workflowRunKind is the page of a run of a workflow, which is named by its number.
const workflowRunKind = "workflow-run"

// workflowRunAddress is the page of a run.
func workflowRunAddress(partition string, number uint64) address {
	return address{kind: workflowRunKind, partition: partition, name: strconv.FormatUint(number, 10)}
}

// workflowView is a workflow that head has.
type workflowView struct {
	*apipb.Workflow
	// Runs is the link to its runs alone.
	Runs  string
	Start actButton
}

// workflowsView is the workflows of a partition.
type workflowsView struct {
	Workflows []workflowView
	// Name of the one whose runs are listed; empty: of all, to whose page All leads.
	Name, All string
}

// workflowRunView is a run, on its own or in a list.
type workflowRunView struct {
	*apipb.WorkflowRun
	Partition string
	// InputValues and FactValues, by their names.
	InputValues, FactValues []namedValue
	// Orders are what a person may ask of the run now.
	Orders []order
}

type namedValue struct{ Name, Value string }

// Name of the run, such as "promote#3".
func (v workflowRunView) Name() string { return workflowtext.RunName(v.WorkflowRun) }

// Link to the run's page.
func (v workflowRunView) Link() string { return workflowRunAddress(v.Partition, v.Number).String() }

// Waits says what a run that goes on waits for.
func (v workflowRunView) Waits() string {
	if v.Ended != nil {
		return ""
	}
	return workflowtext.WaitsFor(v.WorkflowRun)
}

// machineView is a machine of a run.
type machineView struct {
	*apipb.WorkflowMachine
	// Ended: the run has, and no transition is followed any more.
	Ended bool
	Acts  []actButton
}

// Approvals of its question, in words.
func (v machineView) Approvals() string { return workflowtext.Approvals(v.Action) }

// Leads are its transitions, each with what it awaits or lacks.
func (v machineView) Leads() (list []namedValue) {
	if v.Ended {
		return nil
	}
	for _, t := range v.Transitions {
		list = append(list, namedValue{t.To, workflowtext.Transition(t, v.WorkflowMachine)})
	}
	return list
}

// showWorkflows lists the workflows of head, and the runs that there were, the newest first.
func showWorkflows(ctx context.Context, r *reader, at address) (page, error) {
	name := at.query.Get("workflow")
	pageData, err := partitionPage(ctx, r, at, "Workflows of "+at.partition)
	if err != nil {
		return page{}, err
	}
	cursor, err := runNumber(at, "before")
	if err != nil {
		return page{}, err
	}
	listed, err := r.Workflows.ListWorkflows(ctx, &apipb.ListWorkflowsRequest{Partition: at.partition})
	if err != nil {
		return page{}, err
	}
	response, err := r.Workflows.ListWorkflowRuns(ctx, &apipb.ListWorkflowRunsRequest{Partition: at.partition, Workflow: name, Before: cursor, Limit: rowsShown})
	if err != nil {
		return page{}, err
	}
	view := workflowsView{Name: name, All: address{kind: "workflows", partition: at.partition}.String()}
	for _, w := range listed.Workflows {
		shown := address{kind: "workflows", partition: at.partition}
		view.Workflows = append(view.Workflows, workflowView{Workflow: w, Runs: shown.withValue("workflow", w.Name), Start: newActButton(at.partition, "workflow-start", w.Name)})
	}
	var rows []part
	for _, run := range response.Runs {
		rows = append(rows, makeRow(strconv.FormatUint(run.Number, 10), "workflow-run-row", workflowRunView{WorkflowRun: run, Partition: at.partition}))
	}
	next := ""
	if response.Next != 0 {
		next = strconv.FormatUint(response.Next, 10)
	}
	pageData.Parts = []part{makePart("workflows", "workflows", view), makeList("runs", "workflow-runs", at.pager("before", len(rows), next), rows)}
	return pageData, nil
}

// inputText is an input of a workflow, as it is listed.
func inputText(input *apipb.WorkflowInput) string {
	text := input.Name + ": " + input.Type
	if input.Optional {
		text += fmt.Sprintf(" = %q", input.Default)
	}
	return text
}

// showWorkflowRun is a run: how it stands, its machines as a graph and one by one, and what happened.
func (s *Site) showWorkflowRun(ctx context.Context, r *reader, at address) (page, error) {
	run, err := r.workflowRun(ctx, at.partition, at.name)
	if err != nil {
		return page{}, err
	}
	pageData, err := partitionPage(ctx, r, at, "Run "+workflowtext.RunName(run))
	if err != nil {
		return page{}, err
	}
	pageData.Back = crumb{"workflows", link(at.partition, "workflows", "")}
	cursor, err := runNumber(at, "before")
	if err != nil {
		return page{}, err
	}
	events, err := r.Workflows.ListRunEvents(ctx, &apipb.ListRunEventsRequest{Partition: at.partition, Number: run.Number, NewestFirst: true, Before: cursor, Limit: runEventsShown})
	if err != nil {
		return page{}, err
	}
	next := ""
	if events.Next != 0 {
		next = strconv.FormatUint(events.Next, 10)
	}
	history := struct {
		Events []*apipb.WorkflowEvent
		pager
	}{events.Events, at.pager("before", len(events.Events), next)}
	if cursor != 0 {
		pageData.Parts = []part{makePart("history", "workflow-history", history)}
		return pageData, nil
	}
	drawing := problem("graph", fault.New(fault.Unavailable, "the definition of the run cannot be drawn by this version of Lehr"))
	if definition := s.definitions.read(run); definition != nil {
		drawing = makePart("graph", "workflow-graph", drawRun(definition, run))
	}
	var machines []part
	for _, m := range run.Machines {
		machines = append(machines, makeRow(m.Name, "workflow-machine", r.viewMachine(run, m)))
	}
	pageData.Parts = []part{
		makePart("run", "workflow-run", r.viewRun(run)), drawing,
		makeList("machines", "workflow-machines", nil, machines), makePart("history", "workflow-history", history),
	}
	return pageData, nil
}

// workflowRun reads a run by the number that an address has.
func (r *reader) workflowRun(ctx context.Context, partition, text string) (*apipb.WorkflowRun, error) {
	number, err := strconv.ParseUint(text, 10, 63)
	if err != nil || number == 0 {
		return nil, fault.New(fault.NotFound, "%.40q is not the number of a run", text).WithHint("the page of the workflows lists the runs")
	}
	response, err := r.Workflows.GetRun(ctx, &apipb.GetRunRequest{Partition: partition, Number: number})
	return response.GetRun(), err
}

func (r *reader) viewRun(run *apipb.WorkflowRun) workflowRunView {
	view := workflowRunView{WorkflowRun: run, Partition: run.Partition}
	for name, value := range run.Inputs {
		view.InputValues = append(view.InputValues, namedValue{name, value})
	}
	for name, value := range run.Facts {
		view.FactValues = append(view.FactValues, namedValue{name, strconv.FormatBool(value)})
	}
	byName := func(a, b namedValue) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(view.InputValues, byName)
	slices.SortFunc(view.FactValues, byName)
	act := func(name, purpose string, button actButton, words ...string) {
		command := append([]string{"workflow", name, workflowtext.RunName(run)}, words...)
		view.Orders = append(view.Orders, order{What: purpose, Act: button, Command: r.command(run.Partition, command...)})
	}
	if run.Ended != nil {
		act("retry", "start a new run with the same inputs", newRunButton(run, "workflow-retry"), "--reason", "WHY")
		return view
	}
	for _, signal := range run.SignalsOpen {
		act("signal", "give it signal "+signal, newRunButton(run, "workflow-signal", "signal", signal), signal)
	}
	if !run.DefinitionIsNewest {
		act("migrate", "move it to the definition that lehr.yaml has now", newRunButton(run, "workflow-migrate"), "--reason", "WHY")
	}
	if !run.Cancelled {
		act("cancel", "let only its retreat go on", newRunButton(run, "workflow-cancel"), "--reason", "WHY")
	}
	return view
}

func (r *reader) viewMachine(run *apipb.WorkflowRun, m *apipb.WorkflowMachine) machineView {
	view := machineView{WorkflowMachine: m, Ended: run.Ended != nil}
	if m.Action.GetMayAnswer() {
		view.Acts = []actButton{newRunButton(run, "workflow-approve", "machine", m.Name), newRunButton(run, "workflow-reject", "machine", m.Name)}
	}
	return view
}

// newRunButton leads to the form of an act on a run. More are keys of its address and their values.
func newRunButton(run *apipb.WorkflowRun, name string, more ...string) actButton {
	at := address{kind: "act", partition: run.Partition, name: name, query: url.Values{"run": {strconv.FormatUint(run.Number, 10)}}}
	for i := 0; i+1 < len(more); i += 2 {
		at.query.Set(more[i], more[i+1])
	}
	return actButton{Text: acts[name].button, Link: at.String(), Loosens: acts[name].loosens}
}

// drawRun draws the machines of a run, each in a lane of its own, with the states in which they are.
func drawRun(d *workflow.Definition, run *apipb.WorkflowRun) *graph {
	current := map[string]*apipb.WorkflowMachine{}
	for _, m := range run.Machines {
		current[m.Name] = m
	}
	g := &graph{ID: "workflow", Name: "The machines of " + workflowtext.RunName(run), Edge: "leads to"}
	for i := range d.Machines {
		m := &d.Machines[i]
		g.LaneOrder = append(g.LaneOrder, m.Name)
		at := current[m.Name]
		states := slices.Clone(m.States)
		if first := slices.IndexFunc(states, func(s workflow.State) bool { return s.Name == m.Initial }); first > 0 {
			states[0], states[first] = states[first], states[0] // The way begins there.
		}
		for j := range states {
			node := stateNode(m, &states[j])
			if at.GetState() == states[j].Name {
				node.Here = true
				node.Note = currentStateNote(at, node.Note)
				if node.Class == "" {
					node.Class = "state-pushing"
				}
			}
			g.Nodes = append(g.Nodes, node)
		}
		for _, t := range m.Transitions {
			g.Edges = append(g.Edges, graphEdge{From: m.Name + "/" + t.From, To: m.Name + "/" + t.To})
		}
	}
	g.fold(func(n *graphNode) string { return n.Lane }, func(machine string, nodes []*graphNode) *graphNode {
		return &graphNode{ID: machine, Text: machine, Note: count(len(nodes), "state"), Lane: machine}
	})
	return g.layOut()
}

// stateNode is a state of a machine, coloured by what a run ends as that ends there.
func stateNode(m *workflow.Machine, s *workflow.State) *graphNode {
	node := &graphNode{ID: m.Name + "/" + s.Name, Text: s.Name, Lane: m.Name}
	switch s.End {
	case workflow.EndsInSuccess:
		node.Class, node.Note = "state-in-sync", "success"
	case workflow.EndsInFailure:
		node.Class, node.Note = "failed", "failure"
	}
	if s.Action != nil {
		node.Note = s.Action.Kind()
	}
	return node
}

// currentStateNote says of the state in which a machine is what became of its action.
func currentStateNote(m *apipb.WorkflowMachine, note string) string {
	switch {
	case m.Outcome != "":
		return "here; " + m.Outcome
	case m.Action.GetKind() == "person":
		return "here; asks people"
	case m.Action.GetKind() == "wait":
		return "here; waits"
	case m.Action != nil:
		return "here; " + m.Action.Kind + " under way"
	case note != "":
		return "here; " + note
	}
	return "here"
}

// outcomeClass is the state of a run, as a class of the stylesheet.
func outcomeClass(run *apipb.WorkflowRun) string {
	switch {
	case run.Ended == nil && run.Cancelled:
		return "state-waiting"
	case run.Ended == nil:
		return "state-pushing"
	case run.Outcome == string(workflow.EndSuccess):
		return "state-in-sync"
	}
	return "state-none"
}
