package derive

import (
	"iter"
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/turndown"
)

// Turndowns is the name of the derivation that gives what people had turned down by
// command its Turndown. No other has it.
const Turndowns = turndown.Document

// TurnDown returns the same rules, which also turn down these assets, each with its reason.
// An asset that has a Turndown already keeps it.
func (r *Rules) TurnDown(reasons map[intent.AssetID]string) *Rules {
	next := *r
	next.reasons, next.turndowns = reasons, intent.Digest{}
	if len(reasons) > 0 {
		next.turndowns = digestOfTurndowns(reasons, slices.Sorted(maps.Keys(reasons)))
	}
	return &next
}

// Assets are what a run gave.
type Assets interface {
	IDs(yield func(intent.AssetID) bool)
	// Asked are the outputs that their payloads ask for.
	Asked(yield func(outputs.ID) bool)
}

// ByDocuments covers what the rules do to some assets because the partition's own documents
// say so: which are turned down, and which outputs are filled in; nil: to all. It is apart
// from Digest: when one asset of a million is turned down, or one output changes, what gave
// the others stands. Zero: nothing.
func (r *Rules) ByDocuments(assets Assets) intent.Digest {
	down, filled := r.turnedDown(assets), r.filledIn(assets)
	if filled.IsZero() {
		return down
	}
	return intent.Sum("lehr.derive.documents.v1", down[:], filled[:])
}

func (r *Rules) turnedDown(assets Assets) intent.Digest {
	if r == nil || len(r.reasons) == 0 {
		return intent.Digest{}
	}
	if assets == nil {
		return r.turndowns
	}
	var affected []intent.AssetID
	for id := range iter.Seq[intent.AssetID](assets.IDs) {
		if _, ok := r.reasons[id]; ok {
			affected = append(affected, id)
		}
	}
	if len(affected) == 0 {
		return intent.Digest{}
	}
	return digestOfTurndowns(r.reasons, affected)
}

func digestOfTurndowns(reasons map[intent.AssetID]string, ids []intent.AssetID) intent.Digest {
	var parts [][]byte
	for _, id := range ids {
		parts = append(parts, []byte(id), []byte(reasons[id]))
	}
	return intent.Sum("lehr.turndowns.v1", parts...)
}

// turnDown gives an asset the Turndown that somebody asked for.
func (r *Rules) turnDown(asset intent.Asset, derived []Derived) (intent.Asset, []Derived, []intent.Finding) {
	reason, ok := r.reasons[asset.ID]
	if !ok {
		return asset, derived, nil
	}
	packed, err := r.set.Pack(&intentpb.Turndown{Reason: reason})
	if err != nil {
		return asset, nil, []intent.Finding{{Rule: "turndown", Severity: intent.Error, Asset: asset.ID, File: turndown.File(), Line: 1, Message: err.Error()}}
	}
	if _, exists := asset.Addon(packed.Type); exists {
		return asset, derived, nil
	}
	asset.Addons = append(slices.Clone(asset.Addons), packed)
	return asset, append(derived, Derived{Derivation: Turndowns, Addon: packed.Type}), nil
}
