package explore

import "lehr.dev/internal/pluginhost/plugin"

// Judge says what must never be so in a state.
func (w *world) Judge(s state) string {
	var running [assets]uint8
	all := uint8(0)
	for _, p := range s.pushes {
		if p.asset != 0 && p.running() {
			running[p.asset-1]++
			all++
		}
	}
	for _, count := range running {
		if count > 1 {
			return w.judged("S3: two pushes of one asset run at once")
		}
	}
	if w.InFlight > 0 && all > w.InFlight {
		return w.judged("S8: more pushes run than the budget allows")
	}
	if (w.Edge == CapacityEdge || w.Edge == VersionEdge) && s.things[1].content > s.things[0].content {
		return w.judged("S1: y asks for more than x has: an edge did not hold")
	}
	return ""
}

// admissionWrong says what was wrong with an admission; s is what was so.
func (w *world) admissionWrong(s *state, lease uint8, a int, k ask) string {
	_, target := w.wanted(s, a)
	other := 1 - a
	_, others := w.wanted(s, other)
	switch {
	case lease != s.epoch:
		return "S4: an admission under a lease that was lost"
	case s.stopped != 0:
		return "S18: an admission after a stop"
	case target != k.with:
		return "S2: an admission of content that is not the target's"
	case w.besidePush(s, k):
		return "S1: an admission while what it rests on is being pushed"
	case w.destroys(k.from, k.with) && s.owed[a]&planTo(k.from, k.with) == 0:
		return "S9: a destructive admission without an approval of its own"
	case w.Edge == OrderEdge && a == 1 && w.effectOf(target) != nothing && s.things[other].content != w.effectOf(others):
		return "S1: y is admitted while x is not at its target: the order did not hold"
	case w.Edge == OrderEdge && a == 0 && w.effectOf(target) == nothing && w.stands(s, other, others):
		return "S1: x is to go while y depends on it: the order did not hold"
	}
	return ""
}

// besidePush: an asset on which the ask rests has an open push.
func (w *world) besidePush(s *state, k ask) bool {
	for _, p := range s.pushes {
		if p.asset != 0 && p.row != closed && k.quiet&(1<<(p.asset-1)) != 0 {
			return true
		}
	}
	return false
}

// stands: the asset is there, and follows intent or is an orphan.
func (w *world) stands(s *state, a int, target content) bool {
	if target != nothing {
		return s.things[a].content != nothing
	}
	return s.enforced[a] != nothing && !w.Removes[s.enforced[a]]
}

// destroys is intent.Plan.Destructive of such a plan.
func (w *world) destroys(current, target content) bool {
	to := w.effectOf(target)
	return to == nothing || w.Destroys && to < current && current != foreign
}

// effectWrong says what is wrong with a change of production.
func (w *walk) effectWrong(p push, thing *thing) string {
	removes := w.effectOf(p.with) == nothing && thing.content != nothing
	asked := w.contentAt(p.target, int(p.asset)-1)
	row := p.row
	for _, original := range w.from.pushes {
		if p.copied != 0 && original.asset != 0 && original.copied == 0 && original.copyOf(p) {
			row = original.row
		}
	}
	switch {
	case removes && (asked == nothing || !w.Removes[asked]):
		return "S5: removed, and nothing asks for that"
	case w.Class == plugin.Fenced && p.epoch < thing.token:
		return "S4: a lower token wrote after a higher one"
	case w.Class != plugin.Unguarded && p.marks&outdone != 0:
		return "S2: older content over newer"
	case w.destroys(p.from, p.with) && p.marks&needsApproval == 0:
		return "S9: destroyed without an approval"
	case row == closed:
		return "S1: an effect without an open admission"
	case w.Class == plugin.CompareAndSet && p.from != thing.content:
		return "S1: an effect that is not of the admitted plan"
	}
	return ""
}
