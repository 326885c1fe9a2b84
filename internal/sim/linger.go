package sim

import (
	"math/rand/v2"
	"time"

	"lehr.dev/internal/ground/intent"
)

// linger keeps a push from its next effect, while its plugin goes on asking for
// permits, until another process has taken over, has waited until it can no
// longer be running, and has pushed the same again: then no permit may hold any
// more (S3, S4).
func (l *Lab) linger(d Disturbance, r *rand.Rand) {
	next, old := l.good.clone(), l.replica()
	t := next.wanting(r, "job", "balancer", "command")
	if t == nil || t.Approval || old == nil || l.options.Definition != "" || l.fleet() || l.crowded(1) {
		return
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, t.ID)
	id := intent.AssetID(t.ID)
	l.save(d.Number, next, t.alter(r))
	l.whilePushed(id, func() {
		const late = 20 * time.Second
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: DelayAtPoint, Point: "effect", Plugins: true, Length: late, Seed: d.Seed}, 0})
		l.Begin()
		l.mark("a push lingers while another process takes over")
		l.after(3*late, func() { old.Kill("the process that took over stays") })
	})
}
