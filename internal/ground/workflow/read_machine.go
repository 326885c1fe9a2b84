package workflow

import (
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/rule"
)

func (r *reader) readDefinition(root *yaml.Node) {
	d := r.definition
	version := ""
	r.mapping(root, "the file", keys{
		"workflow": func(node *yaml.Node) { version = choice(r, node, "workflow", "v1") },
		"name": func(node *yaml.Node) {
			d.Line = node.Line
			if d.Name = r.text(node, "name"); !stateName.MatchString(d.Name) {
				r.fail(node, "write small letters, digits, - and _, beginning with a letter", "%.100q is no name of a workflow", d.Name)
			}
		},
		"inputs": func(node *yaml.Node) { r.pairs(node, "inputs", r.readInput) },
		"facts": func(node *yaml.Node) {
			if !r.refuseInPush(node, "facts") {
				r.pairs(node, "facts", r.readFact)
			}
		},
		"signals": func(node *yaml.Node) {
			if !r.refuseInPush(node, "signals") {
				r.readSignals(node)
			}
		},
		"machines": func(node *yaml.Node) { r.pairs(node, "machines", r.readMachine) },
	})
	if len(r.findings) > 0 {
		return
	}
	switch {
	case version == "":
		r.fail(root, "start it with workflow: v1", "the file is no workflow")
	case d.Name == "":
		r.fail(root, "add name: NAME", "the workflow has no name")
	case len(d.Machines) == 0:
		r.fail(root, "add machines:; "+page+" shows some", "the workflow has no machines")
	case len(d.Machines) > maxMachines:
		r.fail(root, "make several workflows of it", "the workflow has %d machines, at most %d are allowed", len(d.Machines), maxMachines)
	case max(len(d.Inputs), len(d.Facts), len(d.Signals)) > maxNames:
		r.fail(root, "make several workflows of it", "the workflow has %d inputs, %d facts and %d signals, at most %d of each are allowed", len(d.Inputs), len(d.Facts), len(d.Signals), maxNames)
	}
}

func (r *reader) readInput(key, node *yaml.Node) {
	input := Input{Name: r.name(key, "an input"), Line: key.Line}
	var defaultNode *yaml.Node
	if node.Kind == yaml.ScalarNode {
		input.Type = r.readType(node, "inputs."+input.Name)
	} else {
		r.mapping(node, "inputs."+input.Name, keys{
			"type":    func(node *yaml.Node) { input.Type = r.readType(node, "inputs."+input.Name+".type") },
			"default": func(node *yaml.Node) { defaultNode = node },
		})
		if input.Type == "" {
			r.fail(key, "add type: "+typeNames, "input %s has no type", input.Name)
		}
	}
	if defaultNode != nil && slices.Contains(scalars, input.Type) {
		value, err := ParseValue(input.Type, r.text(defaultNode, "default"))
		r.check(defaultNode, "the default of input "+input.Name, err)
		input.Default = &value
	}
	r.definition.Inputs = append(r.definition.Inputs, input)
}

func (r *reader) readFact(key, node *yaml.Node) {
	fact := Fact{Name: r.name(key, "a fact"), Line: key.Line}
	r.mapping(node, "facts."+fact.Name, keys{
		"asset": r.into(&fact.Asset, "asset"),
		"when": func(node *yaml.Node) {
			fact.When = r.text(node, "when")
			_, err := rule.NoticeWhen(fact.When, rule.NoticeOfReport)
			r.check(node, "fact "+fact.Name, err)
		},
	})
	if fact.Asset == "" || fact.When == "" {
		r.fail(key, `write {asset: ID, when: 'report.state == "in-sync"'}`, "fact %s needs an asset and when", fact.Name)
	}
	r.definition.Facts = append(r.definition.Facts, fact)
}

func (r *reader) readSignals(node *yaml.Node) {
	if node.Kind != yaml.SequenceNode {
		r.fail(node, "write [a, b]", "signals is no list")
		return
	}
	seen := map[string]bool{}
	for _, element := range node.Content {
		signal := Signal{Name: r.name(element, "a signal"), Line: element.Line}
		if seen[signal.Name] {
			r.fail(element, "name it once", "signal %s is there twice", signal.Name)
		}
		seen[signal.Name] = true
		r.definition.Signals = append(r.definition.Signals, signal)
	}
}

func (r *reader) readMachine(key, node *yaml.Node) {
	m := Machine{Name: r.name(key, "a machine"), Line: key.Line}
	findingsBefore := len(r.findings)
	r.mapping(node, "machine "+m.Name, keys{
		"initial": r.into(&m.Initial, "initial"),
		"states": func(node *yaml.Node) {
			r.pairs(node, "states of "+m.Name, func(key, node *yaml.Node) { m.States = append(m.States, r.readState(m.Name, key, node)) })
		},
		"transitions": func(node *yaml.Node) {
			if node.Kind != yaml.SequenceNode {
				r.fail(node, "write - {from: A, to: B}", "transitions of %s is no list", m.Name)
				return
			}
			for _, element := range node.Content {
				m.Transitions = append(m.Transitions, r.readTransitions(m.Name, resolveAlias(element))...)
			}
		},
	})
	switch {
	case len(r.findings) > findingsBefore: // What is missing may be what is misspelt.
	case m.Initial == "":
		r.fail(key, "add initial: STATE", "machine %s has no initial state", m.Name)
	case len(m.States) == 0:
		r.fail(key, "add states:", "machine %s has no states", m.Name)
	case len(m.States) > maxStates:
		r.fail(key, "make several machines of it", "machine %s has %d states, at most %d are allowed", m.Name, len(m.States), maxStates)
	case len(m.Transitions) > maxTransitions:
		r.fail(key, "make several machines of it", "machine %s has %d transitions, at most %d are allowed", m.Name, len(m.Transitions), maxTransitions)
	}
	r.definition.Machines = append(r.definition.Machines, m)
}

func (r *reader) readState(machine string, key, node *yaml.Node) State {
	s := State{Name: key.Value, Line: key.Line}
	if !stateName.MatchString(s.Name) {
		r.fail(key, "write small letters, digits, - and _, beginning with a letter", "%.100q is no name of a state", s.Name)
	}
	if node.Tag == "!!null" {
		return s
	}
	r.mapping(node, "state "+machine+"/"+s.Name, keys{
		"end": func(node *yaml.Node) { s.End = choice(r, node, "end", EndsInSuccess, EndsInFailure, EndsNeutral) },
		"retreat": func(node *yaml.Node) {
			if !r.refuseInPush(node, "retreat") {
				s.Retreat = r.truth(node, "retreat")
			}
		},
		"accepts": func(node *yaml.Node) { s.Accepts = r.texts(node, "accepts") },
		"action":  func(node *yaml.Node) { s.Action = r.readAction(machine+"/"+s.Name, node) },
	})
	return s
}

// readTransitions reads an entry, which may have several states to come from.
func (r *reader) readTransitions(machine string, node *yaml.Node) []Transition {
	t := Transition{Line: node.Line}
	var from []string
	r.mapping(node, "a transition of "+machine, keys{
		"from": func(node *yaml.Node) { from = r.texts(node, "from") },
		"to":   r.into(&t.To, "to"),
		"when": r.into(&t.When, "when"),
		"on": func(node *yaml.Node) {
			for _, text := range r.texts(node, "on") {
				t.On = append(t.On, choice(r, &yaml.Node{Kind: yaml.ScalarNode, Value: text, Line: node.Line, Column: node.Column},
					"on", OutcomeDone, OutcomeFailed, OutcomeExpired, OutcomeUnknown, OutcomeApproved, OutcomeRefused))
			}
		},
	})
	if len(from) == 0 || t.To == "" {
		r.fail(node, "write {from: A, to: B}", "a transition of %s needs from and to", machine)
	}
	var all []Transition
	for _, state := range from {
		one := t
		one.From = state
		all = append(all, one)
	}
	return all
}

func (r *reader) readOutputs(node *yaml.Node, place string) []Output {
	var all []Output
	r.pairs(node, "outputs of "+place, func(key, node *yaml.Node) {
		all = append(all, Output{Name: r.name(key, "an output"), Type: r.readType(node, "output "+key.Value), Line: key.Line})
	})
	return all
}

func (r *reader) whole(node *yaml.Node, field string) int {
	n, err := strconv.Atoi(r.text(node, field))
	if err != nil || n < 1 || n > 100 {
		r.fail(node, "write a number from 1 to 100", "%s is %.100q", field, node.Value)
	}
	return n
}
