package workflow

import (
	"encoding/json"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// StateOf decodes the state of a stored run. Internal: it is damaged.
func StateOf(run intent.WorkflowRun) (Run, error) {
	var state Run
	if err := json.Unmarshal(run.State, &state); err != nil {
		return Run{}, fault.New(fault.Internal, "the state of run %s#%d of %q is damaged: %w", run.Workflow, run.Number, run.Partition, err)
	}
	return state, nil
}

// ActionOf decodes an action of a stored run, with values for its placeholders.
func ActionOf(action intent.WorkflowAction) (*Action, error) {
	decoded := &Action{}
	if err := json.Unmarshal(action.Action, decoded); err != nil {
		return nil, fault.New(fault.Internal, "the action of machine %s is damaged: %w", action.Machine, err)
	}
	return decoded, nil
}

// UpdateRow puts the result of a step into a run's row: its state, the actions that are awaited,
// when it must be looked at, and its end.
func UpdateRow(row *intent.WorkflowRun, result Result, now time.Time) error {
	state, err := json.Marshal(result.Run)
	if err != nil {
		return fault.New(fault.Internal, "the state of run %d of workflow %s cannot be encoded: %w", row.Number, row.Workflow, err)
	}
	if row.Actions, err = storedActions(row.Actions, result); err != nil {
		return err
	}
	row.State = state
	row.Wakes, _ = result.Run.Wakes()
	if end := result.Run.End; end != nil && row.Ended.IsZero() {
		row.Ended, row.Outcome, row.Wakes = now.UTC(), string(end.Outcome), time.Time{}
	}
	return nil
}

// storedActions are the actions that are awaited after a step: those that went on keep how far
// they got.
func storedActions(earlier map[string]intent.WorkflowAction, result Result) (map[string]intent.WorkflowAction, error) {
	begun := map[string]Effect{}
	for _, effect := range result.Effects {
		if effect.Kind == Begin {
			begun[effect.Key] = effect
		}
	}
	var actions map[string]intent.WorkflowAction
	for _, machine := range result.Run.Machines {
		if machine.Action == nil {
			continue
		}
		action, ok := earlier[machine.Action.Key]
		if effect, isNew := begun[machine.Action.Key]; isNew {
			text, err := json.Marshal(effect.Action)
			if err != nil {
				return nil, fault.New(fault.Internal, "the action %s cannot be encoded: %w", effect.Key, err)
			}
			action, ok = intent.WorkflowAction{Machine: effect.Machine, Action: text}, true
		}
		if !ok {
			continue
		}
		if actions == nil {
			actions = map[string]intent.WorkflowAction{}
		}
		actions[machine.Action.Key] = action
	}
	return actions, nil
}
