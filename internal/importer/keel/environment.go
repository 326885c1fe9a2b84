package keel

import (
	"encoding/json"
	"slices"

	"go.yaml.in/yaml/v3"
)

// environment is one of the config; each artifact that its resources name has it.
type environment struct {
	node        *yaml.Node
	name        string
	locations   *yaml.Node
	dependsOn   []dependency
	constraints []constraint
	verify      []verification
	resources   []resource
	objects     []object
	// after are done once the environment is verified.
	after []resource
}

type dependency struct {
	node *yaml.Node
	name string
}

func (r *reading) readEnvironment(node *yaml.Node) {
	e := &environment{node: node}
	// Resources without locations have those of the environment, and constraints and notifications say its name.
	var resources *yaml.Node
	e.name = attribute(node, "name")
	r.eachKey(node, "the environment", map[string]func(*yaml.Node){
		"name":      r.text(&e.name),
		"locations": func(value *yaml.Node) { r.readLocations(e, value) },
		"constraints": func(value *yaml.Node) {
			r.eachItem(value, "constraints", func(n *yaml.Node) { r.readConstraint(e, n) })
		},
		"verifyWith": func(value *yaml.Node) {
			r.eachItem(value, "verifyWith", func(n *yaml.Node) { r.readVerification(e, n) })
		},
		"resources": func(value *yaml.Node) { resources = value },
		"postDeploy": func(value *yaml.Node) {
			r.eachItem(value, "postDeploy", func(n *yaml.Node) { r.readAfter(e, n) })
		},
		"notifications": func(value *yaml.Node) {
			r.eachItem(value, "notifications", func(n *yaml.Node) { r.readNotification(e, n) })
		},
	})
	if resources != nil {
		r.eachItem(resources, "resources", func(n *yaml.Node) { r.readResource(e, n) })
	}
	if !named.MatchString(segment(e.name)) {
		r.refuse(node, "the environment has no name that delivery can have")
		return
	}
	for _, other := range r.environments {
		if segment(other.name) == segment(e.name) {
			r.refuse(node, "another environment has the name %q, or one that is written alike", e.name)
		}
	}
	r.environments = append(r.environments, e)
}

// readLocations takes those of resources that have none.
func (r *reading) readLocations(e *environment, node *yaml.Node) {
	if r.isJSON(node) {
		e.locations = node
		r.hold(node)
	}
}

// attribute is the text at a key of a mapping, or nothing.
func attribute(node *yaml.Node, key string) string {
	if value := child(node, key); value != nil && value.Kind == yaml.ScalarNode {
		return value.Value
	}
	return ""
}

// child is the value at a key of a mapping, or nil.
func child(node *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		if node == nil || node.Kind != yaml.MappingNode {
			return nil
		}
		i := 0
		for i+1 < len(node.Content) && node.Content[i].Value != key {
			i += 2
		}
		if i+1 >= len(node.Content) {
			return nil
		}
		node = node.Content[i+1]
	}
	return node
}

// isJSON refuses what JSON cannot say.
func (r *reading) isJSON(node *yaml.Node) bool {
	var content any
	err := node.Decode(&content)
	if err == nil {
		_, err = json.Marshal(content)
	}
	if err == nil && node.Kind == yaml.MappingNode {
		err = node.Decode(&map[string]any{})
	}
	if err != nil {
		r.refuse(node, "JSON cannot say what stands here: %v", err)
	}
	return err == nil
}

// has reports whether a resource of the environment names the artifact.
func (e *environment) has(reference string) bool {
	return slices.ContainsFunc(e.resources, func(made resource) bool { return slices.Contains(made.references, reference) }) ||
		slices.ContainsFunc(e.objects, func(o object) bool { return slices.Contains(o.references, reference) })
}

func (r *reading) find(name string) *environment {
	for _, e := range r.environments {
		if e.name == name {
			return e
		}
	}
	return nil
}

// checkEnvironment refuses names that lead nowhere.
func (r *reading) checkEnvironment(e *environment) {
	check := func(node *yaml.Node, id string, references []string) {
		for _, reference := range references {
			if r.artifactOf(reference) == nil {
				r.refuse(node, "the resource %s names the artifact %q, which the config does not have", id, reference)
			}
		}
	}
	for _, made := range e.resources {
		check(made.spec, made.id, made.references)
	}
	for _, o := range e.objects {
		check(o.node, o.id, o.references)
	}
	if len(e.after) > 0 && (r.find(e.name+after) != nil || !named.MatchString(segment(e.name)+after)) {
		r.refuse(e.node, "what %s does after a deployment is an environment %s%s, which there is already, or which is no name", e.name, segment(e.name), after)
	}
	for _, on := range e.dependsOn {
		other := r.find(on.name)
		if other == nil {
			r.refuse(on.node, "%s depends on the environment %q, which the config does not have", e.name, on.name)
			continue
		}
		for _, a := range r.artifacts {
			if e.has(a.reference) && !other.has(a.reference) {
				r.refuse(on.node, "%s depends on %s, where no resource has the artifact %q: no version of it would ever come", e.name, on.name, a.reference)
			}
		}
	}
}

// checkCircles refuses environments that wait for themselves.
func (r *reading) checkCircles() {
	done := map[*environment]bool{}
	var visit func(e *environment, path []*environment)
	visit = func(e *environment, path []*environment) {
		if e == nil || done[e] {
			return
		}
		path = append(slices.Clone(path), e)
		for _, on := range e.dependsOn {
			if other := r.find(on.name); slices.Contains(path, other) {
				r.refuse(on.node, "%s depends on %s, which waits for it: a circle", e.name, on.name)
			} else {
				visit(other, path)
			}
		}
		done[e] = true
	}
	for _, e := range r.environments {
		visit(e, nil)
	}
}
