package rule

import (
	"fmt"
	"math"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lehr.dev/internal/ground/fault"
)

// kind of value that a field takes.
type kind struct {
	field protoreflect.FieldDescriptor
	// list and entries: the field as a whole is one; else it is an element.
	list, entries bool
	// anyJSON: it is within a text that is JSON, and takes whatever JSON can say.
	anyJSON bool
}

func (f Field) kind() kind {
	if len(f.within) > 0 {
		return kind{field: f.last, anyJSON: true}
	}
	if f.entry {
		return kind{field: f.last.MapValue()}
	}
	return kind{field: f.last, list: f.last.IsList(), entries: f.last.IsMap()}
}

func (k kind) name() string {
	switch {
	case k.anyJSON:
		return "a value of JSON"
	case k.list:
		return "a list of " + kind{field: k.field}.name() + "s"
	case k.entries:
		return "a map"
	case k.field.Kind() == protoreflect.StringKind:
		return "a text"
	case k.field.Message() != nil:
		return "a " + string(k.field.Message().FullName())
	case k.field.Enum() != nil:
		return "a " + string(k.field.Enum().FullName())
	}
	return "a " + k.field.Kind().String()
}

// takes reports whether values of a type of CEL may be the field's.
func (k kind) takes(celType *cel.Type) bool {
	if k.anyJSON || celType.Kind() == types.DynKind || celType.Kind() == types.AnyKind || celType.Kind() == types.TypeParamKind {
		return true
	}
	switch {
	case k.list:
		return celType.Kind() == types.ListKind && (len(celType.Parameters()) == 0 || kind{field: k.field}.takes(celType.Parameters()[0]))
	case k.entries:
		return celType.Kind() == types.MapKind &&
			(len(celType.Parameters()) < 2 || kind{field: k.field.MapKey()}.takes(celType.Parameters()[0]) && kind{field: k.field.MapValue()}.takes(celType.Parameters()[1]))
	}
	number := celType.Kind() == types.IntKind || celType.Kind() == types.UintKind
	switch k.field.Kind() {
	case protoreflect.BoolKind:
		return celType.Kind() == types.BoolKind
	case protoreflect.StringKind:
		return celType.Kind() == types.StringKind
	case protoreflect.BytesKind:
		return celType.Kind() == types.BytesKind
	case protoreflect.EnumKind:
		return number || celType.Kind() == types.StringKind
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return number || celType.Kind() == types.DoubleKind
	case protoreflect.MessageKind, protoreflect.GroupKind:
		switch k.field.Message().FullName() {
		case "google.protobuf.Duration":
			return celType.Kind() == types.DurationKind
		case "google.protobuf.Timestamp":
			return celType.Kind() == types.TimestampKind
		}
		return celType.Kind() == types.StructKind && celType.TypeName() == string(k.field.Message().FullName())
	}
	return number
}

// value of CEL as the field's. New makes an empty list, map or message of it.
func (k kind) value(celValue ref.Val, fresh func() protoreflect.Value) (protoreflect.Value, error) {
	refused := fault.New(fault.Invalid, "gives %s, and the field is %s", celValue.Type().TypeName(), k.name())
	switch {
	case k.list:
		list, ok := celValue.(traits.Lister)
		if !ok {
			return protoreflect.Value{}, refused
		}
		result := fresh()
		for i := list.Iterator(); i.HasNext() == types.True; {
			element, err := kind{field: k.field}.value(i.Next(), result.List().NewElement)
			if err != nil {
				return result, err
			}
			result.List().Append(element)
		}
		return result, nil
	case k.entries:
		entries, ok := celValue.(traits.Mapper)
		if !ok {
			return protoreflect.Value{}, refused
		}
		result := fresh()
		for i := entries.Iterator(); i.HasNext() == types.True; {
			name := i.Next()
			key, err := kind{field: k.field.MapKey()}.scalar(name)
			if err != nil {
				return result, err
			}
			value, err := kind{field: k.field.MapValue()}.value(entries.Get(name), result.Map().NewValue)
			if err != nil {
				return result, err
			}
			result.Map().Set(key.MapKey(), value)
		}
		return result, nil
	case k.field.Message() == nil:
		return k.scalar(celValue)
	}
	var message proto.Message
	switch celValue := celValue.(type) {
	case types.Duration:
		message = durationpb.New(celValue.Duration)
	case types.Timestamp:
		message = timestamppb.New(celValue.Time)
	default:
		message, _ = celValue.Value().(proto.Message)
	}
	if message == nil || message.ProtoReflect().Descriptor().FullName() != k.field.Message().FullName() {
		return protoreflect.Value{}, refused
	}
	result := fresh()
	wire, err := proto.Marshal(message)
	if err == nil {
		err = proto.Unmarshal(wire, result.Message().Interface())
	}
	return result, err
}

// scalar values: numbers must fit the field.
func (k kind) scalar(celValue ref.Val) (protoreflect.Value, error) {
	gives := celValue.Type().TypeName()
	if number, ok := whole(celValue); ok { // A text may be a secret.
		gives = fmt.Sprint(number)
	}
	refused := fault.New(fault.Invalid, "gives %s, and the field is %s", gives, k.name())
	switch k.field.Kind() {
	case protoreflect.BoolKind:
		if truth, ok := celValue.(types.Bool); ok {
			return protoreflect.ValueOfBool(bool(truth)), nil
		}
	case protoreflect.StringKind:
		if text, ok := celValue.(types.String); ok {
			return protoreflect.ValueOfString(string(text)), nil
		}
	case protoreflect.BytesKind:
		if bytes, ok := celValue.(types.Bytes); ok {
			return protoreflect.ValueOfBytes(bytes), nil
		}
	case protoreflect.EnumKind:
		if text, ok := celValue.(types.String); ok {
			if value := k.field.Enum().Values().ByName(protoreflect.Name(text)); value != nil {
				return protoreflect.ValueOfEnum(value.Number()), nil
			}
			return protoreflect.Value{}, refused
		}
		if number, ok := whole(celValue); ok && number >= math.MinInt32 && number <= math.MaxInt32 {
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(number)), nil
		}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		number, ok := celValue.ConvertToType(types.DoubleType).(types.Double)
		if ok && k.field.Kind() == protoreflect.FloatKind {
			return protoreflect.ValueOfFloat32(float32(number)), nil
		}
		if ok {
			return protoreflect.ValueOfFloat64(float64(number)), nil
		}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if number, ok := celValue.ConvertToType(types.UintType).(types.Uint); ok {
			return protoreflect.ValueOfUint64(uint64(number)), nil
		}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		if number, ok := whole(celValue); ok && number >= 0 && number <= math.MaxUint32 {
			return protoreflect.ValueOfUint32(uint32(number)), nil
		}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		if number, ok := whole(celValue); ok && number >= math.MinInt32 && number <= math.MaxInt32 {
			return protoreflect.ValueOfInt32(int32(number)), nil
		}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		if number, ok := whole(celValue); ok {
			return protoreflect.ValueOfInt64(number), nil
		}
	}
	return protoreflect.Value{}, refused
}

// whole number of CEL.
func whole(celValue ref.Val) (int64, bool) {
	switch celValue := celValue.(type) {
	case types.Int:
		return int64(celValue), true
	case types.Uint:
		return int64(celValue), celValue <= math.MaxInt64
	}
	return 0, false
}

func isEmpty(k kind, value protoreflect.Value) bool {
	switch {
	case k.list:
		return value.List().Len() == 0
	case k.entries:
		return value.Map().Len() == 0
	case k.field.Message() != nil:
		return proto.Size(value.Message().Interface()) == 0
	case k.field.Kind() == protoreflect.BytesKind:
		return len(value.Bytes()) == 0
	case k.field.Enum() != nil:
		return value.Enum() == 0
	}
	return value.Equal(zero(k.field))
}

// zero of a scalar; a field's default may be another.
func zero(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(false)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("")
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(0)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(0)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(0)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(0)
	}
	return protoreflect.ValueOfInt64(0)
}

// display is a value for people. It is bounded.
func display(k kind, value protoreflect.Value) string {
	switch {
	case k.anyJSON:
		return shorten(value.String())
	case k.list:
		return fmt.Sprintf("%d entries", value.List().Len())
	case k.entries:
		return fmt.Sprintf("%d entries", value.Map().Len())
	case k.field.Message() != nil:
		switch known := value.Message().Interface().(type) {
		case *durationpb.Duration:
			return known.AsDuration().String()
		case *timestamppb.Timestamp:
			return known.AsTime().Format("2006-01-02T15:04:05.999999999Z")
		}
		return "{…}"
	case k.field.Kind() == protoreflect.StringKind:
		return strconv.Quote(shorten(value.String()))
	case k.field.Kind() == protoreflect.BytesKind:
		return fmt.Sprintf("%d bytes", len(value.Bytes()))
	case k.field.Enum() != nil:
		if named := k.field.Enum().Values().ByNumber(value.Enum()); named != nil {
			return string(named.Name())
		}
	}
	return value.String()
}
