package enforcer

import (
	"context"
	"maps"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// relevantIncarnations lists, sorted, all incarnations that any asset may follow now, or
// was enforced at last where its target is other content: what one asset
// declares to another is looked for in all of them, so that neither a pin nor
// a commit hides it (S23). The slice is never altered.
func (e *Enforcer) relevantIncarnations() []intent.Sequence {
	if e.incarnations != nil {
		return e.incarnations
	}
	all := maps.Clone(e.lagging)
	if all == nil {
		all = map[intent.Sequence]int{}
	}
	if !e.view.head.IsZero() {
		all[e.view.head.Sequence]++
	}
	for at := range e.view.pinned {
		all[at.sequence]++
	}
	e.incarnations = slices.Sorted(maps.Keys(all))
	return e.incarnations
}

// setEnforced takes over what an asset was seen in sync with.
func (e *Enforcer) setEnforced(a *asset, record store.Enforced, now time.Time) {
	e.lag(a, false)
	a.setEnforced(record.Incarnation.Sequence, record.Effective, record.Absent)
	a.settled = record.Policy == e.view.policy.digest
	e.relag(a, now)
}

// relag counts an asset among those whose target is not what they were
// enforced with, or no more.
func (e *Enforcer) relag(a *asset, now time.Time) {
	_, effective, _, exists := e.view.target(a, now)
	e.lag(a, a.enforced > 0 && (!exists || a.enforcedAs() != effective))
}

func (e *Enforcer) lag(a *asset, lags bool) {
	if a.lags == lags {
		return
	}
	a.lags = lags
	if lags {
		e.count(a.enforced, 1)
	} else {
		e.count(a.enforced, -1)
	}
}

// count adds to those whose last enforced content must be looked for at an
// incarnation.
func (e *Enforcer) count(at intent.Sequence, delta int) {
	prev := e.lagging[at]
	e.lagging[at] = prev + delta
	if e.lagging[at] == 0 {
		delete(e.lagging, at)
	}
	if prev == 0 || prev+delta == 0 {
		e.incarnations = nil
	}
}

// returning reads the enforced records of assets that come back into intent, by
// head or by a pin, so that what they are there with goes on guarding them.
func (e *Enforcer) returning(ctx context.Context, changes []store.Change, pins map[intent.AssetID][]intent.Pin) (map[intent.AssetID]store.Enforced, error) {
	records := map[intent.AssetID]store.Enforced{}
	read := func(id intent.AssetID) error {
		if _, ok := e.orphans[id]; !ok {
			return nil
		}
		record, enforced, err := e.record(ctx, id)
		if enforced {
			records[id] = record
		}
		return err
	}
	for _, change := range changes {
		if change.After == nil {
			continue
		}
		if err := read(change.Asset); err != nil {
			return nil, err
		}
	}
	for id := range pins {
		if err := read(id); err != nil {
			return nil, err
		}
	}
	return records, nil
}
