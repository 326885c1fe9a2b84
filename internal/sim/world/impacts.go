package world

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
)

// mostImpacts is how many dimensions are told.
const mostImpacts = 64

// impacts are the amounts that can be counted in any payload, now and at the
// target: a whole number by its field's name, the size of a list or map by its,
// and what a map's entry weighs by its key, as plugins of balancers tell how
// much each upstream gets.
func impacts(w *wanted, diff *comparison) []*pluginpb.Impact {
	now, then := map[string]float64{}, map[string]float64{}
	if diff.current != nil {
		count(diff.current, now)
	}
	if !w.turndown {
		count(diff.target, then)
	}
	names := maps.Clone(now)
	maps.Copy(names, then)
	var impacts []*pluginpb.Impact
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if len(impacts) < mostImpacts {
			impacts = append(impacts, &pluginpb.Impact{Dimension: name, Current: now[name], Target: then[name]})
		}
	}
	return impacts
}

// count adds the amounts of a message. A field's own name goes before a key of
// the same name.
func count(m protoreflect.Message, into map[string]float64) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); field.IsMap() {
			m.Get(field).Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				if weight, weighs := weight(field.MapValue(), value); weighs {
					into[key.String()] = weight
				}
				return true
			})
		}
	}
	for i := range fields.Len() {
		field := fields.Get(i)
		switch value := m.Get(field); {
		case field.IsMap():
			into[string(field.Name())] = float64(value.Map().Len())
		case field.IsList():
			into[string(field.Name())] = float64(value.List().Len())
		case isInteger(field):
			into[string(field.Name())] = amount(value)
		}
	}
}

// weight of a map's entry: a number itself, or the only number of a message.
func weight(field protoreflect.FieldDescriptor, value protoreflect.Value) (float64, bool) {
	if isInteger(field) {
		return amount(value), true
	}
	if field.Kind() != protoreflect.MessageKind {
		return 0, false
	}
	var only protoreflect.FieldDescriptor
	fields := field.Message().Fields()
	for i := range fields.Len() {
		if inner := fields.Get(i); !inner.IsList() && !inner.IsMap() && isInteger(inner) {
			if only != nil {
				return 0, false
			}
			only = inner
		}
	}
	if only == nil {
		return 0, false
	}
	return amount(value.Message().Get(only)), true
}

// isInteger reports whether a field holds whole numbers.
func isInteger(field protoreflect.FieldDescriptor) bool {
	switch field.Kind() {
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return true
	}
	return false
}

func amount(value protoreflect.Value) float64 {
	switch number := value.Interface().(type) {
	case int32:
		return max(0, float64(number))
	case int64:
		return max(0, float64(number))
	case uint32:
		return float64(number)
	case uint64:
		return float64(number)
	}
	return 0
}
