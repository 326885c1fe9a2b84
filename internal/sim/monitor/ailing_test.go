package monitor

import (
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// ails bounds a cluster of three to one that is unhealthy or pushed; b is ill for so long,
// and a was just told to be healthy.
func (r *run) ails(long time.Duration) {
	r.Helper()
	ill := map[intent.AssetID]bool{"b": true}
	r.options.Ill, r.options.Relies = func() map[intent.AssetID]bool { return ill }, 90*time.Second
	r.publish(jobIn("c", "a", "1"), jobIn("c", "b", "1"), policy(func(p *intentpb.Policy) {
		p.Budgets = []*intentpb.Budget{{Scope: "cluster", InFlight: 1, Unhealthy: 1}}
	}))
	r.Ailed()
	r.pass(long)
	r.toldHealth("a", intent.Healthy)
	r.pass(time.Second)
}

var ill = []breach{
	{"S8", "2 assets of cluster=c are pushed, or have been unhealthy",
		func(r *run) { r.ails(110 * time.Second); r.admit("a") },
		func(r *run) { r.ails(100 * time.Second); r.admit("a") }},
	{"S8", "2 assets of cluster=c are pushed, or have been unhealthy",
		func(r *run) { r.ails(110 * time.Second); r.Ailed(); r.admit("a") },
		func(r *run) { // One that is not well itself may be pushed.
			r.ails(110 * time.Second)
			r.toldHealth("a", intent.HealthUnknown)
			r.admit("a")
		}},
}
