package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// Situations are several things at once that single disturbances would rarely
// bring together: they are what the mutants of package mutation need to show.

// then lets happen what belongs to another disturbance.
func (l *Lab) then(d Disturbance) {
	d.Kind, d.Then = d.Then, ""
	d.Seed++
	switch d.Kind {
	case KillAtPoint, PauseAtPoint:
		d.Point, d.Skip, d.Plugins = "", 0, false
	case PersonStop, PersonHold, PersonPin, RolloutPin:
		d.Length += 20 * time.Second
	}
	l.strike(d)
}

// wanting is a thing that is enforced, to be changed.
func (i *Intent) wanting(r *rand.Rand, kinds ...string) *Thing {
	for range 8 {
		t := i.any(r, kinds[r.IntN(len(kinds))])
		if t != nil && t.Mode == "" && !t.Turndown && t.ID != slipped {
			return t
		}
	}
	return nil
}

// alter gives a thing other content.
func (t *Thing) alter(r *rand.Rand) string {
	before := t.Text
	for t.Text == before {
		t.Text = fmt.Sprintf("v%d", 1+r.IntN(20))
	}
	return fmt.Sprintf("%s is %s", t.ID, t.Text)
}

// longPush has a push go on for long, and something happen meanwhile.
func (l *Lab) longPush(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.wanting(r, "job", "balancer", "command")
	if t == nil || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, t.ID)
	kind := []world.TroubleKind{world.PushHang, world.PushHang, world.PushSlow}[r.IntN(3)]
	succeeded := d.Then == Takeover || d.Then == Flapping || d.Then == KillAtPoint
	if t.Kind == "command" && succeeded || t.Kind == "balancer" && d.Then == Drift {
		kind = world.PushIgnoresPermitEnd // Only its target refuses it.
	}
	// An even seed: the plugin goes on asking for permits.
	l.World.Trouble(world.Trouble{Kind: kind, Asset: intent.AssetID(t.ID), For: 6*time.Second + d.Length, Seed: d.Seed &^ 1})
	id := intent.AssetID(t.ID)
	l.save(d.Number, next, t.alter(r))
	l.soonApproved(d)
	l.whilePushed(id, func() {
		_ = l.people.Wait(l.ctx, time.Duration(r.Int64N(int64(3*time.Second))), nil)
		l.mark("a long push, and meanwhile: " + string(d.Then))
		for _, push := range l.World.Pushing() {
			if push.Asset == id && d.Then == Drift {
				l.World.Drift(push.Key, d.Seed) // Under its hands.
			}
		}
		l.then(d)
	})
}

// sleeper stops a process and its plugin in the middle of a push, on a machine
// of their own, until another process has taken over. The plugin then goes on
// as if nothing had happened: only the target can refuse it (S4).
func (l *Lab) sleeper(d Disturbance, r *rand.Rand) {
	next, old := l.good.clone(), l.replica()
	t := next.wanting(r, "command")
	if t == nil || t.Approval || old == nil || !l.distant() || l.options.Definition != "" || l.crowded(1) {
		return
	}
	l.note(d.Kind, "production")
	l.tell("%s: %s", d, t.ID)
	const asleep = 20 * time.Second
	l.World.Trouble(world.Trouble{Kind: world.PushIgnoresPermitEnd, Asset: intent.AssetID(t.ID), Count: 1, For: 4 * asleep, Seed: d.Seed})
	id := intent.AssetID(t.ID)
	l.save(d.Number, next, t.alter(r))
	l.soonApproved(d)
	l.whilePushed(id, func() {
		l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: PauseAtPoint, Point: "effect", Plugins: true, Length: asleep}, 0})
		_ = l.people.Wait(l.ctx, 500*time.Millisecond, nil)
		// The process sleeps longer: awake, it would take the lease again.
		l.holdsUp(4 * asleep)
		old.Pause(4 * asleep)
		l.relieve()
		l.after(3*asleep, func() { old.Kill("the process that took over stays") })
	})
}

// whilePushed does something as soon as an asset is being pushed, if it soon is.
func (l *Lab) whilePushed(id intent.AssetID, do func()) {
	l.people.Go("meanwhile", func() {
		for range 40 {
			if l.people.Wait(l.ctx, 250*time.Millisecond, nil) != nil || l.healing {
				return
			}
			for _, push := range l.World.Pushing() {
				if push.Asset == id {
					do()
					return
				}
			}
		}
	})
}

// soonApproved lets somebody approve what waits for it, a moment later.
func (l *Lab) soonApproved(d Disturbance) {
	d.Kind, d.Then = PersonApprove, ""
	l.after(1500*time.Millisecond, func() { l.strike(d) })
}

// supersede writes new content for what is being pushed now, or else for
// something else, perhaps more than once.
func (l *Lab) supersede(d Disturbance, r *rand.Rand) {
	if l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	next := l.good.clone()
	var t *Thing
	if running := l.World.Pushing(); len(running) > 0 {
		t = next.find(string(running[r.IntN(len(running))].Asset))
	}
	if t == nil {
		t = next.wanting(r, "job", "balancer", "command")
	}
	if t == nil {
		return
	}
	id := t.ID
	l.save(d.Number, next, t.alter(r))
	for range r.IntN(3) {
		l.after(time.Duration(r.Int64N(int64(4*time.Second))), func() {
			again := l.intent.clone()
			if t := again.find(id); t != nil && again.Slip == "" {
				l.save(d.Number, again, t.alter(r))
			}
		})
	}
}

// pins an asset to an older incarnation in which it is another one, for a
// while, as a rollout does or a person.
func (l *Lab) pinTo(d Disturbance, r *rand.Rand, rank intent.Rank, period time.Duration) {
	replica := l.replica()
	head, err := l.reading.Partition(l.ctx, l.partition)
	if replica == nil || replica.link == nil || err != nil || (l.ownRollout() || l.sets() || l.Monitor.Governs()) && rank < intent.RankPerson {
		return // Where rollouts are, these pins are theirs.
	}
	members := l.headMembers()
	if len(members) == 0 {
		return
	}
	m := members[r.IntN(len(members))]
	if m.Asset == intent.PolicyAsset {
		return
	}
	var older []intent.IncarnationID
	for back := intent.Sequence(1); back < 8 && back < head.Head.Sequence; back++ {
		id := intent.IncarnationID{Partition: l.partition, Sequence: head.Head.Sequence - back}
		if was, err := l.reading.Member(l.ctx, id, m.Asset); err == nil && was.Digest != m.Digest {
			older = append(older, id)
		}
	}
	target := head.Head
	if len(older) > 0 {
		target = older[r.IntN(len(older))]
	}
	l.people.Go("rollout", func() {
		pin, err := replica.link.SetPin(l.ctx, intent.Pin{
			Asset: m.Asset, Incarnation: target, Rank: rank, Holder: intent.Actor{Name: "rollout", Origin: "sim"}, Reason: "a stage", Until: l.Now().Add(period),
		})
		if err == nil {
			l.tell("%s: %s to %s, revision %d, for %s", d, m.Asset, target, pin.Revision, period)
			l.mark("pinned by a program")
		}
	})
}

func (l *Lab) rolloutPin(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "store")
	l.pinTo(d, r, []intent.Rank{intent.RankRollout, intent.RankRollout, intent.RankRollback}[r.IntN(3)], d.Length+5*time.Second)
	if r.IntN(2) == 0 { // And a person's beside it.
		same := rand.New(rand.NewPCG(d.Seed, 2))
		l.pinTo(d, same, intent.RankPerson, d.Length+2*time.Second)
		same = rand.New(rand.NewPCG(d.Seed, 2))
		l.pinTo(d, same, intent.RankRollout, d.Length+30*time.Second)
	}
}

// pinBriefly lets a pin end between the decision and the admission.
func (l *Lab) pinBriefly(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "store")
	period := 300*time.Millisecond + time.Duration(r.Int64N(int64(2*time.Second)))
	l.armed = append(l.armed, armed{Disturbance{Number: d.Number, Kind: DelayAtPoint, Point: "admit", Length: period + time.Second, Seed: d.Seed}, 0})
	l.pinTo(d, r, intent.RankPerson, period)
}

// approveBlink: something is held, changed, approved, changed again, and
// changed back, before it may go.
func (l *Lab) approveBlink(d Disturbance, r *rand.Rand) {
	base := l.good.clone()
	t := base.wanting(r, "command", "command", "job")
	if t == nil || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "API")
	t.Approval = true
	action := t.alter(r)
	id := intent.AssetID(t.ID)
	l.holdFor(id, 12*time.Second)
	l.after(500*time.Millisecond, func() { l.save(d.Number, base, action) })
	l.after(3*time.Second, func() { l.strike(Disturbance{Number: d.Number, Kind: PersonApprove, Seed: d.Seed}) })
	l.after(5*time.Second, func() {
		other := base.clone()
		other.find(string(id)).alter(r)
		l.save(d.Number, other, "something else")
	})
	l.after(8*time.Second, func() { l.save(d.Number, base.clone(), "what was approved") })
}

// holdFor lets a person hold an asset.
func (l *Lab) holdFor(asset intent.AssetID, period time.Duration) {
	replica := l.replica()
	if replica == nil || replica.link == nil {
		return
	}
	l.people.Go("person", func() {
		_ = replica.link.SetHold(l.ctx, l.partition, intent.Hold{
			Asset: asset, Owner: intent.Actor{Name: "ann", Origin: "sim"}, Reason: "wait", Created: l.Now(), Until: l.Now().Add(period),
		})
	})
}

// flap starts a second process that is soon gone, so that the first must take
// its lease back.
func (l *Lab) flap(d Disturbance, r *rand.Rand) {
	old := l.replica()
	if old == nil || l.crowded(2) {
		return
	}
	l.note(d.Kind, "any")
	l.tell("%s", d)
	young := l.Begin()
	l.after(time.Duration(1+r.Int64N(int64(15*time.Second))), func() { young.Kill("it was started by mistake") })
}

// together changes both ends of edges, and what shares a budget, in one step.
func (l *Lab) together(d Disturbance, r *rand.Rand) {
	if l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	next := l.good.clone()
	for _, scope := range []string{"a", "b"}[:1+r.IntN(2)] {
		job, balancer := next.find("job/"+scope), next.find("balancer/"+scope)
		if job == nil || balancer == nil {
			continue
		}
		job.Count, balancer.Count = 1+r.IntN(6), 1+r.IntN(6)
		if r.IntN(3) > 0 {
			balancer.Count = job.Count
		}
		if r.IntN(2) == 0 {
			job.alter(r)
			balancer.alter(r)
		}
	}
	if schema := next.find("schema/main"); schema != nil && r.IntN(2) == 0 {
		schema.Text = fmt.Sprintf("v%d", 1+r.IntN(12))
		for at := range next.Things {
			if next.Things[at].Kind == "job" {
				next.Things[at].Needs = schema.Text
			}
		}
	}
	if www := next.find("record/www"); www != nil {
		www.alter(r)
	}
	l.save(d.Number, next, "much at once")
	l.soonApproved(d)
	if r.IntN(3) == 0 {
		l.after(time.Duration(r.Int64N(int64(6*time.Second))), func() {
			if replica := l.replica(); replica != nil {
				replica.Kill("in the middle of much")
			}
		})
	}
}

// turncoat leaves something out and brings its id back as something else,
// while what was enforced is there still.
func (l *Lab) turncoat(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	t := next.wanting(r, "command")
	// What does not come back in the end would be an orphan in the way of others.
	if t == nil || l.first.find(t.ID) == nil || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "sources")
	id := t.ID
	job := Thing{ID: id, Kind: "job", Name: id, Count: 1, Text: "v1", Scope: "a"}
	if r.IntN(2) == 0 { // At once.
		*t = job
		l.save(d.Number, next, id+" is a job now")
		l.after(10*time.Second, func() { l.save(d.Number, l.good.clone(), "what was served") })
		return
	}
	next.remove(id)
	next.forget(id)
	l.save(d.Number, next, id+" is left out")
	l.after(8*time.Second, func() {
		if l.good.find(id) != nil {
			return // Somebody brought it back, or it never went.
		}
		back := l.good.clone()
		back.Things = append(back.Things, job)
		l.save(d.Number, back, id+" is a job now")
	})
	l.after(20*time.Second, func() { l.save(d.Number, l.good.clone(), "what was served") })
}

// careless: plugins lie while something is changed, and somebody approves all.
func (l *Lab) careless(d Disturbance, r *rand.Rand) {
	lies := []world.TroubleKind{world.DiffUnknown, world.DiffSilent, world.DiffLiesDiffers, world.DiffGarbage, world.DiffMissing, world.DiffLiesInSync, world.DiffStale, world.DiffLiesDelete}
	next := l.good.clone()
	t := next.wanting(r, "job", "balancer", "command")
	if t == nil || l.options.Definition != "" {
		return
	}
	l.note(d.Kind, "production")
	l.World.Trouble(world.Trouble{Kind: lies[r.IntN(len(lies))], Asset: intent.AssetID(t.ID), Count: 1 + r.IntN(8), Seed: d.Seed})
	l.tell("%s: %s", d, t.ID)
	l.save(d.Number, next, t.alter(r))
	l.soonApproved(d)
}
