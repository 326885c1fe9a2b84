package enforcer

import (
	"fmt"
	"math"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// solve gathers what the dependency solver's rules look at: the edges that
// the asset declares, and those that others declare to it. What is not known
// of a neighbour is asked for; the answer wakes the asset.
func (e *Enforcer) solve(a *asset, facts *check.Facts) {
	own := a.requirements.standing
	if own == nil {
		return
	}
	if own.turndown {
		facts.Turndown = &check.Turndown{Dependants: e.sharers(a)}
	}
	for _, edge := range a.requirements.edges {
		switch {
		case edge.rule == intentpb.Dependency_RULE_CAPACITY:
			facts.Capacity = append(facts.Capacity, e.serving(own, edge, facts.Now))
		case own.turndown: // Removal runs backwards.
		case edge.rule == intentpb.Dependency_RULE_ORDER:
			facts.Order = append(facts.Order, e.ordered(edge.neighbour, edge.loosened, facts.Now))
		case edge.rule == intentpb.Dependency_RULE_VERSION:
			facts.Version = append(facts.Version, e.needing(edge, facts.Now))
		}
	}
	if a.requirements.inward != nil {
		e.solveInward(a, facts)
	}
}

// solveInward gathers the edges that others declare to the asset, each by what
// its owner is at its own target and as it was enforced last.
func (e *Enforcer) solveInward(a *asset, facts *check.Facts) {
	inbound := a.requirements.inward
	for _, id := range inbound.referrers {
		neighbour := e.assets[id]
		if neighbour == nil {
			if record, ok := e.orphans[id]; ok && !record.absent {
				e.solveOrphan(a, id, record, facts)
			}
			continue
		}
		_, effective, _, exists := e.view.target(neighbour, facts.Now)
		var target, enforced []edge
		refers := false
		if exists {
			target, refers = inbound.edges[effective], inbound.refers[effective]
		}
		if neighbour.enforced > 0 && !neighbour.absent {
			enforced, refers = inbound.edges[neighbour.enforcedAs()], refers || inbound.refers[neighbour.enforcedAs()]
		}
		if a.requirements.standing.moves && !e.fresh(neighbour, facts.Now) {
			enforced = append(slices.Clone(enforced), e.mayRun(neighbour, inbound)...)
		}
		for _, edge := range union(target, enforced) {
			switch {
			case edge.rule == intentpb.Dependency_RULE_CAPACITY:
				facts.Capacity = append(facts.Capacity, e.servedBy(a, neighbour, edge, facts.Now))
			case facts.Turndown != nil:
				refers = true
			case edge.rule == intentpb.Dependency_RULE_VERSION && a.requirements.standing.moves && (!neighbour.absent || neighbour.lags):
				e.needed(a, neighbour, edge, enforced, facts)
			}
		}
		if facts.Turndown != nil && refers {
			facts.Turndown.Dependants = append(facts.Turndown.Dependants, e.dependant(neighbour, facts.Now))
		}
	}
}

// serving is an edge along which the asset serves another.
func (e *Enforcer) serving(own *neighbourFacts, edge edge, now time.Time) check.Supply {
	s := check.Supply{Neighbour: check.Neighbour{Asset: edge.neighbour, Loosened: edge.loosened}, Serving: true, Serves: edge.serves, Expects: edge.expects}
	mine, isKnown := own.amount(edge.serves)
	switch {
	case own.turndown && (!isKnown || mine.err != nil):
		mine = amount{Amount: check.Amount{Current: math.MaxFloat64}} // Whatever it was, it ends.
	case !isKnown:
		s.Broken = fmt.Errorf("how much of %s it serves %s is not known: its plugin reports none, and its Capacity addon does not list it", edge.serves, edge.neighbour)
	case mine.err != nil:
		s.Broken = mine.err
	}
	s.Own = mine.Amount
	if s.Broken != nil || !s.Endangers() {
		return s
	}
	s.Neighbour = e.neighbourOf(edge.neighbour, edge.loosened, now)
	if !s.Known {
		return s
	}
	theirs := e.standingOf(edge.neighbour)
	theirAmount, isKnown := theirs.amount(edge.expects)
	switch {
	case !isKnown && own.turndown && theirs.inSync && len(theirs.amounts) > 0:
		// It reports what it expects of others, and nothing of this one.
	case !isKnown:
		s.Broken = unknownAmount(edge.neighbour, edge.expects)
	case theirAmount.err != nil:
		s.Broken = theirAmount.err
	}
	s.Other = theirAmount.Amount
	return s
}

func unknownAmount(id intent.AssetID, dimension string) error {
	return fmt.Errorf("how much of %s %s has is not known: its plugin reports none, and its Capacity addon does not list it", dimension, id)
}

// servedBy is an edge along which another asset serves this one.
func (e *Enforcer) servedBy(a, neighbour *asset, edge edge, now time.Time) check.Supply {
	own := a.requirements.standing
	s := check.Supply{Neighbour: check.Neighbour{Asset: neighbour.id, Loosened: edge.loosened}, Serves: edge.serves, Expects: edge.expects}
	mine, isKnown := own.amount(edge.expects)
	if !isKnown && len(own.amounts) > 0 && e.turnsDown(neighbour) {
		return s // It is to go, and nothing is expected of it.
	}
	switch {
	case !isKnown && own.turndown:
		return s // It ends to expect anything.
	case !isKnown:
		s.Broken = unknownAmount(a.id, edge.expects)
	case mine.err != nil:
		s.Broken = mine.err
	}
	s.Own = mine.Amount
	if s.Broken != nil || !s.Endangers() {
		return s
	}
	s.Neighbour = e.neighbourOf(neighbour.id, edge.loosened, now)
	if !s.Known {
		return s
	}
	theirs, isKnown := e.standingOf(neighbour.id).amount(edge.serves)
	switch {
	case !isKnown:
		s.Broken = unknownAmount(neighbour.id, edge.serves)
	case theirs.err != nil:
		s.Broken = theirs.err
	}
	s.Other = theirs.Amount
	return s
}

// needing is an edge along which the asset needs a version of another.
func (e *Enforcer) needing(edge edge, now time.Time) check.Need {
	n := check.Need{Neighbour: e.neighbourOf(edge.neighbour, edge.loosened, now), AtLeast: edge.atLeast}
	if !n.Known {
		return n
	}
	theirs := e.standingOf(edge.neighbour)
	// One on its way down waits for those that need it: they go first, by
	// what it will declare.
	order, _ := theirs.falls()
	switch {
	case !theirs.inSync && order <= 0:
		n.Known, n.State = false, "differs from its target"
	case theirs.turndown:
		n.Known, n.State = false, "turned down: nothing is there"
	case theirs.inSync && e.assets[edge.neighbour] != nil && e.isAfter(e.assets[edge.neighbour]):
		n.Known, n.Quotes, n.State = false, true, e.notWell(e.assets[edge.neighbour], now)
	case theirs.declares.err != nil:
		n.Broken = fmt.Errorf("the version of %s is not known: %w", edge.neighbour, theirs.declares.err)
	case theirs.declares.none:
		n.Broken = fmt.Errorf("the version of %s is not known: it has no Version addon", edge.neighbour)
	}
	n.Declares = theirs.declares.text
	return n
}

// needed is an edge along which another asset needs a version of this one:
// as it was enforced last, or at its target if it may be there. Where it may
// not, it must at least not go there meanwhile.
func (e *Enforcer) needed(a, neighbour *asset, edge edge, enforced []edge, facts *check.Facts) {
	atTarget := edge
	atTarget.loosened = false
	runs := edge.loosened
	for _, old := range enforced {
		runs = runs || old == atTarget
	}
	_, effective, _, _ := e.view.target(neighbour, facts.Now)
	if !runs && !neighbour.open() && !e.fresh(neighbour, facts.Now) && (neighbour.trouble == nil || neighbour.tried != effective) {
		facts.Beside = append(facts.Beside, neighbour.id)
		return
	}
	n := check.Neighbour{Asset: neighbour.id, Known: true, Loosened: edge.loosened}
	if neighbour.open() {
		n.Known, n.State = false, "being pushed"
	}
	facts.Version = append(facts.Version, stillNeeds(a, n, edge))
}

// stillNeeds is an edge along which one that runs needs a version of the asset.
func stillNeeds(a *asset, neighbour check.Neighbour, edge edge) check.Need {
	own := a.requirements.standing.declares
	n := check.Need{Neighbour: neighbour, Needed: true, AtLeast: edge.atLeast, Declares: own.text}
	switch {
	case !neighbour.Known:
	case own.err != nil:
		n.Broken = fmt.Errorf("%s needs at least %s of it, and which version it would declare is not known: %w", neighbour.Asset, edge.atLeast, own.err)
	case own.none:
		n.Broken = fmt.Errorf("%s needs at least %s of it, and it would declare no version: it has no Version addon", neighbour.Asset, edge.atLeast)
	}
	return n
}

// mayRun lists the versions that an asset needs by what it was pushed to since
// it was enforced last: nobody saw it in sync, and it may be there.
func (e *Enforcer) mayRun(neighbour *asset, inbound *inward) []edge {
	var may []edge
	for _, attempt := range inbound.tried[neighbour.id] {
		if attempt.at < neighbour.enforced {
			continue
		}
		for _, edge := range inbound.edges[attempt.content] {
			if edge.rule == intentpb.Dependency_RULE_VERSION && !slices.Contains(may, edge) {
				may = append(may, edge)
			}
		}
	}
	return may
}

// ordered says whether an asset is in sync at its own target.
func (e *Enforcer) ordered(id intent.AssetID, loosened bool, now time.Time) check.Neighbour {
	n := check.Neighbour{Asset: id, Loosened: loosened}
	b := e.assets[id]
	switch {
	case b == nil && loosened:
		n.Known = true
	case b == nil:
		n.State, n.Missing = e.missing(id), true
	case b.kind.served == nil && b.enforced == 0:
		n.Known = true
	case b.open():
		n.State = "being pushed"
	case loosened && e.turnsDown(b):
		n.Known = true // It goes, and waits for this one: removal runs backwards.
	case e.fresh(b, now) && e.isAfter(b) && !loosened:
		n.Quotes, n.State = true, e.notWell(b, now)
	case e.fresh(b, now):
		n.Known, n.Until = true, e.followsUntil(b, now, time.Unix(0, b.seenAt).Add(e.holdOf(b)))
	case b.trouble != nil && b.difference.Outcome == intent.Differs:
		n.State = "differs from its target"
	default:
		n.State = e.unknown(b, now)
		e.hurry(b)
	}
	return n
}

// neighbourOf says whether what is known of an asset may be relied on.
func (e *Enforcer) neighbourOf(id intent.AssetID, loosened bool, now time.Time) check.Neighbour {
	n := check.Neighbour{Asset: id, Loosened: loosened}
	b := e.assets[id]
	switch {
	case b == nil && e.orphans[id].absent:
		n.Known = true // Turned down, and out of intent.
	case b == nil:
		n.State, n.Missing = e.missing(id), true
	case b.open():
		n.State = "being pushed"
	case e.isStandingValid(b, now):
		var until time.Time
		if s := e.neighbourFacts[b]; !s.model {
			until = s.at.Add(e.holdOf(b))
		}
		n.Known, n.Until = true, e.followsUntil(b, now, until)
	default:
		n.State = e.unknown(b, now)
		e.want(b)
	}
	return n
}

// missing says of what is not in intent where it went.
func (e *Enforcer) missing(id intent.AssetID) string {
	reason := fmt.Sprintf("not in the incarnation %s", e.view.head)
	if record, ok := e.orphans[id]; ok && !record.absent {
		return fmt.Sprintf("%s: it left intent after @%d and was not removed; put it back, or take the dependency on it away", reason, record.at)
	}
	return reason + ", nor anywhere else: put it into the sources, or take the dependency on it away"
}

// followsUntil is when a fact about an asset ends: at that time (zero: when
// something changes), or before, when a pin ends and it follows other content.
func (e *Enforcer) followsUntil(a *asset, now, until time.Time) time.Time {
	_, _, pin, _ := e.view.target(a, now)
	if pin != nil && !pin.Until.IsZero() && (until.IsZero() || pin.Until.Before(until)) {
		return pin.Until
	}
	return until
}

// removedStanding is what is known of what was turned down and left intent.
var removedStanding = &neighbourFacts{inSync: true, turndown: true, empty: true, declares: declared{none: true}}

// standingOf returns what is known of an asset.
func (e *Enforcer) standingOf(id intent.AssetID) *neighbourFacts {
	if b := e.assets[id]; b != nil {
		return e.neighbourFacts[b]
	}
	return removedStanding
}

// isStandingValid reports whether what is known of the asset still holds: of its present
// target, and not from long ago.
func (e *Enforcer) isStandingValid(b *asset, now time.Time) bool {
	s := e.neighbourFacts[b]
	if s == nil {
		return false
	}
	_, effective, _, exists := e.view.target(b, now)
	age := now.Sub(s.at)
	return exists && s.effective == effective && s.pinned == e.view.pinnedNow(b, now) && (s.model || age >= 0 && age < e.holdOf(b))
}

// unknown says why nothing is known of an asset.
func (e *Enforcer) unknown(b *asset, now time.Time) string {
	switch {
	case e.view.modeNow(b) == check.Off:
		return "its mode is off, so nobody looks at it"
	case b.kind.served == nil && b.enforced > 0:
		return "no plugin is bound to its type any more"
	case b.kind.served != nil && b.kind.served.until.After(now):
		return "its plugin does not answer: " + b.kind.served.reason
	case b.trouble != nil && b.failures > 0:
		return "its plugin cannot tell how it is"
	}
	return "not seen in sync yet"
}

// want asks, once, for a look that tells how an asset stands.
func (e *Enforcer) want(b *asset) {
	if e.wanted[b] {
		return
	}
	e.wanted[b] = true
	if b.looking {
		b.again, e.askedNeighbour = true, true // This look was not asked to tell.
		return
	}
	e.hurry(b)
}

// hurry asks for a look now, unless one is under way, or looks at the asset
// fail: it is looked at again in its own time.
func (e *Enforcer) hurry(b *asset) {
	if !b.looking && (b.trouble == nil || b.failures == 0) {
		e.soon(b, loop.Fresh)
		e.askedNeighbour = true
	}
}

// await has an asset looked at again when any of its neighbours moves.
func (e *Enforcer) await(a *asset, facts check.Facts) {
	join := func(n check.Neighbour, standing bool) { e.join(a, n.Asset, standing) }
	for _, n := range facts.Order {
		if !n.Known {
			join(n, n.Loosened || e.askedNeighbour)
		}
	}
	for _, s := range facts.Capacity {
		if s.Broken != nil || s.Endangers() {
			join(s.Neighbour, true)
		}
	}
	for _, n := range facts.Version {
		join(n.Neighbour, true)
	}
	if facts.Turndown != nil {
		for _, n := range facts.Turndown.Dependants {
			join(n, false)
		}
	}
}

// join has an asset looked at again when another one is in sync, or on
// standing also when it was only looked at.
func (e *Enforcer) join(a *asset, awaited intent.AssetID, standing bool) {
	if e.waiters[awaited] == nil {
		e.waiters[awaited] = map[*asset]bool{}
	}
	if _, waits := e.waiters[awaited][a]; !waits {
		a.awaits = append(a.awaits, awaited)
	}
	e.waiters[awaited][a] = e.waiters[awaited][a] || standing
}

// wakeWaiters looks again at what waited for an asset: for its sync, or only
// for its facts.
func (e *Enforcer) wakeWaiters(id intent.AssetID, onlyStanding bool) {
	waiters := e.waiters[id]
	for waiting, standing := range waiters {
		if onlyStanding && !standing {
			continue
		}
		if e.assets[waiting.id] == waiting {
			e.soon(waiting, loop.Fresh)
		}
		delete(waiters, waiting)
	}
	if len(waiters) == 0 {
		delete(e.waiters, id)
	}
}

// leaveWaiters takes an asset out of those that wait for others, or for answers.
func (e *Enforcer) leaveWaiters(a *asset) {
	if a.trouble == nil {
		return
	}
	for _, awaited := range a.awaits {
		if delete(e.waiters[awaited], a); len(e.waiters[awaited]) == 0 {
			delete(e.waiters, awaited)
		}
	}
	a.awaits = nil
	a.leaveQuestions()
}
