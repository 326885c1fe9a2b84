package enforcer

import (
	"fmt"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// neighbours answers what the rules about dependencies ask of an asset's neighbours, by
// what is known of them. It changes no asset; what is not known it asks for by look.
type neighbours struct {
	view        *view
	orphans     *orphans
	afterPushes *afterPushes
	facts       neighbourStore
	// asked: the last solve asked for a look at a neighbour.
	asked bool
	// find returns the asset of that name in the enforcer's care; nil: there is none.
	find func(intent.AssetID) *asset
	// look asks for a look at an asset now.
	look func(*asset)
}

// isFresh reports whether it still holds that the asset was seen in sync: not
// long ago, by a clock that was not set back since, and with what is its
// target now.
func (ns *neighbours) isFresh(a *asset, now time.Time) bool {
	age := now.Sub(time.Unix(0, a.seenAt))
	return a.seenAt != 0 && age >= 0 && age < ns.facts.holdOf(a) && a.pinned == ns.view.pinnedNow(a, now)
}

// inSync says whether an asset is in sync at its own target.
func (ns *neighbours) inSync(id intent.AssetID, loosened bool, now time.Time) check.Neighbour {
	n := check.Neighbour{Asset: id, Loosened: loosened}
	b := ns.find(id)
	switch {
	case b == nil && loosened:
		n.Known = true
	case b == nil:
		n.State, n.Missing = ns.missing(id), true
	case b.kind.served == nil && b.enforced == 0:
		n.Known = true
	case b.open():
		n.State = "being pushed"
	case loosened && b.turnsDown():
		n.Known = true // It goes, and waits for this one: removal runs backwards.
	case ns.isFresh(b, now) && ns.afterPushes.isPending(b) && !loosened:
		n.Quotes, n.State = true, ns.afterPushes.describe(b, now)
	case ns.isFresh(b, now):
		n.Known, n.Until = true, ns.followsUntil(b, now, time.Unix(0, b.seenAt).Add(ns.facts.holdOf(b)))
	case b.trouble != nil && b.difference.Outcome == intent.Differs:
		n.State = "differs from its target"
	default:
		n.State = ns.unknown(b, now)
		ns.hurry(b)
	}
	return n
}

// mostFollowed is how many assets a search for a circle of edges looks at: more would have
// to be held up, one by the next.
const mostFollowed = 100

// comesAfter reports whether an asset that is not in sync has to wait for another one, by
// the edges of the rule order that hold it and those before it.
func (ns *neighbours) comesAfter(later, earlier intent.AssetID) bool {
	pending, visited := []intent.AssetID{later}, map[intent.AssetID]bool{later: true}
	for len(pending) > 0 && len(visited) <= mostFollowed {
		b := ns.find(pending[0])
		pending = pending[1:]
		if b == nil || b.open() || b.trouble == nil || b.requirements.standing == nil || b.requirements.standing.turndown {
			continue
		}
		for _, edge := range b.requirements.edges {
			if edge.rule != intentpb.Dependency_RULE_ORDER || visited[edge.neighbour] {
				continue
			}
			if edge.neighbour == earlier {
				return true
			}
			visited[edge.neighbour] = true
			pending = append(pending, edge.neighbour)
		}
	}
	return false
}

// known says whether what is known of an asset may be relied on.
func (ns *neighbours) known(id intent.AssetID, loosened bool, now time.Time) check.Neighbour {
	n := check.Neighbour{Asset: id, Loosened: loosened}
	b := ns.find(id)
	switch {
	case b == nil && ns.orphans.byID[id].absent:
		n.Known = true // Turned down, and out of intent.
	case b == nil:
		n.State, n.Missing = ns.missing(id), true
	case b.open():
		n.State = "being pushed"
	case ns.isValid(b, now):
		var end time.Time
		if s := ns.facts.byAsset[b]; !s.model {
			end = s.at.Add(ns.facts.holdOf(b))
		}
		n.Known, n.Until = true, ns.followsUntil(b, now, end)
	default:
		n.State = ns.unknown(b, now)
		ns.want(b)
	}
	return n
}

// missing says of what is not in intent where it went.
func (ns *neighbours) missing(id intent.AssetID) string {
	reason := fmt.Sprintf("not in the incarnation %s", ns.view.head)
	if record, ok := ns.orphans.byID[id]; ok && !record.absent {
		return fmt.Sprintf("%s: it left intent after @%d and was not removed; put it back, or take the dependency on it away", reason, record.at)
	}
	return reason + ", nor anywhere else: put it into the sources, or take the dependency on it away"
}

// followsUntil is when a fact about an asset ends: at that time (zero: when
// something changes), or before, when a pin ends and it follows other content.
func (ns *neighbours) followsUntil(a *asset, now, end time.Time) time.Time {
	_, _, pin, _ := ns.view.target(a, now)
	if pin != nil && !pin.Until.IsZero() && (end.IsZero() || pin.Until.Before(end)) {
		return pin.Until
	}
	return end
}

// removedFacts is what is known of what was turned down and left intent.
var removedFacts = &neighbourFacts{inSync: true, turndown: true, empty: true, declares: declared{none: true}}

// factsOf returns what is known of an asset.
func (ns *neighbours) factsOf(id intent.AssetID) *neighbourFacts {
	if b := ns.find(id); b != nil {
		return ns.facts.byAsset[b]
	}
	return removedFacts
}

// isValid reports whether what is known of the asset still holds: of its present
// target, and not from long ago.
func (ns *neighbours) isValid(b *asset, now time.Time) bool {
	s := ns.facts.byAsset[b]
	if s == nil {
		return false
	}
	_, effective, _, exists := ns.view.target(b, now)
	age := now.Sub(s.at)
	return exists && s.effective == effective && s.pinned == ns.view.pinnedNow(b, now) && (s.model || age >= 0 && age < ns.facts.holdOf(b))
}

// unknown says why nothing is known of an asset.
func (ns *neighbours) unknown(b *asset, now time.Time) string {
	switch {
	case ns.view.modeNow(b) == check.Off:
		return "its mode is off, so nobody looks at it"
	case b.kind.served == nil && b.enforced > 0:
		return "no plugin is bound to its type any more"
	case b.kind.served != nil && b.kind.served.until.After(now):
		return "its plugin does not answer: " + b.kind.served.reason
	case b.trouble != nil && b.pending:
		return "a change of it is pending"
	case b.trouble != nil && b.failures > 0:
		return "its plugin cannot tell how it is"
	}
	return "not seen in sync yet"
}

// want asks, once, for a look that tells how an asset stands.
func (ns *neighbours) want(b *asset) {
	if ns.facts.wanted[b] {
		return
	}
	ns.facts.wanted[b] = true
	if b.looking {
		b.again, ns.asked = true, true // This look was not asked to tell.
		return
	}
	ns.hurry(b)
}

// hurry asks for a look now, unless one is under way, a change of the asset is pending, or
// looks at it fail: it is looked at again in its own time.
func (ns *neighbours) hurry(b *asset) {
	if !b.looking && (b.trouble == nil || b.failures == 0 && !b.pending) {
		ns.look(b)
		ns.asked = true
	}
}

// dependant is an asset that depends on one that is to go.
func (ns *neighbours) dependant(neighbour *asset, now time.Time) check.Neighbour {
	n := ns.inSync(neighbour.id, false, now)
	n.Absent = neighbour.absent && !neighbour.lags
	switch {
	case n.Known && !n.Absent && neighbour.kind.served == nil:
		n.State = "a model that refers to it"
	case n.Known && !n.Absent:
		n.State = "in sync, and there"
	}
	return n
}

// keep keeps what a look found of an asset, for its neighbours, and forgets what none of
// them asks for. It reports whether the facts are new.
func (ns *neighbours) keep(a *asset, g *observation, now time.Time) (isNew bool) {
	store := &ns.facts
	if g.standing == nil {
		// What a sweep finds as it was does not end what others rely on.
		if prev := store.byAsset[a]; prev == nil || !prev.agrees(g.difference) || !ns.isValid(a, now) {
			store.drop(a)
		}
		return false
	}
	if g.wanted {
		delete(store.wanted, a)
	}
	g.standing.at = store.readTime(g, now)
	g.standing.pinned = a.pinned
	store.byAsset[a] = g.standing
	return true
}

// keepRemoved keeps of an asset that nothing of it is there, as was seen before.
func (ns *neighbours) keepRemoved(a *asset, effective intent.Digest, at time.Time) {
	facts := *removedFacts
	facts.at, facts.effective, facts.pinned = at, effective, a.pinned
	ns.facts.put(a, &facts)
}
