package world

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
)

// maxEntries of a map are compared one by one; beyond, the map is one value.
const maxEntries = 200

// comparison is how a state differs from what an asset asks for. A plan
// without an action says that they agree.
type comparison struct {
	plan    intent.Plan
	changes []change
	// unmanaged is left to production.
	unmanaged []intent.FieldChange
	// current is the state, valid if something exists; target what would be.
	current, target protoreflect.Message
	// value of the secret that was planned with; empty: there is none.
	value string
}

// change is one field, or one entry of a map, that differs.
type change struct {
	intent.FieldChange
	field protoreflect.FieldDescriptor
	// key of the map's entry, if it is one.
	key protoreflect.MapKey
	// value it shall have; invalid: none.
	value protoreflect.Value
}

// compare plans what brings the state to what the asset asks for.
func (w *wanted) compare(state snapshot, served plugin.Served) (*comparison, error) {
	empty := w.message.Type().New()
	c := &comparison{target: w.message}
	if state.exists {
		var err error
		if c.current, err = decode(w.set, w.Payload.Type, state.payload); err != nil {
			return nil, err
		}
	}
	w.sealed.plan(c)
	destroys := served.Guarantee == plugin.CompareAndSet || shortName(w.Payload.Type) == "Schema"
	switch {
	case w.turndown && !state.exists:
		return c, nil
	case w.turndown:
		c.target = empty
		c.plan.Action = intent.ActionDelete
		c.changes = compare(w.set, c.current, empty, false)
		for i := range c.changes {
			// Some plugins take it for said by the action.
			c.changes[i].Destructive = served.Guarantee != plugin.Fenced
		}
	case !state.exists:
		c.plan.Action = intent.ActionCreate
		c.changes = compare(w.set, empty, c.target, false)
	default:
		c.leaveUnmanaged(w)
		if c.changes = compare(w.set, c.current, c.target, destroys); len(c.changes) > 0 {
			c.plan.Action = intent.ActionUpdate
			if slices.ContainsFunc(c.changes, func(one change) bool { return shortName(w.Payload.Type) == "Job" && one.Path == "binary" }) {
				c.plan.Action = intent.ActionReplace // A job is made for its binary.
			}
		}
	}
	for i := range c.changes {
		c.changes[i].Writer = state.owners[c.changes[i].Path]
	}
	for _, change := range c.changes {
		c.plan.Changes = append(c.plan.Changes, change.FieldChange)
	}
	return c, nil
}

// leaveUnmanaged replaces in the target what production may own.
func (c *comparison) leaveUnmanaged(w *wanted) {
	if len(w.unmanaged) == 0 {
		return
	}
	intended := c.target
	c.target = proto.Clone(intended.Interface()).ProtoReflect()
	for _, field := range w.unmanaged {
		leave(c.target, c.current, field.Path)
	}
	for _, left := range compare(w.set, c.target, intended, false) {
		left.Reason = w.unmanaged[0].Reason
		for _, field := range w.unmanaged {
			if covers(field.Path, left.Path) {
				left.Reason = field.Reason
			}
		}
		c.unmanaged = append(c.unmanaged, left.FieldChange)
	}
}

// compare lists the fields, and entries of maps, in which two messages of one
// type differ, by path. Some changes destroy, in a type of which that is so.
func compare(schemas *schema.Set, current, target protoreflect.Message, destroys bool) []change {
	var changes []change
	fields := target.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if current.Has(field) == target.Has(field) && current.Get(field).Equal(target.Get(field)) {
			continue
		}
		if field.IsMap() {
			if entries := compareEntries(schemas, field, current, target, destroys); len(entries) <= maxEntries {
				changes = append(changes, entries...)
				continue
			}
		}
		one := change{field: field, FieldChange: intent.FieldChange{
			Path: string(field.Name()), Current: render(schemas, current, field), Target: render(schemas, target, field),
			Destructive: destroys && empties(field, current, target),
		}}
		if target.Has(field) {
			one.value = target.Get(field)
		}
		changes = append(changes, one)
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.Path, b.Path) })
	return changes
}

// empties reports whether a change takes something away for good.
func empties(field protoreflect.FieldDescriptor, current, target protoreflect.Message) bool {
	switch {
	case field.IsMap():
		return target.Get(field).Map().Len() < current.Get(field).Map().Len()
	case field.IsList():
		return target.Get(field).List().Len() < current.Get(field).List().Len()
	case field.Kind() == protoreflect.StringKind || field.Kind() == protoreflect.BytesKind:
		return current.Has(field) && !target.Has(field)
	}
	return false
}

func compareEntries(schemas *schema.Set, field protoreflect.FieldDescriptor, current, target protoreflect.Message, destroys bool) []change {
	before, after := current.Get(field).Map(), target.Get(field).Map()
	var changes []change
	add := func(key protoreflect.MapKey) {
		one := change{field: field, key: key, value: after.Get(key)}
		one.Path = string(field.Name()) + renderKey(key)
		one.Current, one.Target = renderEntry(schemas, current, field, key), renderEntry(schemas, target, field, key)
		one.Destructive = destroys && !after.Has(key)
		changes = append(changes, one)
	}
	after.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		if !before.Has(key) || !before.Get(key).Equal(value) {
			add(key)
		}
		return true
	})
	before.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		if !after.Has(key) {
			add(key)
		}
		return true
	})
	return changes
}

// apply makes the change in a state.
func (c change) apply(state protoreflect.Message) {
	switch {
	case c.key.IsValid() && c.value.IsValid():
		state.Mutable(c.field).Map().Set(c.key, c.value)
	case c.key.IsValid():
		state.Mutable(c.field).Map().Clear(c.key)
	case c.value.IsValid():
		state.Set(c.field, c.value)
	default:
		state.Clear(c.field)
	}
}
