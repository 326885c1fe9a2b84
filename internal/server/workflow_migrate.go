package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/store"
)

// migrateVerb of the audit.
const migrateVerb = "workflow-migrate"

// migration is what a request comes to, decided on a row.
type migration struct {
	step     store.WorkflowStep
	migrated workflow.Migrated
	problems []*apipb.MigrationProblem
	// anyOf are the roles that may do it.
	anyOf []intent.Role
}

// MigrateRun moves a run to the definition that head has. Somebody else may step the run meanwhile: then it is
// decided anew.
func (h workflowHandlers) MigrateRun(ctx context.Context, request *apipb.MigrateRunRequest) (*apipb.MigrateRunResponse, error) {
	reason := strings.TrimSpace(request.Reason)
	if !request.DryRun {
		var err error
		if reason, err = loosened("migrating a run of a workflow", request.Reason); err != nil {
			return nil, err
		}
	}
	var conflict error
	for range maxSteps {
		partition, row, err := h.runOf(ctx, request.Partition, request.Number)
		if err != nil {
			return nil, err
		}
		m, err := h.migrationOf(ctx, partition, row, request, reason)
		switch {
		case err != nil:
			return nil, err
		case request.DryRun:
			return h.toMigration(ctx, partition, m.step.Run, m)
		case len(m.problems) > 0:
			return nil, m.refusal(row)
		}
		stored, err := h.workflows.StepWorkflowAs(ctx, m.step, m.anyOf, migrateVerb, reason)
		if err == nil {
			return h.toMigration(ctx, partition, stored, m)
		}
		if conflict = err; !fault.Is(err, fault.Conflict) {
			return nil, err
		}
	}
	return nil, fault.New(fault.Conflict, "run %d was stepped by others %d times while its migration was decided: %w", request.Number, maxSteps, conflict).WithHint("ask again")
}

// migrationOf a run. Timers that are due fire in a step before, under the definition that the run was moved from.
func (h workflowHandlers) migrationOf(ctx context.Context, partition store.Partition, row intent.WorkflowRun, request *apipb.MigrateRunRequest, reason string) (migration, error) {
	definition, before, err := h.definitionOf(row)
	if err != nil {
		return migration{}, err
	}
	now := h.runtime.Now().UTC()
	tick := workflow.Event{Kind: workflow.EventTick}
	ticked := workflow.Result{Run: before}
	if before.End == nil {
		ticked = definition.Step(before, tick, now)
	}
	if ticked.Run.End != nil || !row.Ended.IsZero() {
		ticked.WhyIgnored = workflow.RunIsOver
		return migration{}, ignored(definition, row, said{}, ticked)
	}
	listed, target, err := h.workflowOf(ctx, partition, row.Workflow)
	if err != nil {
		return migration{}, err
	}
	if listed.GetDigest() == row.Digest {
		return migration{}, fault.New(fault.Conflict, "run %s follows the definition that head has already, so there is nothing to do", runName(row)).
			WithHint("change %s, and wait until lehr.yaml is published: lehr workflow list -o wide shows the digest that head has", listed.GetFile())
	}
	next := workflow.Migration{States: request.States, Inputs: map[string]workflow.Value{}}
	for name, text := range request.Inputs {
		next.Inputs[name] = workflow.Value{Text: text}
	}
	m := migration{migrated: definition.Migrate(ticked.Run, target, next, now), anyOf: []intent.Role{intent.Operator}, step: store.WorkflowStep{Run: row}}
	if m.migrated.Result.WhyIgnored != "" {
		return m, ignored(definition, row, said{}, m.migrated.Result)
	}
	if err := h.addProblems(ctx, partition.ID, &m); err != nil || len(m.problems) > 0 {
		return m, err
	}
	m.step.Events = workflow.Record(definition, before, tick, ticked, intent.WorkflowHolder(row.Partition, row.Workflow))
	m.step.Events = append(m.step.Events, workflow.Record(target, ticked.Run, workflow.Event{Reason: reason}, m.migrated.Result, actorOf(ctx))...)
	m.step.Migrates = true
	if err := workflow.UpdateRow(&m.step.Run, ticked, now); err != nil {
		return m, err
	}
	adopt(&m.step.Run, listed, partition.Head, intent.WorkflowMigration{At: now, By: actorOf(ctx), Reason: reason})
	return m, workflow.UpdateRow(&m.step.Run, m.migrated.Result, now)
}

// adopt a definition of head.
func adopt(row *intent.WorkflowRun, listed *intentpb.Workflow, head intent.IncarnationID, how intent.WorkflowMigration) {
	how.Digest, how.Incarnation = row.Digest, row.Incarnation
	row.Migration, row.Incarnation = &how, head
	row.Digest, row.Text, row.Sources = listed.GetDigest(), listed.GetText(), listed.GetSources()
}

// addProblems of a migration. Nobody goes past what people are asked but admins, who say who may be asked.
func (h workflowHandlers) addProblems(ctx context.Context, partition intent.PartitionID, m *migration) error {
	for _, p := range m.migrated.Problems {
		m.problems = append(m.problems, &apipb.MigrationProblem{
			Machine: p.Machine, State: p.State, Input: p.Input, Leftover: p.Leftover, Message: p.Message, Hint: p.Hint,
		})
	}
	if len(m.migrated.PastPeople) == 0 {
		return nil
	}
	m.anyOf = []intent.Role{intent.Admin}
	roles, err := h.workflows.RolesOf(ctx, partition)
	if err != nil || slices.Contains(roles, intent.Admin) {
		return err
	}
	for _, machine := range m.migrated.PastPeople {
		m.problems = append(m.problems, &apipb.MigrationProblem{
			Machine: machine, Role: string(intent.Admin),
			Message: fmt.Sprintf("to move machine %s there may go past what people are asked, which takes the role %s", machine, intent.Admin),
			Hint:    "move it to its initial state, or to one that asks people; or ask an admin of the partition",
		})
	}
	return nil
}

// refusal is the error of a migration that has problems: it names all.
func (m migration) refusal(row intent.WorkflowRun) error {
	kind := fault.Conflict
	var reasons, hints []string
	for _, p := range m.problems {
		if p.Role != "" {
			kind = fault.Denied
		}
		reasons = append(reasons, p.Message)
		if !slices.Contains(hints, p.Hint) {
			hints = append(hints, p.Hint)
		}
	}
	return fault.New(kind, "run %s cannot be moved to the definition that head has: %s", runName(row), strings.Join(reasons, "; ")).
		WithHint("%s", strings.Join(hints, "; "))
}

func runName(row intent.WorkflowRun) string { return fmt.Sprintf("%s#%d", row.Workflow, row.Number) }

func (h workflowHandlers) toMigration(ctx context.Context, partition store.Partition, run intent.WorkflowRun, m migration) (*apipb.MigrateRunResponse, error) {
	response := &apipb.MigrateRunResponse{Events: convertEach(m.step.Events, toWorkflowEvent), Problems: m.problems}
	for _, change := range m.migrated.Machines {
		response.Machines = append(response.Machines, &apipb.MigratedMachine{
			Name: change.Name, Change: string(change.Change), From: change.From, To: change.To, Kept: change.Kept, Cut: change.Cut, MayHaveHappened: change.MayHaveHappened,
		})
	}
	var err error
	response.Run, err = h.toRun(ctx, partition, run)
	return response, err
}
