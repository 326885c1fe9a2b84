package enforcer

import (
	"time"
)

// neighbourStore keeps the facts of assets that neighbours asked for, or that differ. It
// only holds state.
type neighbourStore struct {
	byAsset map[*asset]*neighbourFacts
	// wanted are asked for by a neighbour, and not known yet.
	wanted map[*asset]bool
	// hold is for how long a fact may be relied on at least (Limits.FactHold).
	hold time.Duration
}

func newNeighbourStore(hold time.Duration) neighbourStore {
	return neighbourStore{map[*asset]*neighbourFacts{}, map[*asset]bool{}, hold}
}

// drop forgets the facts of an asset.
func (s *neighbourStore) drop(a *asset) { delete(s.byAsset, a) }

// forget forgets the facts of an asset, and that they are wanted.
func (s *neighbourStore) forget(a *asset) {
	delete(s.byAsset, a)
	delete(s.wanted, a)
}

// put keeps facts that a neighbour wanted.
func (s *neighbourStore) put(a *asset, facts *neighbourFacts) {
	delete(s.wanted, a)
	s.byAsset[a] = facts
}

// dropLater forgets the facts from after now, as after the clock was set back.
func (s *neighbourStore) dropLater(now time.Time) {
	for a, facts := range s.byAsset {
		if facts.at.After(now) {
			delete(s.byAsset, a)
		}
	}
}

// holdOf is how long what was seen of an asset may be relied on by its
// neighbours: while a plugin that is slow looks at all the neighbours of one
// that waits, what it told first must not expire, or that one waits for ever
// (L1). Pushes end it at any time: only what others do to production meanwhile
// is seen later.
func (s *neighbourStore) holdOf(a *asset) time.Duration {
	const longest, rounds = 2 * time.Minute, 2
	if a.kind.served == nil {
		return s.hold
	}
	return max(s.hold, min(rounds*a.kind.served.pace.slowest, longest))
}

// seenTime is when a fact counts as seen: when production began to be read, but
// half of what facts hold is left to those that wait for one that took long.
func (s *neighbourStore) seenTime(at, now time.Time) time.Time {
	if least := now.Add(-s.hold / 2); at.Before(least) {
		return least
	}
	return at
}
