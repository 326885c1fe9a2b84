package starlark

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	starlarkpb "go.starlark.net/lib/proto"
	"go.starlark.net/starlark"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"lehr.dev/internal/prodspec/generate/manifest"
)

// maxNodes bounds what one document without a schema unfolds to.
const maxNodes = manifest.MaxNodes

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
	d, err := manifest.Parse(path, text)
	if err != nil {
		return nil, err
	}
	budget := maxNodes
	return unfold(d, d.Root, "", &budget)
}

func unfold(d *manifest.Document, node *yaml.Node, path string, budget *int) (starlark.Value, error) {
	if *budget--; *budget < 0 {
		return nil, d.Refuse(node, path, "the document unfolds to more than %d values", maxNodes)
	}
	switch node.Kind {
	case yaml.AliasNode:
		return unfold(d, node.Alias, path, budget)
	case yaml.MappingNode:
		dict := starlark.NewDict(len(node.Content) / 2)
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, child := resolved(node.Content[i]), path
			if key.Kind != yaml.ScalarNode {
				return nil, d.Refuse(node.Content[i], path, "a key is %s, and keys are texts", manifest.Describe(key))
			}
			if key.Tag == "!!merge" {
				return nil, d.Refuse(key, path, "merge keys (<<) are not supported")
			}
			if child != "" {
				child += "."
			}
			value, err := unfold(d, node.Content[i+1], child+key.Value, budget)
			if err != nil {
				return nil, err
			}
			// Keys are texts, as in JSON.
			if _, duplicate, _ := dict.Get(starlark.String(key.Value)); duplicate {
				return nil, d.Refuse(node.Content[i], path, "the key %.100q is there twice", key.Value)
			}
			if err := dict.SetKey(starlark.String(key.Value), value); err != nil {
				return nil, err
			}
		}
		return dict, nil
	case yaml.SequenceNode:
		list := make([]starlark.Value, 0, len(node.Content))
		for i, item := range node.Content {
			value, err := unfold(d, item, fmt.Sprintf("%s[%d]", path, i), budget)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return starlark.NewList(list), nil
	}
	return scalar(d, node, path)
}

// whole is an integer in decimal.
var whole = regexp.MustCompile(`^[-+]?[1-9][0-9]*$`)

func scalar(d *manifest.Document, node *yaml.Node, path string) (starlark.Value, error) {
	switch node.Tag {
	case "!!null":
		return starlark.None, nil
	case "!!bool":
		return starlark.Bool(strings.EqualFold(node.Value, "true")), nil
	case "!!int":
		if n, ok := new(big.Int).SetString(strings.TrimPrefix(node.Value, "+"), 0); ok && len(node.Value) < 100 {
			return starlark.MakeBigInt(n), nil
		}
		return nil, d.Refuse(node, path, "%q is not a whole number", node.Value)
	case "!!float":
		// What has more than 64 bits is a float to YAML's reader.
		if whole.MatchString(node.Value) {
			if n, ok := new(big.Int).SetString(node.Value, 10); ok && len(node.Value) < 100 {
				return starlark.MakeBigInt(n), nil
			}
			return nil, d.Refuse(node, path, "%.100q has more than 99 digits", node.Value)
		}
		f, err := strconv.ParseFloat(node.Value, 64)
		if err != nil {
			return nil, d.Refuse(node, path, "%q is not a finite number", node.Value)
		}
		return starlark.Float(f), nil
	case "!!binary":
		return nil, d.Refuse(node, path, "binary values are not supported")
	}
	// YAML's reader takes a number that is too large for a text.
	if _, err := strconv.ParseFloat(node.Value, 64); node.Style == 0 && errors.Is(err, strconv.ErrRange) {
		return nil, d.Refuse(node, path, "%q is not a finite number", node.Value)
	}
	return starlark.String(node.Value), nil
}

// decode is decode(type, path): a manifest of a message type, checked. Of a list
// of paths, each is laid over those before it.
func decode(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var messageType, path starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "type", &messageType, "path", &path); err != nil {
		return nil, err
	}
	paths, err := pathsOf(path)
	if err != nil {
		return nil, err
	}
	r := current(thread)
	message, err := r.empty(messageType)
	if err != nil {
		return nil, err
	}
	d, err := r.layered(paths)
	if err != nil {
		return nil, err
	}
	validator, err := r.schema.Rules()
	if err != nil {
		return nil, err
	}
	if err := d.Decode(message, r.schema.Types(), validator); err != nil {
		return nil, err
	}
	r.decoded = d
	return wrap(message)
}

// empty takes a type by name, full or short, or by its descriptor.
func (r *run) empty(messageType starlark.Value) (proto.Message, error) {
	name := ""
	switch messageType := messageType.(type) {
	case starlark.String:
		name = string(messageType)
	case starlarkpb.MessageDescriptor:
		name = string(messageType.Desc.FullName())
	default:
		return nil, fmt.Errorf("decode: a type is its name or lehr.model.v1.WebService, not %s", messageType.Type())
	}
	full, err := r.schema.Resolve(name)
	if err != nil {
		return nil, err
	}
	return r.schema.New(full)
}
