package prodspec

import (
	"context"
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/store"
)

// compare makes dirty exactly what differs from an incarnation, by looking at
// all of it: on start, and when somebody else moved head.
func (b *builder) compare(ctx context.Context, snapshots store.Snapshots, head intent.IncarnationID) error {
	unlike := make(map[intent.AssetID]bool, b.members.len())
	for id := range b.members.all() {
		unlike[id] = true
	}
	if b.dirty = unlike; head.IsZero() {
		return nil
	}
	const page = 10_000
	filter := store.AssetFilter{Limit: page}
	for {
		members, err := snapshots.Members(ctx, head, filter)
		if err != nil {
			return err
		}
		for _, m := range members {
			if built, ok := b.members.get(m.Asset); ok && b.same(built, m) {
				delete(unlike, m.Asset)
				continue
			}
			unlike[m.Asset] = true
		}
		if len(members) < page {
			b.dirty = make(map[intent.AssetID]bool, len(unlike)) // It keeps no room for all, for ever.
			maps.Copy(b.dirty, unlike)
			return nil
		}
		filter.After = members[len(members)-1].Asset
	}
}

func (b *builder) same(built member, m intent.Member) bool {
	output := built.output()
	return output.Digest == m.Digest && b.effective(m.Asset) == m.Effective && output.Type == m.Type
}

// change is what a delta does to its base.
type change struct {
	entries                 []store.Entry
	added, changed, removed int
}

// delta compares what may differ with head, and forgets what does not.
func (b *builder) delta(ctx context.Context, snapshots store.Snapshots, head intent.IncarnationID) (change, error) {
	var c change
	ids := make([]intent.AssetID, 0, len(b.dirty))
	for id := range b.dirty {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b intent.AssetID) int { return strings.Compare(string(a), string(b)) })
	for _, id := range ids {
		previous, exists, err := memberAt(ctx, snapshots, head, id)
		if err != nil {
			return change{}, err
		}
		built, wanted := b.members.get(id)
		switch {
		case !wanted && !exists, wanted && exists && b.same(built, previous):
			delete(b.dirty, id)
			continue
		case !wanted:
			c.entries = append(c.entries, store.Entry{Asset: id, Removed: true})
			c.removed++
			continue
		case exists:
			c.changed++
		default:
			c.added++
		}
		entry, err := b.entry(ctx, id, built, previous)
		if err != nil {
			return change{}, err
		}
		c.entries = append(c.entries, entry)
	}
	return c, nil
}

func memberAt(ctx context.Context, snapshots store.Snapshots, head intent.IncarnationID, id intent.AssetID) (intent.Member, bool, error) {
	if head.IsZero() {
		return intent.Member{}, false, nil
	}
	m, err := snapshots.Member(ctx, head, id)
	if fault.Is(err, fault.NotFound) {
		return intent.Member{}, false, nil
	}
	return m, err == nil, err
}

func (b *builder) entry(ctx context.Context, id intent.AssetID, built member, previous intent.Member) (store.Entry, error) {
	output := built.output()
	entry := store.Entry{Asset: id, Member: b.intentMember(id)}
	if previous.Digest == output.Digest && previous.Type == output.Type {
		return entry, nil
	}
	content, body, err := b.content(ctx, built)
	if err != nil {
		return store.Entry{}, err
	}
	entry.Body, entry.Blobs = body, output.Blobs()
	if entry.References, err = b.set.References(content); err != nil {
		return store.Entry{}, err
	}
	entry.Fields, err = b.set.Fields(content)
	return entry, err
}

// digest names a delta on its base: the candidate.
func (c change) digest(base intent.IncarnationID, schema intent.Digest) intent.Digest {
	parts := [][]byte{[]byte(base.String()), schema[:]}
	for i := range c.entries {
		entry := &c.entries[i]
		parts = append(parts, []byte(entry.Asset), entry.Member.Digest[:], entry.Member.Effective[:])
	}
	return intent.Sum("lehr.candidate.v1", parts...)
}

// content of a built asset.
func (b *builder) content(ctx context.Context, built member) (intent.Asset, []byte, error) {
	output := built.output()
	if output.ID == intent.PolicyAsset && built.run.Generator == definition.DefinitionSource {
		content, err := schema.Decode(b.policy.Body)
		return content, b.policy.Body, err
	}
	body, err := b.graph.Body(ctx, built.run, output.Digest)
	if err != nil {
		return intent.Asset{}, nil, err
	}
	content, err := schema.Decode(body)
	return content, body, err
}
