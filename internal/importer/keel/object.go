package keel

import (
	"encoding/json"
	"slices"

	"go.yaml.in/yaml/v3"

	"lehr.dev/sdk/generator/kubernetes"
)

// objectKind is the kind of an object of Kubernetes, which Keel has by a plugin.
const objectKind = "k8s/resource@v1"

// object is one of Kubernetes: an asset that Lehr has a plugin for.
type object struct {
	node       *yaml.Node
	id         string
	cluster    string
	fields     map[string]any
	labels     map[string]string
	images     []image
	references []string
}

// image is a place in an object where the version of an artifact belongs.
type image struct {
	Path     []any  `json:"path"`
	Artifact string `json:"artifact"`
	Name     string `json:"name"`
}

// readObject makes an object of a resource that has one as its template, and an account as its cluster.
func (r *reading) readObject(e *environment, made resource) (object, bool) {
	template := child(made.spec, "template")
	account := attribute(child(made.spec, "locations"), "account")
	if account == "" {
		account = attribute(e.locations, "account")
	}
	if made.kind != objectKind || template == nil || segment(account) == "" {
		return object{}, false
	}
	o := object{node: made.spec, cluster: segment(account), labels: map[string]string{"environment": segment(e.name)}, references: made.references}
	if template.Decode(&o.fields) != nil || !o.identify() {
		return object{}, false
	}
	o.findImages(r, template, nil)
	r.eachKey(made.spec, "the spec of "+objectKind, map[string]func(*yaml.Node){
		"template": r.keep, "container": r.keep, "locations": r.keep, "artifactReference": r.keep,
		"metadata": func(node *yaml.Node) {
			r.eachKey(node, "metadata", map[string]func(*yaml.Node){"application": func(value *yaml.Node) {
				var application string
				r.text(&application)(value)
				o.labels["application"] = application
			}})
		},
	})
	return o, true
}

// identify finds the id of the object's asset.
func (o *object) identify() bool {
	text, err := json.Marshal(o.fields)
	if err != nil {
		return false
	}
	read, findings := kubernetes.Read([]kubernetes.Manifest{{File: "object.yaml", Text: text}}, kubernetes.Settings{Cluster: o.cluster, Namespace: "default"})
	if len(read) != 1 || slices.ContainsFunc(findings, kubernetes.Finding.Fails) {
		return false
	}
	o.id = read[0].ID
	return true
}

// findImages finds where the template has the reference of an artifact in the place of an image.
func (o *object) findImages(r *reading, node *yaml.Node, path []any) {
	for i, at := range node.Content {
		switch {
		case node.Kind == yaml.SequenceNode:
			o.findImages(r, at, append(slices.Clone(path), i))
		case i%2 == 0:
			continue
		case node.Content[i-1].Value == "image" && slices.Contains(o.references, at.Value):
			if a := r.artifactOf(at.Value); a != nil {
				o.images = append(o.images, image{append(slices.Clone(path), "image"), segment(a.reference), a.name})
			}
		default:
			o.findImages(r, at, append(slices.Clone(path), node.Content[i-1].Value))
		}
	}
}
