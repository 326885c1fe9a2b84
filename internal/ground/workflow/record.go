package workflow

import (
	"strings"

	"lehr.dev/internal/ground/intent"
)

// record is something that happened in a step.
type record struct {
	kind    intent.WorkflowEventKind
	machine int
	// name of a machine that a migration changes; it may be in one of the definitions only.
	name string
	// from and to of a move.
	from, to string
	// key and word of an action and its outcome.
	key, word string
	reason    string
}

// note what happened. A search asks for no history.
func (s *stepper) note(happened record) {
	if s.observe == nil {
		s.result.records = append(s.result.records, happened)
	}
}

// Record returns the rows of a run's history that a step adds, in the order in which it all
// happened. The row of the event itself comes before what followed from it; an event that was ignored has
// none. Before is the run that the event met, or an empty one where Start gave the result; then the event has
// only a reason, as where Migrate gave it. Actor is who brought the event: a person, or the workflow's holder where time or
// an action did. The store adds partition, run, number and time to the rows. A result that
// was read from JSON has no history.
func Record(definition *Definition, before Run, event Event, result Result, actor intent.Actor) []intent.WorkflowEvent {
	var rows []intent.WorkflowEvent
	for _, happened := range result.records {
		row := intent.WorkflowEvent{
			Kind: happened.kind, By: actor, From: happened.from, To: happened.to, Key: happened.key, Word: happened.word, Reason: happened.reason,
		}
		switch happened.kind {
		case intent.WorkflowStarted:
			row.Reason = event.Reason
		case eventItself:
			row = rowOfEvent(event, actor)
		case intent.WorkflowMigrated: // One row for the run, and one for each machine that does not stay.
			if row.Machine = happened.name; row.Machine == "" {
				row.Reason = event.Reason
			}
		default:
			row.Machine = definition.Machines[happened.machine].Name
		}
		if row.Kind != "" {
			rows = append(rows, row)
		}
	}
	if end := result.Run.End; end != nil && before.End == nil {
		row := intent.WorkflowEvent{Kind: intent.WorkflowEnded, By: actor, Word: string(end.Outcome)}
		switch {
		case end.Spins:
			row.Reason = "its machines moved without end, and were stopped"
		case len(end.Machines) > 0:
			row.Reason = "because of " + strings.Join(end.Machines, ", ")
		}
		rows = append(rows, row)
	}
	return rows
}

// eventItself is the place of the event's own row.
const eventItself intent.WorkflowEventKind = "event"

// rowOfEvent is what an event itself adds. The outcome of an answer is a row of its own, for it is the run
// that judges answers; ticks add nothing.
func rowOfEvent(event Event, actor intent.Actor) intent.WorkflowEvent {
	row := intent.WorkflowEvent{By: actor, Key: event.Key, Word: event.Name, Reason: event.Reason}
	switch event.Kind {
	case EventVote:
		row.Kind, row.Good = intent.WorkflowVoted, event.Approves
		row.Machine, _, _ = strings.Cut(event.Key, "/")
	case EventSignal:
		row.Kind = intent.WorkflowSignalled
	case EventFact:
		row.Kind, row.Good = intent.WorkflowFact, event.Truth
	case EventCancel:
		row.Kind = intent.WorkflowCancelled
	}
	return row
}
