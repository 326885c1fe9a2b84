package intent

import (
	"encoding/json"
	"time"
)

// WorkflowRun is a run of a workflow, as it is stored. A run keeps the definition that it was
// started with, whatever lehr.yaml says later, until somebody migrates it.
type WorkflowRun struct {
	Partition PartitionID `json:"partition"`
	// Number of the run in its partition, from 1.
	Number uint64 `json:"number"`
	// Workflow is the name of the definition, Digest its version, Text the definition itself.
	Workflow string `json:"workflow"`
	Digest   string `json:"digest"`
	Text     string `json:"text"`
	// Incarnation is head as of when the definition was taken from it; zero: an older Lehr started the run.
	Incarnation IncarnationID `json:"incarnation,omitzero"`
	// Migration is the last one; nil: it follows the definition that it was started with.
	Migration *WorkflowMigration `json:"migration,omitempty"`
	// Sources are the names of the sources that read the documents of its actions, by document.
	Sources map[string]string `json:"sources,omitempty"`
	// State is a workflow.Run as JSON: all that the next step goes by.
	State json.RawMessage `json:"state"`
	// Actions under way, by their keys: how far each has got outside.
	Actions map[string]WorkflowAction `json:"actions,omitempty"`
	// Request is what the caller named the start with, so that one that is repeated is done
	// once; empty: it has no name.
	Request string    `json:"request,omitempty"`
	Started time.Time `json:"started"`
	By      Actor     `json:"by"`
	Reason  string    `json:"reason,omitempty"`
	// Wakes is the time at which the run must be looked at although nothing happens; zero: never.
	Wakes time.Time `json:"wakes,omitzero"`
	// Ended is when it ended, and Outcome how: a workflow.EndOutcome, or WorkflowRemoved; zero: it
	// goes on.
	Ended   time.Time `json:"ended,omitzero"`
	Outcome string    `json:"outcome,omitempty"`
	// Version grows by one with every step. A step names the version that it was decided on.
	Version uint64 `json:"version"`
	// Touched grows over all runs of the partition: the run that was changed last has the
	// greatest.
	Touched uint64 `json:"touched"`
}

// WorkflowMigration says when, by whom and why a run took up another definition, and which one it followed
// before.
type WorkflowMigration struct {
	At          time.Time     `json:"at"`
	By          Actor         `json:"by"`
	Reason      string        `json:"reason,omitempty"`
	Digest      string        `json:"digest"`
	Incarnation IncarnationID `json:"incarnation,omitzero"`
}

// WorkflowRemoved is the outcome of a run whose partition was removed while it went on.
const WorkflowRemoved = "removed"

// WorkflowAction is how far an action has got outside the run.
type WorkflowAction struct {
	// Machine that began it, and Action, a workflow.Action as JSON with values for its
	// placeholders as they were then.
	Machine string          `json:"machine"`
	Action  json.RawMessage `json:"action"`
	// Begun is when its effect was begun, or may have been: an action that runs at most once
	// is never begun again.
	Begun time.Time `json:"begun,omitzero"`
	// Document that it edited, and the revision that came of it.
	Document string `json:"document,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Before is head as of the edit: what differs from it is what the edit changed.
	Before IncarnationID `json:"before,omitzero"`
	// Attempts that failed, the reason of the last one, and when the next one is due.
	Attempts int       `json:"attempts,omitempty"`
	Failure  string    `json:"failure,omitempty"`
	Next     time.Time `json:"next,omitzero"`
	// Waiting says what it waits for now, for people.
	Waiting string `json:"waiting,omitempty"`
}

// WorkflowEventKind says what a row of a run's history is.
type WorkflowEventKind string

// Kinds of rows.
const (
	WorkflowStarted WorkflowEventKind = "started"
	// WorkflowMoved: a machine followed a transition.
	WorkflowMoved WorkflowEventKind = "moved"
	// WorkflowBegan: an action began. WorkflowAnswered: it has an outcome. WorkflowAbandoned: its
	// answer is not awaited any more.
	WorkflowBegan     WorkflowEventKind = "began"
	WorkflowAnswered  WorkflowEventKind = "answered"
	WorkflowAbandoned WorkflowEventKind = "abandoned"
	WorkflowVoted     WorkflowEventKind = "voted"
	WorkflowSignalled WorkflowEventKind = "signalled"
	WorkflowFact      WorkflowEventKind = "fact"
	WorkflowCancelled WorkflowEventKind = "cancelled"
	// WorkflowMigrated: the run follows another definition, whose digest is To; and, with a machine, what
	// became of that one: without From it is new, without To it was dropped.
	WorkflowMigrated WorkflowEventKind = "migrated"
	WorkflowEnded    WorkflowEventKind = "ended"
)

// WorkflowEvent is a row of a run's history. Rows are only added.
type WorkflowEvent struct {
	Partition PartitionID `json:"partition"`
	Run       uint64      `json:"run"`
	// Number of the row in its run, from 1.
	Number uint64            `json:"number"`
	At     time.Time         `json:"at"`
	Kind   WorkflowEventKind `json:"kind"`
	// By is who did it; the workflow itself where nobody did.
	By Actor `json:"by"`
	// Machine that it is about, and From and To, the states of a move.
	Machine string `json:"machine,omitempty"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	// Key of the action that it is about.
	Key string `json:"key,omitempty"`
	// Word is the outcome, the signal or the fact, or the kind of an action that began; Good the vote or the truth of the fact.
	Word   string `json:"word,omitempty"`
	Good   bool   `json:"good,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// WorkflowPrefix begins the names of actors that are runs of workflows.
const WorkflowPrefix = "workflow/"

// WorkflowHolder is who edits documents for a workflow of a partition.
func WorkflowHolder(partition PartitionID, workflow string) Actor {
	return Actor{Name: WorkflowPrefix + string(partition) + "/" + workflow, Origin: ServerOrigin}
}
