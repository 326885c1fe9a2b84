package objectdiff

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Dropped are the fields of an object that are ours and that intent does not name any more,
// as far as that can be told without the server: an apply removes them.
func Dropped(live *unstructured.Unstructured, intended map[string]any, managers Managers) ([]Change, error) {
	owners, err := ReadOwners(live, managers)
	if err != nil {
		return nil, err
	}
	var dropped []Change
	var last string
	for _, path := range sortedLeaves(owners.applied) {
		current, exists := Get(live.Object, path)
		missing, ok := firstMissing(intended, path)
		if !exists || !ok || owners.HasOther(path) {
			continue // Whoever else has the field keeps it.
		}
		// An element that intent does not have is one change, and not one for each field.
		text := Text(missing)
		if text == last {
			continue
		}
		last = text
		if len(missing) < len(path) {
			path = missing
			current, _ = Get(live.Object, path)
		}
		dropped = append(dropped, Change{Path: path, Current: current, HasCurrent: true})
	}
	return dropped, nil
}

// firstMissing is the shortest beginning of a path that ends with an element of a list and
// that intent does not have, or else the path itself; ok is false where intent has it all.
func firstMissing(intended any, path fieldpath.Path) (missing fieldpath.Path, ok bool) {
	for i, element := range path {
		next, found := step(intended, element)
		if !found && element.Key != nil {
			next, found = findLoosely(intended, *element.Key)
		}
		if found {
			intended = next
			continue
		}
		if i > 0 && element.FieldName != nil && path[i-1].Key != nil && isKey(*path[i-1].Key, *element.FieldName) {
			return nil, false // A field of the element's key, which the server puts in.
		}
		if element.Key != nil {
			return path[:i+1], true
		}
		return path, true
	}
	return nil, false
}

// findLoosely finds an element by those fields of a key that it names: the server puts
// defaults into the others, as protocol: TCP of a port.
func findLoosely(container any, key []value.Field) (any, bool) {
	list, _ := container.([]any)
	for _, one := range list {
		fields, _ := one.(map[string]any)
		named, matches := 0, true
		for _, part := range key {
			found, ok := fields[part.Name]
			if ok {
				named++
				matches = matches && same(part.Value.Unstructured(), found)
			}
		}
		if named > 0 && matches {
			return one, true
		}
	}
	return nil, false
}

func isKey(key []value.Field, name string) bool {
	for _, part := range key {
		if strings.EqualFold(part.Name, name) {
			return true
		}
	}
	return false
}
