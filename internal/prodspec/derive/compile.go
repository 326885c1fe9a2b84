package derive

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/sdk/generator/addon"
)

// compiler gathers what is wrong with one derivation or resolver.
type compiler struct {
	file        string
	environment *rule.Environment
	// rule of the findings.
	rule string
	// payloadType is the type that the condition requires; empty: any.
	payloadType intent.TypeName
	findings    []intent.Finding
}

func compile(file string, environment *rule.Environment, d definition.Derivation) (*derivation, []intent.Finding) {
	c := &compiler{file: file, environment: environment, rule: "derive"}
	kind, _, _ := addon.ByName(string(d.Addon)) // The parser takes no other names.
	compiled := &derivation{Derivation: d, kind: kind}
	if d.Where != nil {
		filter, err := environment.Filter(d.Where.Text)
		if err != nil {
			c.wrong(*d.Where, err)
		} else {
			compiled.filter, c.payloadType = filter, filter.Narrow().Type
		}
	}
	if len(c.findings) > 0 {
		// What the payload is is not known: more would be said of it in vain.
		return compiled, c.findings
	}
	for _, value := range d.Values {
		compiled.values = append(compiled.values, c.expression(&value.Expression))
	}
	for _, e := range d.Edges {
		compiled.edges = append(compiled.edges, edge{Edge: e, onExpr: c.expression(&e.On), whenExpr: c.expression(e.When), atLeastExpr: c.expression(e.AtLeast)})
	}
	return compiled, c.findings
}

func (c *compiler) expression(e *definition.Expression) *rule.Expression {
	if e == nil || e.Text == "" {
		return nil
	}
	compiled, err := c.environment.Compile(e.Text, c.payloadType)
	if err != nil {
		c.wrong(*e, err)
	}
	return compiled
}

func (c *compiler) wrong(at definition.Expression, err error) {
	f := intent.Finding{Rule: c.rule, Severity: intent.Error, File: c.file, Line: at.Line, Column: at.Column, Field: at.Field}
	f.Message, f.Hint = explain(err)
	f.Message = fmt.Sprintf("%s: %s", at.Field, f.Message)
	if f.Hint == "" && !strings.ContainsAny(at.Text, `"'`) {
		f.Hint = "a text has quotes of its own within those of YAML: '\"" + at.Text + "\"'"
	}
	c.findings = append(c.findings, f)
}

// digest of what a derivation says.
func digestOf(d definition.Derivation) []byte {
	parts := [][]byte{[]byte(d.Name), []byte(d.Addon), []byte(d.Generator)}
	if d.Given != nil {
		// Within one version of Lehr, equal messages have equal bytes so.
		given, err := proto.MarshalOptions{Deterministic: true}.Marshal(d.Given)
		parts = append(parts, given, fmt.Append(nil, err))
	}
	text := func(e *definition.Expression) {
		if e == nil {
			parts = append(parts, []byte("-"))
			return
		}
		parts = append(parts, []byte("="+e.Text))
	}
	text(d.Where)
	for _, value := range d.Values {
		parts = append(parts, []byte(value.Name), []byte(value.Text))
	}
	parts = append(parts, []byte("edges"))
	for _, e := range d.Edges {
		parts = append(parts, []byte(e.Rule.String()), []byte(e.Serves), []byte(e.Expects))
		text(&e.On)
		text(e.When)
		text(e.AtLeast)
	}
	sum := intent.Sum("lehr.derivation.v1", parts...)
	return sum[:]
}
