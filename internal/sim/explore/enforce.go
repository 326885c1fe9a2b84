package explore

import (
	"math/bits"

	"lehr.dev/internal/ground/intent"
)

// What follows mirrors internal/annealing/enforcer: refresh, look, decide, admit. One
// that is up does any of them at any time, in any order.
func (k *walk) enforce(r int) {
	held := &k.from.replicas[r]
	switch {
	case held.lease == 0:
		if k.from.holder() < 0 {
			to := k.from
			k.acquire(&to, r)
			k.step(name("takes the lease", r, nobody), to, fair, "")
		}
		return
	case held.lease != k.from.epoch:
		to := k.from
		to.lose(r)
		k.step(name("notices that its lease is lost", r, nobody), to, fair, "")
	case held.behind != 0 && !k.is(NeverReads):
		to := k.from
		k.refresh(&to, r)
		k.step(name("reads the store", r, nobody), to, fair, "")
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
	held := &s.replicas[r]
	held.view, held.behind = s.read(), 0
	w.forget(held)
}

// forget drops facts about what is not the target any more.
func (w *world) forget(held *replica) {
	for a := range held.facts {
		_, with := w.believed(held, a)
		if held.facts[a].kind != unknown && held.facts[a].with != with {
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
	t, with := w.believed(held, a)
	return t, with, with != nothing || w.is(AbsenceDeletes|AbsencePlansDelete) && held.view.head > 0
}

// look compares an asset with production.
func (k *walk) look(r, a int) {
	to := k.from
	held := &to.replicas[r]
	_, with, seeks := k.sought(held, a)
	if !seeks || held.asks[a].stage != notAsked || k.pushing(&to, r, a) {
		return
	}
	there := to.things[a].content
	held.facts[a] = fact{kind: differs, from: there, with: with}
	if there == k.effectOf(with) {
		held.facts[a] = fact{kind: inSync, with: with}
		if held.lease == to.epoch {
			to.enforced[a] = k.recorded(with)
		}
	}
	k.step(name("looks at", r, a), to, fair, "")
}

// question that a pass asks about an asset; false: there is nothing to decide.
func (w *world) question(s *state, r, a int) (question, bool) {
	held := &s.replicas[r]
	f := held.facts[a]
	_, with, seeks := w.sought(held, a)
	if !seeks || f.kind != differs || f.with != with || held.asks[a].stage != notAsked || w.pushing(s, r, a) {
		return question{}, false
	}
	q := question{
		asset: a, from: f.from, with: with, stopped: held.view.stopped != 0,
		approved: held.view.approvals[a]&planTo(f.from, with) != 0 || w.is(ApprovalUnbound) && held.view.approvals[a] != 0,
	}
	if w.Edge != NoEdge {
		q.other = w.neighbour(s, r, 1-a)
	}
	return q, true
}

// neighbour is what a replica knows of an asset.
func (w *world) neighbour(s *state, r, a int) neighbour {
	held := &s.replicas[r]
	_, with := w.believed(held, a)
	f := held.facts[a]
	n := neighbour{follows: with != nothing, with: with}
	n.orphan = with == nothing && s.enforced[a] != nothing && !w.Removes[s.enforced[a]]
	if f.kind == unknown || f.with != with || with == nothing || w.pushing(s, r, a) {
		return n
	}
	n.known, n.inSync, n.there = true, f.kind == inSync, f.from
	if n.inSync {
		n.there = w.effectOf(with)
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
	to := k.from
	held := &to.replicas[r]
	t, _ := k.believed(held, a)
	ask := ask{stage: flying, target: t.incarnation, with: q.with, from: q.from, quiet: verdict.relied}
	for _, other := range held.asks {
		if other.stage == flying || k.Grouped {
			ask.stage = pending
		}
	}
	set := func(m mark, when bool) {
		if when {
			ask.marks |= m
		}
	}
	set(stale, held.behind != 0)
	set(lapses, t.ends)
	set(needsApproval, verdict.needsApproval)
	set(moved, held.facts[a].moved != 0)
	held.asks[a] = ask
	k.step(name("decides to push", r, a), to, fair, "")
}

// place: the replica's own count of the budget has one left.
func (k *walk) place(r int) bool {
	if k.InFlight == 0 {
		return true
	}
	held := &k.from.replicas[r]
	taken := uint8(0)
	for _, ask := range held.asks {
		if ask.stage != notAsked {
			taken++
		}
	}
	for _, p := range k.from.pushes {
		if p.asset != 0 && int(p.by) == r && p.epoch == held.lease && p.row != closed {
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
	to, wrong := k.from, ""
	held := &to.replicas[r]
	reread := false
	for _, a := range order {
		before, ask := to, held.asks[a]
		said := k.admit(&to, held.lease, r, a, ask)
		if said.conflict {
			to.lose(r)
			k.step(name("is told that its lease is lost, asking about", r, a), to, fair, "")
			return
		}
		held.asks[a] = askNone
		reread = reread || said.waiting == intent.WaitStale
		if said.waiting == "" {
			held.facts[a] = fact{}
			if wrong == "" {
				wrong = k.admissionWrong(&before, held.lease, a, ask)
			}
			to.owed[a] &^= planTo(ask.from, ask.with)
		}
	}
	if reread && held.lease == to.epoch && !k.is(NeverReads) {
		k.refresh(&to, r)
	}
	for a := range held.asks {
		if !k.is(SmallGroups) {
			k.follow(&to, r, a)
		}
	}
	k.step(name(verb, r, order[0]), to, fair, wrong)
}

// sendGroup: the store has answered about other assets, and takes the next
// group. What is answered about these two sends it in the same step.
func (k *walk) sendGroup(r int) {
	for _, ask := range k.from.replicas[r].asks {
		if ask.stage == flying || !k.Grouped && !k.is(SmallGroups) {
			return
		}
	}
	to := k.from
	for a := range assets {
		k.follow(&to, r, a)
	}
	k.step(name("sends its next group", r, nobody), to, fair, "")
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
