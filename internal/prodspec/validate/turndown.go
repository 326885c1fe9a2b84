package validate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

var turndownType = intent.TypeName((*intentpb.Turndown)(nil).ProtoReflect().Descriptor().FullName())

// turndowns refuses that an asset which stays refers to one that is to be
// turned down: it would lose what it needs, or its removal would wait for
// ever. Edges of capacity may stay: the solver waits until nothing is expected.
func (j *judging) turndowns(ctx context.Context) error {
	for _, entry := range j.delta {
		if entry.Removed || entry.Body == nil {
			continue
		}
		isDown, err := hasTurndown(entry)
		if err != nil {
			return err
		}
		if isDown && !j.enforces(entry.Member.Type) {
			j.nothingToRemove(entry)
			isDown = false
		}
		if isDown {
			err = j.needed(ctx, entry.Asset)
		} else {
			err = j.needing(ctx, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// needing judges what a new or changed asset that stays refers to.
func (j *judging) needing(ctx context.Context, entry *store.Entry) error {
	var capacities []waiting
	for _, reference := range entry.References {
		if reference.To == entry.Asset {
			continue
		}
		isDown, err := j.turnedDown(ctx, reference.To)
		if err != nil {
			return err
		}
		if !isDown {
			continue
		}
		if capacities == nil {
			if capacities, err = dependenciesOf(entry.Body); err != nil {
				return err
			}
		}
		if at := dependencyIndex(reference.Field); at >= 0 && at < len(capacities) && capacities[at].capacity {
			continue
		}
		j.turndownError(entry.Asset, reference.To, reference.Field)
	}
	return nil
}

// needed finds assets of the base that stay and refer to one that is turned
// down. Those in the delta with content of their own are judged by needing.
func (j *judging) needed(ctx context.Context, asset intent.AssetID) error {
	if j.Base.IsZero() {
		return nil
	}
	edges, err := j.Snapshots.EdgesTo(ctx, j.Base, asset)
	if err != nil {
		return err
	}
	capacities := map[intent.AssetID]int{}
	for _, edge := range edges {
		if entry := j.entries[edge.From]; edge.From == asset || entry != nil && (entry.Removed || entry.Body != nil) {
			continue
		}
		if strings.HasPrefix(edge.Field, dependencyFields) {
			remaining, ok := capacities[edge.From]
			if !ok {
				remaining = count(j.servers(asset), edge.From)
			}
			if capacities[edge.From] = remaining - 1; remaining > 0 {
				continue
			}
		}
		isDown, err := j.turnedDown(ctx, edge.From)
		if err != nil {
			return err
		}
		if !isDown {
			j.turndownError(edge.From, asset, edge.Field)
		}
	}
	return nil
}

func (j *judging) turndownError(source, target intent.AssetID, field string) {
	j.add(intent.Finding{
		Rule: "turndown", Severity: intent.Error, Asset: source, Field: field,
		Message: fmt.Sprintf("asset %s refers to %s in %s, which is to be turned down", source, target, field),
		Hint:    fmt.Sprintf("first take the reference out of %s, or turn %s down too", source, source),
	})
}

// nothingToRemove warns of a Turndown on a model. No plugin ever completes it,
// so what it refers to would wait for it for ever.
func (j *judging) nothingToRemove(entry *store.Entry) {
	j.add(intent.Finding{
		Rule: "turndown", Severity: intent.Warning, Asset: entry.Asset,
		Message: fmt.Sprintf("asset %s has a Turndown, and no plugin is bound to %s: nothing is removed", entry.Asset, entry.Member.Type),
		Hint:    "take the asset out of the sources instead, or bind a plugin to its type",
	})
}

// enforces reports whether a plugin serves the type.
func (j *judging) enforces(name intent.TypeName) bool {
	return j.CandidatePolicy == nil || slices.ContainsFunc(j.CandidatePolicy.GetPlugins(), func(binding *intentpb.PluginBinding) bool {
		return intent.TypeName(binding.GetType()) == name
	})
}

func hasTurndown(entry *store.Entry) (bool, error) {
	asset, err := schema.Decode(entry.Body)
	_, isDown := asset.Addon(turndownType)
	return isDown, err
}

// turnedDown reports whether an asset of the candidate is to be removed from
// production.
func (j *judging) turnedDown(ctx context.Context, id intent.AssetID) (bool, error) {
	if entry := j.entries[id]; entry != nil && (entry.Removed || entry.Body != nil) {
		if entry.Removed {
			return false, nil
		}
		isDown, err := hasTurndown(entry)
		return isDown && j.enforces(entry.Member.Type), err
	}
	if j.Base.IsZero() {
		return false, nil
	}
	if j.turndownAssets == nil {
		if err := j.readTurndowns(ctx); err != nil {
			return false, err
		}
	}
	return j.turndownAssets[id], nil
}

// readTurndowns reads which assets of the base are turned down: they are few,
// and found by the type of an addon.
func (j *judging) readTurndowns(ctx context.Context) error {
	const page = 1000
	j.turndownAssets = map[intent.AssetID]bool{}
	filter := store.AssetFilter{Field: string(turndownType), Limit: page}
	for {
		members, err := j.Snapshots.Members(ctx, j.Base, filter)
		if err != nil {
			return err
		}
		for _, member := range members {
			j.turndownAssets[member.Asset] = j.enforces(member.Type)
			filter.After = member.Asset
		}
		if len(members) < page {
			return nil
		}
	}
}

// dependencyIndex is the index of the edge that a reference is in; negative:
// it is none.
func dependencyIndex(field string) int {
	rest, ok := strings.CutPrefix(field, dependencyFields)
	if !ok {
		return -1
	}
	at := -1
	if _, err := fmt.Sscanf(rest, "dependencies[%d]", &at); err != nil {
		return -1
	}
	return at
}
