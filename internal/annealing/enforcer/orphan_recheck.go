package enforcer

import (
	"context"
	"iter"
	"slices"

	"lehr.dev/internal/ground/intent"
)

// restoreEnforced takes up again what an asset that left intent was enforced with.
func (e *Enforcer) restoreEnforced(a *asset) {
	if record, ok := e.orphans.byID[a.id]; ok {
		e.orphans.unmark(a.id)
		a.setEnforced(record.at, record.effective, record.absent)
		e.relag(a, e.now())
	}
}

// recheckOrphans reads again those orphans that others wait for: they may have been
// disowned, or live on by another name.
func (e *Enforcer) recheckOrphans(ctx context.Context, awaited iter.Seq[intent.AssetID]) {
	ids := e.orphans.toRecheck(awaited)
	if len(ids) == 0 {
		return
	}
	e.Runtime.Go("revisit", func() {
		ids = slices.DeleteFunc(ids, func(id intent.AssetID) bool {
			_, ok, err := e.read.enforcedRecord(ctx, e.Partition, id)
			return ok || err != nil
		})
		e.inbox.Put(func() {
			for _, id := range ids {
				if e.orphans.remains(id) {
					e.orphans.unmark(id)
					e.wakeWaiters(id, false)
				}
			}
		})
	})
}
