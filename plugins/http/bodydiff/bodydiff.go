// Package bodydiff compares the body of a thing as an API tells it with the fields that
// intent has: only these are compared, and only these are put into what is sent. Which
// lists have keys and which objects are a whole, the profile's resource says. It is pure.
package bodydiff

import (
	"maps"
	"regexp"
	"slices"
	"strconv"

	"lehr.dev/plugins/http/jsonvalue"
	"lehr.dev/plugins/http/profile"
)

// Field that differs. What is not there has no value: null is one.
type Field struct {
	Place              jsonvalue.Pointer
	Current, Target    any
	HasCurrent, HasNew bool
}

// Compare lists the fields of ours that production has otherwise, by their places. A
// field of ours that is null is to be absent.
func Compare(resource *profile.Resource, current, ours map[string]any) []Field {
	c := &comparison{resource: resource}
	c.objects(nil, current, ours)
	return c.fields
}

type comparison struct {
	resource *profile.Resource
	fields   []Field
}

func (c *comparison) objects(place jsonvalue.Pointer, current, ours map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		value, ok := current[key]
		c.values(place.Child(key), value, ok, ours[key])
	}
}

func (c *comparison) values(place jsonvalue.Pointer, current any, ok bool, ours any) {
	switch ours := ours.(type) {
	case nil:
		if ok && current != nil {
			c.fields = append(c.fields, Field{Place: place, Current: current, HasCurrent: true})
		}
		return
	case map[string]any:
		object, isObject := current.(map[string]any)
		if !c.resource.IsWhole(place) && len(ours) > 0 && (isObject || !ok || current == nil) {
			c.objects(place, object, ours)
			return
		}
		if isObject && len(ours) == 0 && !c.resource.IsWhole(place) {
			return
		}
	case []any:
		key := c.resource.ListKey(place)
		if list, isList := current.([]any); key != "" && (isList || !ok || current == nil) && len(ours) > 0 {
			c.keyed(place, key, list, ours)
			return
		}
	}
	if !ok || !jsonvalue.Equal(current, ours) {
		c.fields = append(c.fields, Field{Place: place, Current: current, HasCurrent: ok && current != nil, Target: ours, HasNew: true})
	}
}

// keyed compares the elements of ours with those of the same key.
func (c *comparison) keyed(place jsonvalue.Pointer, key string, current, ours []any) {
	for _, element := range ours {
		name := keyOf(element, key)
		value, ok := find(current, key, name)
		c.values(place.Child(name), value, ok, element)
	}
}

// keyOf is the text of an element's key; "" without one.
func keyOf(element any, key string) string {
	object, _ := element.(map[string]any)
	value, ok := object[key]
	if !ok || value == nil {
		return ""
	}
	if text, ok := value.(string); ok {
		return text
	}
	return jsonvalue.Canonical(value)
}

func find(list []any, key, name string) (any, bool) {
	i := slices.IndexFunc(list, func(element any) bool { return name != "" && keyOf(element, key) == name })
	if i < 0 {
		return nil, false
	}
	return list[i], true
}

// Project returns what production has of the fields of ours.
func Project(resource *profile.Resource, current, ours map[string]any) map[string]any {
	return projectObject(resource, nil, current, ours)
}

func projectObject(resource *profile.Resource, place jsonvalue.Pointer, current, ours map[string]any) map[string]any {
	projected := map[string]any{}
	for key, value := range ours {
		if there, ok := current[key]; ok {
			projected[key] = project(resource, place.Child(key), there, value)
		}
	}
	return projected
}

func project(resource *profile.Resource, place jsonvalue.Pointer, current, ours any) any {
	switch ours := ours.(type) {
	case map[string]any:
		if object, ok := current.(map[string]any); ok && !resource.IsWhole(place) {
			return projectObject(resource, place, object, ours)
		}
	case []any:
		list, ok := current.([]any)
		key := resource.ListKey(place)
		if !ok || key == "" {
			break
		}
		projected := []any{}
		for _, element := range ours {
			name := keyOf(element, key)
			if there, ok := find(list, key, name); ok {
				projected = append(projected, project(resource, place.Child(name), there, element))
			}
		}
		return projected
	}
	return current
}

// Overlay returns production's body with the fields of ours in it: what a write sends
// that replaces the whole thing.
func Overlay(resource *profile.Resource, current, ours map[string]any) map[string]any {
	return overlayObject(resource, nil, current, ours)
}

func overlayObject(resource *profile.Resource, place jsonvalue.Pointer, current, ours map[string]any) map[string]any {
	merged, _ := jsonvalue.Clone(current).(map[string]any)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range ours {
		if value == nil {
			delete(merged, key)
			continue
		}
		merged[key] = overlay(resource, place.Child(key), merged[key], value)
	}
	return merged
}

func overlay(resource *profile.Resource, place jsonvalue.Pointer, current, ours any) any {
	switch ours := ours.(type) {
	case map[string]any:
		if object, ok := current.(map[string]any); ok && !resource.IsWhole(place) {
			return overlayObject(resource, place, object, ours)
		}
	case []any:
		if list, ok := current.([]any); ok && resource.ListKey(place) != "" {
			return overlayKeyed(resource, place, list, ours)
		}
	}
	return jsonvalue.Clone(ours)
}

// overlayKeyed keeps production's elements and their order, and adds new ones behind them.
func overlayKeyed(resource *profile.Resource, place jsonvalue.Pointer, current, ours []any) []any {
	key := resource.ListKey(place)
	merged := []any{}
	for _, there := range current {
		name := keyOf(there, key)
		if element, ok := find(ours, key, name); ok {
			merged = append(merged, overlay(resource, place.Child(name), there, element))
			continue
		}
		merged = append(merged, jsonvalue.Clone(there))
	}
	for _, element := range ours {
		if _, ok := find(current, key, keyOf(element, key)); !ok {
			merged = append(merged, jsonvalue.Clone(element))
		}
	}
	return merged
}

// Ours returns the fields of ours only, in which lists with keys are whole: what a write
// sends that leaves other fields alone.
func Ours(resource *profile.Resource, current, ours map[string]any) map[string]any {
	return oursObject(resource, nil, current, ours)
}

func oursObject(resource *profile.Resource, place jsonvalue.Pointer, current, ours map[string]any) map[string]any {
	sent := map[string]any{}
	for key, value := range ours {
		at := place.Child(key)
		switch value := value.(type) {
		case map[string]any:
			object, _ := current[key].(map[string]any)
			sent[key] = oursObject(resource, at, object, value)
		default:
			sent[key] = overlay(resource, at, current[key], value)
		}
	}
	return sent
}

// Leaves lists the fields of a value that have no fields of their own.
func Leaves(place jsonvalue.Pointer, value any) []Field {
	object, ok := value.(map[string]any)
	if !ok || len(object) == 0 {
		return []Field{{Place: place, Current: value, HasCurrent: true}}
	}
	var leaves []Field
	for _, key := range slices.Sorted(maps.Keys(object)) {
		leaves = append(leaves, Leaves(place.Child(key), object[key])...)
	}
	return leaves
}

// MissingKey returns the place of an element of ours whose list has keys, and which has
// none, or one that another has.
func MissingKey(resource *profile.Resource, ours map[string]any) (place string, ok bool) {
	return missingKey(resource, nil, ours)
}

func missingKey(resource *profile.Resource, place jsonvalue.Pointer, value any) (string, bool) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if at, ok := missingKey(resource, place.Child(name), value[name]); ok {
				return at, true
			}
		}
	case []any:
		key := resource.ListKey(place)
		seen := map[string]bool{"": true}
		for i, element := range value {
			if name := keyOf(element, key); key != "" {
				if seen[name] {
					return place.Child(strconv.Itoa(i)).String(), true
				}
				seen[name] = true
			}
		}
	}
	return "", false
}

var word = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// Path writes a place as the path of a change: body.dashboard["a b"].
func Path(place jsonvalue.Pointer) string {
	path := "body"
	for _, part := range place {
		if word.MatchString(part) {
			path += "." + part
			continue
		}
		path += "[" + strconv.Quote(part) + "]"
	}
	return path
}
