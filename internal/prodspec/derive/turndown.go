package derive

import (
	"iter"
	"maps"
	"slices"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/turndown"
)

var unmanagedType = intent.TypeName((&intentpb.Unmanaged{}).ProtoReflect().Descriptor().FullName())

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

// EndedPreviews is the name of the derivation that gives the assets of ended previews their
// Turndown. No other has it.
const EndedPreviews = branchpreview.Provided

// EndPreviews returns the same rules, which also turn down the assets of previews that end. What
// people turn down keeps their Turndown.
func (r *Rules) EndPreviews(endings *branchpreview.Endings) *Rules {
	next := *r
	next.endings = endings
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
	down, filled, ended := r.turnedDown(assets), r.filledIn(assets), r.ended(assets)
	if filled.IsZero() && ended.IsZero() {
		return down
	}
	parts := [][]byte{down[:], filled[:]}
	if !ended.IsZero() {
		parts = append(parts, ended[:])
	}
	return intent.Sum("lehr.derive.documents.v1", parts...)
}

// ended covers which of the assets previews made that end.
func (r *Rules) ended(assets Assets) intent.Digest {
	if r == nil || r.endings.IsEmpty() {
		return intent.Digest{}
	}
	if assets == nil {
		return r.endings.Digest()
	}
	var affected intent.Parts
	affected.Begin("lehr.derive.ended.v1")
	isAny := false
	for id := range iter.Seq[intent.AssetID](assets.IDs) {
		if addon, ok := r.endings.Turndown(id, false); ok {
			affected.AddText(string(id))
			affected.AddText(addon.GetReason())
			affected.AddText(addon.GetPreview().GetDigest())
			isAny = true
		}
	}
	if !isAny {
		return intent.Digest{}
	}
	return affected.Sum()
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

// turnDown gives an asset the Turndown that somebody asked for, or that the end of its preview asks
// for.
func (r *Rules) turnDown(asset intent.Asset, derived []Derived) (intent.Asset, []Derived, []intent.Finding) {
	addon, by := &intentpb.Turndown{Reason: r.reasons[asset.ID]}, Turndowns
	if _, ok := r.reasons[asset.ID]; !ok {
		_, isUnmanaged := asset.Addon(unmanagedType)
		if addon, ok = r.endings.Turndown(asset.ID, isUnmanaged); !ok {
			return asset, derived, nil
		}
		by = EndedPreviews
	}
	packed, err := r.set.Pack(addon)
	if err != nil {
		return asset, nil, []intent.Finding{{Rule: "turndown", Severity: intent.Error, Asset: asset.ID, File: turndown.File(), Line: 1, Message: err.Error()}}
	}
	if _, exists := asset.Addon(packed.Type); exists {
		return asset, derived, nil
	}
	asset.Addons = append(slices.Clone(asset.Addons), packed)
	return asset, append(derived, Derived{Derivation: by, Addon: packed.Type}), nil
}
