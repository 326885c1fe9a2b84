package enforcer

import (
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// sharersOf lists the assets that name the resource of one that is to go, and stay
// themselves: the resource lives on as theirs, once they were let. Those in
// sync have its claim, which the admission sees.
func sharersOf(a *asset, troubled map[*asset]bool) []check.Neighbour {
	key := a.difference.ResourceKey
	if key == "" {
		return nil
	}
	var neighbours []check.Neighbour
	for b := range troubled {
		if b != a && b.difference.Outcome == intent.Differs && b.difference.ResourceKey == key && !b.turnsDown() {
			neighbours = append(neighbours, check.Neighbour{Asset: b.id, State: fmt.Sprintf("the resource %s is its own too, and it stays", key)})
		}
	}
	slices.SortFunc(neighbours, func(a, b check.Neighbour) int { return strings.Compare(string(a.Asset), string(b.Asset)) })
	return neighbours
}

// turnsDown reports whether an asset is known to be asked to go.
func (a *asset) turnsDown() bool {
	if a.read {
		return a.turndown
	}
	return a.absent && !a.lags
}
