package serve

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

const unmanagedType TypeName = "lehr.intent.v1.Unmanaged"

// unmanagedFields reads the addon that lists what production may own.
func unmanagedFields(addons []Message) ([]*intentpb.UnmanagedField, error) {
	for _, addon := range addons {
		if addon.Type == unmanagedType {
			unmanaged := &intentpb.Unmanaged{}
			err := proto.Unmarshal(addon.Bytes, unmanaged)
			return unmanaged.Fields, err
		}
	}
	return nil, nil
}

// Unmanaged lists the paths of the fields that production may own.
func (a Asset[T]) Unmanaged() ([]string, error) {
	fields, err := unmanagedFields(a.Addons)
	paths := make([]string, len(fields))
	for i, field := range fields {
		paths[i] = field.Path
	}
	return paths, err
}

// leaveUnmanaged replaces, in the target, the fields that production may own
// by production's values, and returns the differences it so leaves.
func (k *resourceKind[T]) leaveUnmanaged(change *Change[T]) ([]FieldChange, error) {
	fields, err := unmanagedFields(change.Asset.Addons)
	if err != nil || len(fields) == 0 {
		return nil, err
	}
	intended, current := change.Target, change.State.Current
	change.Target = proto.Clone(intended).(T)
	for _, field := range fields {
		if err := leave(change.Target.ProtoReflect(), current.ProtoReflect(), field.Path); err != nil {
			return nil, err
		}
	}
	if yielder, yields := k.resource.(Yielder[T]); yields {
		err := protect("Yield", change.Asset.ID, func() error { return yielder.Yield(change.Asset, change.Target, current) })
		if err != nil {
			return nil, fmt.Errorf("leaving fields of %s to production: %w", change.Asset.ID, err)
		}
	}
	changes := compare(change.Target.ProtoReflect(), intended.ProtoReflect())
	for i := range changes {
		// What only follows from the fields listed has the reason of the first.
		changes[i].Reason = fields[0].Reason
		for _, field := range fields {
			if covers(field.Path, changes[i].Path) {
				changes[i].Reason = field.Reason
			}
		}
	}
	hideInPlan(changes)
	return bound(Plan{Changes: changes}).Changes, nil
}

// leave copies production's value of the field at path into target, so that a
// push leaves it as it is. A path goes by field names, "[index]" and
// "["key"]"; "[*]" is every element or key that both have.
func leave(target, current protoreflect.Message, path string) error {
	name, rest := path, ""
	if end := strings.IndexAny(path, ".["); end >= 0 {
		name, rest = path[:end], path[end:]
	}
	field := target.Descriptor().Fields().ByName(protoreflect.Name(name))
	if field == nil {
		return fmt.Errorf("addon Unmanaged names the field %q, which %s does not have", name, target.Descriptor().FullName())
	}
	switch {
	case rest == "" && current.Has(field):
		target.Set(field, current.Get(field))
	case rest == "":
		target.Clear(field)
	case field.IsMap() || field.IsList():
		return leaveElements(target, current, field, rest)
	case rest[0] == '.' && field.Message() != nil:
		if current.Has(field) && target.Has(field) {
			return leave(target.Mutable(field).Message(), current.Get(field).Message(), rest[1:])
		}
	default:
		return fmt.Errorf("addon Unmanaged names %q below %s, which has no fields", rest, field.FullName())
	}
	return nil
}

func leaveElements(target, current protoreflect.Message, field protoreflect.FieldDescriptor, rest string) (err error) {
	end := -1
	if rest[0] == '[' {
		end = indexEnd(rest)
	}
	if end < 0 {
		return fmt.Errorf("addon Unmanaged: %q does not name an element of %s; write [0], [\"key\"] or [*]", rest, field.FullName())
	}
	pattern, remainder := rest[:end], strings.TrimPrefix(rest[end:], ".")
	matches := func(element string) bool { return pattern == "[*]" || pattern == element }
	if field.IsMap() {
		src, dst := current.Get(field).Map(), target.Mutable(field).Map()
		src.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			switch {
			case !matches(renderKey(key)):
			case remainder == "":
				dst.Set(key, value)
			case dst.Has(key) && field.MapValue().Message() != nil:
				err = leave(dst.Mutable(key).Message(), value.Message(), remainder)
			}
			return err == nil
		})
		dst.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
			if remainder == "" && !src.Has(key) && matches(renderKey(key)) {
				dst.Clear(key)
			}
			return true
		})
		return err
	}
	src, dst := current.Get(field).List(), target.Mutable(field).List()
	for i := range min(src.Len(), dst.Len()) {
		switch {
		case !matches(fmt.Sprintf("[%d]", i)):
		case remainder == "":
			dst.Set(i, src.Get(i))
		case field.Message() != nil:
			if err := leave(dst.Get(i).Message(), src.Get(i).Message(), remainder); err != nil {
				return err
			}
		}
	}
	return nil
}
