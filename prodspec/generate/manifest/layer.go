package manifest

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"lehr.dev/intent"
)

// Lay lays each document over those before it, as a JSON merge patch (RFC 7396):
// mappings are merged, all else is replaced, and null takes away. A mapping over a
// list of mappings that have names is merged with the ones that it names.
// Findings about what comes of it say in which file each place is.
func Lay(layers []*Document) (*Document, error) {
	if len(layers) == 1 {
		return layers[0], nil
	}
	l := layering{left: MaxNodes, origins: map[*yaml.Node]origin{}}
	var merged *yaml.Node
	for i, d := range layers {
		root, err := l.copied(d, d.Root)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			merged = root
		} else if merged, err = l.over(merged, root, d, ""); err != nil {
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
	left    int
}

// copied is a node without aliases, comments and style.
func (l *layering) copied(d *Document, node *yaml.Node) (*yaml.Node, error) {
	if l.left--; l.left < 0 {
		return nil, d.Refuse(node, "", "the document unfolds to more than %d values", MaxNodes)
	}
	if node.Kind == yaml.AliasNode {
		return l.copied(d, node.Alias)
	}
	made := &yaml.Node{Kind: node.Kind, Tag: node.Tag, Value: node.Value}
	if node.Kind == yaml.ScalarNode {
		made.Style = node.Style
	}
	l.origins[made] = origin{file: d.File, line: node.Line, column: node.Column}
	for i, below := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && below.Tag == "!!merge" {
			return nil, d.Refuse(below, "", "merge keys (<<) are not supported")
		}
		child, err := l.copied(d, below)
		if err != nil {
			return nil, err
		}
		made.Content = append(made.Content, child)
	}
	return made, nil
}

// over lays one node over another.
func (l *layering) over(below, above *yaml.Node, d *Document, path string) (*yaml.Node, error) {
	if above.Kind != yaml.MappingNode {
		return above, nil
	}
	if below.Kind == yaml.SequenceNode && len(below.Content) > 0 && nameOf(below.Content[0]) != "" {
		return l.overNamed(below, above, d, path)
	}
	if below.Kind != yaml.MappingNode {
		below = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		l.origins[below] = l.origins[above]
	}
	for i := 0; i+1 < len(above.Content); i += 2 {
		key, value := above.Content[i], above.Content[i+1]
		at := valueAt(below, key.Value)
		switch {
		case value.Tag == "!!null" && at >= 0:
			below.Content = append(below.Content[:at-1], below.Content[at+1:]...)
		case value.Tag == "!!null":
		case at >= 0:
			laid, err := l.over(below.Content[at], value, d, Join(path, key.Value))
			if err != nil {
				return nil, err
			}
			below.Content[at] = laid
		default:
			// A null within it takes nothing away, and is no value either.
			laid, err := l.over(&yaml.Node{}, value, d, Join(path, key.Value))
			if err != nil {
				return nil, err
			}
			below.Content = append(below.Content, key, laid)
		}
	}
	return below, nil
}

// overNamed lays each value over the element of a list that has the key for its
// name.
func (l *layering) overNamed(below, above *yaml.Node, d *Document, path string) (*yaml.Node, error) {
	for i := 0; i+1 < len(above.Content); i += 2 {
		key, value := above.Content[i], above.Content[i+1]
		found := -1
		var names []string
		for j, element := range below.Content {
			if names = append(names, nameOf(element)); nameOf(element) == key.Value {
				found = j
			}
		}
		if found < 0 {
			from := l.origins[key]
			f := d.Finding(from.line, from.column, Join(path, key.Value), "%s: no element of the list has the name %s", path, key.Value)
			f.Hint = meant(key.Value, names)
			return nil, &Error{Findings: []intent.Finding{f}}
		}
		laid, err := l.over(below.Content[found], value, d, Join(path, key.Value))
		if err != nil {
			return nil, err
		}
		below.Content[found] = laid
	}
	return below, nil
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
	if from, known := d.origins[position{line, column}]; known {
		return from.file, from.line, from.column
	}
	for ; column > 0; column-- { // What begins before it on the line.
		if from, known := d.origins[position{line, column}]; known {
			return from.file, from.line, from.column
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
