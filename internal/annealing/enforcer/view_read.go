package enforcer

import (
	"context"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// readBrakes reads pins, holds and what people said of plans and contents.
func (r *reader) readBrakes(ctx context.Context, partition intent.PartitionID, previous, next *view) error {
	pins, err := r.store.Pins(ctx, partition)
	if err != nil {
		return err
	}
	next.pins, next.pinned = map[intent.AssetID][]intent.Pin{}, map[pinnedAt]intent.Member{}
	for _, pin := range pins {
		next.pins[pin.Asset] = append(next.pins[pin.Asset], pin)
		if pin.Waits() {
			continue
		}
		at := pinnedAt{pin.Asset, pin.Incarnation.Sequence}
		if member, ok := previous.pinned[at]; ok {
			next.pinned[at] = member // Incarnations never change.
			continue
		}
		member, err := r.store.Member(ctx, pin.Incarnation, pin.Asset)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err == nil {
			next.pinned[at] = member
		}
	}
	holds, err := r.store.Holds(ctx, partition)
	if err != nil {
		return err
	}
	next.holds = map[intent.AssetID]intent.Hold{}
	for _, hold := range holds {
		next.holds[hold.Asset] = hold
	}
	if next.verifications, err = r.store.Verifications(ctx, partition); err != nil {
		return err
	}
	return r.readConsents(ctx, partition, next)
}

// readConsents reads approvals, rejections and overrides.
func (r *reader) readConsents(ctx context.Context, partition intent.PartitionID, next *view) error {
	consents, err := r.store.Consents(ctx, partition)
	if err != nil {
		return err
	}
	next.approvals = map[planOf][]intent.Approval{}
	for _, a := range consents.Approvals {
		key := planOf{contentOf{a.Asset, a.Effective}, a.Plan}
		next.approvals[key] = append(next.approvals[key], a)
	}
	next.rejections = map[planOf][]intent.Rejection{}
	for _, rejection := range consents.Rejections {
		key := planOf{contentOf{rejection.Asset, rejection.Effective}, rejection.Plan}
		next.rejections[key] = append(next.rejections[key], rejection)
	}
	next.overrides = map[contentOf][]intent.Override{}
	for _, o := range consents.Overrides {
		key := contentOf{o.Asset, o.Effective}
		next.overrides[key] = append(next.overrides[key], o)
	}
	return nil
}

// headChanges lists how the membership differs between two heads.
func (r *reader) headChanges(ctx context.Context, oldHead, newHead intent.IncarnationID) ([]store.Change, error) {
	if oldHead == newHead {
		return nil, nil
	}
	var all []store.Change
	for cursor := (intent.AssetID)(""); ; {
		page, err := r.store.Changes(ctx, oldHead, newHead, cursor, pageSize)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < pageSize {
			return all, nil
		}
		cursor = page[len(page)-1].Asset
	}
}

// returning reads the enforced records of assets that come back into intent, by
// head or by a pin, so that what they are there with goes on guarding them.
func (r *reader) returning(ctx context.Context, partition intent.PartitionID, orphans *orphans, changes []store.Change, pins map[intent.AssetID][]intent.Pin) (map[intent.AssetID]store.Enforced, error) {
	records := map[intent.AssetID]store.Enforced{}
	read := func(id intent.AssetID) error {
		if _, ok := orphans.byID[id]; !ok {
			return nil
		}
		record, enforced, err := r.enforcedRecord(ctx, partition, id)
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
