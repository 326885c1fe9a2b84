package rule

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/spell"
)

// Assignment gives a field of the payload the value of an expression.
type Assignment struct {
	*program
	field Field
}

// Field of a payload type: a field of it, or of a message within it, or the
// entry of a map from texts.
type Field struct {
	set  *schema.Set
	path string
	// parents are the fields that lead to the message that has the last one.
	parents []protoreflect.FieldDescriptor
	last    protoreflect.FieldDescriptor
	// key of an entry of last, which is a map then.
	key    string
	entry  bool
	secret bool
	// within is where in the JSON that last holds as a text; none: last itself.
	within []string
}

// FindField finds a field by its path, such as payload.health.path or
// payload.env["KEY"]. Invalid says what may have been meant.
func (e *Environment) FindField(path string, payloadType intent.TypeName) (Field, error) {
	message, err := e.set.New(payloadType)
	if err != nil {
		return Field{}, err
	}
	f := Field{set: e.set, path: path}
	wrong := func(hint string, format string, arguments ...any) (Field, error) {
		return Field{}, fault.New(fault.Invalid, "field %.200q: %s", path, fmt.Sprintf(format, arguments...)).WithHint("%s", hint)
	}
	rest, ok := strings.CutPrefix(path, "payload.")
	if !ok {
		return wrong(`write payload.replicas, or payload.env["KEY"]`, "it is not a field of the payload")
	}
	if names, key, isKeyed := strings.Cut(rest, "["); isKeyed {
		quoted, closed := strings.CutSuffix(key, "]")
		if f.key, err = strconv.Unquote(quoted); err != nil || !closed {
			return wrong(`write payload.env["KEY"]`, "the key is not a text in quotes")
		}
		rest, f.entry = names, true
	}
	holder := message.ProtoReflect().Descriptor()
	for name := range strings.SplitSeq(rest, ".") {
		if f.last != nil {
			if holdsJSON(f.last) {
				f.within = append(f.within, name)
				continue
			}
			if f.last.Message() == nil || f.last.IsList() || f.last.IsMap() {
				return wrong("set it as a whole", "%s has no fields of its own", f.last.Name())
			}
			f.parents, holder = append(f.parents, f.last), f.last.Message()
		}
		if f.last = holder.Fields().ByName(protoreflect.Name(name)); f.last == nil {
			var names []string
			for i := range holder.Fields().Len() {
				names = append(names, string(holder.Fields().Get(i).Name()))
			}
			hint := "its fields are " + shorten(strings.Join(names, ", "))
			if suggestion := spell.Nearest(name, names); suggestion != "" {
				hint = fmt.Sprintf("did you mean %s?", suggestion)
			}
			return wrong(hint, "no field %q of %s", shorten(name), holder.FullName())
		}
		f.secret = f.secret || schema.IsSecret(f.last)
	}
	if f.entry && holdsJSON(f.last) {
		f.within, f.entry = append(f.within, f.key), false
	}
	if f.entry && (!f.last.IsMap() || f.last.MapKey().Kind() != protoreflect.StringKind) {
		return wrong("leave the key out", "%s is no map from texts", f.last.Name())
	}
	return f, nil
}

// Path is as in filters.
func (f Field) Path() string { return f.path }

// Shown is the field's value as people see it; empty: it is not set.
func (f Field) Shown(asset intent.Asset) (string, error) {
	payload, err := f.set.Unpack(asset.Payload)
	if err != nil {
		return "", err
	}
	value, isSet := f.get(payload.ProtoReflect())
	switch {
	case !isSet:
		return "", nil
	case f.secret:
		return schema.Redacted, nil
	}
	return display(f.kind(), value), nil
}

// Value tells different values of the field apart. It may be a secret.
func (f Field) Value(asset intent.Asset) (string, error) {
	payload, err := f.set.Unpack(asset.Payload)
	if err != nil {
		return "", err
	}
	value, isSet := f.get(payload.ProtoReflect())
	if !isSet {
		return "", nil
	}
	if len(f.within) > 0 {
		return "=" + value.String(), nil
	}
	// A message that has nothing else holds it in canonical bytes.
	only := payload.ProtoReflect().New()
	at := only
	for _, field := range f.parents {
		at = at.Mutable(field).Message()
	}
	if f.entry {
		at.Mutable(f.last).Map().Set(protoreflect.ValueOfString(f.key).MapKey(), value)
	} else {
		at.Set(f.last, value)
	}
	bytes, err := f.set.Canonical(only.Interface())
	return "=" + string(bytes), err
}

// IsSet reports whether an asset of the type has the field.
func (f Field) IsSet(asset intent.Asset) (bool, error) {
	payload, err := f.set.Unpack(asset.Payload)
	if err != nil {
		return false, err
	}
	_, isSet := f.get(payload.ProtoReflect())
	return isSet, nil
}

// Assign compiles what a field of assets of a type is given.
func (e *Environment) Assign(field Field, text string, payloadType intent.TypeName) (*Assignment, error) {
	p, err := e.program(text, payloadType, Alone)
	if err != nil {
		return nil, err
	}
	if wanted := field.kind(); !wanted.takes(p.result) {
		return nil, p.invalid("gives %s, and %s is %s", p.output(), field.path, wanted.name())
	}
	return &Assignment{program: p, field: field}, nil
}

// Field that is assigned to.
func (a *Assignment) Field() Field { return a.field }

// Apply gives the asset with the field's new value. With onlyUnset, a field that
// is set stays as it is, and an empty value leaves one unset that is not.
func (a *Assignment) Apply(asset intent.Asset, onlyUnset bool) (intent.Asset, error) {
	payload, err := a.field.set.Unpack(asset.Payload)
	if err != nil {
		return asset, err
	}
	message := payload.ProtoReflect()
	if _, isSet := a.field.get(message); isSet && onlyUnset {
		return asset, nil
	}
	value, err := a.evaluate(asset)
	if err != nil {
		return asset, err
	}
	empty, err := a.field.put(message, value, onlyUnset)
	if err != nil {
		return asset, a.failf(asset, "%s", err)
	}
	if empty {
		return asset, nil
	}
	packed, err := a.field.set.Pack(payload)
	if err == nil && string(packed.Bytes) != string(asset.Payload.Bytes) {
		asset.Payload = packed
	}
	return asset, err
}

// get the value, and whether it is set.
func (f Field) get(message protoreflect.Message) (value protoreflect.Value, isSet bool) {
	for _, field := range f.parents {
		if !message.Has(field) {
			return value, false
		}
		message = message.Get(field).Message()
	}
	if !message.Has(f.last) {
		return value, false
	}
	value = message.Get(f.last)
	if len(f.within) > 0 {
		return readWithin(value.String(), f.within)
	}
	if !f.entry {
		return value, true
	}
	value = value.Map().Get(protoreflect.ValueOfString(f.key).MapKey())
	return value, value.IsValid()
}

// put the value where the path leads. With fill, an empty one is not put.
func (f Field) put(message protoreflect.Message, celValue ref.Val, fill bool) (empty bool, err error) {
	if len(f.within) > 0 {
		return f.putWithin(message, celValue, fill)
	}
	scratch := message
	for _, field := range f.parents {
		scratch = scratch.NewField(field).Message()
	}
	value, err := f.kind().value(celValue, func() protoreflect.Value {
		if f.entry {
			return scratch.NewField(f.last).Map().NewValue()
		}
		return scratch.NewField(f.last)
	})
	if err != nil || fill && isEmpty(f.kind(), value) {
		return err == nil, err
	}
	at := message
	for _, field := range f.parents {
		at = at.Mutable(field).Message()
	}
	if f.entry {
		at.Mutable(f.last).Map().Set(protoreflect.ValueOfString(f.key).MapKey(), value)
		return false, nil
	}
	at.Set(f.last, value)
	return false, nil
}

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
