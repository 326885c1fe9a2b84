package written

import (
	"bytes"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LineOf finds the line of a value in the document of YAML or JSON that begins at a line of a text,
// or in the element of a list that does: path has the keys, and the indices of lists from 0, that
// lead to it. Where it is a scalar and excerpt, KEY: VALUE, has another value, it is not the one.
func LineOf(text []byte, begins int, path []string, excerpt string) (line int, ok bool) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		if decoder.Decode(&document) != nil || len(document.Content) == 0 {
			return 0, false
		}
		root := beginning(document.Content[0], begins)
		if root == nil {
			continue
		}
		line, value := follow(root, path)
		if value == nil || value.Kind == yaml.ScalarNode && !saysSame(value.Value, excerpt) {
			return 0, false
		}
		return line, true
	}
}

// beginning is the mapping that begins at a line: the document, or one of its items.
func beginning(root *yaml.Node, line int) *yaml.Node {
	if root.Kind == yaml.MappingNode && root.Line == line {
		if items := entry(root, "items"); items == nil || items.Line != line {
			return root
		}
	}
	items := entry(root, "items")
	if items == nil {
		return nil
	}
	for _, item := range items.Content {
		if item.Kind == yaml.MappingNode && item.Line == line {
			return item
		}
	}
	return nil
}

// follow a path: the line of what it leads to, and the value; nil: it leads nowhere.
func follow(root *yaml.Node, path []string) (line int, value *yaml.Node) {
	line, value = root.Line, root
	for _, key := range path {
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		var next *yaml.Node
		switch value.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(value.Content); i += 2 {
				if value.Content[i].Value == key {
					line, next = value.Content[i].Line, value.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(value.Content) {
				next = value.Content[i]
				line = next.Line
			}
		}
		if next == nil {
			return 0, nil
		}
		value = next
	}
	return line, value
}

func entry(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; mapping.Kind == yaml.MappingNode && i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// saysSame reports whether a scalar as it is written is the value of KEY: VALUE.
func saysSame(written, excerpt string) bool {
	_, value, ok := strings.Cut(excerpt, ": ")
	if !ok || written == value {
		return true
	}
	a, errA := strconv.ParseFloat(written, 64)
	b, errB := strconv.ParseFloat(value, 64)
	if errA == nil && errB == nil {
		return a == b
	}
	truth := value == "true" || value == "false"
	return truth && strings.EqualFold(written, value)
}
