package kubernetes

import "go.yaml.in/yaml/v3"

// Lines says where a manifest has which object: its first line, by KIND/NAME,
// where there is one such. Of what cannot be read it says nothing.
func Lines(manifest []byte) map[string]int {
	lines := map[string]int{}
	next := documents("", manifest)
	for {
		document, err := next()
		if err != nil {
			return lines
		}
		if document.Kind != yaml.MappingNode {
			continue
		}
		key := textAt(document, "kind") + "/" + textAt(document, "metadata", "name")
		if _, duplicate := lines[key]; duplicate {
			lines[key] = 0
		} else {
			lines[key] = document.Line
		}
	}
}

// textAt is the text at a path of a node's fields; empty: there is none.
func textAt(node *yaml.Node, path ...string) string {
	for _, name := range path {
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		var value *yaml.Node
		for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
			if node.Content[i].Value == name {
				value = node.Content[i+1]
			}
		}
		if value == nil {
			return ""
		}
		node = value
	}
	return node.Value
}
