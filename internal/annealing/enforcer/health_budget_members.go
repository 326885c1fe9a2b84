package enforcer

import (
	"cmp"
	"maps"
	"slices"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// mostUnsure are kept of a health budget; where head changes more, it is read as a whole.
const mostUnsure = 1000

// unknownMembers lists the assets of which it is not known whether they are members; nil:
// none is known, and all members are to be read.
func (w *healthBudget) unknownMembers() (only []intent.AssetID) {
	if w.members != nil {
		for a := range w.unsure {
			only = append(only, a.id)
		}
		slices.Sort(only)
	}
	return only
}

// takeUnread returns the keys of the budgets whose members are to be read, and forgets them.
func (b *healthBudgets) takeUnread() (keys []string) {
	keys, b.unread = b.unread, nil
	return keys
}

// takeRecovered reports whether a member stopped being unhealthy since the last call.
func (b *healthBudgets) takeRecovered() bool {
	recovered := b.recovered
	b.recovered = false
	return recovered
}

// fill takes over which assets are members of a health budget as of a head: of all, or of
// those that were unsure. What head changed since stays unsure. It returns those that were
// planned, and those that waited, while the members were not known.
func (b *healthBudgets) fill(key string, head intent.Sequence, ids []intent.AssetID, find func(intent.AssetID) *asset) (planned, waiters []*asset) {
	w := b.byKey[key]
	w.reading = false
	members := make(map[*asset]bool, len(ids))
	for _, id := range ids {
		if a := find(id); a != nil {
			members[a] = true
		}
	}
	sorted := w.members != nil
	if !sorted {
		w.members = make(map[*asset]bool, len(ids))
	}
	for a, changed := range w.unsure {
		if changed > head {
			delete(members, a)
			continue
		}
		delete(w.unsure, a)
		if w.members[a] && !members[a] {
			b.leave(w, a)
		}
	}
	for a := range members {
		if !w.members[a] {
			w.members[a] = true
			b.byAsset[a] = append(b.byAsset[a], w)
			w.setHealth(a)
			sorted = sorted && w.at[a] == nil
		}
	}
	if !sorted {
		w.order()
	}
	planned, waiters = w.planned, w.waiters
	w.waiters, w.planned = nil, nil
	return planned, waiters
}

// order places all members, for those that are well stand by when they were looked at.
func (w *healthBudget) order() {
	members := slices.SortedFunc(maps.Keys(w.members), func(a, b *asset) int { return cmp.Or(cmp.Compare(a.healthAt, b.healthAt), byID(a, b)) })
	for _, a := range members {
		w.setHealth(a)
	}
}

// leave takes an asset out of a health budget.
func (b *healthBudgets) leave(w *healthBudget, a *asset) {
	delete(w.members, a)
	delete(w.ill, a)
	if at := w.at[a]; at != nil {
		w.well.Remove(at)
		delete(w.at, a)
	}
	if b.byAsset[a] = slices.DeleteFunc(b.byAsset[a], func(other *healthBudget) bool { return other == w }); len(b.byAsset[a]) == 0 {
		delete(b.byAsset, a)
	}
}

// leaveAll takes an asset out of all budgets.
func (b *healthBudgets) leaveAll(a *asset) {
	for _, w := range slices.Clone(b.byAsset[a]) {
		b.leave(w, a)
	}
	for _, w := range b.byKey {
		delete(w.unsure, a)
	}
}

// moveHead makes unsure what a new head changed. It forgets the budgets that nobody asked
// for since the last head, and those that would be unsure of many.
func (b *healthBudgets) moveHead(head intent.Sequence, changed []store.Change, find func(intent.AssetID) *asset) {
	for key, w := range b.byKey {
		switch {
		case len(changed) == 0, w.members == nil && !w.reading:
			continue
		case !w.wanted && !w.reading:
			b.end(key)
			continue
		}
		w.wanted = false
		for _, change := range changed[:min(len(changed), mostUnsure+1)] {
			if a := find(change.Asset); a != nil {
				w.unsure[a] = head
			}
		}
		if len(w.unsure) > mostUnsure {
			b.end(key)
		}
	}
}

// end forgets a health budget: it is read as a whole when it is asked for next.
func (b *healthBudgets) end(key string) {
	w := b.byKey[key]
	delete(b.byKey, key)
	for a := range w.members {
		b.leave(w, a)
	}
}
