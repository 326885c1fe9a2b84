package definition

import (
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// ParseWithDefaults reads a definition, and for what it does not say the defaults, each a part
// of a definition as JSON: the first that says something counts. What the definition says
// itself stays. Values that are lists, and checks of one name, are taken whole. Environments that
// are selected are those that selected says; nil: none yet.
func ParseWithDefaults(file string, data []byte, types Types, defaults []string, selected Selected) (Definition, []intent.Finding) {
	p := &parser{file: file, types: types, selected: selected}
	root := p.document(data)
	if root == nil {
		return Definition{}, p.findings
	}
	for _, text := range defaults {
		var node yaml.Node
		if err := yaml.Unmarshal([]byte(text), &node); err != nil || len(node.Content) != 1 {
			p.check(root, "", fault.New(fault.Internal, "the defaults of the common policy cannot be read: %w", err))
			return Definition{}, p.findings
		}
		addDefaults(root, node.Content[0], true)
	}
	return p.parse(root)
}

// addDefaults adds what a mapping lacks; with joins, also what those of its values lack that
// are mappings themselves, which are sections.
func addDefaults(into, from *yaml.Node, joins bool) {
	for i := 0; i+1 < len(from.Content); i += 2 {
		key, value := from.Content[i], from.Content[i+1]
		own := child(into, key.Value)
		switch {
		case own == nil:
			moveTo(value, into.Line)
			into.Content = append(into.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key.Value, Line: into.Line, Column: 1}, value)
		case joins && own.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			addDefaults(own, value, false)
		}
	}
}

// moveTo gives nodes a line of the definition: their own is of another text.
func moveTo(node *yaml.Node, line int) {
	node.Line, node.Column = line, 1
	for _, inner := range node.Content {
		moveTo(inner, line)
	}
}

// OwnerOf reads only the owner of a definition, whatever else is wrong with it; empty: it names
// none.
func OwnerOf(file string, data []byte) string { return textOf(file, data, "owner") }

// PartitionOf reads only which partition a definition defines; empty: none.
func PartitionOf(file string, data []byte) intent.PartitionID {
	id, err := intent.ParsePartitionID(textOf(file, data, "partition"))
	if err != nil {
		return ""
	}
	return id
}

// textOf a key at the top of a definition.
func textOf(file string, data []byte, key string) string {
	p := &parser{file: file}
	root := p.document(data)
	if root == nil {
		return ""
	}
	value := child(root, key)
	if value == nil || value.Kind != yaml.ScalarNode {
		return ""
	}
	return value.Value
}
