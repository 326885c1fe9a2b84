package world

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// covers reports whether a path of the addon Unmanaged names the path or
// something above it; "[*]" is any key.
func covers(pattern, path string) bool {
	if field, element, ok := strings.Cut(pattern, "["); ok && strings.HasPrefix(element, "*]") {
		return strings.HasPrefix(path, field+"[") || path == field
	}
	rest, ok := strings.CutPrefix(path, pattern)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// leave copies production's value at the path into the target. What lies
// deeper than an entry of a map, or below a list, is left with all of it.
func leave(target, current protoreflect.Message, path string) {
	name, rest := path, ""
	if end := strings.IndexAny(path, ".["); end >= 0 {
		name, rest = path[:end], path[end:]
	}
	field := target.Descriptor().Fields().ByName(protoreflect.Name(name))
	switch {
	case field == nil:
	case field.IsMap() && rest != "":
		leaveEntries(target, current, field, rest)
	case rest != "" && rest[0] == '.' && field.Message() != nil && !field.IsList() && !field.IsMap():
		if current.Has(field) && target.Has(field) {
			leave(target.Mutable(field).Message(), current.Get(field).Message(), rest[1:])
		}
	case current.Has(field):
		target.Set(field, current.Get(field))
	default:
		target.Clear(field)
	}
}

func leaveEntries(target, current protoreflect.Message, field protoreflect.FieldDescriptor, rest string) {
	matches := func(key protoreflect.MapKey) bool {
		return strings.HasPrefix(rest, "[*]") || strings.HasPrefix(rest, renderKey(key)) || strings.HasPrefix(rest, "["+key.String()+"]")
	}
	from, to := current.Get(field).Map(), target.Mutable(field).Map()
	var gone []protoreflect.MapKey
	to.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		if matches(key) && !from.Has(key) {
			gone = append(gone, key)
		}
		return true
	})
	for _, key := range gone {
		to.Clear(key)
	}
	from.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		if matches(key) {
			to.Set(key, value)
		}
		return true
	})
}
