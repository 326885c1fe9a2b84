package addon

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Add gives an addon to a list that a renderer makes: in the place of the one of its type,
// or, of a kind that is merged, added to it. What the addon says wins. The list's own
// messages are not changed.
func (k Kind) Add(list []proto.Message, addon proto.Message) []proto.Message {
	result := make([]proto.Message, 0, len(list)+1)
	for _, existing := range list {
		if existing.ProtoReflect().Descriptor().FullName() != k.FullName() {
			result = append(result, existing)
			continue
		}
		if k.Form.GetMerged() {
			addon = k.merged(existing, addon)
		}
	}
	return append(result, addon)
}

// merged is what both say; of an entry that both have, what the second says.
func (k Kind) merged(first, second proto.Message) proto.Message {
	result := proto.Clone(first).ProtoReflect()
	for _, field := range k.Fields() {
		source := second.ProtoReflect().Get(field)
		switch {
		case field.IsMap():
			target := result.Mutable(field).Map()
			source.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				target.Set(key, value)
				return true
			})
		case field.IsList():
			list, name := result.Mutable(field).List(), field.Message().Fields().Get(0)
			for i := range source.List().Len() {
				element := source.List().Get(i)
				at := list.Len()
				for j := range list.Len() {
					if sameEntry(field, name, list.Get(j).Message(), element.Message()) {
						at = j
					}
				}
				if at < list.Len() {
					list.Set(at, element)
				} else {
					list.Append(element)
				}
			}
		}
	}
	return result.Interface()
}

// sameEntry reports whether two elements of a list say something of the same: a pair by
// its name, others by all that they say.
func sameEntry(field, name protoreflect.FieldDescriptor, a, b protoreflect.Message) bool {
	if key, _ := pair(field); key != nil {
		return a.Get(name).String() == b.Get(name).String()
	}
	return proto.Equal(a.Interface(), b.Interface())
}

// EntriesOf are the entries of an addon in the field that Entries names.
func EntriesOf(m protoreflect.Message, entries protoreflect.FieldDescriptor) map[string]string {
	result := map[string]string{}
	if entries.IsMap() {
		m.Get(entries).Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			result[key.String()] = value.String()
			return true
		})
		return result
	}
	name, value := pair(entries)
	list := m.Get(entries).List()
	for i := range list.Len() {
		element := list.Get(i).Message()
		result[element.Get(name).String()] = element.Get(value).String()
	}
	return result
}

// SetEntry adds an entry that is not there yet.
func SetEntry(m protoreflect.Message, entries protoreflect.FieldDescriptor, name, text string) {
	if entries.IsMap() {
		m.Mutable(entries).Map().Set(protoreflect.ValueOfString(name).MapKey(), protoreflect.ValueOfString(text))
		return
	}
	nameField, valueField := pair(entries)
	element := m.Mutable(entries).List().AppendMutable().Message()
	element.Set(nameField, protoreflect.ValueOfString(name))
	element.Set(valueField, protoreflect.ValueOfString(text))
}
