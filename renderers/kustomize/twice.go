package main

import (
	"bytes"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"lehr.dev/sdk/generator/kubernetes"
)

// check looks through a file that Kustomize reads as YAML for what it would lose
// without a word.
func (t *tree) check(name string) {
	if t.checked[name] {
		return
	}
	if t.checked == nil {
		t.checked = map[string]bool{}
	}
	t.checked[name] = true
	t.findings = append(t.findings, kubernetes.Check(name, t.files[name])...)
}

func (t *tree) wrongIn(name string) bool {
	return slices.ContainsFunc(t.findings, func(f kubernetes.Finding) bool { return f.File == name })
}

// read looks through a file that a kustomization names, and through the patches that
// it names, or holds, as settings of transformers do.
func (t *tree) read(name string) {
	if t.checked[name] {
		return
	}
	t.check(name)
	t.settings(name, t.files[name])
}

// inline looks through YAML that stands in a text of a file.
func (t *tree) inline(file string, node *yaml.Node) {
	if node == nil || node.Kind != yaml.ScalarNode || !bytes.ContainsAny([]byte(node.Value), "\n{") {
		return
	}
	for _, f := range kubernetes.Check(file, []byte(node.Value)) {
		f.Line, f.Message = node.Line, "in the text that begins here: "+f.Message
		t.findings = append(t.findings, f)
	}
	t.settings(file, []byte(node.Value))
}

// settings are those of transformers: what else in a text names or holds YAML.
func (t *tree) settings(file string, text []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		if decoder.Decode(&document) != nil || len(document.Content) != 1 {
			return
		}
		object := document.Content[0]
		if version := field(object, "apiVersion"); version == nil || version.Value != "builtin" {
			continue
		}
		for _, key := range []string{"path", "paths", "patch", "patches", "jsonOp", "replacements"} {
			value := field(object, key)
			for _, element := range append(elements(value), value) {
				if element = pathOf(element); element == nil {
					continue
				}
				t.inline(file, element)
				if to := path.Join(path.Dir(file), element.Value); t.files[to] != nil {
					t.check(to)
				}
			}
		}
	}
}

// pathOf is a scalar, or the one in a mapping's field path.
func pathOf(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.MappingNode {
		node = field(node, "path")
	}
	if node == nil || node.Kind != yaml.ScalarNode {
		return nil
	}
	return node
}
