package world

import (
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/virtual"
)

// Who changes production.
const (
	ByLehr = "lehr"
	// ByDrift is a change that nobody repeats.
	ByDrift = "drift"
	// ByWriter is a program that writes again, such as an autoscaler.
	ByWriter = "writer"
)

// Effect is one change of production, or one that the target refused.
type Effect struct {
	Number uint64
	// At is when it took place, Began when the plugin asked for it.
	At, Began time.Time
	Key       intent.ResourceKey
	Class     plugin.Guarantee
	By        string

	// Of Lehr's: the push, and what it was told.
	Asset       intent.AssetID
	Push        intent.PushID
	Incarnation intent.IncarnationID
	// Effective is the digest of the content that was pushed.
	Effective intent.Digest
	// Plan is computed from what was really there when the push planned.
	Plan    intent.Digest
	Token   uint64
	Replica string
	// Outlived: the plugin did its replica.
	Outlived bool

	Action intent.Action
	// Destructive: this very change destroys something.
	Destructive, Delete bool
	// Step of Steps: a push may take several effects.
	Step, Steps int
	// PermitLeft is what was left of the permit when it began, by the plugin's
	// clock.
	PermitLeft time.Duration
	// Posthumous: the plugin that asked for it was gone before it took place.
	Posthumous bool
	// Before and After are short texts of the state; empty: nothing is there.
	Before, After string
	// Took are the fields that Lehr takes by it from others, by path, and who had them.
	Took map[string]string
	// AsLooked: when the push planned, production was as the look had found it that it was
	// admitted by.
	AsLooked bool
	// Secret is the value that it brought; empty: none.
	Secret string
	// Refused says why the target did nothing.
	Refused string
}

// landing is what a plugin asks a target to do at once.
type landing struct {
	effect Effect
	// replica whose plugin asks.
	replica *virtual.Process
	class   plugin.Guarantee
	// base that a target of class C compares.
	base        string
	set         *schema.Set
	payloadType intent.TypeName
	changes     []change
	// sealed is the secret whose value stands for its digest in production; nil: none.
	sealed *sealed
	// made is the base after it; refused says why there is none.
	made, refused string
}

// land brings about what a plugin asked for, if the target lets it.
func (w *World) land(l *landing) error {
	l.effect.Outlived = !l.replica.Alive()
	r := w.resources[l.effect.Key]
	if r == nil {
		r = &resource{Resource: Resource{Key: l.effect.Key, Health: intent.Healthy}}
		w.resources[l.effect.Key] = r
	}
	r.Class = l.class
	before := r.snapshot()
	switch {
	case l.class == plugin.Fenced && l.effect.Token < r.Token:
		l.refused = "a higher token was seen"
	case l.class == plugin.CompareAndSet && l.base != before.base():
		l.refused = "it is not " + l.base + " any more"
	}
	if l.class == plugin.Fenced {
		r.Token = max(r.Token, l.effect.Token)
	}
	if l.refused != "" {
		w.tell(l.effect, before, before, l.refused)
		return nil
	}
	if l.effect.Delete {
		if r.Exists {
			w.become(r, false, nil)
		}
	} else {
		payload, err := l.payload(before)
		if err != nil {
			return err
		}
		r.Type, r.set = l.payloadType, l.set
		l.effect.Took = w.take(r, l.changes)
		w.become(r, true, payload)
	}
	r.Content, r.Incarnation, r.Asset = l.effect.Effective, l.effect.Incarnation, l.effect.Asset
	l.made = r.snapshot().base()
	if r.Version != before.version {
		w.tell(l.effect, before, r.snapshot(), "")
	}
	return nil
}

// payload is the state with the changes made.
func (l *landing) payload(before snapshot) ([]byte, error) {
	var state protoreflect.Message
	if before.exists {
		decoded, err := decode(l.set, l.payloadType, before.payload)
		if err != nil {
			return nil, err
		}
		state = decoded
	} else {
		empty, err := l.set.New(l.payloadType)
		if err != nil {
			return nil, err
		}
		state = empty.ProtoReflect()
	}
	for _, change := range l.changes {
		change.apply(state)
		if l.sealed.isOf(change) {
			l.sealed.put(state, l.effect.Secret)
		}
	}
	return l.set.Canonical(state.Interface())
}

// tell passes an effect on.
func (w *World) tell(effect Effect, before, after snapshot, refused string) {
	w.number++
	effect.Number, effect.At, effect.Refused = w.number, w.now(), refused
	effect.Before, effect.After = before.text(), after.text()
	w.process.Scheduler().Note("effect by " + effect.By + " on " + string(effect.Key) + ": " + effect.Before + "→" + effect.After + " " + refused)
	if refused == "" {
		w.hint(effect.Key, effect.By != ByLehr)
	}
	if w.OnEffect != nil {
		w.OnEffect(effect)
	}
}
