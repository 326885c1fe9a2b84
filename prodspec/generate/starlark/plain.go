package starlark

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/intent"
)

// maxNodes bounds what one document without a schema unfolds to.
const maxNodes = 1_000_000

// plain is yaml(path) and json(path): a document without a schema as dicts,
// lists and scalars. JSON is read as the YAML it is.
func plain(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var path string
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &path); err != nil {
		return nil, err
	}
	text, err := current(thread).text(path)
	if err != nil {
		return nil, err
	}
	d, err := parse(path, text)
	if err != nil {
		return nil, err
	}
	left := maxNodes
	return d.plain(d.root, "", &left)
}

func (d *document) plain(node *yaml.Node, path string, left *int) (starlark.Value, error) {
	if *left--; *left < 0 {
		return nil, d.refuse(node, path, "the document unfolds to more than %d values", maxNodes)
	}
	switch node.Kind {
	case yaml.AliasNode:
		return d.plain(node.Alias, path, left)
	case yaml.MappingNode:
		dict := starlark.NewDict(len(node.Content) / 2)
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, child := node.Content[i], path
			if key.Tag == "!!merge" {
				return nil, d.refuse(key, path, "merge keys (<<) are not supported")
			}
			if child != "" {
				child += "."
			}
			value, err := d.plain(node.Content[i+1], child+key.Value, left)
			if err != nil {
				return nil, err
			}
			// Keys are texts, as in JSON.
			if err := dict.SetKey(starlark.String(key.Value), value); err != nil {
				return nil, err
			}
		}
		return dict, nil
	case yaml.SequenceNode:
		list := make([]starlark.Value, 0, len(node.Content))
		for i, item := range node.Content {
			value, err := d.plain(item, fmt.Sprintf("%s[%d]", path, i), left)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return starlark.NewList(list), nil
	}
	return d.scalar(node, path)
}

func (d *document) scalar(node *yaml.Node, path string) (starlark.Value, error) {
	switch node.Tag {
	case "!!null":
		return starlark.None, nil
	case "!!bool":
		return starlark.Bool(strings.EqualFold(node.Value, "true")), nil
	case "!!int":
		if n, ok := new(big.Int).SetString(strings.TrimPrefix(node.Value, "+"), 0); ok && len(node.Value) < 100 {
			return starlark.MakeBigInt(n), nil
		}
		return nil, d.refuse(node, path, "%q is not a whole number", node.Value)
	case "!!float":
		f, err := strconv.ParseFloat(node.Value, 64)
		if err != nil {
			return nil, d.refuse(node, path, "%q is not a finite number", node.Value)
		}
		return starlark.Float(f), nil
	case "!!binary":
		return nil, d.refuse(node, path, "binary values are not supported")
	}
	// YAML's reader takes a number that is too large for a text.
	if _, err := strconv.ParseFloat(node.Value, 64); node.Style == 0 && errors.Is(err, strconv.ErrRange) {
		return nil, d.refuse(node, path, "%q is not a finite number", node.Value)
	}
	return starlark.String(node.Value), nil
}

func (d *document) refuse(node *yaml.Node, path, format string, arguments ...any) error {
	f := d.finding(node.Line, node.Column, path, format, arguments...)
	f.Hint = "mend the manifest"
	return &manifest{findings: []intent.Finding{f}}
}

func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if node.Tag == "!!null" {
		return "empty"
	}
	if len(node.Value) > 60 {
		return strconv.Quote(node.Value[:60]) + "…"
	}
	return strconv.Quote(node.Value)
}

// kindName says what a field takes, for people.
func kindName(f protoreflect.FieldDescriptor, path string) string {
	element := strings.HasSuffix(path, "]")
	switch {
	case f.IsMap() && !element:
		return "a mapping"
	case f.IsList() && !element:
		return "a list"
	}
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return "a mapping (" + string(f.Message().FullName()) + ")"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind:
		return "a text"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "a number"
	case protoreflect.BytesKind:
		return "base64 text"
	case protoreflect.EnumKind:
		return "a " + string(f.Enum().FullName())
	default:
		return "a whole number (" + f.Kind().String() + ")"
	}
}

func example(f protoreflect.FieldDescriptor) string {
	name := string(f.Name())
	switch {
	case f.IsMap():
		return name + ": {key: value}"
	case f.IsList():
		return name + ": [a, b]"
	}
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return name + ": {field: value}"
	case protoreflect.BoolKind:
		return name + ": true"
	case protoreflect.StringKind:
		return name + `: "text"`
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return name + ": 0.5"
	default:
		return name + ": 3"
	}
}
