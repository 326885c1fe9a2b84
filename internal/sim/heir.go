package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

// elsewhere is a partition in the same store that other processes serve. It has
// a balancer that people of this one may name, too.
const (
	elsewhere = intent.PartitionID("elsewhere")
	shared    = "shared"
)

// settleElsewhere lets the other partition have its resource.
func (l *Lab) settleElsewhere(s *sqlite.Store) error {
	actor := intent.Actor{Name: "bob", Origin: "cli"}
	if err := s.AddPartition(l.ctx, elsewhere, "/elsewhere/lehr.yaml", "the simulator looks after another thing", actor); err != nil {
		return err
	}
	lease, err := s.Acquire(l.ctx, elsewhere, "elsewhere")
	if err != nil {
		return err
	}
	_, err = s.SaveEnforced(l.ctx, lease, []store.Enforced{{
		Asset: shared, Type: typeOf("balancer"), Incarnation: intent.IncarnationID{Partition: elsewhere, Sequence: 1},
		ResourceKey: "sim:Balancer/" + shared, At: l.Now(),
	}})
	return err
}

// heir has another asset name a resource that its owner may not let go yet.
func (l *Lab) heir(d Disturbance, r *rand.Rand) {
	if l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	next := l.good.clone()
	if t := next.spare(); t == nil || t.Turndown || t.Mode != "" {
		if t != nil {
			next.remove(t.ID)
		}
		next.Things = append(next.Things, Thing{ID: "spare/0", Kind: "balancer", Name: "spare", Text: "t", Count: 1})
		l.save(d.Number, next, "a spare balancer")
	}
	const brought = 10 * time.Second
	heirs := []func(Disturbance, *rand.Rand){l.heirOfPinned, l.heirOfPushed, l.heirToRemove, l.heirElsewhere}
	l.after(brought, func() { heirs[r.IntN(len(heirs))](d, r) })
}

// spare is the thing whose resource is inherited, by whatever id.
func (i *Intent) spare() *Thing {
	for at := range i.Things {
		if strings.HasPrefix(i.Things[at].ID, "spare/") {
			return &i.Things[at]
		}
	}
	return nil
}

// inherit gives the spare thing another id.
func (i *Intent) inherit(r *rand.Rand) string {
	for {
		if action := i.rename(i.spare(), fmt.Sprintf("spare/%d", r.IntN(5))); action != "" {
			return action
		}
	}
}

// heirOfPinned: who had it is followed still, as it was.
func (l *Lab) heirOfPinned(d Disturbance, r *rand.Rand) {
	next, replica, head := l.good.clone(), l.replica(), l.Head()
	t := next.spare()
	if t == nil || replica == nil || replica.link == nil || head.IsZero() {
		return
	}
	pin := intent.Pin{
		Asset: intent.AssetID(t.ID), Incarnation: head, Rank: intent.RankPerson, Holder: intent.Actor{Name: "ann", Origin: "sim"},
		Reason: "the newer one is slow", Until: l.Now().Add(time.Minute),
	}
	l.people.Go("person", func() {
		if _, err := replica.link.SetPin(l.ctx, pin); err == nil {
			l.mark("an heir of what is pinned")
			l.save(d.Number, next, next.inherit(r))
		}
	})
}

// heirOfPushed: who had it is being pushed, and the heir wants what was there
// before.
func (l *Lab) heirOfPushed(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.spare()
	if t == nil {
		return
	}
	id, before := intent.AssetID(t.ID), next.clone()
	l.World.Trouble(world.Trouble{Kind: world.PushHang, Asset: id, For: 20 * time.Second, Seed: d.Seed})
	l.save(d.Number, next, t.alter(r))
	l.soonApproved(d)
	l.whilePushed(id, func() {
		l.mark("an heir of what is being pushed")
		l.save(d.Number, before, before.inherit(r))
	})
}

// heirToRemove: the heir is to go, which nobody said of who had it.
func (l *Lab) heirToRemove(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.spare()
	if t == nil {
		return
	}
	t.Turndown = true
	l.mark("an heir that is to go")
	l.save(d.Number, next, next.inherit(r)+", and is to go")
	for n := range time.Duration(3) {
		l.after(n*4*time.Second, func() { l.soonApproved(d) })
	}
}

// heirElsewhere: who has it is of another partition.
func (l *Lab) heirElsewhere(d Disturbance, _ *rand.Rand) {
	next := l.good.clone()
	const id = "balancer/shared"
	if next.find(id) != nil {
		return
	}
	next.Things = append(next.Things, Thing{ID: id, Kind: "balancer", Name: shared, Text: "t", Count: 1})
	l.mark("an heir of another partition")
	l.save(d.Number, next, id+" is new")
}
