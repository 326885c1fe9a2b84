package workflow

import (
	"slices"
	"strings"

	"lehr.dev/internal/ground/rule"
)

// isOpen reports whether a variable may get another value by what is awaited: a fact at any
// time, a signal that has not come, an output of an action under way.
func (d *Definition) isOpen(run *Run, name string) bool {
	parts := strings.Split(name, ".")
	switch parts[0] {
	case "facts":
		return true
	case "signals":
		return !slices.Contains(run.Signals, parts[1])
	case "outputs":
		machine := slices.IndexFunc(d.Machines, func(m Machine) bool { return m.Name == parts[1] })
		standing := run.Machines[machine]
		if standing.Action == nil {
			return false
		}
		return slices.ContainsFunc(d.Machines[machine].state(standing.State).Action.Outputs, func(o Output) bool { return o.Name == parts[2] })
	}
	return false
}

// valueOfSearch is the value that a search gives an output or an input: it stands for every one.
func valueOfSearch(scalar rule.Scalar) Value { return Value{scalar, "?"} }
