package workflow

import (
	"net/url"
	"strings"
)

// Use is something outside a run that an action names.
type Use struct {
	// Name of what it is, as it is written: it may have placeholders.
	Name string `json:"name"`
	// Field of the document that is set, as a JSON Pointer that may have placeholders.
	Field string `json:"field,omitempty"`
	// Place is the action, as MACHINE/STATE, and Line where it is written.
	Place string `json:"place"`
	Line  int    `json:"line"`
}

// Documents whose fields actions set, once for each action.
func (d *Definition) Documents() []Use {
	return d.uses(func(a *Action) (name, field string) {
		switch {
		case a.Edit != nil:
			return a.Edit.Document, a.Edit.Field
		case a.Task != nil:
			return a.Task.Document, a.Task.Field
		}
		return "", ""
	})
}

// Hosts that actions call over HTTP, once for each action.
func (d *Definition) Hosts() []Use {
	return d.uses(func(a *Action) (name, field string) {
		call := a.Ask
		if call == nil {
			call = a.Tell
		}
		if call == nil {
			return "", ""
		}
		// Placeholders come after the host (Read).
		address, err := url.Parse(placeholder.ReplaceAllString(call.URL, "x"))
		if err != nil {
			return "", ""
		}
		return address.Hostname(), ""
	})
}

// HasPlaceholder reports whether what is used is only known when the action begins.
func (u Use) HasPlaceholder() bool { return strings.Contains(u.Name, "${") }

// uses of all actions, in the order of the file.
func (d *Definition) uses(find func(a *Action) (name, field string)) []Use {
	var all []Use
	for i := range d.Machines {
		m := &d.Machines[i]
		for _, state := range m.States {
			if state.Action == nil {
				continue
			}
			if name, field := find(state.Action); name != "" {
				all = append(all, Use{Name: name, Field: field, Place: m.Name + "/" + state.Name, Line: state.Action.Line})
			}
		}
	}
	return all
}
