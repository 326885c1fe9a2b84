package workflow

import (
	"slices"
	"strconv"
	"strings"

	"lehr.dev/internal/ground/rule"
)

// variable of a search: something about data that guards ask, with the few values that tell
// all their questions apart. "inputs.size == "a"" needs two values: a, and any other.
type variable struct {
	name   string
	domain []string
	// reads are the variables of guards that it depends on.
	reads []string
	// opaque: it is the truth of an expression, tried both ways.
	opaque bool
}

// otherValue stands for every value that no guard names.
const otherValue = "\x00other"

// isVolatile reports whether it can be otherwise after every event.
func (v *variable) isVolatile() bool { return slices.Contains(v.reads, attemptsVariable) }

// dependsOn reports whether it reads a variable of a kind ("inputs.", "facts.").
func (v *variable) dependsOn(prefix string) bool {
	return slices.ContainsFunc(v.reads, func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// describe a value of the variable for people.
func (v *variable) describe(value string) string {
	switch {
	case v.opaque || v.domain[0] == "true":
		return v.name + " is " + value
	case value == otherValue:
		return v.name + " is another value"
	}
	return v.name + " is " + strconv.Quote(value)
}

// isData reports whether a search chooses the value of a variable of guards.
func isData(name string) bool {
	return strings.HasPrefix(name, "inputs.") || strings.HasPrefix(name, "outputs.") || strings.HasPrefix(name, "facts.")
}

// variableName of a leaf; empty: its value follows from the states of the machines.
func variableName(leaf rule.Formula) string {
	if leaf.Kind == rule.Opaque {
		return leaf.Text
	}
	if isData(leaf.Name) {
		return leaf.Name
	}
	return ""
}

// gatherVariables of all guards.
func (d *Definition) gatherVariables() []variable {
	types := d.variables()
	var all []variable
	for _, m := range d.Machines {
		for _, t := range m.Transitions {
			if t.guard == nil {
				continue
			}
			t.guard.Formula().Leaves(func(leaf rule.Formula) {
				name := variableName(leaf)
				if name == "" {
					return
				}
				at := slices.IndexFunc(all, func(v variable) bool { return v.name == name })
				if at < 0 {
					at = len(all)
					all = append(all, variable{name: name, reads: []string{name}})
				}
				all[at].extend(leaf, types[name])
			})
		}
	}
	return all
}

// extend the domain, so that the leaf is true of one value and false of another.
func (v *variable) extend(leaf rule.Formula, scalar rule.Scalar) {
	switch {
	case leaf.Kind == rule.Opaque:
		v.opaque, v.reads, v.domain = true, leaf.Reads, []string{"true", "false"}
	case scalar == rule.ScalarBool:
		v.domain = []string{"true", "false"}
	case leaf.Kind == rule.Less:
		v.add(strconv.FormatInt(leaf.Bound-1, 10), strconv.FormatInt(leaf.Bound, 10))
	case scalar == rule.ScalarInt:
		n, _ := strconv.ParseInt(leaf.Literal, 10, 64)
		v.add(strconv.FormatInt(n-1, 10), leaf.Literal, strconv.FormatInt(n+1, 10))
	default:
		v.add(leaf.Literal, otherValue)
	}
}

func (v *variable) add(values ...string) {
	for _, value := range values {
		if !slices.Contains(v.domain, value) {
			v.domain = append(v.domain, value)
		}
	}
}

// searchJudge evaluates guards over the values that a search has chosen.
type searchJudge struct {
	*search
	// choice has an index into the domain of each variable.
	choice []int
}

func (j searchJudge) verdict(run *Run, machine int, t *Transition, open bool) rule.Verdict {
	if t.guard == nil {
		return rule.Holds
	}
	j.spend(1 + len(t.guard.Reads()))
	verdict := t.guard.Formula().Evaluate(func(leaf rule.Formula) rule.Verdict {
		if variableName(leaf) != "" {
			return j.judgeData(run, leaf, open)
		}
		return j.judgeState(run, machine, t, leaf, open)
	})
	if verdict == rule.Missing {
		return rule.Fails
	}
	return verdict
}

// judgeState of a leaf that follows from where the run is.
func (j searchJudge) judgeState(run *Run, machine int, t *Transition, leaf rule.Formula, open bool) rule.Verdict {
	kind, name, _ := strings.Cut(leaf.Name, ".")
	switch kind {
	case "machines":
		other := slices.IndexFunc(j.definition.Machines, func(m Machine) bool { return m.Name == name })
		return verdictOf(run.Machines[other].State == leaf.Literal)
	case "signals":
		if open && j.definition.isOpen(run, leaf.Name) {
			return rule.Undecided
		}
		return verdictOf(slices.Contains(run.Signals, name))
	case cancelVariable:
		return verdictOf(run.Cancelled)
	}
	return compareInt(strconv.Itoa(run.Machines[machine].Entries[t.From]), leaf)
}

func (j searchJudge) judgeData(run *Run, leaf rule.Formula, open bool) rule.Verdict {
	at := j.places[variableName(leaf)]
	v := &j.variables[at]
	for _, name := range v.reads {
		if open && j.definition.isOpen(run, name) {
			return rule.Undecided
		}
	}
	for _, name := range v.reads {
		if strings.HasPrefix(name, "outputs.") && !j.isTold(run, name) {
			return rule.Missing
		}
	}
	value := v.domain[j.choice[at]]
	if leaf.Kind == rule.Opaque {
		return verdictOf(value == "true")
	}
	return compareInt(value, leaf)
}

// compareInt judges Equal of any string and Less of an int.
func compareInt(value string, leaf rule.Formula) rule.Verdict {
	if leaf.Kind == rule.Equal {
		return verdictOf(value == leaf.Literal)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return verdictOf(err == nil && n < leaf.Bound)
}

// isTold reports whether an output has a value in a run.
func (j searchJudge) isTold(run *Run, name string) bool {
	parts := strings.Split(name, ".")
	machine := slices.IndexFunc(j.definition.Machines, func(m Machine) bool { return m.Name == parts[1] })
	_, ok := run.Machines[machine].Outputs[parts[2]]
	return ok
}

func verdictOf(truth bool) rule.Verdict {
	if truth {
		return rule.Holds
	}
	return rule.Fails
}
