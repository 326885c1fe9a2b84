package keel

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// applications are those of delivery: one for each artifact, with the environments that have it.
func (r *reading) applications() map[string]any {
	made := map[string]any{}
	for _, a := range r.artifacts {
		environments := &yaml.Node{Kind: yaml.MappingNode}
		add := func(name string, content map[string]any) {
			var value yaml.Node
			_ = value.Encode(content) // Maps of texts, numbers and nodes always encode.
			environments.Content = append(environments.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &value)
		}
		for _, e := range r.environments {
			if !e.has(a.reference) {
				continue
			}
			add(segment(e.name), e.delivery(a))
			if len(e.after) > 0 {
				add(segment(e.name)+after, e.deliveryAfter(a))
			}
		}
		if len(environments.Content) == 0 {
			continue
		}
		made[segment(a.reference)] = map[string]any{"versions": "versions-" + segment(a.reference), "order": a.order(), "environments": environments}
	}
	return made
}

// deliveryAfter is the environment of what is done once a version is verified in another.
func (e *environment) deliveryAfter(a *artifact) map[string]any {
	var ids []string
	for _, made := range e.after {
		ids = append(ids, e.afterID(made, a.reference))
	}
	return map[string]any{
		"set":         map[string]any{"document": knobs, "field": "/" + segment(e.name) + after + "/" + segment(a.reference)},
		"assets":      selectAssets(ids),
		"on_bad":      "stay",
		"constraints": map[string]any{"depends-on": map[string]any{"depends_on": []string{segment(e.name)}}},
	}
}

// delivery is the environment as that of an application.
func (e *environment) delivery(a *artifact) map[string]any {
	var ids []string
	goesBack := false
	for _, made := range e.resources {
		if slices.Contains(made.references, a.reference) {
			ids = append(ids, assetIDs(e, made)...)
			goesBack = goesBack || made.goesBack
		}
	}
	for _, o := range e.objects {
		if slices.Contains(o.references, a.reference) {
			ids = append(ids, o.id)
		}
	}
	value := map[string]any{
		"set":    map[string]any{"document": knobs, "field": "/" + segment(e.name) + "/" + segment(a.reference)},
		"assets": selectAssets(ids),
	}
	if !goesBack {
		value["on_bad"] = "stay"
	}
	if len(e.verify) > 0 {
		value["verify"] = e.describeVerify()
	}
	constraints := &yaml.Node{Kind: yaml.MappingNode}
	add := func(name string, content map[string]any) {
		var node yaml.Node
		_ = node.Encode(content) // As above.
		constraints.Content = append(constraints.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &node)
	}
	// Keel asks what needs no waiting first, so nobody is asked too early.
	var names []string
	for _, on := range e.dependsOn {
		names = append(names, segment(on.name))
	}
	if len(names) > 0 {
		add("depends-on", map[string]any{"depends_on": names})
	}
	for _, isStateless := range []bool{true, false} {
		for _, c := range e.constraints {
			if c.isStateless == isStateless {
				add(c.name, c.value)
			}
		}
	}
	if len(constraints.Content) > 0 {
		value["constraints"] = constraints
	}
	return value
}
