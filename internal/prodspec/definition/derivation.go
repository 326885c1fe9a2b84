package definition

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/generator/addon"
)

// Derivation says which addon assets get, and what is in it, by expressions
// in CEL, or as with: of a renderer says it.
type Derivation struct {
	// Name in generate; of a renderer's addons, the renderer's with the path of the
	// addon's entry below it, as tables.with.addons[0].
	Name string
	// Addon is the full name of its type, one of the kinds that package addon lists.
	Addon intent.TypeName
	// Generator is the renderer whose assets it is about; empty: those of all.
	Generator string
	// Given is the whole addon, as with: says it; nil: it is in Edges or Values.
	Given proto.Message
	// Where says which assets; nil: all.
	Where *Expression
	// Edges of Dependencies.
	Edges []Edge
	// Values of the other types, by the keys of their map or by their fields,
	// in the order of the file.
	Values []Value
	Line   int
}

// Expression is a text in CEL, and where it is.
type Expression struct {
	Text         string
	Field        string
	Line, Column int
}

// Value is an expression for a key or a field.
type Value struct {
	Name string
	Expression
}

// Edge is one dependency.
type Edge struct {
	Rule intentpb.Dependency_Rule
	// On gives the asset depended on; empty text: there is no edge.
	On Expression
	// When says whether there is an edge; nil: yes.
	When *Expression
	// AtLeast gives a version, of RULE_VERSION.
	AtLeast *Expression
	// Serves and Expects are dimensions, of RULE_CAPACITY.
	Serves, Expects string
}

// addonPackage is the package of the addons that can be derived.
const addonPackage = "lehr.intent.v1."

// derivable is how an addon is derived: by the key that holds a map of expressions,
// or by the fields that each have one.
type derivable struct {
	entries          string
	fields, required []string
}

// derivableAs follows from the contract, for all but dependencies, whose edges have
// keys of their own.
func derivableAs(kind addon.Kind) derivable {
	if kind.Name == "Dependencies" {
		return derivable{fields: []string{"edges"}, required: []string{"edges"}}
	}
	if entries := kind.Entries(); entries != nil {
		return derivable{entries: string(entries.Name())}
	}
	d := derivable{}
	for _, field := range kind.Fields() {
		d.fields = append(d.fields, string(field.Name()))
		if addon.Required(field) {
			d.required = append(d.required, string(field.Name()))
		}
	}
	return d
}

func (p *parser) derivation(key, value *yaml.Node, at string) Derivation {
	d := Derivation{Line: key.Line}
	addonNode := child(value, "derive")
	name := p.text(addonNode, at+".derive")
	known, hint, ok := addon.ByName(name)
	if !ok {
		if name != "" {
			p.at(addonNode, at+".derive", "%s.derive: there is no addon %s to derive", at, name).hint("%s", hint)
		}
		return d
	}
	kind := derivableAs(known)
	d.Addon = intent.TypeName(known.FullName())
	allowed := append([]string{"derive", "where"}, kind.fields...)
	if kind.entries != "" {
		allowed = append(allowed, kind.entries)
		kind.required = []string{kind.entries}
	}
	fields := p.fields(value, at, allowed)
	for _, name := range kind.required {
		if fields[name] == nil {
			p.at(key, at+"."+name, "%s.%s is missing", at, name).hint("add %s: to it", name)
		}
	}
	d.Where = p.expression(fields["where"], at+".where")
	if kind.entries != "" {
		p.eachPair(fields[kind.entries], at+"."+kind.entries, func(key, value *yaml.Node) {
			if e := p.expression(value, at+"."+kind.entries+"."+key.Value); e != nil {
				d.Values = append(d.Values, Value{key.Value, *e})
			}
		})
		return d
	}
	for _, name := range kind.fields {
		if node := fields[name]; node != nil && name == "edges" {
			d.Edges = p.edges(node, at+".edges")
		} else if e := p.expression(node, at+"."+name); e != nil {
			d.Values = append(d.Values, Value{name, *e})
		}
	}
	return d
}

// expression is any scalar: CEL is a text, and YAML may take 3 or true for
// something else.
func (p *parser) expression(node *yaml.Node, at string) *Expression {
	if node == nil {
		return nil
	}
	if node.Kind != yaml.ScalarNode || node.Value == "" {
		p.at(node, at, "%s must be an expression, is %s", at, describe(node)).hint(`write for example payload.replicas; a text within it has quotes of its own: '"lb/" + scope'`)
		return nil
	}
	return &Expression{Text: node.Value, Field: at, Line: node.Line, Column: node.Column}
}

var edgeRules = map[string]intentpb.Dependency_Rule{
	"order":    intentpb.Dependency_RULE_ORDER,
	"capacity": intentpb.Dependency_RULE_CAPACITY,
	"version":  intentpb.Dependency_RULE_VERSION,
}

func (p *parser) edges(node *yaml.Node, at string) (list []Edge) {
	if node.Kind != yaml.SequenceNode || len(node.Content) == 0 {
		p.at(node, at, "%s must be a list that is not empty, is %s", at, describe(node)).hint("write edges: [{rule: order, on: '\"id\"'}]")
		return nil
	}
	for i, element := range node.Content {
		list = append(list, p.edge(resolve(element), fmt.Sprintf("%s[%d]", at, i)))
	}
	return list
}

func (p *parser) edge(node *yaml.Node, at string) (e Edge) {
	fields := p.fields(node, at, []string{"rule", "on", "when", "at_least", "serves", "expects"})
	if fields["rule"] == nil || fields["on"] == nil {
		p.at(node, at, "%s needs rule and on", at).hint("write {rule: order, on: '\"id\"'}")
		return e
	}
	rule, ok := edgeRules[fields["rule"].Value]
	if !ok {
		p.at(fields["rule"], at+".rule", "%s.rule: %s is not a rule", at, describe(fields["rule"])).hint("write order, capacity or version")
	}
	e.Rule = rule
	if target := p.expression(fields["on"], at+".on"); target != nil {
		e.On = *target
	}
	e.When = p.expression(fields["when"], at+".when")
	e.AtLeast = p.expression(fields["at_least"], at+".at_least")
	version := rule == intentpb.Dependency_RULE_VERSION
	switch {
	case !ok:
	case version && fields["at_least"] == nil:
		p.at(node, at+".at_least", "%s.at_least is missing", at).hint("say which version is needed: at_least: payload.needs")
	case !version && fields["at_least"] != nil:
		p.at(fields["at_least"], at+".at_least", "%s.at_least is for rule: version", at).hint("remove it, or change the rule")
	}
	for _, dimension := range []struct {
		name string
		into *string
	}{{"serves", &e.Serves}, {"expects", &e.Expects}} {
		name := dimension.name
		if fields[name] == nil {
			continue
		}
		if *dimension.into = p.text(fields[name], at+"."+name); ok && rule != intentpb.Dependency_RULE_CAPACITY {
			p.at(fields[name], at+"."+name, "%s.%s is for rule: capacity", at, name).hint("remove it, or change the rule")
		}
	}
	return e
}
