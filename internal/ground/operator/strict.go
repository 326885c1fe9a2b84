package operator

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/spell"
)

// problem is what is wrong at a node of a file, and what to do about it.
type problem struct {
	node         *yaml.Node
	reason, hint string
}

// check compares a document with the Go type that it is read into, and returns the first
// key that the type does not have, or value that is of another kind. The path names the
// node for people.
func check(node *yaml.Node, into reflect.Type, path string) *problem {
	for node.Kind == yaml.AliasNode || node.Kind == yaml.DocumentNode {
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		} else {
			node = node.Content[0]
		}
	}
	for into.Kind() == reflect.Pointer {
		into = into.Elem()
	}
	if node.Tag == "!!null" {
		return nil
	}
	if text, ok := reflect.New(into).Interface().(encoding.TextUnmarshaler); ok {
		err := text.UnmarshalText([]byte(node.Value))
		switch {
		case err == nil && node.Kind == yaml.ScalarNode:
			return nil
		case into == reflect.TypeFor[netip.Prefix]():
			return wrong(node, path, "a network", "write one as 10.0.0.0/8, and a single address as 10.0.0.1/32")
		}
		return wrong(node, path, "a text that can be read", fmt.Sprint(err))
	}
	_, decodesItself := reflect.New(into).Interface().(yaml.Unmarshaler)
	switch into.Kind() {
	case reflect.Struct:
		if decodesItself && node.Kind == yaml.ScalarNode {
			return nil // Such as a length of time: it says itself what is wrong.
		}
		return checkFields(node, into, path)
	case reflect.Slice:
		if node.Kind != yaml.SequenceNode {
			return wrong(node, path, "a list", "write [A, B], or one - ITEM a line")
		}
		for i, item := range node.Content {
			if problem := check(item, into.Elem(), fmt.Sprintf("%s[%d]", path, i)); problem != nil {
				return problem
			}
		}
	case reflect.Map:
		if node.Kind != yaml.MappingNode {
			return wrong(node, path, "a mapping", "write KEY: VALUE")
		}
		for i := 0; i < len(node.Content); i += 2 {
			if problem := check(node.Content[i+1], into.Elem(), join(path, node.Content[i].Value)); problem != nil {
				return problem
			}
		}
	case reflect.String:
		if node.Kind != yaml.ScalarNode {
			return wrong(node, path, "a text", "write one value")
		}
	case reflect.Bool:
		if node.Tag != "!!bool" {
			return wrong(node, path, "true or false", "write true or false, without quotes")
		}
	case reflect.Float64:
		if node.Tag != "!!int" && node.Tag != "!!float" {
			return wrong(node, path, "a number", "write digits, without quotes and units")
		}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		if node.Tag != "!!int" {
			return wrong(node, path, "a whole number", "write digits, without quotes and units")
		}
	}
	return nil
}

func checkFields(node *yaml.Node, into reflect.Type, path string) *problem {
	if node.Kind != yaml.MappingNode {
		return wrong(node, path, "a mapping", "write KEY: VALUE, a line each")
	}
	fields := fieldsOf(into)
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := slices.IndexFunc(fields, func(f field) bool { return f.key == key.Value })
		if at < 0 {
			return unknown(key, fields, path)
		}
		if problem := check(value, fields[at].goType, join(path, key.Value)); problem != nil {
			return problem
		}
	}
	return nil
}

type field struct {
	key    string
	goType reflect.Type
}

// fieldsOf lists the keys that a struct is read from, also those of what it includes.
func fieldsOf(goType reflect.Type) (fields []field) {
	for goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	for i := range goType.NumField() {
		key, options, _ := strings.Cut(goType.Field(i).Tag.Get("yaml"), ",")
		switch {
		case options == "inline":
			fields = append(fields, fieldsOf(goType.Field(i).Type)...)
		case key != "" && key != "-":
			fields = append(fields, field{key, goType.Field(i).Type})
		}
	}
	return fields
}

func unknown(key *yaml.Node, fields []field, path string) *problem {
	var names []string
	for _, f := range fields {
		names = append(names, f.key)
	}
	hint := "the keys here are: " + strings.Join(names, ", ")
	if suggestion := spell.Nearest(key.Value, names); suggestion != "" {
		hint = "did you mean " + suggestion + "? " + hint
	}
	return &problem{key, fmt.Sprintf("unknown key %.100q", join(path, key.Value)), hint}
}

func wrong(node *yaml.Node, path, want, hint string) *problem {
	value := fmt.Sprintf("%.100q", node.Value)
	switch node.Kind {
	case yaml.MappingNode:
		value = "a mapping"
	case yaml.SequenceNode:
		value = "a list"
	}
	if path == "" {
		path = "the file"
	}
	return &problem{node, fmt.Sprintf("%s is %s, not %s", path, value, want), hint}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
