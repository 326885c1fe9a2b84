package definition

import (
	"slices"

	"go.yaml.in/yaml/v3"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// selectorKeys are those of each: where it selects.
var selectorKeys = []string{"by", "where"}

// SelectorKey names what a selector of environments asks. An edited selector has another key, so
// that nothing is made of what the one before selected.
type SelectorKey struct {
	Application, Environment string
	// Of By one is set.
	ByScope, ByLabel, Where string
}

// KeyOfSelector returns the key of a selector of an application.
func KeyOfSelector(application string, selector *intentpb.EnvironmentSelector) SelectorKey {
	return SelectorKey{application, selector.GetEnvironment(), selector.GetByScope(), selector.GetByLabel(), selector.GetWhere()}
}

// Selected are the values that selectors found, in order. A definition cannot tell them: it is read
// once without, and again when the assets are known.
type Selected map[SelectorKey][]string

// selector reads each: as a selector, and returns what it selects.
func (r *deliveryParser) selector(node *yaml.Node, at string, spec *intentpb.DeliveryEnvironment) []string {
	environment := spec.GetName()
	selector := &intentpb.EnvironmentSelector{Environment: environment}
	if spec.GetPartition() == "" {
		selector.Document, selector.Pointer, selector.DigestPointer = spec.GetDocument(), spec.GetPointer(), spec.GetDigestPointer()
	}
	fields := r.fields(node, at, selectorKeys)
	switch by := fields["by"]; {
	case by == nil:
		r.parser.at(node, at+".by", "%s.by is missing", at).hint("write each: {by: scope tenant}, each: {by: label cluster}, or a list of values: each: [a, b]")
		return nil
	default:
		match := grouping.FindStringSubmatch(by.Value)
		if by.Kind != yaml.ScalarNode || match == nil {
			r.parser.at(by, at+".by", "%s.by must be a scope or a label, is %s", at, describe(by)).hint("write by: scope tenant, or by: label cluster")
			return nil
		}
		if match[1] == "scope" {
			selector.By = &intentpb.EnvironmentSelector_ByScope{ByScope: match[2]}
		} else {
			selector.By = &intentpb.EnvironmentSelector_ByLabel{ByLabel: match[2]}
		}
	}
	if where := r.expression(fields["where"], at+".where"); where != nil {
		selector.Where = where.Text
	}
	selector.Values = slices.Clone(r.selected[KeyOfSelector(r.key.Value, selector)])
	r.selectors = append(r.selectors, selector)
	field := "environments." + environment + ".each"
	r.nodes[field], r.places[field] = node, Place{node.Line, node.Column}
	if where := fields["where"]; where != nil {
		r.places[field+".where"] = Place{where.Line, where.Column}
	}
	return selector.Values
}
