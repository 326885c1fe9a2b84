package preview

import (
	"context"
	"maps"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Between shows two supposed contents of a partition beside each other. The first was
// made over the same store, under another sequence.
type Between struct {
	*Snapshot
	first *Snapshot
}

// NewBetween shows both.
func NewBetween(first, second *Snapshot) *Between { return &Between{Snapshot: second, first: first} }

func (b *Between) side(id intent.IncarnationID) *Snapshot {
	if id == b.first.Head() {
		return b.first
	}
	return b.Snapshot
}

// Incarnation implements store.Snapshots.
func (b *Between) Incarnation(ctx context.Context, id intent.IncarnationID) (intent.Incarnation, error) {
	return b.side(id).Incarnation(ctx, id)
}

// Member implements store.Snapshots.
func (b *Between) Member(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (intent.Member, error) {
	return b.side(id).Member(ctx, id, asset)
}

// Body implements store.Snapshots.
func (b *Between) Body(ctx context.Context, digest intent.Digest) ([]byte, error) {
	body, err := b.first.Body(ctx, digest)
	if fault.Is(err, fault.NotFound) {
		return b.Snapshot.Body(ctx, digest)
	}
	return body, err
}

// Changes lists what differs between the two. What neither changes, and what their
// bases have alike, is not looked at.
func (b *Between) Changes(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) ([]store.Change, error) {
	limit = pageSize(limit)
	bases, err := b.bases(ctx, base, target, cursor, limit)
	if err != nil {
		return nil, err
	}
	// Beyond a full page nothing is known of the bases yet.
	last, more := intent.AssetID(""), len(bases) == limit
	if more {
		last = bases[len(bases)-1].Asset
	}
	assets := map[intent.AssetID]bool{}
	for _, change := range bases {
		assets[change.Asset] = true
	}
	for _, side := range []*Snapshot{b.first, b.Snapshot} {
		for asset := range side.entries {
			if asset > cursor && (!more || asset <= last) {
				assets[asset] = true
			}
		}
	}
	var changes []store.Change
	for _, asset := range slices.Sorted(maps.Keys(assets)) {
		change := store.Change{Asset: asset}
		if change.Before, err = b.memberOf(ctx, base, asset); err != nil {
			return nil, err
		}
		if change.After, err = b.memberOf(ctx, target, asset); err != nil {
			return nil, err
		}
		if !alike(change.Before, change.After) {
			changes = append(changes, change)
		}
	}
	if more && len(changes) < limit {
		rest, err := b.Changes(ctx, base, target, last, limit-len(changes))
		return append(changes, rest...), err
	}
	return changes[:min(limit, len(changes))], nil
}

// bases are what the stored incarnations beneath differ by.
func (b *Between) bases(ctx context.Context, base, target intent.IncarnationID, cursor intent.AssetID, limit int) ([]store.Change, error) {
	previous, now := b.side(base).base(), b.side(target).base()
	switch {
	case previous == now:
		return nil, nil
	case now.IsZero():
		previous, now = now, previous // Which assets there are is all that is asked.
	}
	return b.stored.Changes(ctx, previous, now, cursor, limit)
}

func (b *Between) memberOf(ctx context.Context, id intent.IncarnationID, asset intent.AssetID) (*intent.Member, error) {
	member, err := b.Member(ctx, id, asset)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return &member, err
}

func alike(a, b *intent.Member) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Digest == b.Digest && a.Effective == b.Effective && a.Type == b.Type
}
