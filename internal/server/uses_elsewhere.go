package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// readersOf lists the assets of other partitions that read outputs of a partition, by the asset
// whose outputs they read.
func (t *usesTree) readersOf(ctx context.Context, partition intent.PartitionID) (map[intent.AssetID][]*apipb.Use, error) {
	if uses, ok := t.readers[partition]; ok {
		return uses, nil
	}
	if err := t.readHeads(ctx); err != nil {
		return nil, err
	}
	uses := map[intent.AssetID][]*apipb.Use{}
	for _, other := range slices.Sorted(maps.Keys(t.heads)) {
		if other == partition {
			continue
		}
		if err := t.addReaders(ctx, other, partition, uses); err != nil {
			return nil, err
		}
	}
	t.readers[partition] = uses
	return uses, nil
}

// readHeads reads which other partitions the caller may see, and what they serve.
func (t *usesTree) readHeads(ctx context.Context) error {
	if t.heads != nil {
		return nil
	}
	visible, err := t.visible(ctx)
	if err != nil {
		return err
	}
	partitions, err := t.store.ListPartitions(ctx)
	if err != nil {
		return err
	}
	t.heads = map[intent.PartitionID]intent.IncarnationID{}
	for _, p := range partitions {
		if visible(p.ID) && !p.Head.IsZero() {
			t.heads[p.ID] = p.Head
		}
	}
	if !t.start.id.IsZero() { // Of the partition asked about, what was asked about.
		t.heads[t.start.id.Partition] = t.start.id
	}
	return nil
}

// addReaders adds the assets of a partition that read outputs of another one.
func (t *usesTree) addReaders(ctx context.Context, reader, teller intent.PartitionID, uses map[intent.AssetID][]*apipb.Use) error {
	at, name := t.stored(t.heads[reader]), string(reader)
	if reader == t.start.id.Partition {
		at, name = t.start, ""
	}
	filter := store.AssetFilter{Field: fmt.Sprintf("lehr.intent.v1.ReadsOutputs.partitions[%q]", teller)}
	for {
		members, err := at.store.Members(ctx, at.id, filter)
		if err != nil || len(members) == 0 {
			return err
		}
		for _, member := range members {
			filter.After = member.Asset
			if err := t.addReader(ctx, at, member, name, teller, uses); err != nil {
				return err
			}
		}
	}
}

// addReader adds one asset behind each asset whose outputs it reads.
func (t *usesTree) addReader(ctx context.Context, at reading, member intent.Member, name string, teller intent.PartitionID, uses map[intent.AssetID][]*apipb.Use) error {
	body, err := at.store.Body(ctx, member.Digest)
	if err != nil {
		return err
	}
	content, err := schema.Decode(body)
	if err != nil {
		return err
	}
	reads := &intentpb.ReadsOutputs{}
	if _, err := schema.Addon(content, reads); err != nil {
		return err
	}
	byTeller := map[intent.AssetID]*apipb.Use{}
	for i, read := range reads.Reads {
		if read.Partition != string(teller) {
			continue
		}
		asset := intent.AssetID(read.Elsewhere)
		if byTeller[asset] == nil {
			byTeller[asset] = &apipb.Use{Asset: string(member.Asset), Partition: name}
			uses[asset] = append(uses[asset], byTeller[asset])
		}
		byTeller[asset].Fields = append(byTeller[asset].Fields, fmt.Sprintf("lehr.intent.v1.ReadsOutputs.reads[%d].elsewhere", i))
	}
	for asset := range byTeller {
		slices.SortStableFunc(uses[asset], func(a, b *apipb.Use) int {
			return cmp.Or(strings.Compare(a.Partition, b.Partition), strings.Compare(a.Asset, b.Asset))
		})
	}
	return nil
}
