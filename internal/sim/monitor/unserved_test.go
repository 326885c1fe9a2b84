package monitor

import (
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// jobs are all assets of the run but the policy.
func (r *run) jobs() []intent.AssetID {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.saved)), func(id intent.AssetID) bool { return id == intent.PolicyAsset })
}

// unservedStates: the monitor tells each wrong state of what no plugin serves, and no right one.
var unservedStates = []breach{
	{"L4", "is reported in sync, and no plugin is bound to its type",
		func(r *run) { r.publish(policy(unbound)); r.looks(func() {}) },
		func(r *run) {
			r.publish(policy(unbound))
			r.looks(func() { r.state(intent.StateUnserved, r.jobs()...) })
		}},
	{"L4", "is reported as a model, which its type is not",
		func(r *run) { r.publish(policy(unbound)); r.looks(func() { r.state(intent.StateModel, r.jobs()...) }) },
		func(r *run) {
			r.publish(policy(unbound, func(p *intentpb.Policy) { p.Models = []string{"lehr.process.v1.Job"} }))
			r.looks(func() { r.state(intent.StateModel, r.jobs()...) })
		}},
	{"L4", "and its type is a model",
		func(r *run) {
			r.publish(policy(unbound, func(p *intentpb.Policy) { p.Models = []string{"lehr.process.v1.Job"} }))
			r.looks(func() { r.state(intent.StateUnserved, r.jobs()...) })
		}, nil},
	{"L4", "is reported as unserved, and a plugin is bound to its type",
		func(r *run) { r.looks(func() { r.state(intent.StateUnserved, "a") }) },
		func(r *run) { r.looks(func() {}) }},
	{"L4", "as if no plugin had ever served it, and one did",
		func(r *run) {
			r.enforce("a")
			r.scans()
			r.publish(policy(unbound))
			r.looks(func() { r.state(intent.StateUnserved, r.jobs()...) })
		},
		func(r *run) {
			r.enforce("a")
			r.scans()
			r.publish(policy(unbound))
			r.looks(func() {
				r.state(intent.StateUnserved, r.jobs()...)
				r.waitsFor("a", intent.WaitingOn{Kind: intent.WaitPluginMissing, Reason: "bind one"})
			})
		}},
}
