package derive

import (
	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
)

// message is the addon that the asset then has: what it has already, with what
// is derived. Nil: nothing is to be added. From is where a list's derived part
// begins.
func (d *derivation) message(asset intent.Asset) (m proto.Message, start int, err error) {
	switch d.short() {
	case "ImpactedScope":
		addon := &intentpb.ImpactedScope{}
		if _, err := schema.Addon(asset, addon); err != nil {
			return nil, 0, err
		}
		addon.Scopes, err = d.entries(asset, addon.Scopes)
		if err != nil || addon.Scopes == nil {
			return nil, 0, err
		}
		return addon, 0, nil
	case "Labels":
		addon := &intentpb.Labels{}
		if _, err := schema.Addon(asset, addon); err != nil {
			return nil, 0, err
		}
		addon.Labels, err = d.entries(asset, addon.Labels)
		if err != nil || addon.Labels == nil {
			return nil, 0, err
		}
		return addon, 0, nil
	case "Dependencies":
		return d.dependencies(asset)
	}
	if _, exists := asset.Addon(d.Addon); exists {
		return nil, 0, nil
	}
	m, err = d.whole(asset)
	return m, 0, err
}

// whole is an addon of which the asset's own wins as a whole.
func (d *derivation) whole(asset intent.Asset) (proto.Message, error) {
	switch d.short() {
	case "Capacity":
		// The expressions themselves are stored: they are evaluated on
		// intent and on current state.
		addon := &intentpb.Capacity{Dimensions: map[string]string{}}
		for _, value := range d.Values {
			addon.Dimensions[value.Name] = value.Text
		}
		return addon, nil
	case "Version":
		return &intentpb.Version{Expression: d.Values[0].Text}, nil
	}
	texts := map[string]string{}
	for i, value := range d.Values {
		text, err := textOf(d.values[i], value.Expression, asset)
		if err != nil {
			return nil, err
		}
		texts[value.Name] = text
	}
	switch {
	case d.short() == "Owner" && texts["owner"] != "":
		return &intentpb.Owner{Owner: texts["owner"]}, nil
	case d.short() == "Group" && texts["service"] != "":
		return &intentpb.Group{Service: texts["service"], Instance: texts["instance"]}, nil
	}
	return nil, nil
}

// entries adds to a map what it does not have yet; nil when nothing is new.
func (d *derivation) entries(asset intent.Asset, existing map[string]string) (map[string]string, error) {
	added := false
	for i, value := range d.Values {
		if _, exists := existing[value.Name]; exists {
			continue
		}
		text, err := textOf(d.values[i], value.Expression, asset)
		if err != nil {
			return nil, err
		}
		if text == "" {
			continue
		}
		if existing == nil {
			existing = map[string]string{}
		}
		existing[value.Name], added = text, true
	}
	if !added {
		return nil, nil
	}
	return existing, nil
}

// dependencies adds edges. One that the asset has already, to the same asset
// by the same rule in the same dimension, stays as it is.
func (d *derivation) dependencies(asset intent.Asset) (proto.Message, int, error) {
	addon := &intentpb.Dependencies{}
	if _, err := schema.Addon(asset, addon); err != nil {
		return nil, 0, err
	}
	type identity struct {
		on, serves string
		rule       intentpb.Dependency_Rule
	}
	present := map[identity]bool{}
	for _, dependency := range addon.Dependencies {
		present[identity{dependency.On, dependency.Serves, dependency.Rule}] = true
	}
	start := len(addon.Dependencies)
	for _, e := range d.edges {
		added, err := e.dependency(asset)
		if err != nil {
			return nil, 0, err
		}
		if added == nil || present[identity{added.On, added.Serves, added.Rule}] {
			continue
		}
		present[identity{added.On, added.Serves, added.Rule}] = true
		addon.Dependencies = append(addon.Dependencies, added)
	}
	if len(addon.Dependencies) == start {
		return nil, 0, nil
	}
	return addon, start, nil
}

// dependency evaluates an edge; nil: there is none.
func (e *edge) dependency(asset intent.Asset) (*intentpb.Dependency, error) {
	if e.whenExpr != nil {
		wanted, err := e.whenExpr.Bool(asset)
		if err != nil {
			return nil, &problem{*e.When, err}
		}
		if !wanted {
			return nil, nil
		}
	}
	target, err := textOf(e.onExpr, e.On, asset)
	if err != nil || target == "" {
		return nil, err
	}
	dependency := &intentpb.Dependency{On: target, Rule: e.Rule, Serves: e.Serves, Expects: e.Expects}
	if e.atLeastExpr != nil {
		dependency.AtLeast, err = textOf(e.atLeastExpr, *e.AtLeast, asset)
	}
	return dependency, err
}

func textOf(compiled *rule.Expression, e definition.Expression, asset intent.Asset) (string, error) {
	text, err := compiled.Text(asset)
	if err != nil {
		return "", &problem{e, err}
	}
	return text, nil
}
