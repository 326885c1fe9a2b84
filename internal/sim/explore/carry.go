package explore

import "lehr.dev/internal/pluginhost/plugin"

// What follows mirrors a pusher and its plugin: start, plan again, effect,
// reply; and the end of a permit, which comes at any time.

func (k *walk) about(verb string, slot int) Label {
	p := k.from.pushes[slot]
	if p.copied != 0 {
		verb = "(delivered again) " + verb
	}
	return Label{Verb: verb, Asset: int8(p.asset), Epoch: int8(p.epoch)}
}

// becomes is the state in which a push has got so far.
func (k *walk) becomes(slot int, r run) state {
	next := k.from
	next.pushes[slot].run = r
	return next
}

func (k *walk) carryOut(slot int) {
	p := k.from.pushes[slot]
	if p.copied != 0 && p.run == begun {
		k.arriveAgain(slot)
	} else {
		k.begin(slot)
	}
	switch p.run {
	case fresh:
		k.step(k.about("a while passes before it is begun: the push of", slot), k.becomes(slot, old), fair, "")
	case begun:
		if p.copied == 0 {
			k.step(k.about("a while passes before it is sent: the push of", slot), k.becomes(slot, begunLong), fair, "")
		} else {
			k.lapse(slot)
		}
	case sent:
		k.plan(slot)
		k.renew(slot)
		k.lapse(slot)
		k.fail(slot)
	case planned:
		k.effect(slot)
		k.renew(slot)
		k.lapse(slot)
		k.fail(slot)
	case effect:
		k.land(slot)
		k.fail(slot)
	}
	if p.copied == 0 {
		k.close(slot)
		k.settle(slot)
		k.deliverAgain(slot)
	}
}

// lapse ends a permit, which a message and its copy have in common.
func (k *walk) lapse(slot int) {
	next, p := k.from, k.from.pushes[slot]
	for i := range next.pushes {
		q := &next.pushes[i]
		if q.asset == 0 || !q.copyOf(p) || i != slot && q.copied == p.copied {
			continue
		}
		if q.run == sent || q.run == planned || q.copied != 0 && q.run == begun {
			q.run = ended
		}
	}
	k.step(k.about("its permit ends: the push of", slot), next, fair, "")
}

// owner is the replica that was given the push, if it still sees to it.
func (k *walk) owner(p push) (r int, sees bool) {
	r = int(p.by)
	return r, k.from.power[r] == up && k.from.replicas[r].lease == p.epoch
}

// begin hands a push to its plugin: at once, or when it is permitted still.
func (k *walk) begin(slot int) {
	p := k.from.pushes[slot]
	r, ok := k.owner(p)
	if !ok {
		return
	}
	label := k.about("begins the push of", slot)
	label.Replica = int8(r) + 1
	switch {
	case p.run == fresh && k.is(BegunLate):
		label.Verb = "finds fresh the push of"
		k.step(label, k.becomes(slot, begun), fair, "")
	case p.run == fresh, p.run == begun:
		k.step(label, k.becomes(slot, sent), fair, "")
	case p.run == begunLong:
		next := k.becomes(slot, sent)
		next.pushes[slot].late |= k.lateness(&next, p)
		k.step(label, next, fair, "")
	case p.run == old && k.permitted(&k.from, p.epoch, p):
		next := k.becomes(slot, sent)
		next.pushes[slot].late |= k.lateness(&next, p)
		k.step(label, next, fair, "")
	case p.run == old:
		label.Verb = "does not begin the push of"
		k.step(label, k.becomes(slot, ended), fair, "")
	}
}

// lateness says what a permit given now is given after.
func (w *world) lateness(s *state, p push) (late lateness) {
	if s.stopped != 0 {
		late |= afterStop
	}
	if p.epoch != s.epoch {
		late |= afterLoss
	}
	if _, target := w.wanted(s, int(p.asset)-1); target != p.with {
		late |= afterMove
	}
	return late
}

// renew gives another permit. It changes nothing, unless it should not be.
func (k *walk) renew(slot int) {
	p := k.from.pushes[slot]
	if _, ok := k.owner(p); !ok || p.copied != 0 || !k.permitted(&k.from, p.epoch, p) {
		return
	}
	next := k.from
	next.pushes[slot].late |= k.lateness(&next, p)
	k.step(k.about("its permit is renewed: the push of", slot), next, fair, "")
}

// plan reads production again: the same plan goes on, on a moved base only
// with a permit for it.
func (k *walk) plan(slot int) {
	p := k.from.pushes[slot]
	label := k.about("the plugin plans again the push of", slot)
	there := k.from.things[p.asset-1].content
	switch {
	case there == k.effectOf(p.with):
		k.step(label, k.becomes(slot, ended), fair, "")
		return
	case there != p.from && !k.is(NoPlanAgain):
		k.step(label, k.becomes(slot, ended), fair, "")
		return
	}
	wrong := ""
	if there != p.from {
		wrong = "S1: a plan is carried out that was not admitted"
	}
	next := k.becomes(slot, planned)
	next.pushes[slot].marks &^= moved
	if p.marks&moved == 0 || k.is(NoCover) {
		k.step(label, next, fair, wrong)
		return
	}
	if _, ok := k.owner(p); !ok || p.copied != 0 {
		return // Nobody answers; the permit ends.
	}
	if !k.permitted(&k.from, p.epoch, p) {
		next = k.becomes(slot, ended)
	} else {
		next.pushes[slot].late |= k.lateness(&next, p)
	}
	k.step(label, next, fair, wrong)
}

// effect begins to change production.
func (k *walk) effect(slot int) {
	p := k.from.pushes[slot]
	wrong := ""
	switch late := p.late & k.lateness(&k.from, p); {
	case late&afterStop != 0:
		wrong = "S18: an effect under a permit given after the stop"
	case late&afterLoss != 0:
		wrong = "S4: an effect under a permit given after the lease was lost"
	case late&afterMove != 0:
		wrong = "S2: an effect under a permit given after the target moved"
	}
	k.step(k.about("an effect begins of the push of", slot), k.becomes(slot, effect), fair, wrong)
}

// land is the moment at which production changes, or the target refuses.
func (k *walk) land(slot int) {
	p := k.from.pushes[slot]
	next := k.becomes(slot, ended)
	thing := &next.things[p.asset-1]
	if k.refusedByTarget(p, thing) {
		k.step(k.about("the target refuses the push of", slot), next, fair, "")
		return
	}
	wrong := k.effectWrong(p, thing)
	k.write(&next, slot, k.effectOf(p.with))
	k.step(k.about("production changes by the push of", slot), next, fair, wrong)
}

func (k *walk) refusedByTarget(p push, thing *thing) bool {
	switch k.Class {
	case plugin.Fenced:
		return p.epoch < thing.token && !k.is(NoFence)
	case plugin.CompareAndSet:
		returned := k.is(BaseReused) && thing.content == p.from
		return p.marks&moved != 0 && !returned && !k.is(NoCompare)
	default:
		return false
	}
}

// write changes production, and so the base of all who looked before.
func (w *world) write(s *state, slot int, c content) {
	p := s.pushes[slot]
	a := int(p.asset) - 1
	s.things[a].content = c
	if w.Class == plugin.Fenced {
		s.things[a].token = max(s.things[a].token, p.epoch)
	}
	for i := range s.pushes {
		if q := &s.pushes[i]; q.asset == p.asset && q.older > p.older && q.run != over {
			q.marks |= outdone
		}
	}
	w.move(s, a, slot)
}

// move notes that what is there has changed, for all but one push.
func (w *world) move(s *state, a, but int) {
	if w.Class != plugin.CompareAndSet {
		return
	}
	for i := range s.pushes {
		if q := &s.pushes[i]; int(q.asset) == a+1 && i != but && q.run != over && q.run != ended {
			q.marks |= moved
		}
	}
	for r := range s.replicas {
		if f := &s.replicas[r].facts[a]; f.kind == differs {
			f.moved = 1
		}
		if k := &s.replicas[r].asks[a]; k.stage != notAsked {
			k.marks |= moved
		}
	}
}

// fail ends a push without its effect, or half-way.
func (k *walk) fail(slot int) {
	if k.from.left.Failures == 0 {
		return
	}
	p := k.from.pushes[slot]
	next := k.becomes(slot, ended)
	next.left.Failures--
	if p.run != effect {
		k.step(k.about("it fails: the push of", slot), next, upset, "")
		return
	}
	if thing := &next.things[p.asset-1]; (k.Edge == NoEdge || k.Edge == OrderEdge) && !k.refusedByTarget(p, thing) {
		wrong := k.effectWrong(p, thing)
		k.write(&next, slot, foreign)
		k.step(k.about("it fails half-way: the push of", slot), next, upset, wrong)
	}
}
