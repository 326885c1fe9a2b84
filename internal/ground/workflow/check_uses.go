package workflow

import (
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// checkUses tells of what is declared and not used, and of effects without a word on what
// they leave.
func (d *Definition) checkUses() []Finding {
	var found []Finding
	warn := func(name string, line int, hint, format string, arguments ...any) {
		found = append(found, newFinding(d, name, intent.Warning, line, hint, format, arguments...))
	}
	used := d.namesUsed()
	for _, input := range d.Inputs {
		if !used["inputs."+input.Name] {
			warn(RuleUnused, input.Line, "take it out, or read inputs."+input.Name, "no guard and no action uses input %s", input.Name)
		}
	}
	for _, fact := range d.Facts {
		if !used["facts."+fact.Name] {
			warn(RuleUnused, fact.Line, "take it out, or read facts."+fact.Name, "no guard uses fact %s", fact.Name)
		}
	}
	for _, signal := range d.Signals {
		if !used["signals."+signal.Name] {
			warn(RuleUnused, signal.Line, "take it out, or read signals."+signal.Name, "no guard uses signal %s", signal.Name)
		}
	}
	leaves := d.namesLeft()
	for _, m := range d.Machines {
		for _, state := range m.States {
			for _, accepted := range state.Accepts {
				if !slices.Contains(leaves, accepted) {
					found = append(found, newFinding(d, RuleCompensation, intent.Error, state.Line, suggest(accepted, leaves),
						"state %s/%s accepts %.100q, which no action leaves", m.Name, state.Name, accepted))
				}
			}
			a := state.Action
			if a == nil {
				continue
			}
			if a.changes() && !a.saysLeaves {
				warn(RuleCompensation, a.Line, "add leaves: NAME, undoes: NAME, or leaves: [] where nothing is to be taken back",
					"the action of %s/%s does not say what it leaves if the run fails", m.Name, state.Name)
			}
			for _, undone := range a.Undoes {
				if !slices.Contains(leaves, undone) {
					found = append(found, newFinding(d, RuleCompensation, intent.Error, a.Line, suggest(undone, leaves),
						"the action of %s/%s undoes %.100q, which no action leaves", m.Name, state.Name, undone))
				}
			}
		}
	}
	return found
}

// namesUsed by guards and placeholders.
func (d *Definition) namesUsed() map[string]bool {
	used := map[string]bool{}
	for _, m := range d.Machines {
		for _, t := range m.Transitions {
			if t.guard != nil {
				for _, name := range t.guard.Reads() {
					used[name] = true
				}
			}
		}
		for _, state := range m.States {
			if state.Action == nil {
				continue
			}
			for _, text := range state.Action.texts() {
				for _, name := range placeholders(*text) {
					used[strings.TrimSpace(name)] = true
				}
			}
		}
	}
	return used
}

func (d *Definition) namesLeft() []string {
	var names []string
	for _, m := range d.Machines {
		for _, state := range m.States {
			if state.Action != nil {
				names = append(names, state.Action.Leaves...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
