package enforcer

import (
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// waiters are the assets that wait for others, by the asset waited for; true: they wait
// for its facts too, not only for its sync. It only holds state.
type waiters map[intent.AssetID]map[*asset]bool

// add has an asset wait for another one: until that is in sync or, with forFacts, until it
// was looked at.
func (w waiters) add(a *asset, awaited intent.AssetID, forFacts bool) {
	if w[awaited] == nil {
		w[awaited] = map[*asset]bool{}
	}
	if _, waits := w[awaited][a]; !waits {
		a.awaits = append(a.awaits, awaited)
	}
	w[awaited][a] = w[awaited][a] || forFacts
}

// take returns those that wait for an asset, and forgets them; with onlyForFacts, those
// that wait for its facts.
func (w waiters) take(awaited intent.AssetID, onlyForFacts bool) (taken []*asset) {
	waiting := w[awaited]
	for a, forFacts := range waiting {
		if onlyForFacts && !forFacts {
			continue
		}
		taken = append(taken, a)
		delete(waiting, a)
	}
	if len(waiting) == 0 {
		delete(w, awaited)
	}
	return taken
}

// remove has an asset wait for no other any more.
func (w waiters) remove(a *asset) {
	for _, awaited := range a.awaits {
		if delete(w[awaited], a); len(w[awaited]) == 0 {
			delete(w, awaited)
		}
	}
	a.awaits = nil
}

// await has an asset wait for the neighbours that its checks wait for. asked: a look at one
// of them was asked for.
func (w waiters) await(a *asset, facts check.Facts, asked bool) {
	join := func(n check.Neighbour, forFacts bool) { w.add(a, n.Asset, forFacts) }
	for _, n := range facts.Order {
		if !n.Known {
			join(n, n.Loosened || asked)
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
