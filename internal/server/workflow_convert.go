package server

import (
	"context"
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/store"
)

// runReader says what of a partition runs are shown with.
type runReader struct {
	// newest are the digests of head's workflows, by their names.
	newest map[string]string
	// roles that the caller has.
	roles []intent.Role
}

// readerOf runs of a partition.
func (h workflowHandlers) readerOf(ctx context.Context, partition store.Partition) (runReader, error) {
	newest, err := h.newestDigests(ctx, partition)
	if err != nil {
		return runReader{}, err
	}
	roles, err := h.workflows.RolesOf(ctx, partition.ID)
	return runReader{newest, roles}, err
}

// mayAnswer reports whether the caller may answer the question of an action.
func (r runReader) mayAnswer(action *workflow.Action) bool {
	return action.Person != nil && slices.ContainsFunc(r.roles, func(role intent.Role) bool { return slices.Contains(action.Person.Roles, string(role)) })
}

// newestDigests are those of head's workflows, by their names.
func (h workflowHandlers) newestDigests(ctx context.Context, partition store.Partition) (map[string]string, error) {
	all, err := h.workflowsOf(ctx, partition)
	if err != nil {
		return nil, err
	}
	newest := map[string]string{}
	for _, one := range all {
		newest[one.GetName()] = one.GetDigest()
	}
	return newest, nil
}

// toRun is a run as an answer shows it.
func (h workflowHandlers) toRun(ctx context.Context, partition store.Partition, run intent.WorkflowRun) (*apipb.WorkflowRun, error) {
	reader, err := h.readerOf(ctx, partition)
	if err != nil {
		return nil, err
	}
	return h.convertRun(run, reader)
}

func (h workflowHandlers) convertRun(run intent.WorkflowRun, reader runReader) (*apipb.WorkflowRun, error) {
	definition, state, err := h.definitionOf(run)
	if err != nil {
		return nil, err
	}
	converted := &apipb.WorkflowRun{
		Partition: string(run.Partition), Number: run.Number, Workflow: run.Workflow, Digest: run.Digest, By: toActor(run.By), Reason: run.Reason,
		Started: toTime(run.Started), Ended: toTime(run.Ended), Outcome: run.Outcome, Cancelled: state.Cancelled, Leftovers: state.Leftovers,
		Facts: state.Facts, Signals: state.Signals, DefinitionIsNewest: reader.newest[run.Workflow] == run.Digest, Wakes: toTime(run.Wakes),
		Incarnation: toIncarnationID(run.Incarnation), Inputs: map[string]string{},
	}
	if m := run.Migration; m != nil {
		converted.Migration = &apipb.WorkflowMigration{
			At: toTime(m.At), By: toActor(m.By), Reason: m.Reason, Digest: m.Digest, Incarnation: toIncarnationID(m.Incarnation),
		}
	}
	for name, value := range state.Inputs {
		converted.Inputs[name] = value.Text
	}
	if state.End != nil {
		converted.EndedBy = state.End.Machines
	} else {
		for _, signal := range definition.Signals {
			if !slices.Contains(state.Signals, signal.Name) {
				converted.SignalsOpen = append(converted.SignalsOpen, signal.Name)
			}
		}
	}
	for _, machine := range definition.Explain(state) {
		converted.Machines = append(converted.Machines, toWorkflowMachine(machine, run, reader))
	}
	return converted, nil
}

func toWorkflowMachine(m workflow.MachineExplained, run intent.WorkflowRun, reader runReader) *apipb.WorkflowMachine {
	converted := &apipb.WorkflowMachine{Name: m.Name, State: m.State, Outcome: string(m.Outcome), Reason: m.Reason, End: string(m.Ending)}
	if m.Pending != nil {
		converted.Action = toWorkflowAction(m.Action, m.Pending, run.Actions[m.Pending.Key])
		converted.Action.MayAnswer = reader.mayAnswer(m.Action)
	}
	for _, t := range m.Transitions {
		transition := &apipb.WorkflowTransition{
			To: t.To, When: t.When, Holds: string(t.Holds), Answered: string(t.Answered), Guard: string(t.Guard), CutByCancel: t.CutByCancel,
		}
		for _, outcome := range t.On {
			transition.On = append(transition.On, string(outcome))
		}
		for _, unmet := range t.Unmet {
			transition.Missing = append(transition.Missing, &apipb.WorkflowCondition{Text: unmet.Text, Reads: unmet.Reads})
		}
		converted.Transitions = append(converted.Transitions, transition)
	}
	return converted
}

func toWorkflowAction(action *workflow.Action, pending *workflow.PendingAction, progress intent.WorkflowAction) *apipb.WorkflowAction {
	converted := &apipb.WorkflowAction{
		Key: pending.Key, Kind: action.Kind(), Text: action.Words(), Due: toTime(pending.Due), Approvals: pending.Approvals,
		Attempts: int32(progress.Attempts), Failure: progress.Failure, Next: toTime(progress.Next), Waiting: progress.Waiting, Begun: toTime(progress.Begun),
	}
	if action.Person != nil {
		converted.Quorum, converted.Roles = int32(action.Person.Quorum), action.Person.Roles
	}
	return converted
}

func toWorkflowEvent(e intent.WorkflowEvent) *apipb.WorkflowEvent {
	return &apipb.WorkflowEvent{
		Number: e.Number, At: toTime(e.At), Kind: string(e.Kind), By: toActor(e.By), Machine: e.Machine, From: e.From, To: e.To,
		Key: e.Key, Word: e.Word, Good: e.Good, Reason: e.Reason,
	}
}
