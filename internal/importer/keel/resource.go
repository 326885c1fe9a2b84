package keel

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// resource is a cluster, a security group or a load balancer.
type resource struct {
	kind, id string
	// references are the artifacts that it has.
	references []string
	spec       *yaml.Node
	// regions follow each other in a rollout; none: it is one asset.
	regions []string
	stages  []stage
	// goesBack: a version that fails is taken back.
	goesBack bool
}

// kindOf makes one word of the apiVersion and the kind of older configs: that of
// ec2.spinnaker.netflix.com/v1 and cluster is ec2/cluster@v1.
func kindOf(apiVersion, kind string) (string, bool) {
	parts := oldVersion.FindStringSubmatch(apiVersion)
	if parts == nil || strings.ContainsAny(kind, "/@") {
		return kind, false
	}
	return parts[1] + "/" + kind + "@" + parts[2], true
}

var oldVersion = regexp.MustCompile(`^([a-z0-9-]+)\.spinnaker\.netflix\.com/(v[0-9.]+)$`)

// imageKind is the kind of an image that is baked.
const imageKind = "bakery/image@v1"

func (r *reading) readResource(e *environment, node *yaml.Node) {
	var made resource
	var apiVersion *yaml.Node
	r.eachKey(node, "the resource", map[string]func(*yaml.Node){
		"apiVersion": func(value *yaml.Node) { apiVersion = value },
		"kind":       r.text(&made.kind), "id": r.text(&made.id), "metadata": r.leaveAll("metadata", "Keel makes it itself"),
		"spec": func(value *yaml.Node) { made.spec = value },
	})
	if apiVersion != nil {
		kind, ok := kindOf(apiVersion.Value, made.kind)
		if !ok {
			r.refuse(apiVersion, "the resource has the apiVersion %q and the kind %q, which make no kind as ec2/cluster@v1", apiVersion.Value, made.kind)
			return
		}
		made.kind = kind
		r.keep(apiVersion)
	}
	if made.kind == "" || made.spec == nil || made.spec.Kind != yaml.MappingNode {
		r.refuse(node, "the resource has no kind, or no spec")
		return
	}
	if !r.isJSON(made.spec) {
		return
	}
	if attribute(child(made.spec, "template"), "kind") == "Secret" {
		r.leave(node, "the resource "+resourceID(made), "no secret is copied: see docs/use/secrets.md")
		return
	}
	r.dropSecrets(made.spec, "")
	r.findReferences(&made)
	made.id = cmp.Or(made.id, resourceID(made))
	for _, other := range e.resources {
		if segment(other.id) == segment(made.id) {
			r.refuse(node, "another resource of the environment has the id %q", made.id)
		}
	}
	if o, ok := r.readObject(e, made); ok {
		e.objects = append(e.objects, o)
		return
	}
	r.readRollout(e, &made)
	for i := 0; i+1 < len(made.spec.Content); i += 2 {
		r.hold(made.spec.Content[i+1])
	}
	if len(made.references) > 1 {
		r.refuse(made.spec, "the resource %s has several artifacts, and an asset has one version: write a resource for each", made.id)
		return
	}
	e.resources = append(e.resources, made)
}

// findReferences finds the artifacts that the spec names.
func (r *reading) findReferences(made *resource) {
	for _, keys := range [][]string{{"artifactReference"}, {"container", "reference"}, {"imageProvider", "reference"}, {"artifactSpec", "ref"}} {
		if found := child(made.spec, keys...); found != nil {
			made.references = append(made.references, found.Value)
		}
	}
	if several := child(made.spec, "container", "references"); several != nil {
		for _, item := range several.Content {
			made.references = append(made.references, item.Value)
		}
	}
	if name := attribute(made.spec, "artifactName"); made.kind == imageKind && name != "" {
		for _, a := range r.artifacts {
			if a.name == name && a.kind == "deb" {
				made.references = append(made.references, a.reference)
			}
		}
	}
	slices.Sort(made.references)
	made.references = slices.Compact(made.references)
}

// resourceID is made of the moniker, as Keel makes it; an object of Kubernetes has its own name.
func resourceID(made resource) string {
	id := segment(made.kind)
	for _, keys := range [][]string{
		{"moniker", "app"}, {"moniker", "stack"}, {"moniker", "detail"},
		{"template", "kind"}, {"template", "metadata", "namespace"}, {"template", "metadata", "name"},
	} {
		if part := child(made.spec, keys...); part != nil && part.Value != "" {
			id += "-" + segment(part.Value)
		}
	}
	return id
}

// reference is the artifact of a resource that is no object of Kubernetes; empty: it has none.
func (made resource) reference() string {
	if len(made.references) == 0 {
		return ""
	}
	return made.references[0]
}

// image is that which has to be baked of a package before clusters can run it.
func (a *artifact) image() resource {
	spec := *a.vmOptions
	spec.Content = append(slices.Clone(spec.Content), &yaml.Node{Kind: yaml.ScalarNode, Value: "artifactName"}, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: a.name})
	return resource{kind: imageKind, id: segment(imageKind) + "-" + segment(a.reference), references: []string{a.reference}, spec: &spec}
}

// addImages has each environment bake the images of the packages that its resources have.
func (r *reading) addImages(e *environment) {
	for _, a := range r.artifacts {
		isBaked := slices.ContainsFunc(e.resources, func(made resource) bool { return made.kind == imageKind && made.reference() == a.reference })
		if a.vmOptions != nil && e.has(a.reference) && !isBaked {
			e.resources = append(e.resources, a.image())
		}
	}
}
