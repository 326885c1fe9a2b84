package document

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// UnknownTag finds the first value of a document of YAML whose tag says that it is
// something which nobody here knows, as !vault or !include: what is written is not what
// is meant, and must not be taken for it.
func UnknownTag(node *yaml.Node) (tagged *yaml.Node, ok bool) {
	if node.Style&yaml.TaggedStyle != 0 && !knownTag(node) {
		return node, true
	}
	for _, child := range node.Content {
		if tagged, ok := UnknownTag(child); ok {
			return tagged, true
		}
	}
	return nil, false
}

func knownTag(node *yaml.Node) bool {
	switch tag := node.ShortTag(); node.Kind {
	case yaml.MappingNode:
		return tag == "!!map"
	case yaml.SequenceNode:
		return tag == "!!seq"
	case yaml.ScalarNode:
		return slices.Contains([]string{"!", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!binary", "!!merge"}, tag)
	}
	return true
}
