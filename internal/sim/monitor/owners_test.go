package monitor

import (
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store"
)

// takesFrom is an effect that takes the field x from a manager.
func takesFrom(manager string, asLooked bool) func(*world.Effect) {
	return func(e *world.Effect) {
		e.Took, e.AsLooked, e.Class = map[string]string{"x": manager}, asLooked, plugin.CompareAndSet
	}
}

// names has the plan of an admission say who has the field x.
func names(manager string) func(*store.Admission) {
	return func(a *store.Admission) {
		a.PlanDetail = intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "w", Current: "1", Target: "2"}, {Path: "x", Current: "1", Target: "2", Writer: manager}}}
		a.Plan = a.PlanDetail.Digest()
	}
}

// ofOthers: fields of other managers are taken with their names kept.
var ofOthers = []breach{
	{"S25", `took the field x from "helm", and its kept plan names ""`,
		func(r *run) { r.effect(r.admit("a", names("")), takesFrom("helm", true)) },
		func(r *run) { r.effect(r.admit("a", names("helm")), takesFrom("helm", true)) }},
	{"S25", `took the field x from "helm", and its kept plan names "kubectl"`,
		func(r *run) { r.effect(r.admit("a", names("kubectl")), takesFrom("helm", true)) },
		func(r *run) { r.effect(r.admit("a", names("kubectl")), takesFrom("helm", false)) }},
}
