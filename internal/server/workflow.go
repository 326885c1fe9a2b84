package server

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/store"
)

// workflowHandlers answer the calls of WorkflowService.
type workflowHandlers struct{ *Server }

// maxDefinitions are kept in memory.
const maxDefinitions = 200

// definitions that were read, by their digests: reading one compiles its guards.
type definitions struct {
	mutex sync.Mutex
	known map[string]*workflow.Definition
}

// read a definition, which was checked before it was stored.
func (d *definitions) read(file, digest, text string) (*workflow.Definition, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if known := d.known[digest]; known != nil {
		return known, nil
	}
	definition, findings := workflow.Read(file, []byte(text))
	if definition == nil {
		problem := "it has no findings"
		if len(findings) > 0 {
			problem = findings[0].Message
		}
		return nil, fault.New(fault.Internal, "the stored definition %s of %s cannot be read: %s", digest, file, problem).
			WithHint("this version of Lehr does not understand it: check the file with lehr workflow check, and publish it again")
	}
	if len(d.known) >= maxDefinitions || d.known == nil {
		d.known = map[string]*workflow.Definition{}
	}
	d.known[digest] = definition
	return definition, nil
}

// workflowsOf head, in the order of lehr.yaml.
func (h workflowHandlers) workflowsOf(ctx context.Context, partition store.Partition) ([]*intentpb.Workflow, error) {
	policy, err := h.delivered.Policy(ctx, partition.Head)
	return policy.GetWorkflows(), err
}

// workflowOf head by its name, and its definition.
func (h workflowHandlers) workflowOf(ctx context.Context, partition store.Partition, name string) (*intentpb.Workflow, *workflow.Definition, error) {
	all, err := h.workflowsOf(ctx, partition)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, one := range all {
		if one.GetName() == name {
			definition, err := h.definitions.read(one.GetFile(), one.GetDigest(), one.GetText())
			return one, definition, err
		}
		names = append(names, one.GetName())
	}
	switch {
	case len(all) == 0:
		return nil, nil, fault.New(fault.NotFound, "partition %s has no workflows", partition.ID).WithHint("list one under workflows: in its lehr.yaml")
	case name == "":
		return nil, nil, fault.New(fault.Invalid, "no workflow was named").WithHint("partition %s has %s", partition.ID, strings.Join(names, ", "))
	}
	hint := "it has " + strings.Join(names, ", ")
	if near := spell.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return nil, nil, fault.New(fault.NotFound, "partition %s has no workflow %q", partition.ID, name).WithHint("%s", hint)
}

// ListWorkflows of a partition's head.
func (h workflowHandlers) ListWorkflows(ctx context.Context, request *apipb.ListWorkflowsRequest) (*apipb.ListWorkflowsResponse, error) {
	partition, err := h.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	all, err := h.workflowsOf(ctx, partition)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListWorkflowsResponse{}
	for _, one := range all {
		definition, err := h.definitions.read(one.GetFile(), one.GetDigest(), one.GetText())
		if err != nil {
			return nil, err
		}
		listed := &apipb.Workflow{Name: one.GetName(), Digest: one.GetDigest(), File: one.GetFile()}
		for _, input := range definition.Inputs {
			converted := &apipb.WorkflowInput{Name: input.Name, Type: string(input.Type)}
			if input.Default != nil {
				converted.Optional, converted.Default = true, input.Default.Text
			}
			listed.Inputs = append(listed.Inputs, converted)
		}
		for _, signal := range definition.Signals {
			listed.Signals = append(listed.Signals, signal.Name)
		}
		response.Workflows = append(response.Workflows, listed)
	}
	return response, nil
}

// StartRun of a workflow of head. Facts begin as false: the partition's driver looks at them.
func (h workflowHandlers) StartRun(ctx context.Context, request *apipb.StartRunRequest) (*apipb.StartRunResponse, error) {
	partition, err := h.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	listed, definition, err := h.workflowOf(ctx, partition, request.Workflow)
	if err != nil {
		return nil, err
	}
	reason, err := loosened("starting workflow "+request.Workflow, request.Reason)
	if err != nil {
		return nil, err
	}
	inputs := map[string]workflow.Value{}
	for name, text := range request.Inputs {
		inputs[name] = workflow.Value{Text: text}
	}
	now := h.runtime.Now().UTC()
	result, err := definition.Start(inputs, nil, now)
	if err != nil {
		return nil, err
	}
	run := intent.WorkflowRun{
		Partition: partition.ID, Workflow: listed.GetName(), Digest: listed.GetDigest(), Text: listed.GetText(), Sources: listed.GetSources(),
		Incarnation: partition.Head, Request: request.Request, Started: now, By: actorOf(ctx), Reason: reason,
	}
	if err := workflow.UpdateRow(&run, result, now); err != nil {
		return nil, err
	}
	events := workflow.Record(definition, workflow.Run{}, workflow.Event{Reason: reason}, result, run.By)
	stored, err := h.workflows.StartWorkflow(ctx, run, events, intent.Operator)
	if err != nil {
		return nil, err
	}
	converted, err := h.toRun(ctx, partition, stored)
	return &apipb.StartRunResponse{Run: converted}, err
}

// ListWorkflowRuns of a partition, the newest first.
func (h workflowHandlers) ListWorkflowRuns(ctx context.Context, request *apipb.ListWorkflowRunsRequest) (*apipb.ListWorkflowRunsResponse, error) {
	partition, err := h.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	reader, err := h.readerOf(ctx, partition)
	if err != nil {
		return nil, err
	}
	limit := page(request.Limit, usualPage, mostPage)
	runs, err := h.workflows.WorkflowRuns(ctx, partition.ID, store.WorkflowFilter{Workflow: request.Workflow, Open: request.OpenOnly, Before: request.Before, Limit: limit + 1})
	if err != nil {
		return nil, err
	}
	response := &apipb.ListWorkflowRunsResponse{}
	if len(runs) > limit {
		runs = runs[:limit]
		response.Next = runs[limit-1].Number
	}
	for _, run := range runs {
		converted, err := h.convertRun(run, reader)
		if err != nil {
			return nil, err
		}
		response.Runs = append(response.Runs, converted)
	}
	return response, nil
}

// GetRun tells all of a run.
func (h workflowHandlers) GetRun(ctx context.Context, request *apipb.GetRunRequest) (*apipb.GetRunResponse, error) {
	partition, run, err := h.runOf(ctx, request.Partition, request.Number)
	if err != nil {
		return nil, err
	}
	converted, err := h.toRun(ctx, partition, run)
	if err != nil {
		return nil, err
	}
	converted.Definition = run.Text
	return &apipb.GetRunResponse{Run: converted}, h.addTimes(ctx, run, converted)
}

// runOf a partition by its number.
func (h workflowHandlers) runOf(ctx context.Context, name string, number uint64) (store.Partition, intent.WorkflowRun, error) {
	partition, err := h.registered(ctx, name)
	if err != nil {
		return partition, intent.WorkflowRun{}, err
	}
	if number == 0 {
		return partition, intent.WorkflowRun{}, fault.New(fault.Invalid, "no run was named").WithHint("lehr workflow status lists the runs that go on")
	}
	run, err := h.workflows.WorkflowRun(ctx, partition.ID, number)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "partition %s has no run %d of a workflow", partition.ID, number).
			WithHint("lehr workflow status --all lists the runs that are kept")
	}
	return partition, run, err
}

// definitionOf a run, and its state.
func (h workflowHandlers) definitionOf(run intent.WorkflowRun) (*workflow.Definition, workflow.Run, error) {
	var state workflow.Run
	if err := json.Unmarshal(run.State, &state); err != nil {
		return nil, state, fault.New(fault.Internal, "the stored state of run %s#%d cannot be read: %w", run.Workflow, run.Number, err)
	}
	definition, err := h.definitions.read(run.Workflow+".yaml", run.Digest, run.Text)
	return definition, state, err
}

// maxEventPages bounds how far back GetRun looks for when machines moved.
const maxEventPages = 10

// addTimes says since when each machine is in its state. A machine whose last move lies further
// back than what is read gets no time.
func (h workflowHandlers) addTimes(ctx context.Context, run intent.WorkflowRun, converted *apipb.WorkflowRun) error {
	unknown := map[string]*apipb.WorkflowMachine{}
	for _, m := range converted.Machines {
		unknown[m.Name] = m
	}
	filter := store.WorkflowEventFilter{NewestFirst: true, Limit: mostPage}
	for range maxEventPages {
		events, err := h.workflows.WorkflowEvents(ctx, run.Partition, run.Number, filter)
		if err != nil {
			return err
		}
		for _, e := range events {
			if m := unknown[e.Machine]; m != nil && (e.Kind == intent.WorkflowMoved || e.Kind == intent.WorkflowMigrated) {
				m.Since = toTime(e.At)
				delete(unknown, e.Machine)
			}
			filter.Before = e.Number
		}
		if len(unknown) == 0 {
			return nil
		}
		if len(events) < mostPage {
			for _, m := range unknown {
				m.Since = converted.Started
			}
			return nil
		}
	}
	return nil
}

// ListRunEvents of a run.
func (h workflowHandlers) ListRunEvents(ctx context.Context, request *apipb.ListRunEventsRequest) (*apipb.ListRunEventsResponse, error) {
	_, run, err := h.runOf(ctx, request.Partition, request.Number)
	if err != nil {
		return nil, err
	}
	limit := page(request.Limit, usualPage, mostPage)
	events, err := h.workflows.WorkflowEvents(ctx, run.Partition, run.Number, store.WorkflowEventFilter{
		After: request.After, Before: request.Before, NewestFirst: request.NewestFirst, Limit: limit + 1,
	})
	if err != nil {
		return nil, err
	}
	response := &apipb.ListRunEventsResponse{}
	if len(events) > limit {
		events = events[:limit]
		response.Next = events[limit-1].Number
	}
	response.Events = convertEach(events, toWorkflowEvent)
	return response, nil
}
