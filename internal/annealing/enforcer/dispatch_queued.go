package enforcer

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// dispatchQueued looks at those that wait for a place, as many as there are free ones.
// While anyone waits, it runs again after a pause.
func (e *Enforcer) dispatchQueued(ctx context.Context) {
	const interval = 200 * time.Millisecond
	called, remains := e.pushLimits.callQueued(e.now())
	for _, a := range called {
		e.soon(a, loop.Fresh)
	}
	if remains && !e.dispatchPending {
		e.dispatchPending = true
		e.later(ctx, interval, func() {
			e.dispatchPending = false
			e.dispatchQueued(ctx)
		})
	}
}

// startHealthBudgets reads the members of the health budgets that were asked for, and
// looks at those that waited for somebody to become healthy.
func (e *Enforcer) startHealthBudgets(ctx context.Context) {
	health := &e.pushLimits.health
	for _, key := range health.takeUnread() {
		if w := health.byKey[key]; w != nil && !w.reading {
			e.readHealthBudget(ctx, key, w)
		}
	}
	if health.takeRecovered() {
		e.dispatchQueued(ctx)
	}
}

// readHealthBudget reads which assets of head have the value of the scope: all, or which
// of those that are unsure.
func (e *Enforcer) readHealthBudget(ctx context.Context, key string, w *healthBudget) {
	head := e.view.head
	w.reading = true
	only := w.unknownMembers()
	e.Runtime.Go("ward", func() {
		e.Runtime.Point("ward")
		ids, err := e.read.scopeMembers(ctx, head, w.unhealthyIn, only)
		e.inbox.Put(func() {
			switch {
			case e.pushLimits.health.byKey[key] != w:
			case err != nil:
				e.Log.Warn("cannot read the assets of a scope", "partition", e.Partition, "scope", key, "error", err)
				e.pushLimits.health.end(key)
			default:
				for _, a := range e.pushLimits.fillHealthBudget(key, head.Sequence, ids) {
					e.soon(a, loop.Fresh)
				}
				e.dispatchQueued(ctx)
			}
		})
	})
}

// scopeMembers lists the assets of an incarnation that have a value of a scope; with only,
// those of them.
func (r *reader) scopeMembers(ctx context.Context, at intent.IncarnationID, bound unhealthyIn, only []intent.AssetID) (ids []intent.AssetID, err error) {
	filter := store.AssetFilter{Field: bound.field(), Value: bound.value, Limit: pageSize}
	for _, id := range only {
		filter.Prefix, filter.Limit = string(id), 1 // The first with that prefix is itself.
		page, err := r.store.Members(ctx, at, filter)
		if err != nil {
			return nil, err
		}
		if len(page) > 0 && page[0].Asset == id {
			ids = append(ids, id)
		}
	}
	for only == nil {
		page, err := r.store.Members(ctx, at, filter)
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
