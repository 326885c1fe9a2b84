package sops

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxDepth of mappings and lists within each other.
const maxDepth = 100

// metadataKey is where SOPS keeps what it knows of a document.
const metadataKey = "sops"

// node of a document.
type node struct {
	// isMap and isList say what the children are; a node that is neither is a scalar.
	isMap, isList bool
	keys          []string
	children      []*node
	// value of a scalar: nil, string, int, float64, bool or time.Time.
	value any
}

// parse reads a document into what SOPS walks, and takes its metadata out.
func parse(document []byte) (*node, *metadata, error) {
	var tree *node
	var err error
	if trimmed := bytes.TrimLeft(document, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		tree, err = parseJSON(document)
	} else {
		tree, err = parseYAML(document)
	}
	if err != nil {
		return nil, nil, err
	}
	for i, key := range tree.keys {
		if key == metadataKey {
			meta, err := readMetadata(tree.children[i])
			tree.keys, tree.children = append(tree.keys[:i:i], tree.keys[i+1:]...), append(tree.children[:i:i], tree.children[i+1:]...)
			return tree, meta, err
		}
	}
	return nil, nil, refuse("it has no key %q, so SOPS did not encrypt it", metadataKey).WithHint("encrypt it: sops encrypt --age RECIPIENT FILE")
}

// parseYAML takes one document whose top is a mapping.
func parseYAML(document []byte) (*node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(document))
	var top yaml.Node
	if err := decoder.Decode(&top); err != nil {
		return nil, notReadable("YAML", err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, refuse("it holds more than one YAML document").WithHint("give each a file")
	}
	if len(top.Content) != 1 || top.Content[0].Kind != yaml.MappingNode {
		return nil, refuse("its top is no mapping")
	}
	return fromYAML(top.Content[0], 0)
}

func fromYAML(from *yaml.Node, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, refuse("line %d: it is nested more than %d deep", from.Line, maxDepth)
	}
	switch from.Kind {
	case yaml.MappingNode:
		n := &node{isMap: true}
		for i := 0; i < len(from.Content); i += 2 {
			key := from.Content[i]
			if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
				return nil, refuse("line %d: a key is no text", key.Line)
			}
			child, err := fromYAML(from.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			if err := n.add(key.Value, child); err != nil {
				return nil, err
			}
		}
		return n, nil
	case yaml.SequenceNode:
		n := &node{isList: true}
		for _, item := range from.Content {
			child, err := fromYAML(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.children = append(n.children, child)
		}
		return n, nil
	case yaml.ScalarNode:
		n := &node{}
		if err := from.Decode(&n.value); err != nil {
			return nil, notReadable("YAML", err)
		}
		switch n.value.(type) {
		case nil, string, int, float64, bool, time.Time:
			return n, nil
		}
		return nil, refuse("line %d: a value is of a kind that SOPS does not write", from.Line)
	}
	return nil, changed("line %d: it has an anchor or alias, which SOPS does not write", from.Line)
}

// add refuses a key that is there twice: which one counts would be a matter of taste.
func (n *node) add(key string, child *node) error {
	for _, other := range n.keys {
		if other == key {
			return changed("the key %.100q is there twice", key)
		}
	}
	n.keys, n.children = append(n.keys, key), append(n.children, child)
	return nil
}

func parseJSON(document []byte) (*node, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	n, err := fromJSON(decoder, 0)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, refuse("something stands behind its end")
	}
	return n, nil
}

func fromJSON(decoder *json.Decoder, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, refuse("it is nested more than %d deep", maxDepth)
	}
	token, err := decoder.Token()
	if err != nil {
		return nil, notReadable("JSON", err)
	}
	delimiter, ok := token.(json.Delim)
	if !ok {
		return &node{value: token}, nil // nil, string, float64 or bool.
	}
	n := &node{isMap: delimiter == '{', isList: delimiter == '['}
	for decoder.More() {
		key := ""
		if n.isMap {
			token, err := decoder.Token()
			if err != nil {
				return nil, notReadable("JSON", err)
			}
			key, _ = token.(string)
		}
		child, err := fromJSON(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		if n.isMap {
			err = n.add(key, child)
		} else {
			n.children = append(n.children, child)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, notReadable("JSON", err)
	}
	return n, nil
}

// notReadable does not tell the parser's error: it may quote what is not encrypted.
func notReadable(language string, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return refuse("it is no %s, at byte %d", language, syntax.Offset)
	}
	return refuse("it is no %s that can be read", language)
}
