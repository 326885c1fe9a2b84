package workflow

import (
	"slices"
	"strconv"
	"strings"

	"lehr.dev/internal/ground/rule"
)

// Truth of something that is explained.
type Truth string

// Truths.
const (
	Yes Truth = "yes"
	// No: nothing that is awaited can make it so.
	No Truth = "no"
	// Unknown: it is not so now, and what is awaited, or another machine, can make it so.
	Unknown Truth = "unknown"
)

// MachineExplained is where a machine of a run is, and what would move it.
type MachineExplained struct {
	Name    string
	State   string
	Ending  Ending
	Outcome Outcome
	Reason  string
	// Action that is under way, with values for its placeholders; nil: none.
	Action  *Action
	Pending *PendingAction
	// Transitions out of its state, in the order of the definition.
	Transitions []TransitionExplained
}

// TransitionExplained says what a transition awaits.
type TransitionExplained struct {
	To   string
	On   []Outcome
	When string
	// Answered: the action has an outcome that it is for. Guard: its guard holds. Holds: both, so
	// that it is followed now.
	Answered, Guard, Holds Truth
	// Unmet are the parts of its guard that do not hold.
	Unmet []Unmet
	// CutByCancel: the run is cancelled, and this is no part of its retreat.
	CutByCancel bool
}

// Unmet is a part of a guard that does not hold with the values now.
type Unmet struct {
	// Text for people, such as machines.build == "built" (is building).
	Text string
	// Reads are the variables in it.
	Reads []string
}

// Explain says of each machine of a run where it is, what it awaits, and of each transition out
// of its state what is missing. It answers for a run that follows this definition.
func (d *Definition) Explain(run Run) []MachineExplained {
	if run.Definition != d.Digest() || len(run.Machines) != len(d.Machines) {
		return nil
	}
	e := &explainer{definition: d, run: &run, types: d.variables(), values: run.values(d)}
	var all []MachineExplained
	for i := range d.Machines {
		all = append(all, e.machine(i))
	}
	return all
}

type explainer struct {
	definition *Definition
	run        *Run
	types      map[string]rule.Scalar
	values     map[string]Value
	// guards compile what cannot be taken apart; nil: not needed yet.
	guards *rule.Guards
}

func (e *explainer) machine(i int) MachineExplained {
	m, standing := &e.definition.Machines[i], &e.run.Machines[i]
	state := m.state(standing.State)
	explained := MachineExplained{
		Name: m.Name, State: standing.State, Ending: state.End, Outcome: standing.Outcome, Reason: standing.Reason, Pending: standing.Action,
	}
	if standing.Action != nil {
		explained.Action, _ = state.Action.fill(e.values)
	}
	for k := range m.Transitions {
		if m.Transitions[k].From == standing.State {
			explained.Transitions = append(explained.Transitions, e.transition(i, &m.Transitions[k]))
		}
	}
	return explained
}

func (e *explainer) transition(machine int, t *Transition) TransitionExplained {
	explained := TransitionExplained{
		To: t.To, On: t.On, When: t.When, Answered: e.answered(machine, t), Guard: Yes, CutByCancel: e.run.Cancelled && !t.readsCancel,
	}
	if t.guard != nil {
		explained.Guard = e.guard(machine, t)
		explained.Unmet = e.unmet(machine, t, t.guard.Formula(), true)
	}
	switch {
	case e.run.End != nil, explained.CutByCancel, explained.Answered == No, explained.Guard == No:
		explained.Holds = No
	case explained.Answered == Unknown, explained.Guard == Unknown:
		explained.Holds = Unknown
	default:
		explained.Holds = Yes
	}
	return explained
}

// answered reports whether the action has an outcome that a transition is for.
func (e *explainer) answered(machine int, t *Transition) Truth {
	standing := &e.run.Machines[machine]
	switch {
	case len(t.On) == 0, slices.Contains(t.On, standing.Outcome):
		return Yes
	case standing.Action != nil:
		return Unknown
	}
	return No
}

// guard of a transition. One that does not hold now is unknown where something open decides it.
func (e *explainer) guard(machine int, t *Transition) Truth {
	if (guardJudge{e.definition}).verdict(e.run, machine, t, false) == rule.Holds {
		return Yes
	}
	verdict := t.guard.Formula().Evaluate(func(leaf rule.Formula) rule.Verdict {
		if e.isOpen(machine, leaf) {
			return rule.Undecided
		}
		return e.leaf(machine, t, leaf)
	})
	if e.run.End == nil && verdict == rule.Undecided {
		return Unknown
	}
	return No
}

// isOpen reports whether a leaf can come to be otherwise: by what is awaited, or because another
// machine moves.
func (e *explainer) isOpen(machine int, leaf rule.Formula) bool {
	return slices.ContainsFunc(readsOf(leaf), func(name string) bool {
		kind, other, _ := strings.Cut(name, ".")
		switch kind {
		case "machines":
			at := e.index(other)
			return at != machine && e.canMove(at)
		case "outputs":
			other, _, _ = strings.Cut(other, ".")
			return e.definition.isOpen(e.run, name) || e.canMove(e.index(other))
		}
		return e.definition.isOpen(e.run, name)
	})
}

func (e *explainer) index(machine string) int {
	return slices.IndexFunc(e.definition.Machines, func(m Machine) bool { return m.Name == machine })
}

// canMove reports whether a transition leads out of the state that a machine is in.
func (e *explainer) canMove(machine int) bool {
	standing := &e.run.Machines[machine]
	return slices.ContainsFunc(e.definition.Machines[machine].Transitions, func(t Transition) bool {
		return t.From == standing.State && (!e.run.Cancelled || t.readsCancel)
	})
}

func readsOf(leaf rule.Formula) []string {
	if leaf.Kind == rule.Opaque {
		return leaf.Reads
	}
	return []string{leaf.Name}
}

// leaf of a guard, with the values now.
func (e *explainer) leaf(machine int, t *Transition, leaf rule.Formula) rule.Verdict {
	if leaf.Kind == rule.Opaque {
		return e.opaque(machine, t, leaf)
	}
	value, ok := e.value(machine, t, leaf.Name)
	if !ok {
		return rule.Missing
	}
	if e.types[leaf.Name] == rule.ScalarNumber && leaf.Kind == rule.Equal {
		literal, err := ParseValue(rule.ScalarNumber, leaf.Literal)
		return verdictOf(err == nil && value == literal.Text)
	}
	return compareInt(value, leaf)
}

// value of a variable now, as text.
func (e *explainer) value(machine int, t *Transition, name string) (value string, ok bool) {
	kind, rest, _ := strings.Cut(name, ".")
	truth := map[bool]string{true: "true", false: "false"}
	switch kind {
	case "machines":
		return e.run.Machines[e.index(rest)].State, true
	case "signals":
		return truth[slices.Contains(e.run.Signals, rest)], true
	case "facts":
		return truth[e.run.Facts[rest]], true
	case cancelVariable:
		return truth[e.run.Cancelled], true
	case attemptsVariable:
		return strconv.Itoa(e.run.Machines[machine].Entries[t.From]), true
	}
	known, ok := e.values[name]
	return known.Text, ok
}

// opaque part of a guard, judged as a guard of its own.
func (e *explainer) opaque(machine int, t *Transition, leaf rule.Formula) rule.Verdict {
	if e.guards == nil {
		guards, err := rule.NewGuards(e.types)
		if err != nil {
			return rule.Missing
		}
		e.guards = guards
	}
	guard, err := e.guards.Compile(leaf.Text)
	if err != nil {
		return rule.Missing
	}
	for _, name := range leaf.Reads {
		if _, ok := e.value(machine, t, name); !ok {
			return rule.Missing
		}
	}
	alone := *t
	alone.guard = guard
	return (guardJudge{e.definition}).verdict(e.run, machine, &alone, false)
}
