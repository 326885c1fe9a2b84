package sim

import (
	"math/rand/v2"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// renamed calls a job otherwise while it is being pushed: the other asset wants
// the same resource, differs as well, and must wait for the push (S3). The
// budget would let both go.
func (l *Lab) renamed(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.wanting(r, "job")
	if t == nil || t.Approval || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, t.ID)
	old, other := t.ID, t.ID+"-0"
	if next.find(other) != nil {
		return
	}
	next.Budget = 3
	l.World.Trouble(world.Trouble{Kind: world.PushHang, Asset: intent.AssetID(old), For: 15 * time.Second, Seed: d.Seed &^ 1}) // It asks for permits.
	l.save(d.Number, next, t.alter(r))
	l.whilePushed(intent.AssetID(old), func() {
		again := l.good.clone()
		if t := again.find(old); t != nil {
			t.ID = other
			l.save(d.Number, again, old+" is called "+other)
			l.mark("a thing is called otherwise while it is pushed")
		}
	})
}
