package objectdiff

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var (
	word    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
	segment = regexp.MustCompile(`^(?:\.?([A-Za-z_][A-Za-z0-9_-]*)|\["((?:[^"\\]|\\.)*)"\]|\[([A-Za-z_]+)=([^\]]*)\]|\[([0-9]+)\])`)
)

// ParsePath reads a path as Text writes it, such as
// spec.template.spec.containers[name=web].image.
func ParsePath(text string) (fieldpath.Path, error) {
	var path fieldpath.Path
	for rest := text; rest != ""; {
		found := segment.FindStringSubmatch(rest)
		if found == nil {
			return nil, fmt.Errorf(`%q is no path of a field at %q: write for example spec.replicas, metadata.labels["a.b/c"] or spec.containers[name=web].image`, text, rest)
		}
		switch {
		case found[1] != "":
			path = append(path, fieldpath.FieldNameElement(found[1]))
		case found[3] != "":
			path = append(path, fieldpath.KeyElementByFields(found[3], found[4]))
		case found[5] != "":
			index, err := strconv.Atoi(found[5])
			if err != nil {
				return nil, err
			}
			path = append(path, fieldpath.IndexElement(index))
		default:
			name, err := strconv.Unquote(`"` + found[2] + `"`)
			if err != nil {
				return nil, err
			}
			path = append(path, fieldpath.FieldNameElement(name))
		}
		rest = rest[len(found[0]):]
	}
	return path, nil
}

// Text is a path for people.
func Text(path fieldpath.Path) string {
	var text strings.Builder
	for _, element := range path {
		switch {
		case element.FieldName != nil && word.MatchString(*element.FieldName):
			if text.Len() > 0 {
				text.WriteByte('.')
			}
			text.WriteString(*element.FieldName)
		case element.FieldName != nil:
			fmt.Fprintf(&text, "[%q]", *element.FieldName)
		case element.Key != nil:
			var keys []string
			for _, field := range *element.Key {
				keys = append(keys, fmt.Sprintf("%s=%v", field.Name, field.Value.Unstructured()))
			}
			fmt.Fprintf(&text, "[%s]", strings.Join(keys, ","))
		case element.Value != nil:
			encoded, _ := json.Marshal((*element.Value).Unstructured())
			fmt.Fprintf(&text, "[=%s]", encoded)
		case element.Index != nil:
			fmt.Fprintf(&text, "[%d]", *element.Index)
		}
	}
	return text.String()
}

// Get returns the value at a path.
func Get(object any, path fieldpath.Path) (value any, ok bool) {
	for _, element := range path {
		if object, ok = step(object, element); !ok {
			return nil, false
		}
	}
	return object, true
}

func step(container any, element fieldpath.PathElement) (any, bool) {
	if element.FieldName != nil {
		fields, _ := container.(map[string]any)
		value, ok := fields[*element.FieldName]
		return value, ok
	}
	list, _ := container.([]any)
	i := find(list, element)
	if i < 0 {
		return nil, false
	}
	return list[i], true
}

// find returns the index of a list's element; -1: it has none such.
func find(list []any, element fieldpath.PathElement) int {
	if element.Index != nil {
		if *element.Index < len(list) {
			return *element.Index
		}
		return -1
	}
	for i, one := range list {
		if element.Value != nil && same((*element.Value).Unstructured(), one) {
			return i
		}
		fields, ok := one.(map[string]any)
		if element.Key == nil || !ok {
			continue
		}
		matches := true
		for _, key := range *element.Key {
			matches = matches && same(key.Value.Unstructured(), fields[key.Name])
		}
		if matches {
			return i
		}
	}
	return -1
}

// same compares values of JSON, of which numbers come in several types.
func same(one, other any) bool {
	if reflect.DeepEqual(one, other) {
		return true
	}
	a, err := json.Marshal(one)
	if err != nil {
		return false
	}
	b, err := json.Marshal(other)
	return err == nil && string(a) == string(b)
}

// Set puts a value at a path whose containers are there; it reports whether they were.
func Set(object map[string]any, path fieldpath.Path, value any) bool {
	return alter(object, path, func(fields map[string]any, name string) { fields[name] = value })
}

// Remove takes the value at a path away.
func Remove(object map[string]any, path fieldpath.Path) {
	alter(object, path, func(fields map[string]any, name string) { delete(fields, name) })
}

func alter(object map[string]any, path fieldpath.Path, change func(map[string]any, string)) bool {
	if len(path) == 0 || path[len(path)-1].FieldName == nil {
		return false
	}
	container, ok := Get(object, path[:len(path)-1])
	fields, isMap := container.(map[string]any)
	if !ok || !isMap {
		return false
	}
	change(fields, *path[len(path)-1].FieldName)
	return true
}
