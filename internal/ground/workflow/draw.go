package workflow

import (
	"fmt"
	"strings"
)

// Draw a definition as text: each machine with its states, what they do, and where they lead. The
// states in which machines of a run are, by the machines' names, are marked; nil: it is no run's.
func (d *Definition) Draw(states map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "workflow %s\n", d.Name)
	for _, m := range d.Machines {
		fmt.Fprintf(&b, "\n%s\n", m.Name)
		for i := range m.States {
			m.drawState(&b, &m.States[i], states[m.Name])
		}
	}
	return b.String()
}

func (m *Machine) drawState(b *strings.Builder, s *State, current string) {
	mark := " "
	switch s.Name {
	case current:
		mark = "●"
	case m.Initial:
		mark = ">"
	}
	fmt.Fprintf(b, "  %s [%s]%s\n", mark, s.Name, describeState(s))
	for i := range m.Transitions {
		t := &m.Transitions[i]
		if t.From == s.Name {
			fmt.Fprintf(b, "      └─ %s\n", describeTransition(t))
		}
	}
}

func describeState(s *State) string {
	text := ""
	if s.Action != nil {
		text += "  " + describeAction(s.Action)
	}
	if s.End != NoEnding {
		text += "  (" + string(s.End) + ")"
	}
	if s.Retreat {
		text += "  retreat"
	}
	return text
}

func describeTransition(t *Transition) string {
	text := "→ " + t.To
	if len(t.On) > 0 {
		text += "  on " + join(t.On)
	}
	if t.When != "" {
		text += "  when " + strings.Join(strings.Fields(t.When), " ")
	}
	return text
}

func describeAction(a *Action) string {
	text := a.kind() + " "
	switch {
	case a.Edit != nil:
		text += fmt.Sprintf("%s: %s = %s", a.Edit.Document, a.Edit.Field, a.Edit.Value)
	case a.Task != nil:
		text += a.Task.Asset
	case a.Ask != nil:
		text += a.Ask.URL
	case a.Tell != nil:
		text += a.Tell.Method + " " + a.Tell.URL
	case a.Person != nil:
		text += fmt.Sprintf("%d of %s: %s", a.Person.Quorum, strings.Join(a.Person.Roles, ", "), a.Person.Question)
	case a.Wait.For > 0:
		text += "for " + a.Wait.For.String()
	default:
		text += "until " + a.Wait.Until
	}
	if a.Timeout > 0 {
		text += ", at most " + a.Timeout.String()
	}
	return text
}
