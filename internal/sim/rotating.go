package sim

import (
	"math/rand/v2"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// In rotating runs some things name a secret, whose value changes: at any time, between an
// approval and its push, and within a push.

// Disturbances of rotating runs.
const (
	Rotation         Kind = "a secret is rotated"
	RotationApproved Kind = "a secret is rotated after its push was approved"
	RotationInPush   Kind = "a secret is rotated while it is pushed"
)

var rotatingKinds = []weighed{{Rotation, 24}, {RotationApproved, 24}, {RotationInPush, 40}, {Drift, 10}, {PersonLooks, 6}, {LongPush, 6}}

// safeType names a secret. key_digest comes behind another field, so that a push may bring
// it with a later effect.
const safeType = `edition = "2023";
package sim.v1;
import "lehr/intent/v1/secret.proto";
message Safe {
  string name = 1;
  string about = 2;
  lehr.intent.v1.SecretRef key = 3;
  string key_digest = 4;
}
`

// safeMaker makes it, beside the other makers.
const safeMaker = `
def safe(t):
    return sim.v1.Safe(name = t["name"], about = t["text"], key = lehr.intent.v1.SecretRef(env = "` + safeVariable + `"))

makers["safe"] = safe
`

const (
	safeVariable = "LEHR_SAFE"
	// marked needs an approval of each push.
	markedSafe = "safe/bob"
)

// safeSecret is the one that all safes name.
func safeSecret() *intentpb.SecretRef {
	return &intentpb.SecretRef{Source: &intentpb.SecretRef_Env{Env: safeVariable}}
}

// safes are the things with a secret of the first intent.
func safes() []Thing {
	return []Thing{{ID: "safe/ann", Kind: "safe", Name: "ann", Text: "v1"}, {ID: markedSafe, Kind: "safe", Name: "bob", Text: "v1", Approval: true}}
}

// Rotates reports whether things name secrets that are rotated in runs of a seed.
func Rotates(seed uint64) bool { return seed%27 == 17 }

// rotating reports whether they do in this run.
func (l *Lab) rotating() bool { return l.options.Definition == "" && Rotates(l.options.Seed) }

// secret is what the values of secrets begin with; empty: there is none.
func (l *Lab) secret() string {
	if !l.rotating() {
		return ""
	}
	return canary
}

// hasSecrets reports whether something in this run has a secret, that must show nowhere.
func (l *Lab) hasSecrets() bool { return l.tells() || l.rotating() }

// rotate gives the secret another value. Lehr sees that at its next look at what names it.
func (l *Lab) rotate(d Disturbance) {
	l.tell("%s", d)
	l.World.RotateSecret(safeSecret())
	for _, resource := range l.World.Resources() {
		if resource.Type == typeOf("safe") {
			l.touched[resource.Key] = l.Now()
		}
	}
}

// rotation rotates it, at times twice.
func (l *Lab) rotation(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "production")
	l.rotate(d)
	l.soonApproved(d)
	if r.IntN(3) == 0 {
		l.after(within(r, time.Minute), func() { l.rotate(d) })
	}
}

// rotationApproved rotates it, has somebody approve the push, and rotates it again before
// that may have begun.
func (l *Lab) rotationApproved(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.find(markedSafe)
	if t == nil || t.Mode != "" || t.Turndown {
		return
	}
	l.note(d.Kind, "API")
	l.rotate(d)
	l.save(d.Number, next, t.alter(r))
	for _, delay := range []time.Duration{0, 20 * time.Second} {
		l.after(delay, func() { l.soonApproved(d) })
	}
	l.after(1500*time.Millisecond+within(r, 25*time.Second), func() { l.rotate(d) })
}

// rotationInPush rotates it, so that there is something to push, and again in the middle of
// the push.
func (l *Lab) rotationInPush(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.wanting(r, "safe")
	if t == nil {
		return
	}
	l.note(d.Kind, "production")
	id := intent.AssetID(t.ID)
	l.rotate(d)
	l.save(d.Number, next, t.alter(r))
	l.soonApproved(d)
	wait := within(r, 1500*time.Millisecond)
	l.whilePushed(id, func() {
		if l.people.Wait(l.ctx, wait, nil) == nil && !l.healing {
			l.rotate(d)
		}
	})
}

// sealed notes what an effect did with a secret.
func (l *Lab) sealed(e world.Effect) {
	if e.By != world.ByLehr || e.Refused != "" || e.Secret == "" {
		return
	}
	if before := l.seals[e.Key]; before != "" && before != e.Secret {
		l.mark("secrets: " + string(world.RotationPushed))
	}
	l.seals[e.Key] = e.Secret
}
