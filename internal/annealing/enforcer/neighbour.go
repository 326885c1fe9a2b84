package enforcer

import (
	"fmt"
	"math"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// solve gathers what the dependency solver's rules look at: the edges that
// the asset declares, and those that others declare to it. What is not known
// of a neighbour is asked for; the answer wakes the asset. Where the asset is to go,
// facts.Turndown lists already those that share its resource.
func (ns *neighbours) solve(a *asset, facts *check.Facts) {
	ns.asked = false
	own := a.requirements.standing
	if own == nil {
		return
	}
	for _, edge := range a.requirements.edges {
		switch {
		case edge.rule == intentpb.Dependency_RULE_CAPACITY:
			facts.Capacity = append(facts.Capacity, ns.serving(own, edge, facts.Now))
		case own.turndown: // Removal runs backwards.
		case edge.rule == intentpb.Dependency_RULE_ORDER:
			n := ns.inSync(edge.neighbour, edge.loosened, facts.Now)
			n.WaitsForThis = !n.Known && ns.comesAfter(edge.neighbour, a.id)
			facts.Order = append(facts.Order, n)
		case edge.rule == intentpb.Dependency_RULE_VERSION:
			facts.Version = append(facts.Version, ns.needing(edge, facts.Now))
		}
	}
	if a.requirements.inward != nil {
		ns.solveInward(a, facts)
	}
}

// solveInward gathers the edges that others declare to the asset, each by what
// its owner is at its own target and as it was enforced last.
func (ns *neighbours) solveInward(a *asset, facts *check.Facts) {
	inbound := a.requirements.inward
	for _, id := range inbound.referrers {
		neighbour := ns.find(id)
		if neighbour == nil {
			if record, ok := ns.orphans.byID[id]; ok && !record.absent {
				ns.solveOrphan(a, id, record, facts)
			}
			continue
		}
		_, effective, _, exists := ns.view.target(neighbour, facts.Now)
		var target, enforced []edge
		refers := false
		if exists {
			target, refers = inbound.edges[effective], inbound.refers[effective]
		}
		if neighbour.enforced > 0 && !neighbour.absent {
			enforced, refers = inbound.edges[neighbour.enforcedAs()], refers || inbound.refers[neighbour.enforcedAs()]
		}
		if a.requirements.standing.moves && !ns.isFresh(neighbour, facts.Now) {
			enforced = append(slices.Clone(enforced), mayRun(neighbour, inbound)...)
		}
		for _, edge := range union(target, enforced) {
			switch {
			case edge.rule == intentpb.Dependency_RULE_CAPACITY:
				facts.Capacity = append(facts.Capacity, ns.servedBy(a, neighbour, edge, facts.Now))
			case facts.Turndown != nil:
				refers = true
			case edge.rule == intentpb.Dependency_RULE_VERSION && a.requirements.standing.moves && (!neighbour.absent || neighbour.lags):
				ns.needed(a, neighbour, edge, enforced, facts)
			}
		}
		if facts.Turndown != nil && refers {
			facts.Turndown.Dependants = append(facts.Turndown.Dependants, ns.dependant(neighbour, facts.Now))
		}
	}
}

// serving is an edge along which the asset serves another.
func (ns *neighbours) serving(own *neighbourFacts, edge edge, now time.Time) check.Supply {
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
	s.Neighbour = ns.known(edge.neighbour, edge.loosened, now)
	if !s.Known {
		return s
	}
	theirs := ns.factsOf(edge.neighbour)
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

// unknownAmount says that an amount of an asset is not to be had.
func unknownAmount(id intent.AssetID, dimension string) error {
	return fmt.Errorf("how much of %s %s has is not known: its plugin reports none, and its Capacity addon does not list it", dimension, id)
}

// servedBy is an edge along which another asset serves this one.
func (ns *neighbours) servedBy(a, neighbour *asset, edge edge, now time.Time) check.Supply {
	own := a.requirements.standing
	s := check.Supply{Neighbour: check.Neighbour{Asset: neighbour.id, Loosened: edge.loosened}, Serves: edge.serves, Expects: edge.expects}
	mine, isKnown := own.amount(edge.expects)
	if !isKnown && len(own.amounts) > 0 && neighbour.turnsDown() {
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
	s.Neighbour = ns.known(neighbour.id, edge.loosened, now)
	if !s.Known {
		return s
	}
	theirs, isKnown := ns.factsOf(neighbour.id).amount(edge.serves)
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
func (ns *neighbours) needing(edge edge, now time.Time) check.Need {
	n := check.Need{Neighbour: ns.known(edge.neighbour, edge.loosened, now), AtLeast: edge.atLeast}
	if !n.Known {
		return n
	}
	theirs := ns.factsOf(edge.neighbour)
	// One on its way down waits for those that need it: they go first, by
	// what it will declare.
	order, _ := theirs.falls()
	switch {
	case !theirs.inSync && order <= 0:
		n.Known, n.State = false, "differs from its target"
	case theirs.turndown:
		n.Known, n.State = false, "turned down: nothing is there"
	case theirs.inSync && ns.find(edge.neighbour) != nil && ns.afterPushes.isPending(ns.find(edge.neighbour)):
		n.Known, n.Quotes, n.State = false, true, ns.afterPushes.describe(ns.find(edge.neighbour), now)
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
func (ns *neighbours) needed(a, neighbour *asset, edge edge, enforced []edge, facts *check.Facts) {
	atTarget := edge
	atTarget.loosened = false
	runs := edge.loosened
	for _, old := range enforced {
		runs = runs || old == atTarget
	}
	_, effective, _, _ := ns.view.target(neighbour, facts.Now)
	if !runs && !neighbour.open() && !ns.isFresh(neighbour, facts.Now) && (neighbour.trouble == nil || neighbour.tried != effective) {
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
func mayRun(neighbour *asset, inbound *inward) []edge {
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

// solveOrphan gathers the edges that an orphan declares to the asset. Nothing
// removed it, so a commit that only drops it disarms none of them (S23). An
// approval lets go those of capacity and version.
func (ns *neighbours) solveOrphan(a *asset, id intent.AssetID, record orphan, facts *check.Facts) {
	const state = "an orphan: it left intent, and nobody removed it; put it back, turn it down, or disown it"
	inbound := a.requirements.inward
	refers := inbound.refers[record.effective]
	n := check.Neighbour{Asset: id, Loosened: true, State: state}
	for _, edge := range inbound.edges[record.effective] {
		switch {
		case edge.rule == intentpb.Dependency_RULE_CAPACITY:
			s := check.Supply{Neighbour: n, Serves: edge.serves, Expects: edge.expects}
			switch mine, ok := a.requirements.standing.amount(edge.expects); {
			case ok:
				s.Own, s.Broken = mine.Amount, mine.err
			case facts.Turndown == nil: // What goes ends to expect anything.
				s.Broken = unknownAmount(a.id, edge.expects)
			}
			facts.Capacity = append(facts.Capacity, s)
		case facts.Turndown != nil:
			refers = true
		case edge.rule == intentpb.Dependency_RULE_VERSION && a.requirements.standing.moves:
			facts.Version = append(facts.Version, stillNeeds(a, check.Neighbour{Asset: id, Known: true, Loosened: true}, edge))
		}
	}
	if facts.Turndown != nil && refers {
		n.Loosened = false // Of a removal no approval lets go.
		facts.Turndown.Dependants = append(facts.Turndown.Dependants, n)
	}
}
