package relational

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// maxWorkflowRequest bounds the name of a request, in bytes: it is in an index.
const maxWorkflowRequest = 500

// StartWorkflow stores a run and its first rows.
func (s *Store) StartWorkflow(ctx context.Context, run intent.WorkflowRun, events []intent.WorkflowEvent, role intent.Role) (started intent.WorkflowRun, err error) {
	attempt := fmt.Sprintf("starting the workflow %q of %q", run.Workflow, run.Partition)
	if err := checkStart(attempt, run, role); err != nil {
		return run, err
	}
	if err := s.mustServe(attempt); err != nil {
		return run, err
	}
	err = s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(role, run.Partition); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, run.Partition); err != nil {
			return err
		}
		repeated, ok, err := requestedRun(t, attempt, run)
		if err != nil || ok {
			started = repeated
			return err
		}
		started = run
		if started.Started.IsZero() {
			started.Started = t.now.UTC()
		}
		if err := addRun(t, attempt, &started); err != nil {
			return err
		}
		t.audit(run.Partition, t.now, run.By, "workflow-start", nameOfRun(started), "definition "+started.Digest).because(run.Reason)
		return finishStep(t, attempt, started, events)
	})
	return started, err
}

func checkStart(attempt string, run intent.WorkflowRun, role intent.Role) error {
	switch {
	case run.Workflow == "":
		return fault.New(fault.Invalid, "%s: the run does not name its workflow", attempt)
	case role == "":
		return fault.New(fault.Invalid, "%s: the role that may start it is missing", attempt)
	case len(run.Request) > maxWorkflowRequest:
		return fault.New(fault.Invalid, "%s: the name of the request has %d bytes, at most %d are allowed", attempt, len(run.Request), maxWorkflowRequest).
			WithHint("use a shorter name, for example a UUID")
	case !utf8.ValidString(run.Request) || strings.Contains(run.Request, "\x00"):
		return fault.New(fault.Invalid, "%s: the name of the request is not text", attempt).WithHint("use letters and digits, for example a UUID")
	}
	return nil
}

// requestedRun is the run that the same request started before.
func requestedRun(t *transaction, attempt string, run intent.WorkflowRun) (stored intent.WorkflowRun, ok bool, err error) {
	if run.Request == "" {
		return stored, false, nil
	}
	stored, ok, err = scanRun(t, "SELECT record FROM workflow_run WHERE partition = $1 AND request = $2 AND request <> ''", string(run.Partition), run.Request)
	if err == nil && ok && stored.Workflow != run.Workflow {
		err = fault.New(fault.Conflict, "%s: the request %q started run %d of the workflow %q", attempt, run.Request, stored.Number, stored.Workflow).
			WithHint("give the request another name")
	}
	return stored, ok, err
}

// addRun gives a run its numbers and stores it.
func addRun(t *transaction, attempt string, run *intent.WorkflowRun) error {
	run.Version = 1
	if _, err := t.one("SELECT coalesce(max(number), 0) + 1, coalesce(max(touched), 0) + 1 FROM workflow_run WHERE partition = $1",
		[]any{string(run.Partition)}, &run.Number, &run.Touched); err != nil {
		return err
	}
	record, err := encodeWorkflow(attempt, "run", *run)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO workflow_run (partition, number, workflow, request, open, wakes, touched, version, ended, record)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		string(run.Partition), int64(run.Number), run.Workflow, run.Request, openColumn(*run), stamp(run.Wakes), int64(run.Touched), int64(run.Version), stamp(run.Ended), record)
	return err
}

func openColumn(run intent.WorkflowRun) int64 {
	if run.Ended.IsZero() {
		return 1
	}
	return 0
}

// encodeWorkflow is a run or a row of its history as JSON, within the bound.
func encodeWorkflow(attempt, what string, value any) (string, error) {
	text, err := encode(value)
	if err != nil {
		return "", fault.New(fault.Invalid, "%s: the %s cannot be written as JSON: %w", attempt, what, err)
	}
	if len(text) > store.MaxWorkflowRecord {
		return "", fault.New(fault.Invalid, "%s: the %s would have %d bytes, at most %d are stored", attempt, what, len(text), store.MaxWorkflowRecord).
			WithHint("make the definition of the workflow, its inputs or the answers to its actions smaller")
	}
	return text, nil
}

// StepWorkflowAs stores a step that a person or a program caused.
func (s *Store) StepWorkflowAs(ctx context.Context, step store.WorkflowStep, anyOf []intent.Role, verb, reason string) (run intent.WorkflowRun, err error) {
	attempt := describeStep(step)
	switch {
	case step.Edit != nil:
		return step.Run, fault.New(fault.Invalid, "%s: only Lehr itself edits documents for a workflow", attempt)
	case len(anyOf) == 0 || verb == "":
		return step.Run, fault.New(fault.Invalid, "%s: the roles that may do it, or the verb of its audit record, are missing", attempt)
	}
	if err := s.mustServe(attempt); err != nil {
		return step.Run, err
	}
	err = s.write(ctx, attempt, func(t *transaction) (err error) {
		if _, err := t.authorizeAny(anyOf, step.Run.Partition); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, step.Run.Partition); err != nil {
			return err
		}
		by := step.By
		if by.Name == "" {
			by = t.actor()
		}
		t.audit(step.Run.Partition, t.now, by, verb, nameOfRun(step.Run), detailOfStep(step)).because(reason)
		run, err = storeStep(t, attempt, step)
		return err
	})
	return run, err
}

func describeStep(step store.WorkflowStep) string {
	return fmt.Sprintf("storing a step of run %d of the workflow %q of %q", step.Run.Number, step.Run.Workflow, step.Run.Partition)
}

// nameOfRun is how people name it.
func nameOfRun(run intent.WorkflowRun) string { return fmt.Sprintf("%s#%d", run.Workflow, run.Number) }

// detailOfStep says what somebody voted or signalled.
func detailOfStep(step store.WorkflowStep) string {
	var details []string
	for _, e := range step.Events {
		switch e.Kind {
		case intent.WorkflowVoted:
			details = append(details, fmt.Sprintf("%s of the action %s", map[bool]string{true: "approval", false: "rejection"}[e.Good], e.Key))
		case intent.WorkflowSignalled:
			details = append(details, "signal "+e.Word)
		case intent.WorkflowMigrated:
			details = append(details, detailOfMigration(e))
		}
	}
	return strings.Join(details, ", ")
}

// detailOfMigration says which definition a run follows now, or what became of a machine.
func detailOfMigration(e intent.WorkflowEvent) string {
	switch {
	case e.Machine == "":
		return fmt.Sprintf("definition %s in place of %s", e.To, e.From)
	case e.From == "":
		return fmt.Sprintf("machine %s is new, in %s", e.Machine, e.To)
	case e.To == "":
		return fmt.Sprintf("machine %s is dropped, in %s", e.Machine, e.From)
	}
	return fmt.Sprintf("machine %s from %s to %s", e.Machine, e.From, e.To)
}

// StepWorkflow stores a step under the partition's lease.
func (s *Store) StepWorkflow(ctx context.Context, lease store.Lease, step store.WorkflowStep) (run intent.WorkflowRun, err error) {
	attempt := describeStep(step)
	if step.Run.Partition != lease.Partition {
		return step.Run, fault.New(fault.Invalid, "%s: the lease is of the partition %q", attempt, lease.Partition)
	}
	if step.Migrates {
		return step.Run, fault.New(fault.Invalid, "%s: a run is migrated by a person or a program only", attempt)
	}
	if step.Edit != nil {
		return s.stepAndEdit(ctx, attempt, lease, step)
	}
	err = s.act(ctx, attempt, lease, func(t *transaction, _ standing) (err error) {
		run, err = storeStep(t, attempt, step)
		return err
	})
	return run, err
}

// stepAndEdit edits the document of a step in the same transaction.
func (s *Store) stepAndEdit(ctx context.Context, attempt string, lease store.Lease, step store.WorkflowStep) (run intent.WorkflowRun, err error) {
	if _, ok := step.Run.Actions[step.EditKey]; !ok {
		return step.Run, fault.New(fault.Invalid, "%s: it edits the document %s for the action %q, which the run does not have", attempt, step.Document, step.EditKey)
	}
	c := changing{store: s, partition: lease.Partition, name: step.Document, actor: step.By, lease: &lease, revision: step.Revision, unlessStopped: true}
	c.then = func(t *transaction, result document.Document) (err error) {
		edited := step // The transaction may run again.
		edited.Run.Actions = maps.Clone(step.Run.Actions)
		action := edited.Run.Actions[step.EditKey]
		action.Document, action.Revision = step.Document, result.Revision.ID
		edited.Run.Actions[step.EditKey] = action
		run, err = storeStep(t, attempt, edited)
		return err
	}
	// Another run may have made the very same edit: then this one has not stepped.
	c.repeats = func(t *transaction, result document.Document) (err error) {
		run, err = readRun(t, attempt, step.Run.Partition, step.Run.Number)
		if err != nil {
			return err
		}
		action := run.Actions[step.EditKey]
		if run.Version != step.Run.Version+1 || action.Document != step.Document || action.Revision != result.Revision.ID {
			return movedRun(attempt, run, step.Run)
		}
		return nil
	}
	_, err = c.edit(ctx, *step.Edit)
	return run, err
}

// storeStep is a Conflict unless the stored run goes on and is at the step's version.
func storeStep(t *transaction, attempt string, step store.WorkflowStep) (intent.WorkflowRun, error) {
	run := step.Run
	stored, err := readRun(t, attempt, run.Partition, run.Number)
	if err == nil {
		err = checkStep(attempt, stored, step)
	}
	if err != nil {
		return intent.WorkflowRun{}, err
	}
	run.Version++
	if _, err := t.one("SELECT coalesce(max(touched), 0) + 1 FROM workflow_run WHERE partition = $1", []any{string(run.Partition)}, &run.Touched); err != nil {
		return intent.WorkflowRun{}, err
	}
	record, err := encodeWorkflow(attempt, "run", run)
	if err != nil {
		return intent.WorkflowRun{}, err
	}
	if _, err := t.exec("UPDATE workflow_run SET open = $3, wakes = $4, touched = $5, version = $6, ended = $7, record = $8 WHERE partition = $1 AND number = $2",
		string(run.Partition), int64(run.Number), openColumn(run), stamp(run.Wakes), int64(run.Touched), int64(run.Version), stamp(run.Ended), record); err != nil {
		return intent.WorkflowRun{}, err
	}
	return run, finishStep(t, attempt, run, step.Events)
}

// checkStep compares the stored run with the one that a step makes of it.
func checkStep(attempt string, stored intent.WorkflowRun, step store.WorkflowStep) error {
	run := step.Run
	isSame := stored.Digest == run.Digest && stored.Text == run.Text
	switch {
	case !stored.Ended.IsZero():
		return fault.New(fault.Conflict, "%s: the run has ended (%s) at %s", attempt, stored.Outcome, stored.Ended.UTC().Format(time.RFC3339)).
			WithHint("start another run")
	case stored.Version != run.Version:
		return movedRun(attempt, stored, run)
	case stored.Workflow != run.Workflow || stored.Request != run.Request:
		return fault.New(fault.Invalid, "%s: a step cannot change the workflow or the request that the run was started with", attempt)
	case !step.Migrates && !isSame:
		return fault.New(fault.Invalid, "%s: a step cannot change the definition that the run follows, unless it migrates the run", attempt)
	case step.Migrates && stored.Digest == run.Digest:
		return fault.New(fault.Invalid, "%s: a step that migrates the run leaves it at the definition %s", attempt, run.Digest)
	}
	return nil
}

func movedRun(attempt string, stored, run intent.WorkflowRun) error {
	return fault.New(fault.Conflict, "%s: the run changed meanwhile: the step was decided on version %d, and the run is at version %d", attempt, run.Version, stored.Version).
		WithHint("look at the run again")
}

// endRuns of a partition that is removed. They stay as history.
func endRuns(t *transaction, attempt string, partition intent.PartitionID) error {
	var open []intent.WorkflowRun
	err := t.queryEach("SELECT record FROM workflow_run WHERE partition = $1 AND open = 1 ORDER BY number", []any{string(partition)}, func(row scanner) error {
		var run intent.WorkflowRun
		err := decodeRow(row, "run of a workflow", &run)
		open = append(open, run)
		return err
	})
	if err != nil {
		return err
	}
	for _, run := range open {
		run.Ended, run.Outcome, run.Wakes, run.Actions = t.now.UTC(), intent.WorkflowRemoved, time.Time{}, nil
		end := intent.WorkflowEvent{
			Kind: intent.WorkflowEnded, By: intent.WorkflowHolder(partition, run.Workflow), Word: run.Outcome, Reason: "its partition was removed",
		}
		if _, err := storeStep(t, attempt, store.WorkflowStep{Run: run, Events: []intent.WorkflowEvent{end}}); err != nil {
			return err
		}
	}
	return nil
}

// finishStep adds the rows of a start or a step, records the end of the run, and wakes actors.
func finishStep(t *transaction, attempt string, run intent.WorkflowRun, events []intent.WorkflowEvent) error {
	var last uint64
	if _, err := t.one("SELECT coalesce(max(number), 0) FROM workflow_event WHERE partition = $1 AND run = $2",
		[]any{string(run.Partition), int64(run.Number)}, &last); err != nil {
		return err
	}
	for _, e := range events {
		last++
		e.Partition, e.Run, e.Number, e.At = run.Partition, run.Number, last, t.now.UTC()
		record, err := encodeWorkflow(attempt, "row of its history", e)
		if err != nil {
			return err
		}
		if _, err := t.exec("INSERT INTO workflow_event (partition, run, number, created, kind, record) VALUES ($1, $2, $3, $4, $5, $6)",
			string(e.Partition), int64(e.Run), int64(e.Number), stamp(t.now), string(e.Kind), record); err != nil {
			return err
		}
	}
	if !run.Ended.IsZero() {
		t.audit(run.Partition, t.now, intent.WorkflowHolder(run.Partition, run.Workflow), "workflow-end", nameOfRun(run), run.Outcome)
	}
	return t.tell(run.Partition)
}
