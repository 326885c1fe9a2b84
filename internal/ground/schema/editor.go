package schema

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
)

// JSONSchema is the JSON Schema, of draft 2020-12, of a message in JSON or YAML,
// for editors. Fields have their names of the .proto file and those of JSON.
// NotFound when there is no such type.
func (s *Set) JSONSchema(name intent.TypeName) (map[string]any, error) {
	messageType, err := s.find(name)
	if err != nil {
		return nil, err
	}
	e := editor{}
	root := e.message(messageType.Descriptor())
	root = map[string]any{"allOf": []any{root}, "$schema": "https://json-schema.org/draft/2020-12/schema", "title": string(name), "$defs": map[string]any(e)}
	return root, nil
}

// editor gathers the definitions of messages by their full names.
type editor map[string]any

// message refers to a definition, and makes it where it is not there yet.
func (e editor) message(m protoreflect.MessageDescriptor) map[string]any {
	if m.FullName().Parent() == "google.protobuf" {
		if standard := wellKnown(m); standard != nil {
			return standard
		}
	}
	name := string(m.FullName())
	if e[name] == nil {
		properties := map[string]any{}
		definition := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
		e[name] = definition // Before its fields, which may be of it.
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			value := e.field(field)
			properties[string(field.Name())] = value
			properties[field.JSONName()] = value
		}
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

func (e editor) field(field protoreflect.FieldDescriptor) map[string]any {
	switch {
	case field.IsMap():
		return map[string]any{"type": "object", "additionalProperties": e.value(field.MapValue())}
	case field.IsList():
		return map[string]any{"type": "array", "items": e.value(field)}
	}
	return e.value(field)
}

// value of one element. Numbers may be texts, as in JSON those of 64 bits are.
func (e editor) value(field protoreflect.FieldDescriptor) map[string]any {
	switch kind := field.Kind(); kind {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return e.message(field.Message())
	case protoreflect.EnumKind:
		names := []string{}
		for i := range field.Enum().Values().Len() {
			names = append(names, string(field.Enum().Values().Get(i).Name()))
		}
		if field.Enum().FullName() == "google.protobuf.NullValue" {
			return map[string]any{"type": "null"}
		}
		return map[string]any{"anyOf": []any{map[string]any{"enum": names}, map[string]any{"type": "integer"}}}
	case protoreflect.BoolKind:
		return map[string]any{"type": "boolean"}
	case protoreflect.StringKind, protoreflect.BytesKind:
		return map[string]any{"type": "string"}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return map[string]any{"type": []string{"number", "string"}}
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return map[string]any{"type": []string{"integer", "string"}, "minimum": 0, "pattern": "^[0-9]+$"}
	default:
		return map[string]any{"type": []string{"integer", "string"}, "pattern": "^-?[0-9]+$"}
	}
}

// wellKnown are the types that have a form of their own in JSON; nil: it has
// that of its fields.
func wellKnown(m protoreflect.MessageDescriptor) map[string]any {
	switch m.Name() {
	case "Duration", "Timestamp", "FieldMask":
		return map[string]any{"type": "string"}
	case "Struct":
		return map[string]any{"type": "object"}
	case "ListValue":
		return map[string]any{"type": "array"}
	case "Value":
		return map[string]any{}
	case "Any":
		return map[string]any{"type": "object", "required": []string{"@type"}}
	case "BoolValue", "StringValue", "BytesValue", "FloatValue", "DoubleValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value":
		return editor{}.value(m.Fields().ByName("value"))
	}
	return nil
}
