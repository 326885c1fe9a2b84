package enforcer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// sharers are the assets that name the resource of one that is to go, and stay
// themselves: the resource lives on as theirs, once they were let. Those in
// sync have its claim, which the admission sees.
func (e *Enforcer) sharers(a *asset) []check.Neighbour {
	key := a.difference.ResourceKey
	if key == "" {
		return nil
	}
	var neighbours []check.Neighbour
	for b := range e.troubled {
		if b != a && b.difference.Outcome == intent.Differs && b.difference.ResourceKey == key && !e.turnsDown(b) {
			neighbours = append(neighbours, check.Neighbour{Asset: b.id, State: fmt.Sprintf("the resource %s is its own too, and it stays", key)})
		}
	}
	slices.SortFunc(neighbours, func(a, b check.Neighbour) int { return strings.Compare(string(a.Asset), string(b.Asset)) })
	return neighbours
}

// dependant is an asset that depends on one that is to go.
func (e *Enforcer) dependant(neighbour *asset, now time.Time) check.Neighbour {
	n := e.ordered(neighbour.id, false, now)
	n.Absent = neighbour.absent && !neighbour.lags
	switch {
	case n.Known && !n.Absent && neighbour.kind.served == nil:
		n.State = "a model that refers to it"
	case n.Known && !n.Absent:
		n.State = "in sync, and there"
	}
	return n
}

// turnsDown reports whether an asset is known to be asked to go.
func (e *Enforcer) turnsDown(a *asset) bool {
	if a.read {
		return a.turndown
	}
	return a.absent && !a.lags
}
