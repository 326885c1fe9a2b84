package starlark

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.yaml.in/yaml/v3"

	"lehr.dev/intent"
	"lehr.dev/prodspec/generate/work"
)

// layers is ctx.layers: the paths of a model's manifest and of what is laid over
// it.
func (r *run) layers() *starlark.List {
	r.reads.Note(work.ReadFiles, "", work.Listing(r.job.Files))
	list := make([]starlark.Value, len(r.job.Layers))
	for i, path := range r.job.Layers {
		list[i] = starlark.String(path)
	}
	return starlark.NewList(list)
}

func pathsOf(value starlark.Value) (paths []string, err error) {
	if path, one := starlark.AsString(value); one {
		return []string{path}, nil
	}
	list, ok := value.(*starlark.List)
	if !ok || list.Len() == 0 {
		return nil, fmt.Errorf("decode: a path is a text, or a list of texts that is not empty, not %s", value.Type())
	}
	for i := range list.Len() {
		path, is := starlark.AsString(list.Index(i))
		if !is {
			return nil, fmt.Errorf("decode: a path is a text, not %s", list.Index(i).Type())
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// layered reads files, and lays each over those before it, as a JSON merge patch
// (RFC 7396): mappings are merged, all else is replaced, and null takes away. A
// mapping over a list of mappings that have names is merged with the ones that it
// names.
func (r *run) layered(paths []string) (*document, error) {
	l := layering{left: maxNodes, origins: map[*yaml.Node]place{}}
	var merged *yaml.Node
	for i, path := range paths {
		text, err := r.text(path)
		if err != nil {
			return nil, err
		}
		d, err := parse(path, text)
		if err != nil || len(paths) == 1 {
			return d, err
		}
		root, err := l.copied(d, d.root)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			merged = root
		} else if merged, err = l.over(merged, root, d, ""); err != nil {
			return nil, err
		}
	}
	text, err := yaml.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("laying %s over each other: %w", paths, err)
	}
	d, err := parse(paths[0], text)
	if err != nil {
		return nil, err
	}
	d.origins = map[position]place{}
	l.follow(d, merged, d.root)
	return d, nil
}

// layering remembers where nodes come from, and how many more there may be.
type layering struct {
	origins map[*yaml.Node]place
	left    int
}

// copied is a node without aliases, comments and style.
func (l *layering) copied(d *document, node *yaml.Node) (*yaml.Node, error) {
	if l.left--; l.left < 0 {
		return nil, d.refuse(node, "", "the document unfolds to more than %d values", maxNodes)
	}
	if node.Kind == yaml.AliasNode {
		return l.copied(d, node.Alias)
	}
	made := &yaml.Node{Kind: node.Kind, Tag: node.Tag, Value: node.Value}
	if node.Kind == yaml.ScalarNode {
		made.Style = node.Style
	}
	l.origins[made] = place{file: d.file, line: node.Line, column: node.Column}
	for i, below := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && below.Tag == "!!merge" {
			return nil, d.refuse(below, "", "merge keys (<<) are not supported")
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
func (l *layering) over(below, above *yaml.Node, d *document, path string) (*yaml.Node, error) {
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
			laid, err := l.over(below.Content[at], value, d, join(path, key.Value))
			if err != nil {
				return nil, err
			}
			below.Content[at] = laid
		default:
			// A null within it takes nothing away, and is no value either.
			laid, err := l.over(&yaml.Node{}, value, d, join(path, key.Value))
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
func (l *layering) overNamed(below, above *yaml.Node, d *document, path string) (*yaml.Node, error) {
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
			f := d.finding(from.line, from.column, join(path, key.Value), "%s: no element of the list has the name %s", path, key.Value)
			f.Hint = meant(key.Value, names)
			return nil, &manifest{findings: []intent.Finding{f}}
		}
		laid, err := l.over(below.Content[found], value, d, join(path, key.Value))
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

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// follow notes where the nodes of what was written come from.
func (l *layering) follow(d *document, merged, written *yaml.Node) {
	d.origins[position{written.Line, written.Column}] = l.origins[merged]
	for i := range min(len(merged.Content), len(written.Content)) {
		l.follow(d, merged.Content[i], written.Content[i])
	}
}

// origin of a place in the document.
func (d *document) origin(line, column int) (string, int, int) {
	if d.origins == nil {
		return d.file, line, column
	}
	if from, known := d.origins[position{line, column}]; known {
		return from.file, from.line, from.column
	}
	for ; column > 0; column-- { // What begins before it on the line.
		if from, known := d.origins[position{line, column}]; known {
			return from.file, from.line, from.column
		}
	}
	return d.file, 1, 1
}

// whereIs a field, or what is nearest around it.
func (d *document) whereIs(path string) (file string, line int) {
	node := d.nearest(path)
	file, line, _ = d.origin(node.Line, node.Column)
	return file, line
}
