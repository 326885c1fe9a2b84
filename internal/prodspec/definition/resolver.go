package definition

import (
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/intent"
)

// Resolver changes fields of the payloads of one type, by expressions in CEL:
// an opinion that holds for assets whatever made them, or a field that is
// filled from another.
type Resolver struct {
	Name string
	Type intent.TypeName
	// Where says which assets; nil: all of the type.
	Where *Expression
	// Only: the asset's scope, else its label, of each key has one of the values.
	Only []Only
	// Fill: a field that is set is left alone.
	Fill bool
	// Fields by their paths, in the order of the file.
	Fields []Value
	// Reason is for people.
	Reason string
	Line   int
}

// Only names the values of a scope or label for which a resolver is on.
type Only struct {
	Key    string
	Values []string
	Line   int
}

var resolverFields = []string{"resolve", "where", "only", "set", "fill", "reason"}

func (p *parser) resolver(key, value *yaml.Node, at string) Resolver {
	r := Resolver{Name: key.Value, Line: key.Line}
	fields := p.fields(value, at, resolverFields)
	if typeNode := fields["resolve"]; p.text(typeNode, at+".resolve") != "" {
		r.Type = intent.TypeName(p.payloadType(typeNode, at+".resolve"))
	}
	r.Where = p.expression(fields["where"], at+".where")
	p.eachPair(fields["only"], at+".only", func(key, value *yaml.Node) {
		r.Only = append(r.Only, Only{Key: key.Value, Values: p.texts(value, at+".only."+key.Value), Line: key.Line})
	})
	setNode, fill := fields["set"], fields["fill"]
	switch {
	case setNode == nil && fill == nil:
		p.at(key, at+".set", "%s.set is missing", at).hint("say what to change: set: {payload.replicas: \"3\"}; or fill: for fields that are not set")
	case setNode != nil && fill != nil:
		p.at(fill, at+".fill", "%s has set and fill", at).hint("write two: fields are filled first, and opinions come later")
	}
	list := "set"
	if r.Fill = setNode == nil; r.Fill {
		list, setNode = "fill", fill
	}
	p.eachPair(setNode, at+"."+list, func(key, value *yaml.Node) {
		if e := p.expression(value, at+"."+list+"."+key.Value); e != nil {
			r.Fields = append(r.Fields, Value{key.Value, *e})
		}
	})
	if setNode != nil && setNode.Kind == yaml.MappingNode && len(setNode.Content) == 0 {
		p.at(setNode, at+"."+list, "%s.%s is empty", at, list).hint("name a field: payload.replicas: \"3\"")
	}
	if fields["reason"] == nil {
		p.at(key, at+".reason", "%s.reason is missing", at).hint("say why: lehr blame shows it to whoever wonders about the value")
		return r
	}
	r.Reason = p.text(fields["reason"], at+".reason")
	return r
}

func resolverSchema() map[string]any {
	properties := map[string]any{}
	for _, key := range resolverFields {
		switch key {
		case "resolve", "reason":
			properties[key] = text()
		case "where":
			properties[key] = expression()
		case "only":
			properties[key] = mapOf(texts())
		default:
			properties[key] = mapOf(expression())
		}
	}
	return object(properties, "resolve", "reason")
}
