package starlark

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	starlarkjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate/manifest"
	"lehr.dev/internal/prodspec/generate/work"
)

// mostKeys of one file.
const mostKeys = 100_000

// Split lists the entries of a mapping or a list in a YAML or JSON file, by key.
// Values are JSON with sorted keys, so that what only looks different is the
// same. The file is a tenant's: this is for a limited child.
func Split(file string, text []byte, keys work.Keys) ([]work.Entry, []intent.Finding) {
	entries, err := split(file, text, keys)
	if m, ok := errors.AsType[*manifest.Error](err); ok {
		return nil, m.Findings
	}
	if err != nil {
		return nil, []intent.Finding{{Rule: "generate", Severity: intent.Error, File: file, Line: 1, Message: err.Error(), Hint: "mend the manifest"}}
	}
	slices.SortFunc(entries, func(a, b work.Entry) int { return strings.Compare(a.Key, b.Key) })
	return entries, nil
}

func split(file string, text []byte, keys work.Keys) (entries []work.Entry, err error) {
	d, err := manifest.Parse(file, text)
	if err != nil {
		return nil, err
	}
	at, node := "", resolved(d.Root)
	for _, name := range keys.Path {
		child := valueOf(node, name)
		if child == nil {
			f := d.Finding(node.Line, node.Column, at, "there is no %q here, in which the keys of for_each are to be", name)
			f.Hint = "add it to the file, say in lehr.yaml what the file has with for_each: {key: …}, or let the source list other files"
			return nil, &manifest.Error{Findings: []intent.Finding{f}}
		}
		at, node = strings.TrimPrefix(at+"."+name, "."), resolved(child)
	}
	budget, used, lines := maxNodes, map[string]bool{}, map[string]int{}
	add := func(key string, place, node *yaml.Node, path string) error {
		switch {
		case key == "" || len(key) > 1000:
			return d.Refuse(place, path, "a key of for_each has 1 to 1000 bytes")
		case used[key]:
			return d.Refuse(place, path, "the key %q is used at line %d, too", key, lines[key])
		case len(entries) >= mostKeys:
			return d.Refuse(place, path, "there are more than %d keys", mostKeys)
		}
		used[key], lines[key] = true, place.Line
		value, err := unfold(d, node, path, &budget)
		if err != nil {
			return err
		}
		encoded, err := starlark.Call(&starlark.Thread{}, starlarkjson.Module.Members["encode"], starlark.Tuple{value}, nil)
		if err != nil {
			return d.Refuse(node, path, "%v", err)
		}
		text, _ := starlark.AsString(encoded)
		entries = append(entries, work.Entry{Key: key, Value: []byte(text)})
		return nil
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content) && err == nil; i += 2 {
			key := node.Content[i]
			if key.Tag == "!!merge" {
				return nil, d.Refuse(key, at, "merge keys (<<) are not supported")
			}
			err = add(key.Value, key, node.Content[i+1], strings.TrimPrefix(at+"."+key.Value, "."))
		}
		return entries, err
	case yaml.SequenceNode:
		for i, item := range node.Content {
			path, named := fmt.Sprintf("%s[%d]", at, i), resolved(item)
			if named.Kind == yaml.MappingNode {
				if named = valueOf(named, keys.By); named == nil {
					return nil, d.Refuse(item, path, "it has no %q, which is to be its key", keys.By)
				}
				named = resolved(named)
			}
			if named.Kind != yaml.ScalarNode || named.Tag == "!!null" {
				return nil, d.Refuse(item, path, "it is %s, and a key is a text", manifest.Describe(named))
			}
			if err := add(named.Value, item, item, path); err != nil {
				return nil, err
			}
		}
		return entries, nil
	}
	return nil, d.Refuse(node, at, "it is %s, and for_each: key takes a mapping or a list", manifest.Describe(node))
}

// valueOf a mapping's key, or nil.
func valueOf(node *yaml.Node, name string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// value is ctx.value.
func (r *run) value(thread *starlark.Thread) (starlark.Value, error) {
	return starlark.Call(thread, starlarkjson.Module.Members["decode"], starlark.Tuple{starlark.String(r.job.Value)}, nil)
}
