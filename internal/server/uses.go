package server

import (
	"context"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// mostUses are told of an asset.
const mostUses = 1000

// usesNode is an asset of some partition.
type usesNode struct {
	partition intent.PartitionID
	asset     intent.AssetID
}

// usesTree finds who refers to an asset, also through others.
type usesTree struct {
	*Server
	// start is what was asked about. Other partitions are read as of their heads.
	start reading
	// heads of the other partitions that the caller may see; nil: not read yet.
	heads map[intent.PartitionID]intent.IncarnationID
	// readers are the assets of other partitions that read outputs of a partition, by what
	// they read.
	readers   map[intent.PartitionID]map[intent.AssetID][]*apipb.Use
	referrers map[usesNode][]*apipb.Use
	placed    map[usesNode]bool
	listed    int
}

// uses lists who refers to an asset, also through others: a tree, each before those that
// refer to it. Each has its place once, behind the fewest steps; elsewhere, and in a
// circle, it is only named.
func (s *Server) uses(ctx context.Context, at reading, asset intent.AssetID) (list []*apipb.Use, more bool, err error) {
	root := usesNode{at.id.Partition, asset}
	tree := &usesTree{
		Server: s, start: at, readers: map[intent.PartitionID]map[intent.AssetID][]*apipb.Use{},
		referrers: map[usesNode][]*apipb.Use{}, placed: map[usesNode]bool{root: true},
	}
	for level, depth := []usesNode{root}, int32(1); len(level) > 0 && !more; depth++ {
		var next []usesNode
		for _, to := range level {
			found, full, err := tree.extend(ctx, to, depth)
			if err != nil {
				return nil, false, err
			}
			next, more = append(next, found...), more || full
		}
		level = next
	}
	var add func(usesNode)
	add = func(to usesNode) {
		for _, use := range tree.referrers[to] {
			list = append(list, use)
			if !use.Again {
				add(tree.nodeOf(use))
			}
		}
	}
	add(root)
	return list, more, nil
}

func (t *usesTree) nodeOf(use *apipb.Use) usesNode {
	if use.Partition == "" {
		return usesNode{t.start.id.Partition, intent.AssetID(use.Asset)}
	}
	return usesNode{intent.PartitionID(use.Partition), intent.AssetID(use.Asset)}
}

// extend adds who refers to an asset, and returns those that were not in the tree. full: there
// are more than are told.
func (t *usesTree) extend(ctx context.Context, to usesNode, depth int32) (next []usesNode, full bool, err error) {
	found, err := t.referrersOf(ctx, to)
	if err != nil {
		return nil, false, err
	}
	for _, use := range found {
		if t.listed == mostUses {
			return next, true, nil
		}
		t.listed++
		node := t.nodeOf(use)
		use.Depth, use.Again = depth, t.placed[node]
		t.referrers[to] = append(t.referrers[to], use)
		if !use.Again {
			t.placed[node] = true
			next = append(next, node)
		}
	}
	return next, false, nil
}

// referrersOf lists who refers to an asset itself: first in its partition, then who reads its
// outputs in others.
func (t *usesTree) referrersOf(ctx context.Context, to usesNode) ([]*apipb.Use, error) {
	at, other := t.start, ""
	if to.partition != t.start.id.Partition {
		at, other = t.stored(t.heads[to.partition]), string(to.partition)
	}
	edges, err := at.store.EdgesTo(ctx, at.id, to.asset)
	if err != nil {
		return nil, err
	}
	byAsset := map[intent.AssetID]*apipb.Use{}
	var list []*apipb.Use
	for _, e := range edges {
		use := byAsset[e.From]
		if use == nil {
			use = &apipb.Use{Asset: string(e.From), Partition: other}
			byAsset[e.From] = use
			list = append(list, use)
		}
		use.Fields = append(use.Fields, e.Field)
	}
	slices.SortFunc(list, func(a, b *apipb.Use) int { return strings.Compare(a.Asset, b.Asset) })
	readers, err := t.readersOf(ctx, to.partition)
	return append(list, readers[to.asset]...), err
}
