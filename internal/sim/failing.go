package sim

import (
	"math/rand/v2"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// refusing has a provider refuse all pushes of an asset for a while. Then it
// wants them again, and the asset has new content: that must not wait as long
// as the content before it (L3), nor is a refused push to come again and again
// (L10).
func (l *Lab) refusing(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.wanting(r, "job", "balancer", "command")
	if t == nil || t.Approval || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, t.ID)
	id := intent.AssetID(t.ID)
	l.World.Trouble(world.Trouble{Kind: world.PushRefused, Asset: id, Count: 1000, Seed: d.Seed})
	l.save(d.Number, next, t.alter(r))
	l.after(40*time.Second+time.Duration(r.Int64N(int64(time.Minute))), func() {
		l.World.Spare(id)
		again := l.good.clone()
		if t := again.find(string(id)); t != nil {
			l.save(d.Number, again, t.alter(r))
		}
	})
}

// fight has somebody undo at once what Lehr does to a resource, for minutes.
func (l *Lab) fight(d Disturbance, r *rand.Rand) {
	resources := l.World.Resources()
	if len(resources) == 0 {
		return
	}
	key := resources[r.IntN(len(resources))].Key
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, key)
	l.World.Writer(key, 3*time.Second, 60)
}

// hardStart has a process begin while the store fails, so that its actors do.
func (l *Lab) hardStart(d Disturbance, r *rand.Rand) {
	old := l.replica()
	if old == nil {
		return
	}
	calls := []string{"EnforcedPage", "OpenPushes", "Pins", "Holds", "Approvals", "Partition"}
	l.note(d.Kind, "store call")
	s := &l.store
	s.refuse, s.lose, s.only, s.left = true, false, calls[r.IntN(len(calls))], 1+r.IntN(4)
	l.tell("%s (%q, %d calls)", d, s.only, s.left)
	old.Kill("another one begins")
	l.Begin()
}
