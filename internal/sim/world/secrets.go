package world

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/secret"
)

// In a world with Options.Secret a payload may name a secret, in a field "key", and leave a
// field "key_digest" open. The plugin reads the secret where it is, at each look and each
// push. Production has the value in key_digest; plans have its digest there, which is made by
// the code of the SDK, as is what a push is bound to. RotateSecret gives it another value.

// RotationNews is where a plugin came upon a rotation.
type RotationNews string

const (
	// RotatedBeforePush: the plan of a push is stale, for it names another value.
	RotatedBeforePush RotationNews = "rotated between a plan and its push"
	// RotatedInPush: a push ended, for its secret changed between its plan and an effect.
	RotatedInPush RotationNews = "rotated within a push"
	// RotationPushed: a push has replaced the value of before.
	RotationPushed RotationNews = "a rotation was pushed"
)

// secretKey is the key of all digests.
var secretKey = []byte("the key of the operator's list of a simulated world")

// sealed is the secret that a payload names. Its methods do nothing without one.
type sealed struct {
	world *World
	ref   *intentpb.SecretRef
	// name tells it apart from others; field has its digest, named the reference.
	name         string
	field, named protoreflect.FieldDescriptor
}

// sealedPlan is a plan with the value that it was made with.
type sealedPlan struct {
	asset intent.AssetID
	plan  intent.Digest
	value string
}

// sealedBy finds the secret that a payload names; nil: it names none.
func (w *World) sealedBy(payload protoreflect.Message) *sealed {
	fields := payload.Descriptor().Fields()
	named, field := fields.ByName("key"), fields.ByName("key_digest")
	if named == nil || field == nil || named.Message() == nil || field.Kind() != protoreflect.StringKind || !payload.Has(named) {
		return nil
	}
	encoded, err := proto.Marshal(payload.Get(named).Message().Interface())
	ref := &intentpb.SecretRef{}
	if err != nil || proto.Unmarshal(encoded, ref) != nil {
		return nil
	}
	return &sealed{world: w, ref: ref, name: secret.Key(ref), field: field, named: named}
}

// RotateSecret gives a secret a value that it never had.
func (w *World) RotateSecret(ref *intentpb.SecretRef) { w.rotations[secret.Key(ref)]++ }

// now is the value where the secret is.
func (s *sealed) now() string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%s-%d of %s", s.world.options.Secret, s.world.rotations[s.name], s.name)
}

func (s *sealed) words(value string) string {
	return secret.DigestOf(secretKey, s.ref, []byte(value)).Words()
}

// plan puts digests in the places of values, and of the reference.
func (s *sealed) plan(c *comparison) {
	if s == nil {
		return
	}
	c.value = s.now()
	c.target = proto.Clone(c.target.Interface()).ProtoReflect()
	c.target.Clear(s.named)
	c.target.Set(s.field, protoreflect.ValueOfString(s.words(c.value)))
	if c.current != nil && c.current.Has(s.field) {
		c.current.Set(s.field, protoreflect.ValueOfString(s.words(c.current.Get(s.field).String())))
	}
}

// tellPlan tells of a plan with a value.
func (s *sealed) tellPlan(asset intent.AssetID, diff *comparison) {
	const remembered = 200
	if s == nil || diff.plan.Action == intent.ActionDelete || !slices.ContainsFunc(diff.changes, s.isOf) {
		return
	}
	w, plan := s.world, diff.plan.Digest()
	w.sealedPlans = append(w.sealedPlans, sealedPlan{asset, plan, diff.value})
	w.sealedPlans = w.sealedPlans[max(0, len(w.sealedPlans)-remembered):]
	if s.world.OnSealed != nil {
		s.world.OnSealed(asset, plan, diff.value)
	}
}

// begin is a push that reads secrets, as the SDK begins one.
func (s *sealed) begin(now time.Time) *secret.Push {
	if s == nil {
		return nil
	}
	return secret.NewPush(now)
}

// bind notes the value that a push reads: it must stay what it was planned with.
func (s *sealed) bind(push *secret.Push, value string) error {
	if s == nil {
		return nil
	}
	return push.Bind(s.name, secret.Name(s.ref), secret.DigestOf(secretKey, s.ref, []byte(value)))
}

// noteStale tells when a push is stale for its secret was rotated.
func (s *sealed) noteStale(asset intent.AssetID, plan intent.Digest, value string) {
	if s == nil {
		return
	}
	if slices.ContainsFunc(s.world.sealedPlans, func(p sealedPlan) bool { return p.asset == asset && p.plan == plan && p.value != value }) {
		s.world.tellRotation(RotatedBeforePush)
	}
}

// isOf reports whether a change is of the secret's value.
func (s *sealed) isOf(c change) bool {
	return s != nil && c.field != nil && c.field.Name() == s.field.Name()
}

// put has production have the value.
func (s *sealed) put(state protoreflect.Message, value string) {
	state.Set(state.Descriptor().Fields().ByName(s.field.Name()), protoreflect.ValueOfString(value))
}

// reveal reads the secret for an effect that brings it, for the push that was bound to its
// value.
func (l *landing) reveal(push *secret.Push) error {
	if !slices.ContainsFunc(l.changes, l.sealed.isOf) || l.effect.Delete {
		return nil
	}
	value := l.sealed.now()
	if err := l.sealed.bind(push, value); err != nil {
		l.sealed.world.tellRotation(RotatedInPush)
		return err
	}
	l.effect.Secret = value
	return nil
}

// holdsOther says that production has another value than the secret; empty: it does not.
func (w *World) holdsOther(wanted *wanted, state snapshot) string {
	s := wanted.sealed
	if s == nil || wanted.turndown || !state.exists {
		return ""
	}
	current, err := decode(wanted.set, wanted.Payload.Type, state.payload)
	if err == nil && current.Get(s.field).String() != s.now() {
		return fmt.Sprintf("%s has another value than %s", wanted.key, secret.Name(s.ref))
	}
	return ""
}

func (w *World) tellRotation(news RotationNews) {
	if w.OnRotated != nil {
		w.OnRotated(news)
	}
}
