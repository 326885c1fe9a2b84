package validate

import (
	"context"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// maxNeighbours of an asset on one side, for a rule that sees them.
const maxNeighbours = 10_000

// neighbourhoods judges the assets of which any side changed.
func (b *breaches) neighbourhoods(ctx context.Context, r *ownRule) error {
	judge := func(asset intent.Asset) error {
		added, err := b.neighbours(ctx, asset.ID)
		if err != nil && !fault.Is(err, fault.Invalid) {
			return err
		}
		holds := false
		if err == nil {
			holds, err = r.must.Holds(asset, added)
		}
		b.judged(r, asset, holds, err)
		return nil
	}
	if r.fresh {
		return b.eachAsset(ctx, r, judge)
	}
	affected, err := b.affected(ctx)
	if err != nil {
		return err
	}
	for _, id := range affected {
		member, err := b.member(ctx, id)
		if err != nil {
			return err
		}
		if member.Digest.IsZero() || !r.wants(id, member.Type) {
			continue
		}
		asset, err := b.content(ctx, id)
		if err != nil {
			return err
		}
		if matches, err := b.matches(r, asset); err != nil || !matches {
			continue
		}
		if err := judge(asset); err != nil {
			return err
		}
	}
	return nil
}

// affected are the assets that changed, and those on the other side of what
// they refer to, or referred to, and of what refers to them.
func (b *breaches) affected(ctx context.Context) ([]intent.AssetID, error) {
	ids := map[intent.AssetID]bool{}
	for _, entry := range b.delta {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !entry.Removed && entry.Body == nil {
			continue
		}
		ids[entry.Asset] = true
		for _, reference := range entry.References {
			ids[reference.To] = true
		}
		if b.Base.IsZero() {
			continue
		}
		outgoing, err := b.Snapshots.EdgesFrom(ctx, b.Base, entry.Asset)
		if err != nil {
			return nil, err
		}
		incoming, err := b.Snapshots.EdgesTo(ctx, b.Base, entry.Asset)
		if err != nil {
			return nil, err
		}
		for _, edge := range outgoing {
			ids[edge.To] = true
		}
		for _, edge := range incoming {
			ids[edge.From] = true
		}
	}
	return sortedKeys(ids), nil
}

// neighbours of an asset in the candidate, in the order of their ids.
func (b *breaches) neighbours(ctx context.Context, id intent.AssetID) (added rule.Added, err error) {
	outgoing, err := b.refersTo(ctx, id)
	if err != nil {
		return added, err
	}
	incoming, err := b.referredBy(ctx, id)
	if err != nil {
		return added, err
	}
	for _, side := range []struct {
		set  map[intent.AssetID]bool
		into *[]intent.Asset
	}{{outgoing, &added.To}, {incoming, &added.From}} {
		if len(side.set) > maxNeighbours {
			return added, fault.New(fault.Invalid, "it has %d neighbours on one side, at most %d are looked at", len(side.set), maxNeighbours).
				WithHint("a rule of scope whole counts at any size")
		}
		for _, neighbour := range sortedKeys(side.set) {
			member, err := b.member(ctx, neighbour)
			if err != nil {
				return added, err
			}
			if member.Digest.IsZero() {
				continue // The rule of references tells of it.
			}
			asset, err := b.content(ctx, neighbour)
			if err != nil {
				return added, err
			}
			*side.into = append(*side.into, asset)
		}
	}
	return added, nil
}

func (b *breaches) refersTo(ctx context.Context, id intent.AssetID) (map[intent.AssetID]bool, error) {
	ids := map[intent.AssetID]bool{}
	if entry := b.entries[id]; entry != nil && (entry.Body != nil || entry.Removed) {
		for _, reference := range entry.References {
			ids[reference.To] = true
		}
		return ids, nil
	}
	if b.Base.IsZero() {
		return ids, nil
	}
	edges, err := b.Snapshots.EdgesFrom(ctx, b.Base, id)
	for _, edge := range edges {
		ids[edge.To] = true
	}
	return ids, err
}

func (b *breaches) referredBy(ctx context.Context, id intent.AssetID) (map[intent.AssetID]bool, error) {
	if b.referrers == nil {
		b.referrers = map[intent.AssetID][]intent.AssetID{}
		for _, entry := range b.delta {
			for _, reference := range entry.References {
				b.referrers[reference.To] = append(b.referrers[reference.To], entry.Asset)
			}
		}
	}
	ids := map[intent.AssetID]bool{}
	for _, referrer := range b.referrers[id] {
		ids[referrer] = true
	}
	if b.Base.IsZero() {
		return ids, nil
	}
	edges, err := b.Snapshots.EdgesTo(ctx, b.Base, id)
	for _, edge := range edges {
		if entry := b.entries[edge.From]; entry == nil || entry.Body == nil && !entry.Removed {
			ids[edge.From] = true
		}
	}
	return ids, err
}

// mostDecoded assets are kept while neighbourhoods are judged.
const mostDecoded = 10_000

// content of an asset of the candidate.
func (b *breaches) content(ctx context.Context, id intent.AssetID) (intent.Asset, error) {
	if asset, ok := b.decoded[id]; ok {
		return asset, nil
	}
	var body []byte
	if entry := b.entries[id]; entry != nil && entry.Body != nil {
		body = entry.Body
	} else {
		member, err := b.baseMember(ctx, id)
		if err != nil {
			return intent.Asset{}, err
		}
		if body, err = b.Snapshots.Body(ctx, member.Digest); err != nil {
			return intent.Asset{}, err
		}
	}
	asset, err := schema.Decode(body)
	if err != nil {
		return asset, err
	}
	if b.decoded == nil || len(b.decoded) >= mostDecoded {
		b.decoded = map[intent.AssetID]intent.Asset{}
	}
	b.decoded[id] = asset
	return asset, nil
}
