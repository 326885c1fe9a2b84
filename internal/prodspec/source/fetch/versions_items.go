package fetch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"lehr.dev/internal/ground/versionlist"
	"lehr.dev/internal/prodspec/source"
)

// itemsOf finds the list in a JSON document: at a pointer, else the document itself, its "versions",
// or an object of versions by name.
func itemsOf(text []byte, pointer string) ([]map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, errors.New("it is not JSON")
	}
	part, ok := valueAt(document, pointer)
	if !ok {
		return nil, fmt.Errorf("it has nothing at %s", quoted(pointer))
	}
	if object, ok := part.(map[string]any); ok && pointer == "" && object["versions"] != nil {
		part = object["versions"]
	}
	var items []map[string]any
	switch list := part.(type) {
	case []any:
		for _, one := range list {
			switch item := one.(type) {
			case map[string]any:
				items = append(items, item)
			case string:
				items = append(items, map[string]any{"version": item})
			default:
				return nil, errors.New("its list has an item that is neither an object nor a text")
			}
		}
	case map[string]any:
		for _, name := range sorted(list) {
			item, ok := list[name].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("of %s it says what is no object", quoted(name))
			}
			named := map[string]any{"version": name}
			for key, value := range item {
				named[key] = value
			}
			items = append(items, named)
		}
	default:
		return nil, errors.New("it is neither a list nor an object of versions")
	}
	return items, nil
}

// valueAt follows a JSON pointer (RFC 6901); a text that begins with no slash is one key.
func valueAt(value any, pointer string) (any, bool) {
	if pointer == "" {
		return value, true
	}
	if !strings.HasPrefix(pointer, "/") {
		pointer = "/" + pointer
	}
	for _, part := range strings.Split(pointer[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		object, ok := value.(map[string]any)
		if !ok {
			list, ok := value.([]any)
			var index int
			if n, err := fmt.Sscanf(part, "%d", &index); !ok || n != 1 || err != nil || index < 0 || index >= len(list) {
				return nil, false
			}
			value = list[index]
			continue
		}
		if value, ok = object[part]; !ok {
			return nil, false
		}
	}
	return value, true
}

// textAt is a value of an item as a text; empty: it is not there, or no text, number or truth.
func textAt(item map[string]any, pointer string) string {
	value, _ := valueAt(item, pointer)
	switch value := value.(type) {
	case string:
		return value
	case json.Number, bool:
		return fmt.Sprint(value)
	}
	return ""
}

// addItem takes what a document says of one version. Fields are found under their own names, or
// where the definition says.
func (l *look) addItem(item map[string]any) {
	var v versionlist.Version
	for _, field := range source.MetadataFields {
		place := field
		if told := l.remote.Fields[field]; told != "" {
			place = told
		}
		if text := textAt(item, place); text != "" {
			set(&v, field, text)
		}
	}
	if v.Name == "" {
		v.Name = v.Version
	}
	if v.Name == "" {
		l.refuse(versionlist.Version{Name: "an item without a name"}, versionlist.Unreadable, "it has neither a version nor a name: say where that is with fields: {version: /PLACE}")
		return
	}
	version, ok := l.matches(v.Name)
	if !ok {
		return
	}
	if v.Version == "" || l.pattern != nil || v.Version == v.Name {
		v.Version = version
	}
	l.add(v)
}
