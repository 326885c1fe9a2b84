package workflow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// ReadForPush reads a definition that is run inside a push: the same language, without what makes no
// sense there. A push acts on the one thing of its asset, so URLs are paths below that, and nothing is
// edited, and nobody is asked; it is stopped and goes on, and never cancelled.
func ReadForPush(file string, data []byte) (*Definition, []Finding) {
	r := &reader{file: file, definition: &Definition{File: file, ForPush: true}}
	return r.read(data)
}

// refusals say why a key has no place in a definition that a push runs.
var refusals = map[string]string{
	"edit":    "a push makes production as intent says, and changes no intent: let a workflow of the partition edit the document",
	"task":    "a push acts on its own asset alone: let the asset depend on the task",
	"person":  "nobody is asked in the middle of a push: give the asset the addon Approval, which is asked before",
	"facts":   "a push acts on its own asset alone: let the asset depend on the other one",
	"signals": "nobody signals a push: it waits for checks before it begins",
	"retreat": "a push is stopped, which lets nothing more be done, and goes on later; it is never cancelled: take it out",
}

// refuseInPush tells of a key that a push has no use for, and reports whether it did.
func (r *reader) refuseInPush(node *yaml.Node, key string) bool {
	if r.definition.ForPush {
		r.fail(node, refusals[key], "%s has no place in a push", key)
	}
	return r.definition.ForPush
}

// checkPath of a call inside a push: it lies below the address of the asset's thing, or of another
// endpoint that the asset names.
func (r *reader) checkPath(node *yaml.Node, kind string, c *Call) {
	if c.URL == "" {
		return
	}
	if problem := PathProblem(placeholder.ReplaceAllString(c.URL, "x")); problem != "" {
		r.fail(node, "write /PATH, which is below the address of the asset's own thing; another endpoint of the asset is named by endpoint: NAME",
			"%.100q is no path to %s inside a push: %s", c.URL, kind, problem)
	}
}

// PathProblem says why a path, with its query, leads elsewhere than below the address that it is
// added to; empty: it does not.
func PathProblem(text string) string {
	path, _, _ := strings.Cut(text, "?")
	switch {
	case !strings.HasPrefix(path, "/"):
		return "it does not begin with /"
	case strings.ContainsAny(text, "#\\ \t\r\n"):
		return "it has a blank, a # or a backslash"
	}
	for _, part := range strings.Split(strings.ToLower(path[1:]), "/") {
		switch strings.ReplaceAll(part, "%2e", ".") {
		case ".", "..":
			return "it has a part . or .."
		}
		if strings.Contains(part, "%2f") || strings.Contains(part, "%5c") {
			return "it has a / that is escaped"
		}
	}
	return ""
}

// Endpoints that actions of a push name beside their own, once for each action.
func (d *Definition) Endpoints() []Use {
	return d.uses(func(a *Action) (name, field string) {
		switch {
		case a.Ask != nil:
			return a.Ask.Endpoint, ""
		case a.Tell != nil:
			return a.Tell.Endpoint, ""
		}
		return "", ""
	})
}

// CheckInputs reads the texts of all inputs that are given, and adds those that have a default.
// Invalid: they are not those that the definition declares.
func (d *Definition) CheckInputs(texts map[string]string) (map[string]Value, error) {
	values := map[string]Value{}
	for name, text := range texts {
		values[name] = Value{Text: text}
	}
	return d.checkInputs(values)
}

// FillInputs puts inputs in for the placeholders of a text. Invalid: it has another placeholder.
func (d *Definition) FillInputs(text string, inputs map[string]Value) (string, error) {
	values := map[string]Value{}
	for name, value := range inputs {
		values["inputs."+name] = value
	}
	filled, missing := fill(text, values)
	if missing != "" {
		return "", fault.New(fault.Invalid, "%.100q has the placeholder ${%.100s}, which is no input of workflow %s", text, missing, d.Name).
			WithHint("%s", suggest(missing, slices.Sorted(maps.Keys(values))))
	}
	return filled, nil
}

// Errors of findings: those that keep a definition from being run.
func Errors(findings []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Severity != intent.Error })
}

// Trace tells in lines what a step did, in its order: outcomes of actions, and transitions.
func (d *Definition) Trace(result Result) []string {
	var lines []string
	for _, happened := range result.records {
		machine := d.Machines[happened.machine].Name
		switch happened.kind {
		case intent.WorkflowAnswered:
			line := fmt.Sprintf("%s is %s", cmp.Or(happened.key, machine), happened.word)
			if happened.reason != "" {
				line += ": " + happened.reason
			}
			lines = append(lines, line)
		case intent.WorkflowMoved:
			lines = append(lines, fmt.Sprintf("%s: %s → %s", machine, happened.from, happened.to))
		case intent.WorkflowAbandoned:
			lines = append(lines, happened.key+" is cut off")
		}
	}
	return lines
}
