package monitor

import (
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// sealedBy is an effect that brings a value of a secret.
func sealedBy(value string) func(*world.Effect) {
	return func(e *world.Effect) { e.Secret = value }
}

var rotating = []breach{
	{"S9", "stands for two values of its secret",
		func(r *run) { r.Sealed("a", intent.Sum("plan"), "v1"); r.Sealed("a", intent.Sum("plan"), "v2") },
		func(r *run) {
			r.Sealed("a", intent.Sum("plan"), "v1")
			r.Sealed("a", intent.Sum("plan"), "v1")
			r.Sealed("a", intent.Sum("another plan"), "v2")
			r.Sealed("b", intent.Sum("plan"), "v2")
		}},
	{"S9", "brought another value of its secret",
		func(r *run) { a := r.admit("a"); r.Sealed("a", a.Plan, "v1"); r.effect(a, sealedBy("v2")) },
		func(r *run) { a := r.admit("a"); r.Sealed("a", a.Plan, "v1"); r.effect(a, sealedBy("v1")) }},
	{"S9", "brought another value of its secret", // that no plan names
		func(r *run) { a := r.admit("a"); r.effect(a, sealedBy("v1")) }, nil},
	{"S9", "brought another value of its secret", // of another asset
		func(r *run) { a := r.admit("a"); r.Sealed("b", a.Plan, "v1"); r.effect(a, sealedBy("v1")) }, nil},
}
