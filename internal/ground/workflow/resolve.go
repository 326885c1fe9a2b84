package workflow

import (
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/spell"
)

// Variables of guards beside those of inputs, facts, signals, machines and outputs.
const (
	cancelVariable   = "cancelled"
	attemptsVariable = "attempts"
)

// resolver follows the names of a definition, and compiles its guards.
type resolver struct {
	*Definition
	guards   *rule.Guards
	findings []Finding
}

func (r *resolver) fail(line int, hint, format string, arguments ...any) {
	r.findings = append(r.findings, newFinding(r.Definition, "workflow", intent.Error, line, hint, format, arguments...))
}

func newFinding(d *Definition, name string, severity intent.Severity, line int, hint, format string, arguments ...any) Finding {
	return Finding{Finding: intent.Finding{Rule: name, Severity: severity, Message: fmt.Sprintf(format, arguments...), Hint: hint, File: d.File, Line: line}}
}

// resolve what a definition names.
func (d *Definition) resolve() []Finding {
	r := &resolver{Definition: d}
	d.outputs = map[string]map[string]rule.Scalar{}
	for i := range d.Machines {
		r.resolveOutputs(&d.Machines[i])
	}
	guards, err := rule.NewGuards(d.variables())
	if err != nil {
		r.fail(1, "", "%s", err)
		return r.findings
	}
	r.guards = guards
	for i := range d.Machines {
		r.resolveMachine(&d.Machines[i])
	}
	return r.findings
}

func (r *resolver) resolveOutputs(m *Machine) {
	found := map[string]rule.Scalar{}
	for _, s := range m.States {
		if s.Action == nil {
			continue
		}
		for _, output := range s.Action.Outputs {
			if earlier := found[output.Name]; earlier != "" && earlier != output.Type {
				r.fail(output.Line, "give them different names", "output %s of %s is a %s here and a %s elsewhere", output.Name, m.Name, output.Type, earlier)
			}
			found[output.Name] = output.Type
		}
	}
	r.outputs[m.Name] = found
}

// variables that guards read, by name.
func (d *Definition) variables() map[string]rule.Scalar {
	all := map[string]rule.Scalar{cancelVariable: rule.ScalarBool, attemptsVariable: rule.ScalarInt}
	for _, input := range d.Inputs {
		all["inputs."+input.Name] = input.Type
	}
	for _, fact := range d.Facts {
		all["facts."+fact.Name] = rule.ScalarBool
	}
	for _, signal := range d.Signals {
		all["signals."+signal.Name] = rule.ScalarBool
	}
	for _, m := range d.Machines {
		all["machines."+m.Name] = rule.ScalarString
		for name, scalar := range d.outputs[m.Name] {
			all["outputs."+m.Name+"."+name] = scalar
		}
	}
	return all
}

func (r *resolver) resolveMachine(m *Machine) {
	r.checkState(m, m.Initial, m.Line, "initial")
	for i := range m.States {
		if action := m.States[i].Action; action != nil {
			r.checkPlaceholders(m, &m.States[i])
			r.checkAwaited(m, &m.States[i])
		}
	}
	for i := range m.Transitions {
		t := &m.Transitions[i]
		r.checkState(m, t.From, t.Line, "from")
		r.checkState(m, t.To, t.Line, "to")
		r.checkOutcomes(m, t)
		r.compile(m, t)
	}
}

// checkState tells of a state that a key, or a guard, names and that the machine does not have.
func (r *resolver) checkState(m *Machine, name string, line int, key string) {
	if m.state(name) != nil {
		return
	}
	var names []string
	for _, s := range m.States {
		names = append(names, s.Name)
	}
	r.fail(line, suggest(name, names), "%s names the state %.100q, which machine %s does not have", key, name, m.Name)
}

func suggest(name string, names []string) string {
	slices.Sort(names)
	hint := "there are " + strings.Join(names, ", ")
	if near := spell.Nearest(name, names); near != "" {
		hint = "is " + near + " meant? " + hint
	}
	return hint
}

// checkOutcomes tells of outcomes that the action of a state never has.
func (r *resolver) checkOutcomes(m *Machine, t *Transition) {
	origin := m.state(t.From)
	if origin == nil || len(t.On) == 0 {
		return
	}
	if origin.Action == nil {
		r.fail(t.Line, "leave on: out, or give the state an action", "state %s/%s has no action that could be %s", m.Name, t.From, t.On[0])
		return
	}
	possible := origin.Action.outcomes()
	for _, outcome := range t.On {
		if slices.Contains(possible, outcome) {
			continue
		}
		hint := fmt.Sprintf("it can be %s", join(possible))
		if outcome == OutcomeExpired && origin.Action.Wait == nil {
			hint += "; with timeout: also expired"
		}
		r.fail(t.Line, hint, "the action of %s/%s, a %s, is never %s", m.Name, t.From, origin.Action.kind(), outcome)
	}
}

func join(outcomes []Outcome) string {
	var words []string
	for _, outcome := range outcomes {
		words = append(words, string(outcome))
	}
	return strings.Join(words, ", ")
}

// checkAwaited: an action whose answer nothing awaits would be cut off by the end of the run.
func (r *resolver) checkAwaited(m *Machine, s *State) {
	for _, t := range m.Transitions {
		if t.From == s.Name && len(t.On) > 0 {
			return
		}
	}
	r.fail(s.Action.Line, fmt.Sprintf("add a transition from %s with on: %s", s.Name, s.Action.outcomes()[0]),
		"no transition awaits the action of %s/%s, so the run could end while it is under way", m.Name, s.Name)
}

// checkPlaceholders of an action.
func (r *resolver) checkPlaceholders(m *Machine, s *State) {
	variables := r.variables()
	var names []string
	for name := range variables {
		if strings.HasPrefix(name, "inputs.") || strings.HasPrefix(name, "outputs.") {
			names = append(names, name)
		}
	}
	for _, text := range s.Action.texts() {
		for _, name := range placeholders(*text) {
			if !slices.Contains(names, name) {
				r.fail(s.Action.Line, suggest(name, names), "the action of %s/%s has the placeholder ${%.100s}, which is not declared", m.Name, s.Name, name)
			}
		}
	}
	if w := s.Action.Wait; w != nil {
		for _, name := range placeholders(w.Until) {
			if variables[name] != rule.ScalarTime && variables[name] != "" {
				r.fail(s.Action.Line, "declare it with type: time", "the action of %s/%s waits until ${%s}, which is a %s", m.Name, s.Name, name, variables[name])
			}
		}
	}
}

// texts of an action that may have placeholders.
func (a *Action) texts() []*string {
	switch {
	case a.Edit != nil:
		return []*string{&a.Edit.Document, &a.Edit.Field, &a.Edit.Value}
	case a.Task != nil:
		return []*string{&a.Task.Asset, &a.Task.Document, &a.Task.Field, &a.Task.Value}
	case a.Ask != nil:
		return []*string{&a.Ask.URL}
	case a.Tell != nil:
		return []*string{&a.Tell.URL, &a.Tell.Body}
	case a.Person != nil:
		return []*string{&a.Person.Question}
	}
	return []*string{&a.Wait.Until}
}

// compile a guard, and hold what it says of machines to the states that they have.
func (r *resolver) compile(m *Machine, t *Transition) {
	if origin := m.state(t.From); origin != nil {
		t.readsCancel = origin.Retreat
	}
	if t.When == "" {
		return
	}
	guard, err := r.guards.Compile(t.When)
	if cause, ok := err.(*fault.Error); ok {
		r.fail(t.Line, cause.Hint, "transition %s: %s", t.describe(m.Name), cause.Message)
		return
	}
	t.guard = guard
	t.readsCancel = t.readsCancel || slices.Contains(guard.Reads(), cancelVariable)
	if r.ForPush && slices.Contains(guard.Reads(), cancelVariable) {
		r.fail(t.Line, refusals["retreat"], "transition %s reads %s, which has no place in a push", t.describe(m.Name), cancelVariable)
	}
	guard.Formula().Leaves(func(leaf rule.Formula) { r.checkLeaf(m, t, leaf) })
}

func (r *resolver) checkLeaf(m *Machine, t *Transition, leaf rule.Formula) {
	if leaf.Kind == rule.Equal && strings.HasPrefix(leaf.Name, "machines.") {
		other := r.machine(strings.TrimPrefix(leaf.Name, "machines."))
		if other.state(leaf.Literal) == nil {
			r.checkState(other, leaf.Literal, t.Line, "a guard of "+m.Name)
		}
		return
	}
	for _, name := range leaf.Reads {
		if strings.HasPrefix(name, "machines.") || name == cancelVariable || strings.HasPrefix(name, "signals.") {
			r.fail(t.Line, fmt.Sprintf("compare it with what it can be, as in %s", exampleOf(name)),
				"transition %s: %.200q uses %s otherwise than by comparison, so it cannot be checked", t.describe(m.Name), leaf.Text, name)
		}
	}
}

func exampleOf(name string) string {
	if strings.HasPrefix(name, "machines.") {
		return name + ` == "STATE" or ` + name + ` in ["A", "B"]`
	}
	return name + " or !" + name
}

// describe a transition for people.
func (t *Transition) describe(machine string) string {
	return machine + " " + t.From + " → " + t.To
}
