package explore

import (
	"math/bits"

	"lehr.dev/internal/ground/intent"
)

// What follows mirrors internal/annealing/enforcer: refresh, look, decide, admit. One
// that is up does any of them at any time, in any order.
func (k *walk) enforce(r int) {
	replica := &k.from.replicas[r]
	switch {
	case replica.lease == 0:
		if k.from.holder() < 0 {
			next := k.from
			k.acquire(&next, r)
			k.step(name("takes the lease", r, nobody), next, fair, "")
		}
		return
	case replica.lease != k.from.epoch:
		next := k.from
		next.lose(r)
		k.step(name("notices that its lease is lost", r, nobody), next, fair, "")
	case replica.behind != 0 && !k.is(NeverReads):
		next := k.from
		k.refresh(&next, r)
		k.step(name("reads the store", r, nobody), next, fair, "")
	}
	for a := range assets {
		k.look(r, a)
		k.decide(r, a)
	}
	k.commit(r)
	k.sendGroup(r)
}

// lose ends all that a replica does under a lease: it forgets what it knows,
// and pushes not handed to their plugins are not begun any more.
func (s *state) lose(r int) {
	for i := range s.pushes {
		p := &s.pushes[i]
		if p.asset != 0 && int(p.by) == r && p.copied == 0 && (p.run == fresh || p.run == old || p.run == begun || p.run == begunLong) {
			p.run = over
		}
	}
	s.replicas[r] = replica{}
}

// refresh reads the store anew; facts about other content are none.
func (w *world) refresh(s *state, r int) {
	replica := &s.replicas[r]
	replica.view, replica.behind = s.read(), 0
	w.forget(replica)
}

// forget drops facts about what is not the target any more.
func (w *world) forget(held *replica) {
	for a := range held.facts {
		_, target := w.believed(held, a)
		if held.facts[a].kind != unknown && held.facts[a].with != target {
			held.facts[a] = fact{}
		}
	}
}

// pushing: the replica knows of an open push of the asset.
func (w *world) pushing(s *state, r, a int) bool {
	if w.is(NoMemory) {
		return false
	}
	for _, p := range s.pushes {
		if int(p.asset) == a+1 && p.row != closed && p.epoch <= s.replicas[r].lease {
			return true
		}
	}
	return false
}

// sought: the replica looks at the asset, for a content that may be nothing
// only where absence is taken for a wish.
func (w *world) sought(held *replica, a int) (chosen, content, bool) {
	t, target := w.believed(held, a)
	return t, target, target != nothing || w.is(AbsenceDeletes|AbsencePlansDelete) && held.view.head > 0
}

// look compares an asset with production.
func (k *walk) look(r, a int) {
	next := k.from
	replica := &next.replicas[r]
	_, target, seeks := k.sought(replica, a)
	if !seeks || replica.asks[a].stage != notAsked || k.pushing(&next, r, a) {
		return
	}
	there := next.things[a].content
	replica.facts[a] = fact{kind: differs, from: there, with: target}
	if there == k.effectOf(target) {
		replica.facts[a] = fact{kind: inSync, with: target}
		if replica.lease == next.epoch {
			next.enforced[a] = k.recorded(target)
		}
	}
	k.step(name("looks at", r, a), next, fair, "")
}

// question that a pass asks about an asset; false: there is nothing to decide.
func (w *world) question(s *state, r, a int) (question, bool) {
	replica := &s.replicas[r]
	f := replica.facts[a]
	_, target, seeks := w.sought(replica, a)
	if !seeks || f.kind != differs || f.with != target || replica.asks[a].stage != notAsked || w.pushing(s, r, a) {
		return question{}, false
	}
	q := question{
		asset: a, from: f.from, with: target, stopped: replica.view.stopped != 0,
		approved: replica.view.approvals[a]&planTo(f.from, target) != 0 || w.is(ApprovalUnbound) && replica.view.approvals[a] != 0,
	}
	if w.Edge != NoEdge {
		q.other = w.neighbour(s, r, 1-a)
	}
	return q, true
}

// neighbour is what a replica knows of an asset.
func (w *world) neighbour(s *state, r, a int) neighbour {
	replica := &s.replicas[r]
	_, target := w.believed(replica, a)
	f := replica.facts[a]
	n := neighbour{follows: target != nothing, with: target}
	n.orphan = target == nothing && s.enforced[a] != nothing && !w.Removes[s.enforced[a]]
	if f.kind == unknown || f.with != target || target == nothing || w.pushing(s, r, a) {
		return n
	}
	n.known, n.inSync, n.there = true, f.kind == inSync, f.from
	if n.inSync {
		n.there = w.effectOf(target)
	}
	return n
}

// decide is one pass over an asset: it asks the rules, and the store when they
// let it.
func (k *walk) decide(r, a int) {
	q, decides := k.question(&k.from, r, a)
	if !decides {
		return
	}
	verdict := k.ask(q)
	if !verdict.push || !k.place(r) {
		return
	}
	next := k.from
	replica := &next.replicas[r]
	t, _ := k.believed(replica, a)
	ask := ask{stage: flying, target: t.incarnation, with: q.with, from: q.from, quiet: verdict.relied}
	for _, other := range replica.asks {
		if other.stage == flying || k.Grouped {
			ask.stage = pending
		}
	}
	set := func(m mark, when bool) {
		if when {
			ask.marks |= m
		}
	}
	set(stale, replica.behind != 0)
	set(lapses, t.ends)
	set(needsApproval, verdict.needsApproval)
	set(moved, replica.facts[a].moved != 0)
	replica.asks[a] = ask
	k.step(name("decides to push", r, a), next, fair, "")
}

// place: the replica's own count of the budget has one left.
func (k *walk) place(r int) bool {
	if k.InFlight == 0 {
		return true
	}
	replica := &k.from.replicas[r]
	taken := uint8(0)
	for _, ask := range replica.asks {
		if ask.stage != notAsked {
			taken++
		}
	}
	for _, p := range k.from.pushes {
		if p.asset != 0 && int(p.by) == r && p.epoch == replica.lease && p.row != closed {
			taken++
		}
	}
	return taken < k.InFlight
}

// commit has the store decide about the group before it: each order is tried.
func (k *walk) commit(r int) {
	group := uint8(0)
	for a, ask := range k.from.replicas[r].asks {
		if ask.stage == flying {
			group |= 1 << a
		}
	}
	switch {
	case group == 0:
	case bits.OnesCount8(group) == 1:
		k.commitInOrder(r, "is answered about", bits.TrailingZeros8(group))
	default:
		k.commitInOrder(r, "is answered, first about", 0, 1)
		k.commitInOrder(r, "is answered, first about", 1, 0)
	}
}

func (k *walk) commitInOrder(r int, verb string, order ...int) {
	next, wrong := k.from, ""
	replica := &next.replicas[r]
	reread := false
	for _, a := range order {
		before, ask := next, replica.asks[a]
		said := k.admit(&next, replica.lease, r, a, ask)
		if said.conflict {
			next.lose(r)
			k.step(name("is told that its lease is lost, asking about", r, a), next, fair, "")
			return
		}
		replica.asks[a] = askNone
		reread = reread || said.waiting == intent.WaitStale
		if said.waiting == "" {
			replica.facts[a] = fact{}
			if wrong == "" {
				wrong = k.admissionWrong(&before, replica.lease, a, ask)
			}
			next.owed[a] &^= planTo(ask.from, ask.with)
		}
	}
	if reread && replica.lease == next.epoch && !k.is(NeverReads) {
		k.refresh(&next, r)
	}
	for a := range replica.asks {
		if !k.is(SmallGroups) {
			k.follow(&next, r, a)
		}
	}
	k.step(name(verb, r, order[0]), next, fair, wrong)
}

// sendGroup: the store has answered about other assets, and takes the next
// group. What is answered about these two sends it in the same step.
func (k *walk) sendGroup(r int) {
	for _, ask := range k.from.replicas[r].asks {
		if ask.stage == flying || !k.Grouped && !k.is(SmallGroups) {
			return
		}
	}
	next := k.from
	for a := range assets {
		k.follow(&next, r, a)
	}
	k.step(name("sends its next group", r, nobody), next, fair, "")
}

var askNone = ask{}

// follow sends what waited for its group, unless a push began meanwhile of
// what it rests on.
func (k *walk) follow(to *state, r, a int) {
	waits := &to.replicas[r].asks[a]
	if waits.stage != pending {
		return
	}
	waits.stage = flying
	for other := range assets {
		if waits.quiet&(1<<other) != 0 && k.pushing(to, r, other) && !k.is(NoOutrun) {
			*waits = ask{}
			return
		}
	}
}
