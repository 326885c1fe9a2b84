package keel

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	verify      []string
	resources   []resource
}

type dependency struct {
	node *yaml.Node
	name string
}

// constraint is one by its name, as lehr.yaml has it.
type constraint struct {
	name  string
	value map[string]any
}

// resource is a cluster, a security group or a load balancer.
type resource struct {
	kind, id, reference string
	spec                *yaml.Node
}

func (r *reading) readEnvironment(node *yaml.Node) {
	e := &environment{node: node}
	r.eachKey(node, "the environment", map[string]func(*yaml.Node){
		"name":      r.text(&e.name),
		"locations": func(value *yaml.Node) { r.readLocations(e, value) },
		"constraints": func(value *yaml.Node) {
			r.eachItem(value, "constraints", func(n *yaml.Node) { r.readConstraint(e, n) })
		},
		"verifyWith": func(value *yaml.Node) {
			r.eachItem(value, "verifyWith", func(n *yaml.Node) { r.readVerification(e, n) })
		},
		"resources":  func(value *yaml.Node) { r.eachItem(value, "resources", func(n *yaml.Node) { r.readResource(e, n) }) },
		"postDeploy": r.leaveAll("postDeploy", "delivery runs nothing after a verification; a task among the environment's assets runs before it"),
		"notifications": r.leaveAll("notifications",
			"who is told is said by the operator, in the file of notifications (of: delivery)"),
	})
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
		r.keep(node)
		r.specs += countValues(node)
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

func (r *reading) readConstraint(e *environment, node *yaml.Node) {
	kind := attribute(node, "type")
	add := func(value map[string]any) {
		name := segment(kind)
		for _, other := range e.constraints {
			if other.name == name {
				r.refuse(node, "the environment has two constraints of the type %s, of which Keel keeps one state", kind)
			}
		}
		e.constraints = append(e.constraints, constraint{name, value})
	}
	var taken string
	switch kind {
	case "depends-on":
		on := dependency{node: node}
		r.eachKey(node, "depends-on", map[string]func(*yaml.Node){"type": r.text(&taken), "environment": r.text(&on.name)})
		e.dependsOn = append(e.dependsOn, on)
	case "manual-judgement":
		r.eachKey(node, "manual-judgement", map[string]func(*yaml.Node){
			"type":    r.text(&taken),
			"timeout": r.leaveAll("manual-judgement: timeout", "a judgement waits until somebody decides; an older version is passed by when a newer one comes"),
		})
		add(map[string]any{"judgement": 1})
	case "allowed-times":
		add(r.readTimes(node))
	case "pipeline":
		why := "Lehr starts no pipeline: have it call lehr delivery verdict " + segment(e.name) + " pipeline good|bad --reason REASON"
		r.eachKey(node, "pipeline", map[string]func(*yaml.Node){
			"type": r.text(&taken), "pipelineId": r.leaveAll("pipeline: pipelineId", why), "timeout": r.leaveAll("pipeline: timeout", why),
			"retries": r.leaveAll("pipeline: retries", why), "parameters": r.leaveAll("pipeline: parameters", why),
		})
		add(map[string]any{"verdict": "outside"})
	default:
		if !named.MatchString(segment(kind)) {
			r.refuse(node, "the constraint has no type")
			return
		}
		r.wrong(node, "the constraint "+kind, "Keel itself has no such type; it waits for lehr delivery verdict "+segment(e.name)+" "+segment(kind)+" good --reason REASON")
		add(map[string]any{"verdict": "outside"})
	}
}

func (r *reading) readVerification(e *environment, node *yaml.Node) {
	kind := attribute(node, "type")
	if !named.MatchString(segment(kind)) {
		r.refuse(node, "the verification has no type")
		return
	}
	name := segment(kind)
	for count := 2; slices.Contains(e.verify, name); count++ {
		name = fmt.Sprintf("%s-%d", segment(kind), count)
	}
	e.verify = append(e.verify, name)
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key, value := node.Content[i], node.Content[i+1]; key.Value == "type" {
			r.keep(value)
		} else {
			r.leave(key, "verification "+name+": "+key.Value,
				"Lehr starts no container: have what runs it call lehr delivery verdict "+segment(e.name)+" "+name+" good|bad --reason REASON, or name a command or an http")
		}
	}
}

func (r *reading) readResource(e *environment, node *yaml.Node) {
	var made resource
	r.eachKey(node, "the resource", map[string]func(*yaml.Node){
		"kind": r.text(&made.kind), "id": r.text(&made.id), "metadata": r.leaveAll("metadata", "Keel makes it itself"),
		"spec": func(value *yaml.Node) { made.spec = value },
	})
	if made.kind == "" || made.spec == nil || made.spec.Kind != yaml.MappingNode {
		r.refuse(node, "the resource has no kind, or no spec")
		return
	}
	if !r.isJSON(made.spec) {
		return
	}
	r.dropSecrets(made.spec, "")
	for _, keys := range [][]string{{"artifactReference"}, {"container", "reference"}, {"imageProvider", "reference"}} {
		if found := child(made.spec, keys...); found != nil {
			made.reference = found.Value
		}
	}
	for i := 0; i+1 < len(made.spec.Content); i += 2 {
		switch key := made.spec.Content[i]; key.Value {
		case "deployWith", "managedRollout":
			r.leave(key, "resource: "+key.Value, "its steps are a rollout of Lehr's, which names stages: see docs/use/rollouts.md. It stands in the asset's spec, where nothing obeys it")
		default:
			r.keep(made.spec.Content[i+1])
			r.specs += countValues(made.spec.Content[i+1])
		}
	}
	made.id = cmp.Or(made.id, resourceID(made))
	for _, other := range e.resources {
		if segment(other.id) == segment(made.id) {
			r.refuse(node, "another resource of the environment has the id %q", made.id)
		}
	}
	e.resources = append(e.resources, made)
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

// resourceID is made of the moniker, as Keel makes it.
func resourceID(made resource) string {
	id := segment(made.kind)
	for _, key := range []string{"app", "stack", "detail"} {
		if part := child(made.spec, "moniker", key); part != nil && part.Value != "" {
			id += "-" + segment(part.Value)
		}
	}
	return id
}

// has reports whether a resource of the environment names the artifact.
func (e *environment) has(reference string) bool {
	return slices.ContainsFunc(e.resources, func(made resource) bool { return made.reference == reference })
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
	for _, made := range e.resources {
		if made.reference != "" && r.artifactOf(made.reference) == nil {
			r.refuse(made.spec, "the resource %s names the artifact %q, which the config does not have", made.id, made.reference)
		}
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
