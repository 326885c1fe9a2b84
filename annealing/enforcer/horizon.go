package enforcer

import (
	"context"
	"maps"
	"slices"
	"time"

	"lehr.dev/intent"
	"lehr.dev/store"
)

// horizon lists, sorted, all incarnations that any asset may follow now, or
// was enforced at last where its target is other content: what one asset
// declares to another is looked for in all of them, so that neither a pin nor
// a commit hides it (S23). The slice is never altered.
func (e *Enforcer) horizon() []intent.Sequence {
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
	a.enforced, a.enforcedAs, a.absent = record.Incarnation.Sequence, record.Effective, record.Absent
	a.settled = record.Policy == e.view.policy.digest
	e.relag(a, now)
}

// relag counts an asset among those whose target is not what they were
// enforced with, or no more.
func (e *Enforcer) relag(a *asset, now time.Time) {
	_, effective, _, found := e.target(a, now)
	e.lag(a, a.enforced > 0 && (!found || a.enforcedAs != effective))
}

func (e *Enforcer) lag(a *asset, lags bool) {
	if a.lags == lags {
		return
	}
	a.lags = lags
	before := e.lagging[a.enforced]
	if lags {
		e.lagging[a.enforced]++
	} else if e.lagging[a.enforced]--; e.lagging[a.enforced] == 0 {
		delete(e.lagging, a.enforced)
	}
	if before == 0 || e.lagging[a.enforced] == 0 {
		e.incarnations = nil
	}
}

// returning reads the enforced records of assets that come back into intent,
// so that what they are there with goes on guarding them.
func (e *Enforcer) returning(ctx context.Context, changes []store.Change) (map[intent.AssetID]store.Enforced, error) {
	found := map[intent.AssetID]store.Enforced{}
	for _, change := range changes {
		if _, left := e.left[change.Asset]; !left || change.After == nil {
			continue
		}
		// The text after which no other id comes before this one.
		id, last := change.Asset, len(change.Asset)-1
		before := id[:last] + intent.AssetID(id[last]-1) + "\x7f"
		records, err := e.Store.EnforcedPage(ctx, e.Partition, before, 1)
		if err != nil {
			return nil, err
		}
		if len(records) == 1 && records[0].Asset == id {
			found[id] = records[0]
		}
	}
	return found, nil
}
