package rule

import (
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types/ref"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/spell"
)

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
