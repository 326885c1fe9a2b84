package workflowtext

import (
	"fmt"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/workflow"
)

// Migrated says what became of a machine of a run that was moved, and of its action that was under way before.
func Migrated(m *apipb.MigratedMachine, before *apipb.WorkflowRun) string {
	text := m.Name + ": "
	switch workflow.MachineChange(m.Change) {
	case workflow.MachineStays:
		text += "stays in " + m.To
	case workflow.MachineMoves:
		text += m.From + " → " + m.To
	case workflow.MachineIsNew:
		text += "is new, in " + m.To
	case workflow.MachineIsDropped:
		text += "is dropped; it was in " + m.From
	}
	at := slices.IndexFunc(before.Machines, func(earlier *apipb.WorkflowMachine) bool { return earlier.Name == m.Name })
	if at < 0 || before.Machines[at].Action == nil {
		return text
	}
	action := before.Machines[at].Action
	switch {
	case m.Kept != "" && len(action.Approvals) > 0:
		text += fmt.Sprintf("; its action goes on, approved by %s: %s", strings.Join(action.Approvals, ", "), action.Text)
	case m.Kept != "":
		text += "; its action goes on: " + action.Text
	case m.MayHaveHappened:
		text += "; its action is cut off, and may have happened: " + action.Text
	case m.Cut != "":
		text += "; its action is cut off: " + action.Text
	}
	return text
}
