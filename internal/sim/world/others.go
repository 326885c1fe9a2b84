package world

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
)

// Drift changes one field of what is there, and reports whether there was one
// to change.
func (w *World) Drift(key intent.ResourceKey, seed uint64) bool {
	return w.write(key, ByDrift, func(state protoreflect.Message) bool {
		return mutate(state, rand.New(rand.NewPCG(seed, 0xd21f7)))
	})
}

// Vanish removes what is there.
func (w *World) Vanish(key intent.ResourceKey) bool {
	r := w.resources[key]
	if r == nil || !r.Exists {
		return false
	}
	before := r.snapshot()
	w.become(r, false, nil)
	w.tell(Effect{Began: w.now(), Key: key, Class: r.Class, By: ByDrift, Action: intent.ActionDelete, Delete: true, Destructive: true, Step: 1, Steps: 1}, before, r.snapshot(), "")
	return true
}

// Writer changes a field again and again, so often, to what it wants, as soon
// as something is there. It ends when everything heals.
func (w *World) Writer(key intent.ResourceKey, every time.Duration, times int) {
	seed := w.random.Uint64()
	healed, written := w.healed, uint64(0)
	w.process.Go("writer", func() {
		for range times {
			_ = w.process.Wait(context.Background(), every, healed)
			if healed != w.healed {
				return
			}
			r := w.resources[key]
			if r == nil || r.Version == written {
				continue
			}
			// The same seed wants the same field.
			w.write(key, ByWriter, func(state protoreflect.Message) bool {
				return mutate(state, rand.New(rand.NewPCG(seed, 0x3417e)))
			})
			written = r.Version
		}
	})
}

// Autoscale sets the number of replicas, or else the first number there is.
func (w *World) Autoscale(key intent.ResourceKey, value uint32) bool {
	return w.write(key, ByWriter, func(state protoreflect.Message) bool {
		fields := state.Descriptor().Fields()
		field := fields.ByName("replicas")
		for i := 0; i < fields.Len() && (field == nil || field.IsList() || !isInteger(field)); i++ {
			field = fields.Get(i)
		}
		if field == nil || field.IsList() || !isInteger(field) {
			return false
		}
		state.Set(field, integer(field, int64(value)))
		return true
	})
}

// Sick makes a resource unhealthy, or healthy again.
func (w *World) Sick(key intent.ResourceKey, sick bool) {
	if r := w.resources[key]; r != nil {
		r.Health = intent.Healthy
		if sick {
			r.Health = intent.Unhealthy
		}
		w.changesHealth(key)
	}
}

// Degrade makes it unknown how a resource is, or known again.
func (w *World) Degrade(key intent.ResourceKey, degraded bool) {
	if r := w.resources[key]; r != nil {
		r.Health = intent.Healthy
		if degraded {
			r.Health = intent.HealthUnknown
		}
		w.hint(key, false)
	}
}

// write changes what is there.
func (w *World) write(key intent.ResourceKey, writer string, change func(protoreflect.Message) bool) bool {
	return w.writeAs(key, writer, writer, change)
}

// writeAs does so as a manager of fields.
func (w *World) writeAs(key intent.ResourceKey, writer, manager string, change func(protoreflect.Message) bool) bool {
	r := w.resources[key]
	if r == nil || !r.Exists {
		return false
	}
	state, err := decode(r.set, r.Type, r.Payload)
	if err != nil || !change(state) {
		return false
	}
	payload, err := r.set.Canonical(state.Interface())
	if err != nil || string(payload) == string(r.Payload) {
		return false
	}
	before := r.snapshot()
	w.own(r, payload, manager)
	w.become(r, true, payload)
	w.tell(Effect{Began: w.now(), Key: key, Class: r.Class, By: writer, Action: intent.ActionUpdate, Step: 1, Steps: 1}, before, r.snapshot(), "")
	return true
}

// mutate changes one field that is not the name of the thing.
func mutate(state protoreflect.Message, random *rand.Rand) bool {
	fields := state.Descriptor().Fields()
	var able []protoreflect.FieldDescriptor
	for i := range fields.Len() {
		field := fields.Get(i)
		if field != nameField(state.Descriptor()) && (state.Has(field) || field.Message() == nil && !field.IsList() && field.ContainingOneof() == nil) {
			able = append(able, field)
		}
	}
	if len(able) == 0 {
		return false
	}
	field := able[random.IntN(len(able))]
	switch {
	case field.IsMap():
		mutateMap(state, field, random)
	case field.IsList():
		list := state.Mutable(field).List()
		list.Truncate(list.Len() - 1)
	case field.Message() != nil:
		state.Clear(field)
	default:
		state.Set(field, other(field, state.Get(field), random))
	}
	return true
}

// mutateMap removes a key, or changes its value if that is simple.
func mutateMap(state protoreflect.Message, field protoreflect.FieldDescriptor, random *rand.Rand) {
	entries := state.Mutable(field).Map()
	var least protoreflect.MapKey
	entries.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		if !least.IsValid() || renderKey(key) < renderKey(least) {
			least = key
		}
		return true
	})
	if field.MapValue().Message() == nil && random.IntN(2) == 0 {
		entries.Set(least, other(field.MapValue(), entries.Get(least), random))
		return
	}
	entries.Clear(least)
}

// other is another value of a simple field.
func other(field protoreflect.FieldDescriptor, value protoreflect.Value, random *rand.Rand) protoreflect.Value {
	const variants = 1000
	n := 1 + random.Int64N(variants)
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("drift-%d", n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(fmt.Appendf(nil, "drift-%d", n))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!value.Bool())
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(int(n) % values.Len()).Number())
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n))
	}
	return integer(field, n)
}

// integer is a value of an integer field of any kind.
func integer(field protoreflect.FieldDescriptor, n int64) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	}
	return protoreflect.ValueOfInt64(n)
}

// Place has somebody else make a thing of the kind and the likes of another one, and reports whether it was not there,
// and there was another one.
func (w *World) Place(key intent.ResourceKey) bool {
	if r := w.resources[key]; r != nil && r.Exists {
		return false
	}
	kind, name, _ := strings.Cut(string(key), "/")
	for _, other := range slices.Sorted(maps.Keys(w.resources)) {
		like := w.resources[other]
		if likeKind, _, _ := strings.Cut(string(other), "/"); !like.Exists || likeKind != kind {
			continue
		}
		state, err := decode(like.set, like.Type, like.Payload)
		if err != nil {
			return false
		}
		if field := nameField(state.Descriptor()); field != nil {
			state.Set(field, protoreflect.ValueOfString(name))
		}
		payload, err := like.set.Canonical(state.Interface())
		if err != nil {
			return false
		}
		r := w.resources[key]
		if r == nil {
			r = &resource{Resource: Resource{Key: key, Health: intent.Healthy}}
			w.resources[key] = r
		}
		r.Type, r.Class, r.set = like.Type, like.Class, like.set
		before := r.snapshot()
		w.become(r, true, payload)
		w.tell(Effect{Began: w.now(), Key: key, Class: r.Class, By: ByDrift, Action: intent.ActionCreate, Step: 1, Steps: 1}, before, r.snapshot(), "")
		return true
	}
	return false
}
