package manifest

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/intent"
)

// Lay lays each document over those before it, as a JSON merge patch (RFC 7396):
// mappings are merged, all else is replaced, and null takes away. A mapping over a
// list of mappings that have names is merged with the ones that it names.
// Findings about what comes of it say in which file each place is.
func Lay(layers []*Document) (*Document, error) {
	if len(layers) == 1 {
		return layers[0], nil
	}
	l := layering{budget: MaxNodes, origins: map[*yaml.Node]origin{}}
	var merged *yaml.Node
	for i, d := range layers {
		root, err := l.copied(d, d.Root)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			merged = root
		} else if merged, err = l.merge(merged, root, d, ""); err != nil {
			return nil, err
		}
	}
	first := layers[0].File
	text, err := yaml.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("laying %d files over %s: %w", len(layers)-1, first, err)
	}
	d, err := Parse(first, text)
	if err != nil {
		return nil, err
	}
	d.origins = map[position]origin{}
	l.follow(d, merged, d.Root)
	return d, nil
}

// origin is a place in a file.
type origin struct {
	file         string
	line, column int
}

// layering remembers where nodes come from, and how many more there may be.
type layering struct {
	origins map[*yaml.Node]origin
	budget  int
}

// copied is a node without aliases, comments and style.
func (l *layering) copied(d *Document, node *yaml.Node) (*yaml.Node, error) {
	if l.budget--; l.budget < 0 {
		return nil, d.Refuse(node, "", "the document unfolds to more than %d values", MaxNodes)
	}
	if node.Kind == yaml.AliasNode {
		return l.copied(d, node.Alias)
	}
	result := &yaml.Node{Kind: node.Kind, Tag: node.Tag, Value: node.Value}
	if node.Kind == yaml.ScalarNode {
		result.Style = node.Style
	}
	l.origins[result] = origin{file: d.File, line: node.Line, column: node.Column}
	for i, element := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && element.Tag == "!!merge" {
			return nil, d.Refuse(element, "", "merge keys (<<) are not supported")
		}
		child, err := l.copied(d, element)
		if err != nil {
			return nil, err
		}
		result.Content = append(result.Content, child)
	}
	return result, nil
}

// merge lays one node over another.
func (l *layering) merge(base, overlay *yaml.Node, d *Document, path string) (*yaml.Node, error) {
	if overlay.Kind != yaml.MappingNode {
		return overlay, nil
	}
	if base.Kind == yaml.SequenceNode && len(base.Content) > 0 && nameOf(base.Content[0]) != "" {
		return l.overNamed(base, overlay, d, path)
	}
	if base.Kind != yaml.MappingNode {
		base = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		l.origins[base] = l.origins[overlay]
	}
	for i := 0; i+1 < len(overlay.Content); i += 2 {
		key, value := overlay.Content[i], overlay.Content[i+1]
		at := valueAt(base, key.Value)
		switch {
		case value.Tag == "!!null" && at >= 0:
			base.Content = append(base.Content[:at-1], base.Content[at+1:]...)
		case value.Tag == "!!null":
		case at >= 0:
			laid, err := l.merge(base.Content[at], value, d, Join(path, key.Value))
			if err != nil {
				return nil, err
			}
			base.Content[at] = laid
		default:
			// A null within it takes nothing away, and is no value either.
			laid, err := l.merge(&yaml.Node{}, value, d, Join(path, key.Value))
			if err != nil {
				return nil, err
			}
			base.Content = append(base.Content, key, laid)
		}
	}
	return base, nil
}

// overNamed lays each value over the element of a list that has the key for its
// name.
func (l *layering) overNamed(base, overlay *yaml.Node, d *Document, path string) (*yaml.Node, error) {
	for i := 0; i+1 < len(overlay.Content); i += 2 {
		key, value := overlay.Content[i], overlay.Content[i+1]
		index := -1
		var names []string
		for j, element := range base.Content {
			if names = append(names, nameOf(element)); nameOf(element) == key.Value {
				index = j
			}
		}
		if index < 0 {
			source := l.origins[key]
			f := d.Finding(source.line, source.column, Join(path, key.Value), "%s: no element of the list has the name %s", path, key.Value)
			f.Hint = nameHint(key.Value, names)
			return nil, &Error{Findings: []intent.Finding{f}}
		}
		laid, err := l.merge(base.Content[index], value, d, Join(path, key.Value))
		if err != nil {
			return nil, err
		}
		base.Content[index] = laid
	}
	return base, nil
}

func nameOf(node *yaml.Node) string {
	if at := valueAt(node, "name"); at >= 0 {
		return node.Content[at].Value
	}
	return ""
}

// valueAt is the index of a key's value in a mapping; negative: it has none.
func valueAt(node *yaml.Node, key string) int {
	if node.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return i + 1
		}
	}
	return -1
}

// follow notes where the nodes of what was written come from.
func (l *layering) follow(d *Document, merged, written *yaml.Node) {
	d.origins[position{written.Line, written.Column}] = l.origins[merged]
	for i := range min(len(merged.Content), len(written.Content)) {
		l.follow(d, merged.Content[i], written.Content[i])
	}
}

// origin of a place in the document.
func (d *Document) origin(line, column int) (string, int, int) {
	if d.origins == nil {
		return d.File, line, column
	}
	if source, ok := d.origins[position{line, column}]; ok {
		return source.file, source.line, source.column
	}
	for ; column > 0; column-- { // What begins before it on the line.
		if source, ok := d.origins[position{line, column}]; ok {
			return source.file, source.line, source.column
		}
	}
	return d.File, 1, 1
}

// WhereIs a field, or what is nearest around it: its file and line.
func (d *Document) WhereIs(path string) (file string, line int) {
	node := d.nearest(path)
	file, line, _ = d.origin(node.Line, node.Column)
	return file, line
}
