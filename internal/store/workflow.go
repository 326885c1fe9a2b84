package store

import (
	"context"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

// MaxWorkflowRecord bounds a run, and each row of its history, as JSON, in bytes.
const MaxWorkflowRecord = 1 << 20

// WorkflowStep is what follows from an event of a run: all of it is stored, or nothing.
type WorkflowStep struct {
	// Run as it is after the step. Its Version is the one that the step was decided on, and
	// its Touched is the store's: Conflict where the stored run has another version.
	Run intent.WorkflowRun
	// Events to add to its history; their numbers and times are the store's.
	Events []intent.WorkflowEvent
	// Migrates: Run follows another definition than before. No other step may change it.
	Migrates bool
	// Document to edit; nil: none. The action of Run that has the key EditKey gets the revision
	// that came of it. The partition's revision must still be Revision then, else Conflict: a
	// stop, a new head or another order came meanwhile. By is who edits; of a step that a person
	// or a program caused, who that is (nobody: the caller).
	Document string
	Edit     *document.Edit
	EditKey  string
	Revision uint64
	By       intent.Actor
}

// WorkflowFilter selects runs of a partition.
type WorkflowFilter struct {
	// Workflow whose runs they are; empty: all.
	Workflow string
	// Open: those that go on.
	Open bool
	// Touched: those that were changed after this number, in the order of their changes.
	// Else the newest run comes first.
	Touched *uint64
	// Before: those with a smaller number; 0: all.
	Before uint64
	// Limit as AssetFilter's.
	Limit int
}

// WorkflowEventFilter selects rows of a run's history.
type WorkflowEventFilter struct {
	// After: those with a greater number. Before: those with a smaller one; 0: all.
	After, Before uint64
	// NewestFirst: in descending order of their numbers, else in ascending order.
	NewestFirst bool
	// Limit as AssetFilter's.
	Limit int
}

// Workflows keeps runs of workflows and their histories. Runs that ended go with the
// collector's history, but the newest and the one that was changed last, by which numbers are
// given. A run or a row of more than MaxWorkflowRecord is Invalid; a step of a run that has ended
// is a Conflict.
type Workflows interface {
	// StartWorkflow stores a run and its first rows, and returns it with its number. The
	// caller has the role in the partition. A start with the Request of one that is stored
	// returns that one, if it is of the same workflow, else Conflict.
	StartWorkflow(ctx context.Context, run intent.WorkflowRun, events []intent.WorkflowEvent, role intent.Role) (intent.WorkflowRun, error)
	// StepWorkflowAs stores a step that a person or a program caused who has one of the roles
	// in the partition. It edits no document. Audit records have verb and reason. Returns the
	// run with its new version. Only such a step migrates a run.
	StepWorkflowAs(ctx context.Context, step WorkflowStep, anyOf []intent.Role, verb, reason string) (intent.WorkflowRun, error)
	// StepWorkflow stores a step under the partition's lease, and returns the run with its new
	// version. A step that edits is a Conflict while the partition is stopped (S18).
	StepWorkflow(ctx context.Context, lease Lease, step WorkflowStep) (intent.WorkflowRun, error)
	// WorkflowRun is NotFound when there is none of that number.
	WorkflowRun(ctx context.Context, partition intent.PartitionID, number uint64) (intent.WorkflowRun, error)
	WorkflowRuns(ctx context.Context, partition intent.PartitionID, filter WorkflowFilter) ([]intent.WorkflowRun, error)
	// WorkflowEvents lists rows of a run's history.
	WorkflowEvents(ctx context.Context, partition intent.PartitionID, run uint64, filter WorkflowEventFilter) ([]intent.WorkflowEvent, error)
	// RolesOf are the roles that the caller has in a partition.
	RolesOf(ctx context.Context, partition intent.PartitionID) ([]intent.Role, error)
}
