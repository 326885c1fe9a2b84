package schema

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// plan is what the encoder needs to know of a message type, worked out once.
type plan struct {
	fields     []fieldPlan // by number
	extensible bool
	isAny      bool
}

type shape uint8

const (
	shapeSingle shape = iota
	shapeList
	shapePacked
	shapeMap
)

type fieldPlan struct {
	descriptor protoreflect.FieldDescriptor
	tag        uint64
	kind       protoreflect.Kind
	shape      shape
	implicit   bool
	required   bool
	// key and element of a map.
	key, element *fieldPlan
	// reference is the mark, or nil.
	reference *intentpb.Reference
	// use is what a plugin does with it.
	use intentpb.Use
}

func (f *fieldPlan) name() string { return string(f.descriptor.Name()) }

func (e *encoder) plan(descriptor protoreflect.MessageDescriptor) *plan {
	if cached, ok := e.plans.Load(descriptor); ok {
		return cached.(*plan)
	}
	created := &plan{
		extensible: descriptor.ExtensionRanges().Len() > 0,
		isAny:      descriptor.FullName() == "google.protobuf.Any",
	}
	fields := descriptor.Fields()
	for i := range fields.Len() {
		created.fields = append(created.fields, planField(fields.Get(i)))
	}
	sortByNumber(created.fields)
	e.plans.Store(descriptor, created)
	return created
}

func planField(field protoreflect.FieldDescriptor) fieldPlan {
	f := fieldPlan{
		descriptor: field,
		kind:       field.Kind(),
		implicit:   !field.HasPresence(),
		required:   field.Cardinality() == protoreflect.Required,
		reference:  mark(field),
		use:        useOf(field),
	}
	wire := wireType(f.kind)
	switch {
	case field.IsMap():
		f.shape = shapeMap
		key, element := planField(field.MapKey()), planField(field.MapValue())
		f.key, f.element = &key, &element
	case field.IsPacked():
		f.shape, wire = shapePacked, protowire.BytesType
	case field.IsList():
		f.shape = shapeList
	}
	f.tag = protowire.EncodeTag(field.Number(), wire)
	return f
}

func wireType(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	default:
		return protowire.VarintType
	}
}

func sortByNumber(fields []fieldPlan) {
	slices.SortFunc(fields, func(a, b fieldPlan) int {
		return cmp.Compare(a.descriptor.Number(), b.descriptor.Number())
	})
}

// withExtensions adds the extensions that the message has to its own fields.
func (p *plan) withExtensions(m protoreflect.Message) []fieldPlan {
	fields := slices.Clone(p.fields)
	m.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if field.IsExtension() {
			fields = append(fields, planField(field))
		}
		return true
	})
	sortByNumber(fields)
	return fields
}

func (f *fieldPlan) compareKeys(a, b protoreflect.MapKey) int {
	switch f.key.kind {
	case protoreflect.StringKind:
		return cmp.Compare(a.String(), b.String())
	case protoreflect.BoolKind:
		return cmp.Compare(protowire.EncodeBool(a.Bool()), protowire.EncodeBool(b.Bool()))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return cmp.Compare(a.Uint(), b.Uint())
	default:
		return cmp.Compare(a.Int(), b.Int())
	}
}
