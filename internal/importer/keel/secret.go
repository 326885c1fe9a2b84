package keel

import (
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/secrecy"
)

// dropSecrets takes out of a spec what is or looks like a secret, and lists where it was.
func (r *reading) dropSecrets(node *yaml.Node, name string) {
	step := 1
	if node.Kind == yaml.MappingNode {
		step = 2
	}
	kept := node.Content[:0:0]
	for i := 0; i+step-1 < len(node.Content); i += step {
		value, called := node.Content[i+step-1], name
		if step == 2 {
			called = node.Content[i].Value
		}
		if kind, ok := secrecy.Field(called, value.Value); ok && value.Kind == yaml.ScalarNode {
			r.leave(value, "a value of the spec", "it looks like a secret: "+kind)
			continue
		}
		before := len(value.Content)
		if r.dropSecrets(value, called); before > 0 && len(value.Content) == 0 {
			continue
		}
		kept = append(kept, node.Content[i:i+step]...)
	}
	node.Content = kept
}
