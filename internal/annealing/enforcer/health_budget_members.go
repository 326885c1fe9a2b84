package enforcer

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// mostUnsure are kept of a health budget; where head changes more, it is read as a whole.
const mostUnsure = 1000

// startHealthBudgets reads of the health budgets that were asked for what is not known, and calls those
// that waited for what became healthy.
func (e *Enforcer) startHealthBudgets(ctx context.Context) {
	for _, key := range e.unreadHealthBudgets {
		if w := e.healthBudgets[key]; w != nil && !w.reading {
			e.readHealthBudget(ctx, key, w)
		}
	}
	e.unreadHealthBudgets = nil
	if e.healed { // Somebody may have waited for that.
		e.healed = false
		e.dispatchQueued(ctx)
	}
}

// readHealthBudget reads which assets of head have the value of the scope: all, or which of
// those that are unsure.
func (e *Enforcer) readHealthBudget(ctx context.Context, key string, w *healthBudget) {
	head := e.view.head
	w.reading = true
	var only []intent.AssetID
	if w.members != nil {
		for a := range w.unsure {
			only = append(only, a.id)
		}
		slices.Sort(only)
	}
	e.Runtime.Go("ward", func() {
		e.Runtime.Point("ward")
		ids, err := e.listScopeMembers(ctx, head, w.unhealthyIn, only)
		e.inbox.Put(func() {
			switch {
			case e.healthBudgets[key] != w:
			case err != nil:
				e.Log.Warn("cannot read the assets of a scope", "partition", e.Partition, "scope", key, "error", err)
				e.endHealthBudget(key)
			default:
				e.fillHealthBudget(ctx, key, head.Sequence, ids)
			}
		})
	})
}

// listScopeMembers lists the assets of an incarnation in a health budget; with only, those of them.
func (e *Enforcer) listScopeMembers(ctx context.Context, at intent.IncarnationID, bound unhealthyIn, only []intent.AssetID) (ids []intent.AssetID, err error) {
	filter := store.AssetFilter{Field: bound.field(), Value: bound.value, Limit: pageSize}
	for _, id := range only {
		filter.Prefix, filter.Limit = string(id), 1 // The first with that prefix is itself.
		page, err := e.Store.Members(ctx, at, filter)
		if err != nil {
			return nil, err
		}
		if len(page) > 0 && page[0].Asset == id {
			ids = append(ids, id)
		}
	}
	for only == nil {
		page, err := e.Store.Members(ctx, at, filter)
		if err != nil {
			return nil, err
		}
		for _, member := range page {
			ids = append(ids, member.Asset)
		}
		if len(page) < pageSize {
			break
		}
		filter.After = page[len(page)-1].Asset
	}
	return ids, nil
}

// fillHealthBudget takes up which assets are in a health budget as of a head: all, or of those that were
// unsure. What head changed since stays unsure.
func (e *Enforcer) fillHealthBudget(ctx context.Context, key string, at intent.Sequence, ids []intent.AssetID) {
	w := e.healthBudgets[key]
	w.reading = false
	sorted := w.members != nil
	if !sorted {
		w.members = make(map[*asset]bool, len(ids))
	}
	members := make(map[*asset]bool, len(ids))
	for _, id := range ids {
		if a := e.assets[id]; a != nil {
			members[a] = true
		}
	}
	for a, changed := range w.unsure {
		if changed > at {
			delete(members, a)
			continue
		}
		delete(w.unsure, a)
		if w.members[a] && !members[a] {
			e.leaveHealthBudget(w, a)
		}
	}
	for a := range members {
		if !w.members[a] {
			w.members[a] = true
			e.healthBudgetsOf[a] = append(e.healthBudgetsOf[a], w)
			w.setHealth(a)
			sorted = sorted && w.at[a] == nil
		}
	}
	if !sorted {
		w.order()
	}
	for _, a := range w.planned {
		if e.assets[a.id] == a && a.trouble != nil {
			e.soon(a, loop.Fresh)
		}
	}
	waiters := w.waiters
	w.waiters, w.planned = nil, nil
	for _, a := range waiters { // What they wait for is known now.
		if l := e.queues[key]; l != nil && e.queuedIn[a] == l && e.assets[a.id] == a && a.trouble != nil && !a.open() {
			l.waiting.Remove(a)
			delete(e.queuedIn, a)
			e.soon(a, loop.Fresh)
		}
	}
	e.dispatchQueued(ctx)
}

// order places all members, for those that are well stand by when they were looked at.
func (w *healthBudget) order() {
	members := slices.SortedFunc(maps.Keys(w.members), func(a, b *asset) int { return cmp.Or(cmp.Compare(a.healthAt, b.healthAt), byID(a, b)) })
	for _, a := range members {
		w.setHealth(a)
	}
}

// leaveHealthBudget takes an asset out of a health budget.
func (e *Enforcer) leaveHealthBudget(w *healthBudget, a *asset) {
	delete(w.members, a)
	delete(w.ill, a)
	if at := w.at[a]; at != nil {
		w.well.Remove(at)
		delete(w.at, a)
	}
	if e.healthBudgetsOf[a] = slices.DeleteFunc(e.healthBudgetsOf[a], func(other *healthBudget) bool { return other == w }); len(e.healthBudgetsOf[a]) == 0 {
		delete(e.healthBudgetsOf, a)
	}
}

// leaveHealthBudgets takes an asset out of all.
func (e *Enforcer) leaveHealthBudgets(a *asset) {
	for _, w := range slices.Clone(e.healthBudgetsOf[a]) {
		e.leaveHealthBudget(w, a)
	}
	for _, w := range e.healthBudgets {
		delete(w.unsure, a)
	}
}

// moveHealthBudgets makes unsure what head changed. It forgets what nobody asks for, and what
// would be unsure of much.
func (e *Enforcer) moveHealthBudgets(changed []store.Change) {
	for key, w := range e.healthBudgets {
		switch {
		case len(changed) == 0, w.members == nil && !w.reading:
			continue
		case !w.wanted && !w.reading:
			e.endHealthBudget(key)
			continue
		}
		w.wanted = false
		for _, change := range changed[:min(len(changed), mostUnsure+1)] {
			if a := e.assets[change.Asset]; a != nil {
				w.unsure[a] = e.view.head.Sequence
			}
		}
		if len(w.unsure) > mostUnsure {
			e.endHealthBudget(key)
		}
	}
}

// endHealthBudget has a health budget read as a whole when it is asked for next.
func (e *Enforcer) endHealthBudget(key string) {
	w := e.healthBudgets[key]
	delete(e.healthBudgets, key)
	for a := range w.members {
		e.leaveHealthBudget(w, a)
	}
}
