package workflow

import (
	"fmt"
	"slices"
)

// checkLeftovers refuses what would leave something behind that nobody accounts for: the target must know each thing
// that the run has left in production, and must be able to take it back, or accept it, where the
// origin still can.
func (g *migrator) checkLeftovers() {
	for _, left := range g.mayBeLeft() {
		about := Problem{Leftover: left}
		hint := fmt.Sprintf("let the other definition have, on a way from where its machines are, an action with undoes: %s, or a state with accepts: %s", left, left)
		place := g.origin.accountsFor(left, g.before.Machines, nil)
		switch {
		case place != "" && g.target.accountsFor(left, g.s.result.Run.Machines, g.enteredStates()) == "":
			g.refuse(about, hint, "the run has left %s in production; %s can still account for it, and nothing of the other definition can", left, place)
		case !g.target.names(left):
			g.refuse(about, hint, "the run has left %s in production, which the other definition does not know", left)
		}
	}
}

// mayBeLeft is what the run has left in production, and what actions under way that go on leave once
// they begin.
func (g *migrator) mayBeLeft() []string {
	names := slices.Clone(g.before.Leftovers)
	for _, change := range g.migrated.Machines {
		if change.Kept == "" {
			continue
		}
		state := g.origin.machine(change.Name).state(change.From)
		for _, left := range state.Action.Leaves {
			if !slices.Contains(names, left) {
				names = append(names, left)
			}
		}
	}
	return names
}

// enteredStates are those that machines enter, by their places.
func (g *migrator) enteredStates() map[int]string {
	states := map[int]string{}
	for _, change := range g.migrated.Machines {
		at := slices.IndexFunc(g.target.Machines, func(m Machine) bool { return m.Name == change.Name })
		if at >= 0 && change.Change != MachineStays {
			states[at] = change.To
		}
	}
	return states
}

// accountsFor returns a state, as MACHINE/STATE, that takes back or accepts what is left, among those that
// transitions lead to from where the machines are, whatever their guards say; empty: there is none.
// Entered are machines that enter a state, by their places.
func (d *Definition) accountsFor(left string, machines []Standing, entered map[int]string) string {
	for i := range d.Machines {
		m, standing := &d.Machines[i], machines[i]
		first, isEntered := entered[i]
		if !isEntered {
			first = standing.State
		}
		for _, name := range m.reachableFrom(first) {
			state := m.state(name)
			// Of the state that the machine is in, what has been answered is not done again.
			acts := name != first || isEntered || standing.Action != nil
			if slices.Contains(state.Accepts, left) || acts && state.Action != nil && slices.Contains(state.Action.Undoes, left) {
				return m.Name + "/" + name
			}
		}
	}
	return ""
}

// reachableFrom lists a state and those that transitions lead to from it. Of a machine that does not have the state, and
// so must be moved, it lists all: nobody knows yet where it goes.
func (m *Machine) reachableFrom(first string) []string {
	if m.state(first) == nil {
		return m.stateNames()
	}
	found := []string{first}
	for i := 0; i < len(found); i++ {
		for _, t := range m.Transitions {
			if t.From == found[i] && !slices.Contains(found, t.To) {
				found = append(found, t.To)
			}
		}
	}
	return found
}

// names reports whether a definition says anything of what is left.
func (d *Definition) names(left string) bool {
	for _, m := range d.Machines {
		for _, s := range m.States {
			if slices.Contains(s.Accepts, left) || s.Action != nil && (slices.Contains(s.Action.Leaves, left) || slices.Contains(s.Action.Undoes, left)) {
				return true
			}
		}
	}
	return false
}
