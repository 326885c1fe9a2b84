package jsonvalue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Pointer is a JSON pointer (RFC 6901), part by part. The part "*" stands for each
// element of a list or each key of an object, where a function says that it may.
type Pointer []string

var (
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
)

// ParsePointer reads "/a/b", or "" for the whole value.
func ParsePointer(text string) (Pointer, error) {
	if text == "" {
		return nil, nil
	}
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("%q is no JSON pointer: it begins with /, such as /metadata/name", text)
	}
	parts := strings.Split(text[1:], "/")
	for i, part := range parts {
		parts[i] = unescape.Replace(part)
	}
	return parts, nil
}

func (p Pointer) String() string {
	var b strings.Builder
	for _, part := range p {
		b.WriteString("/" + escape.Replace(part))
	}
	return b.String()
}

// Child is the pointer to a key below it.
func (p Pointer) Child(key string) Pointer { return append(slices.Clip(p), key) }

// Covers reports whether another pointer is p, or lies below it; "*" in p stands for
// any part.
func (p Pointer) Covers(other Pointer) bool {
	if len(other) < len(p) {
		return false
	}
	for i, part := range p {
		if part != "*" && part != other[i] {
			return false
		}
	}
	return true
}

// Get returns what p leads to. Where p has "*" it is the list of what the rest of p
// leads to in each element; elements that have no such thing are left out.
func (p Pointer) Get(value any) (found any, ok bool) {
	for i, part := range p {
		switch container := value.(type) {
		case map[string]any:
			if value, ok = container[part]; !ok {
				return nil, false
			}
		case []any:
			if part == "*" {
				return p[i+1:].each(container), true
			}
			index, err := strconv.Atoi(part)
			if err != nil || index < 0 || index >= len(container) || strconv.Itoa(index) != part {
				return nil, false
			}
			value = container[index]
		default:
			return nil, false
		}
	}
	return value, true
}

func (p Pointer) each(list []any) []any {
	all := []any{}
	for _, element := range list {
		if value, ok := p.Get(element); ok {
			all = append(all, value)
		}
	}
	return all
}

// Set puts a value at p, and makes the objects that are missing above it. Lists are
// not made, and p has no "*". It changes the object.
func (p Pointer) Set(object map[string]any, value any) error {
	if len(p) == 0 {
		return fmt.Errorf("the whole object cannot be set as one of its fields")
	}
	for i, part := range p[:len(p)-1] {
		below, ok := object[part]
		if !ok || below == nil {
			below = map[string]any{}
			object[part] = below
		}
		next, ok := below.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %s, not an object, so %s cannot be set", p[:i+1], Describe(below), p)
		}
		object = next
	}
	object[p[len(p)-1]] = value
	return nil
}

// Delete removes what p leads to; "*" stands for each element or key. It changes the
// value. Elements of lists themselves are never removed.
func (p Pointer) Delete(value any) {
	if len(p) == 0 {
		return
	}
	switch container := value.(type) {
	case map[string]any:
		if len(p) == 1 {
			if p[0] == "*" {
				clear(container)
			}
			delete(container, p[0])
			return
		}
		for key, below := range container {
			if p[0] == "*" || p[0] == key {
				p[1:].Delete(below)
			}
		}
	case []any:
		for i, below := range container {
			if p[0] == "*" || p[0] == strconv.Itoa(i) {
				p[1:].Delete(below)
			}
		}
	}
}
