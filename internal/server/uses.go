package server

import (
	"context"
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// mostUses are told of an asset.
const mostUses = 1000

// uses lists who refers to an asset, also through others: a tree, each before those that
// refer to it. Each has its place once, behind the fewest steps; elsewhere, and in a
// circle, it is only named.
func uses(ctx context.Context, at reading, asset intent.AssetID) (list []*apipb.Use, more bool, err error) {
	referrers := map[intent.AssetID][]*apipb.Use{}
	placed := map[intent.AssetID]bool{asset: true}
	listed := 0
	for level, depth := []intent.AssetID{asset}, int32(1); len(level) > 0 && !more; depth++ {
		var next []intent.AssetID
		for _, to := range level {
			edges, err := at.store.EdgesTo(ctx, at.id, to)
			if err != nil {
				return nil, false, err
			}
			fields := map[intent.AssetID][]string{}
			var sources []intent.AssetID
			for _, e := range edges {
				if fields[e.From] == nil {
					sources = append(sources, e.From)
				}
				fields[e.From] = append(fields[e.From], e.Field)
			}
			slices.Sort(sources)
			for _, id := range sources {
				if listed == mostUses {
					more = true
					break
				}
				listed++
				referrers[to] = append(referrers[to], &apipb.Use{Asset: string(id), Fields: fields[id], Depth: depth, Again: placed[id]})
				if !placed[id] {
					placed[id] = true
					next = append(next, id)
				}
			}
		}
		level = next
	}
	var add func(intent.AssetID)
	add = func(to intent.AssetID) {
		for _, use := range referrers[to] {
			list = append(list, use)
			if !use.Again {
				add(intent.AssetID(use.Asset))
			}
		}
	}
	add(asset)
	return list, more, nil
}
