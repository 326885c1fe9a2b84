package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"lehr.dev/sdk/generator/kubernetes"
)

// differing refuses what kustomize build writes otherwise than kubectl reads it, of an
// object that is at a place: dates, of which it makes times, and keys that are no
// texts, which it cannot write.
func (t *tree) differing(place kubernetes.Finding, object string, node *yaml.Node, at string) {
	wrong := func(hint, format string, arguments ...any) {
		place.Hint, place.Message = hint, fmt.Sprintf(format, arguments...)+" in "+object
		t.findings = append(t.findings, place)
	}
	switch node.Kind {
	case yaml.DocumentNode, yaml.SequenceNode:
		for i, below := range node.Content {
			t.differing(place, object, below, fmt.Sprintf("%s[%d]", at, i))
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			name := strings.TrimPrefix(at+"."+key.Value, ".")
			if key.Kind == yaml.ScalarNode && key.Style == 0 && key.ShortTag() != yaml.NodeTagString && key.ShortTag() != "!!merge" {
				wrong("quote the key", "%.200s has a key that is a number, a date or a truth value, which Kustomize cannot write,", name)
				continue
			}
			t.differing(place, object, node.Content[i+1], name)
		}
	case yaml.ScalarNode:
		if node.Style == 0 && node.ShortTag() == "!!timestamp" {
			wrong("quote it", "%.200s is a date, which Kustomize writes as a time and kubectl reads as a text,", strings.TrimPrefix(at, "."))
		}
	}
}
