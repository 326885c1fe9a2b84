package main

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"lehr.dev/sdk/generator/kubernetes"
)

// postRenderKeys are what a kustomization after the chart may have: what it says itself, and
// nothing that it would read elsewhere.
var postRenderKeys = []string{"apiVersion", "kind", "images", "patches"}

// postRender changes what a chart rendered by the kustomization of with.post_render, as the
// post-renderers of Helm and of Flux do. Each document keeps the file and line that it is of.
func (r *release) postRender(documents []kubernetes.Manifest) []kubernetes.Manifest {
	name := r.options.postRender
	if name == "" {
		return documents
	}
	kustomization := map[string]any{}
	text, ok := r.files[name]
	if !ok {
		r.wrong(theDefinition, 0, "name a file of a source in from", "with.post_render names %s, which is not among the declared files", name)
		return nil
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		r.wrong(name, 0, "write a kustomization with patches and images", "it is no YAML: %s", shown(err.Error()))
		return nil
	}
	for key := range kustomization {
		if !slices.Contains(postRenderKeys, key) {
			r.wrong(name, 0, "write patches and images; all else is for render: kustomize", "a kustomization after a chart has no %s", key)
			return nil
		}
	}
	system, resources := filesys.MakeFsInMemory(), []string{}
	for i, document := range documents {
		var content any
		if yaml.Unmarshal(document.Text, &content) == nil && content == nil {
			continue // Comments, or nothing.
		}
		resources = append(resources, documentName(i))
		if err := system.WriteFile("/"+documentName(i), document.Text); err != nil {
			r.wrong(document.File, 0, "give the file another name", "it cannot be changed: %s", shown(err.Error()))
			return nil
		}
	}
	kustomization["resources"], kustomization["buildMetadata"] = resources, []string{"originAnnotations"}
	text, err := yaml.Marshal(kustomization)
	if err == nil {
		err = system.WriteFile("/kustomization.yaml", text)
	}
	if err != nil {
		r.wrong(name, 0, "write a kustomization with patches and images", "it cannot be used: %s", shown(err.Error()))
		return nil
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(system, "/")
	if err != nil {
		r.wrong(name, 0, "mend its patches: each must find what the chart renders", "Kustomize cannot change what the chart renders: %s", shown(err.Error()))
		return nil
	}
	var changed []kubernetes.Manifest
	for _, resource := range made.Resources() {
		document := kubernetes.Manifest{File: name}
		if origin, err := resource.GetOrigin(); err == nil && origin != nil {
			if i, ok := documentIndex(origin.Path); ok && i < len(documents) {
				document.File, document.Line = documents[i].File, firstLine(documents[i].Text)
			}
		}
		if err := resource.SetOrigin(nil); err != nil {
			r.wrong(name, 0, "report it", "the object %s cannot be read: %s", resource.GetName(), shown(err.Error()))
			return nil
		}
		text, err := resource.RNode.String()
		if err != nil {
			r.wrong(name, 0, "mend its patches", "the object %s cannot be written: %s", resource.GetName(), shown(err.Error()))
			return nil
		}
		document.Text, document.Rendered = []byte(text), true
		changed = append(changed, document)
	}
	return changed
}

func documentName(i int) string { return fmt.Sprintf("document-%d.yaml", i) }

func documentIndex(name string) (i int, ok bool) {
	_, err := fmt.Sscanf(path.Base(name), "document-%d.yaml", &i)
	return i, err == nil
}

// firstLine is that on which a document begins: those before it are empty.
func firstLine(text []byte) int {
	return strings.Count(string(text[:len(text)-len(bytes.TrimLeft(text, "\n"))]), "\n") + 1
}
