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

// mostUnsure are kept of a ward; where head changes more, it is read as a whole.
const mostUnsure = 1000

// startWards reads of the wards that were asked for what is not known, and calls those
// that waited for what became healthy.
func (e *Enforcer) startWards(ctx context.Context) {
	for _, key := range e.unreadWards {
		if w := e.wards[key]; w != nil && !w.reading {
			e.readWard(ctx, key, w)
		}
	}
	e.unreadWards = nil
	if e.healed { // Somebody may have waited for that.
		e.healed = false
		e.usher(ctx)
	}
}

// readWard reads which assets of head have the value of the scope: all, or which of
// those that are unsure.
func (e *Enforcer) readWard(ctx context.Context, key string, w *ward) {
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
		ids, err := e.inWard(ctx, head, w.unhealthyIn, only)
		e.inbox.Put(func() {
			switch {
			case e.wards[key] != w:
			case err != nil:
				e.Log.Warn("cannot read the assets of a scope", "partition", e.Partition, "scope", key, "error", err)
				e.endWard(key)
			default:
				e.fillWard(ctx, key, head.Sequence, ids)
			}
		})
	})
}

// inWard lists the assets of an incarnation in a ward; with only, those of them.
func (e *Enforcer) inWard(ctx context.Context, at intent.IncarnationID, bound unhealthyIn, only []intent.AssetID) (ids []intent.AssetID, err error) {
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

// fillWard takes up which assets are in a ward as of a head: all, or of those that were
// unsure. What head changed since stays unsure.
func (e *Enforcer) fillWard(ctx context.Context, key string, at intent.Sequence, ids []intent.AssetID) {
	w := e.wards[key]
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
			e.leaveWard(w, a)
		}
	}
	for a := range members {
		if !w.members[a] {
			w.members[a] = true
			e.warded[a] = append(e.warded[a], w)
			w.place(a)
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
		if l := e.lines[key]; l != nil && e.lining[a] == l && e.assets[a.id] == a && a.trouble != nil && !a.open() {
			l.waiting.Remove(a)
			delete(e.lining, a)
			e.soon(a, loop.Fresh)
		}
	}
	e.usher(ctx)
}

// order places all members, for those that are well stand by when they were looked at.
func (w *ward) order() {
	members := slices.SortedFunc(maps.Keys(w.members), func(a, b *asset) int { return cmp.Or(cmp.Compare(a.healthAt, b.healthAt), byID(a, b)) })
	for _, a := range members {
		w.place(a)
	}
}

// leaveWard takes an asset out of a ward.
func (e *Enforcer) leaveWard(w *ward, a *asset) {
	delete(w.members, a)
	delete(w.ill, a)
	if at := w.at[a]; at != nil {
		w.well.Remove(at)
		delete(w.at, a)
	}
	if e.warded[a] = slices.DeleteFunc(e.warded[a], func(other *ward) bool { return other == w }); len(e.warded[a]) == 0 {
		delete(e.warded, a)
	}
}

// leaveWards takes an asset out of all.
func (e *Enforcer) leaveWards(a *asset) {
	for _, w := range slices.Clone(e.warded[a]) {
		e.leaveWard(w, a)
	}
	for _, w := range e.wards {
		delete(w.unsure, a)
	}
}

// moveWards makes unsure what head changed. It forgets what nobody asks for, and what
// would be unsure of much.
func (e *Enforcer) moveWards(changed []store.Change) {
	for key, w := range e.wards {
		switch {
		case len(changed) == 0, w.members == nil && !w.reading:
			continue
		case !w.wanted && !w.reading:
			e.endWard(key)
			continue
		}
		w.wanted = false
		for _, change := range changed[:min(len(changed), mostUnsure+1)] {
			if a := e.assets[change.Asset]; a != nil {
				w.unsure[a] = e.view.head.Sequence
			}
		}
		if len(w.unsure) > mostUnsure {
			e.endWard(key)
		}
	}
}

// endWard has a ward read as a whole when it is asked for next.
func (e *Enforcer) endWard(key string) {
	w := e.wards[key]
	delete(e.wards, key)
	for a := range w.members {
		e.leaveWard(w, a)
	}
}
