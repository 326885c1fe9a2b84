package flowrecord

import (
	"fmt"
	"strings"

	"lehr.dev/internal/ground/workflow"
)

// Want is what intent asks for.
type Want struct {
	// Content is the digest of the definition, its inputs, the thing and what is wanted of it.
	Content string
	// Rerun is the id of the rerun that intent has; empty: none.
	Rerun string
}

// Kind of a verdict.
type Kind int

// Kinds.
const (
	// Satisfied: production has what is wanted, and no run is open.
	Satisfied Kind = iota
	// Begin a new run.
	Begin
	// GoOn with a run that was interrupted.
	GoOn
	// Refused: the last run ended badly, and nothing asks for another one.
	Refused
)

// Verdict on a thing.
type Verdict struct {
	Kind   Kind
	Reason string
}

// Decide what is to be done. matches: production has all that is wanted.
//
// A run of other content is not finished: its definition is not what intent says now. The new
// one begins at its start, whatever state it finds.
func Decide(record *Record, want Want, matches bool) Verdict {
	isAsked := record != nil && want.Rerun != "" && want.Rerun != record.Rerun
	switch {
	case record == nil && matches:
		return Verdict{Satisfied, ""}
	case record == nil:
		return Verdict{Begin, "it never ran"}
	case !record.HasEnded() && record.Content == want.Content && !isAsked:
		return Verdict{GoOn, fmt.Sprintf("run %d was interrupted", record.Number)}
	case !record.HasEnded() && isAsked:
		return Verdict{Begin, fmt.Sprintf("run %d was interrupted, and intent asks to begin anew", record.Number)}
	case !record.HasEnded():
		return Verdict{Begin, fmt.Sprintf("run %d was interrupted, and was for other content", record.Number)}
	case matches:
		return Verdict{Satisfied, ""}
	case record.State.End.Outcome == workflow.EndSuccess:
		return Verdict{Begin, fmt.Sprintf("run %d ended in success, and production differs", record.Number)}
	case record.Content != want.Content:
		return Verdict{Begin, fmt.Sprintf("run %d %s, and was for other content", record.Number, record.endWords())}
	case isAsked:
		return Verdict{Begin, fmt.Sprintf("run %d %s, and intent asks for another one", record.Number, record.endWords())}
	}
	return Verdict{Refused, fmt.Sprintf("run %d %s, and is not repeated: mend the thing, or set rerun with a reason; %s", record.Number, record.endWords(), record.LastWords())}
}

// endWords say how a run ended.
func (r *Record) endWords() string {
	end := r.State.End
	words := "ended in " + string(end.Outcome)
	if end.Outcome == workflow.EndStuck {
		words = "got stuck"
	}
	if len(end.Machines) > 0 {
		words += " because of " + strings.Join(end.Machines, ", ")
	}
	return words
}

// EndWords say which run ended how, and what happened last in it.
func (r *Record) EndWords() string {
	return fmt.Sprintf("run %d %s; %s", r.Number, r.endWords(), r.LastWords())
}

// LastWords are the last lines of the trace.
func (r *Record) LastWords() string {
	const most = 12
	return "its last steps: " + strings.Join(r.Trace[max(0, len(r.Trace)-most):], "; ")
}
