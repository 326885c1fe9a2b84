package enforcer

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
)

// enforcedRecord reads the enforced record of one asset.
func (r *reader) enforcedRecord(ctx context.Context, partition intent.PartitionID, id intent.AssetID) (store.Enforced, bool, error) {
	// The text after which no other id comes before this one.
	last := len(id) - 1
	cursor := id[:last] + intent.AssetID(id[last]-1) + "\x7f"
	records, err := r.store.EnforcedPage(ctx, partition, cursor, 1)
	if err != nil || len(records) == 0 || records[0].Asset != id {
		return store.Enforced{}, false, err
	}
	return records[0], true, nil
}

// startSightings stores what was seen in sync, with its claims.
func (e *Enforcer) startSightings(ctx context.Context) {
	group := e.enforced.Take()
	if group == nil {
		return
	}
	e.Runtime.Go("enforced", func() {
		records := make([]store.Enforced, len(group))
		for i := range group {
			records[i] = group[i].Enforced
		}
		e.Runtime.Point("save enforced")
		claimed, err := e.Store.SaveEnforced(ctx, e.lease, records)
		e.inbox.Put(func() { e.sighted(ctx, group, claimed, err) })
	})
}

// sighted takes up stored sightings. An asset whose resource belongs to
// another waits for that other to let go.
func (e *Enforcer) sighted(ctx context.Context, group []sighting, claimed map[intent.AssetID]store.Claim, err error) {
	e.enforced.Done()
	if fault.Is(err, fault.Conflict) {
		e.failed = err
		return
	}
	if err != nil {
		e.Log.Warn("cannot record what is in sync; reading what is recorded", "partition", e.Partition, "assets", len(group), "error", err)
		e.startRecalling(ctx, group)
		return
	}
	for _, s := range group {
		a := s.asset
		e.recorded(a)
		if e.assets[a.id] != a {
			continue
		}
		if claim, ok := claimed[a.id]; ok {
			a.seenAt = 0 // The other one may change it at any time: nobody relies on it.
			e.wait(a, s.report.Target, s.report.Effective, intent.WaitingOn{
				Kind:   intent.WaitClaim,
				Reason: fmt.Sprintf("resource %s belongs to asset %s of partition %s; two assets may not manage one resource", claim.Key, claim.Asset, claim.Partition),
			})
			continue
		}
		e.setEnforced(a, s.Enforced, e.now())
		e.wakeWaiters(a.id, false)
		if !a.open() && a.seenAt != 0 {
			e.report(a, s.report)
		}
	}
}

// recorded lets an asset be looked at again.
func (e *Enforcer) recorded(a *asset) {
	a.recording = false
	if a.again && e.assets[a.id] == a {
		a.again = false
		e.soon(a, loop.Fresh)
	}
}

// startRecalling reads the records of assets whose sightings were not answered:
// the store may have taken them. Guards are those of what was enforced last,
// so until that is known nothing is decided about these assets (S23).
func (e *Enforcer) startRecalling(ctx context.Context, group []sighting) {
	e.Runtime.Go("recall", func() {
		for e.Runtime.Wait(ctx, time.Second, nil) == nil {
			e.Runtime.Point("recall")
			records, err := e.read.recall(ctx, e.Partition, group)
			if err == nil {
				e.inbox.Put(func() { e.recalled(group, records) })
				return
			}
		}
	})
}

// recall reads the enforced records of the assets of sightings, of those that have one.
func (r *reader) recall(ctx context.Context, partition intent.PartitionID, group []sighting) (map[intent.AssetID]store.Enforced, error) {
	records := map[intent.AssetID]store.Enforced{}
	for _, s := range group {
		record, ok, err := r.enforcedRecord(ctx, partition, s.asset.id)
		if err != nil {
			return nil, err
		}
		if ok {
			records[s.asset.id] = record
		}
	}
	return records, nil
}

// recalled takes up what was recorded, and looks again.
func (e *Enforcer) recalled(group []sighting, records map[intent.AssetID]store.Enforced) {
	for _, s := range group {
		a := s.asset
		if record, ok := records[a.id]; ok && e.assets[a.id] == a {
			e.setEnforced(a, record, e.now())
		}
		a.again = true
		e.recorded(a)
	}
}

// setEnforced takes over what an asset was seen in sync with.
func (e *Enforcer) setEnforced(a *asset, record store.Enforced, now time.Time) {
	e.incarnations.setLag(a, false)
	a.setEnforced(record.Incarnation.Sequence, record.Effective, record.Absent)
	a.settled = record.Policy == e.view.policy.digest
	e.relag(a, now)
}

// relag counts an asset among those whose target is not what they were
// enforced with, or no more.
func (e *Enforcer) relag(a *asset, now time.Time) {
	_, effective, _, exists := e.view.target(a, now)
	e.incarnations.setLag(a, a.enforced > 0 && (!exists || a.enforcedAs() != effective))
}
