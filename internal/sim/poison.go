package sim

import (
	"math/rand/v2"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// poison has a plugin fail at one asset for a while, whatever is looked at with
// it, while another of its type is to change: that one must be looked at without
// it (L2).
func (l *Lab) poison(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	bad, well := next.wanting(r, "command"), next.wanting(r, "command")
	if bad == nil || well == nil || bad.ID == well.ID || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "call")
	l.tell("%s: %s", d, bad.ID)
	id := intent.AssetID(bad.ID)
	const calls, most = 1000, 2 * time.Minute
	l.World.Trouble(world.Trouble{Kind: world.DiffError, Asset: id, Count: calls, Seed: d.Seed})
	bad.alter(r)
	l.save(d.Number, next, well.alter(r)+", and so does "+bad.ID)
	l.after(min(d.Length+20*time.Second, most), func() { l.World.Spare(id) })
}
