// Package workflowtext says in words how a run of a workflow stands, from what the API tells of
// it. Commands and pages say the same of the same run.
package workflowtext

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/workflow"
)

// RunName is how commands name a run, such as "promote#3".
func RunName(run *apipb.WorkflowRun) string {
	return run.Workflow + "#" + strconv.FormatUint(run.Number, 10)
}

// State of a run in a word or two: its outcome, once it has ended.
func State(run *apipb.WorkflowRun) string {
	switch {
	case run.Ended != nil:
		return run.Outcome
	case run.Cancelled:
		return "retreats"
	}
	return "goes on"
}

// Ending says how a run ended.
func Ending(run *apipb.WorkflowRun) string {
	text := "Run " + RunName(run) + " ended: " + run.Outcome
	if len(run.EndedBy) > 0 {
		text += ", because of " + strings.Join(run.EndedBy, ", ")
	}
	if len(run.Leftovers) > 0 {
		text += ". It leaves " + strings.Join(run.Leftovers, ", ") + " in production"
	}
	return text + "."
}

// WaitsFor names what a run waits for: its actions, and without any the parts that guards lack.
func WaitsFor(run *apipb.WorkflowRun) string {
	var words, lacking []string
	for _, m := range run.Machines {
		if m.Action != nil {
			words = append(words, m.Name+" "+m.Action.Text)
			continue
		}
		for _, t := range m.Transitions {
			for _, missing := range t.Missing {
				if t.Holds == string(workflow.Unknown) && t.Answered == string(workflow.Yes) && !slices.Contains(lacking, missing.Text) {
					lacking = append(lacking, missing.Text)
				}
			}
		}
	}
	if len(words) == 0 {
		words = lacking
	}
	return strings.Join(words, "; ")
}

// Transition says what a transition of a machine awaits or lacks.
func Transition(t *apipb.WorkflowTransition, m *apipb.WorkflowMachine) string {
	if t.CutByCancel {
		return "not any more: the run is cancelled, and this transition is not part of its retreat"
	}
	var parts []string
	switch t.Answered {
	case string(workflow.Unknown):
		parts = append(parts, "when the action is "+strings.Join(t.On, " or "))
	case string(workflow.No):
		parts = append(parts, "only if the action is "+strings.Join(t.On, " or ")+", but it is "+cmp.Or(m.Outcome, "over"))
	}
	if len(t.Missing) > 0 {
		var missing []string
		for _, one := range t.Missing {
			missing = append(missing, one.Text)
		}
		text := "needs " + strings.Join(missing, " and ")
		if t.Guard == string(workflow.No) {
			text += ", which nothing that is awaited can change"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "now"
	}
	return strings.Join(parts, "; ")
}

// Approvals says how many of the approvals that a question needs it has, and whose; empty: one is
// enough.
func Approvals(a *apipb.WorkflowAction) string {
	if a.GetKind() != "person" || a.Quorum <= 1 {
		return ""
	}
	return fmt.Sprintf("%d of %d approvals: %s", len(a.Approvals), a.Quorum, cmp.Or(strings.Join(a.Approvals, ", "), "nobody"))
}

// LackedSignals are the signals that a transition of a run needs and that have not come.
func LackedSignals(run *apipb.WorkflowRun) (signals []string) {
	for _, signal := range run.SignalsOpen {
		if slices.ContainsFunc(run.Machines, func(m *apipb.WorkflowMachine) bool { return lacksSignal(m, signal) }) {
			signals = append(signals, signal)
		}
	}
	return signals
}

func lacksSignal(m *apipb.WorkflowMachine, signal string) bool {
	return slices.ContainsFunc(m.Transitions, func(t *apipb.WorkflowTransition) bool {
		return slices.ContainsFunc(t.Missing, func(c *apipb.WorkflowCondition) bool { return slices.Contains(c.Reads, "signals."+signal) })
	})
}

// Actor who caused something in a run: the run itself, or somebody's name.
func Actor(a *apipb.Actor) string {
	if strings.HasPrefix(a.GetName(), intent.WorkflowPrefix) {
		return "itself"
	}
	return a.GetName()
}

// Event says what happened, without the machine that it is about.
func Event(e *apipb.WorkflowEvent) string {
	text := ""
	switch intent.WorkflowEventKind(e.Kind) {
	case intent.WorkflowStarted:
		text = "the run is started by " + Actor(e.By)
	case intent.WorkflowMoved:
		text = e.From + " → " + e.To
	case intent.WorkflowBegan:
		return e.Reason
	case intent.WorkflowAnswered:
		text = "the action is " + e.Word
	case intent.WorkflowAbandoned:
		text = "the action is not awaited any more"
	case intent.WorkflowVoted:
		text = Actor(e.By) + " refuses"
		if e.Good {
			text = Actor(e.By) + " approves"
		}
	case intent.WorkflowSignalled:
		text = "signal " + e.Word + " comes from " + Actor(e.By)
	case intent.WorkflowFact:
		text = fmt.Sprintf("fact %s is %t", e.Word, e.Good)
	case intent.WorkflowCancelled:
		text = Actor(e.By) + " cancels the run"
	case intent.WorkflowMigrated:
		text = migration(e)
	case intent.WorkflowEnded:
		text = "the run ends: " + e.Word
	default:
		text = e.Kind + " " + e.Word
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// MachineEvent says what happened, and to which machine.
func MachineEvent(e *apipb.WorkflowEvent) string {
	if e.Machine == "" {
		return Event(e)
	}
	return e.Machine + ": " + Event(e)
}

// migration says what a row of a migration means: of the run, or of a machine that does not stay.
func migration(e *apipb.WorkflowEvent) string {
	switch {
	case e.Machine == "":
		return Actor(e.By) + " moves the run from definition " + ShortDigest(e.From) + " to " + ShortDigest(e.To)
	case e.From == "":
		return "is new, in " + e.To
	case e.To == "":
		return "is dropped; it was in " + e.From
	}
	return "is moved: " + e.From + " → " + e.To
}

// ShortDigest is enough of a definition's digest for people to tell definitions apart.
func ShortDigest(digest string) string {
	const letters = 12
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(len(digest), letters)]
}
