package enforcer

import (
	"slices"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/ground/intent"
)

// view is the intent side of the world as last read from the store.
type view struct {
	head     intent.IncarnationID
	revision uint64
	policy   *policy
	// common is what the server's common policy asks beside it; nil: it was not read yet.
	common *commonAsked
	kinds  map[intent.TypeName]*kind
	pins   map[intent.AssetID][]intent.Pin
	pinned map[pinnedAt]intent.Member
	holds  map[intent.AssetID]intent.Hold
	// verifications that are under way in environments of the partition.
	verifications []intent.Verification
	approvals     map[planOf][]intent.Approval
	// rejections are those of plans, overrides those of contents.
	rejections map[planOf][]intent.Rejection
	overrides  map[contentOf][]intent.Override
	stop       *intent.Stop
}

// pinnedAt is an asset at an incarnation to which it is pinned.
type pinnedAt struct {
	asset    intent.AssetID
	sequence intent.Sequence
}

// contentOf is a content of an asset.
type contentOf struct {
	asset     intent.AssetID
	effective intent.Digest
}

// planOf is a plan for a content of an asset.
type planOf struct {
	contentOf
	plan intent.Digest
}

// kindOf returns what head's policy says of a type.
func (v *view) kindOf(name intent.TypeName) *kind {
	k := v.kinds[name]
	if k == nil {
		k = &kind{name: name, model: name.IsIntent() || slices.Contains(v.policy.GetModels(), string(name))}
		v.kinds[name] = k
	}
	if k.mode == "" {
		k.mode = stricter(modeOf(v.policy.GetMode()), modeOf(v.policy.GetTypeModes()[string(name)]))
	}
	return k
}

// target of an asset now: the incarnation, the effective digest there and the
// pin that chose it, if any. Not found: it has none.
func (v *view) target(a *asset, now time.Time) (id intent.IncarnationID, effective intent.Digest, pin *intent.Pin, exists bool) {
	id, pin = intent.Target(v.head, v.pins[a.id], now)
	if pin == nil {
		return id, a.effective, nil, !a.effective.IsZero()
	}
	member, exists := v.pinned[pinnedAt{a.id, id.Sequence}]
	return id, member.Effective, pin, exists
}

// pinnedNow is the sequence that a pin makes an asset follow; 0: it follows
// head.
func (v *view) pinnedNow(a *asset, now time.Time) intent.Sequence {
	if len(v.pins[a.id]) == 0 {
		return 0
	}
	id, _, pin, _ := v.target(a, now)
	if pin == nil {
		return 0
	}
	return id.Sequence
}

// modeNow is the mode in force for an asset.
func (v *view) modeNow(a *asset) check.Mode { return stricter(a.kind.mode, levels[a.mode]) }

// modePlaces lists the places that set a mode for an asset which is not enforce.
func (v *view) modePlaces(a *asset) (places []intent.ModePlace) {
	policy := v.policy
	for _, entry := range []struct {
		place intent.ModePlace
		mode  check.Mode
	}{
		{intent.ModeOfPartition, modeOf(policy.GetMode())},
		{intent.ModeOfType, modeOf(policy.GetTypeModes()[string(a.kind.name)])},
		{intent.ModeOfAsset, levels[a.mode]},
	} {
		if entry.mode != "" && entry.mode != check.Enforce {
			places = append(places, entry.place)
		}
	}
	return places
}

// policyAtHead is what head says now of an asset with that target.
func (v *view) policyAtHead(a *asset, target intent.IncarnationID, now time.Time) headPolicy {
	if target == v.head {
		return headPolicy{}
	}
	_, _, pin, _ := v.target(a, now)
	return headPolicy{a.effective, v.policy.digest, pin != nil && pin.Rank == intent.RankRollback, pin != nil && pin.Back}
}

// verificationOf is one that is under way in an environment of the asset, or that may be: what
// came with a newer head than was looked at may be of any; nil: none is.
func (v *view) verificationOf(id intent.AssetID) *intent.Verification {
	for i := range v.verifications {
		if one := &v.verifications[i]; one.Head != v.head || slices.Contains(one.Assets, id) {
			return one
		}
	}
	return nil
}

// unservedState returns the state of an asset whose type no plugin is bound to. That it
// is not looked at may be meant.
func (v *view) unservedState(a *asset) intent.State {
	switch {
	case a.kind.model:
		return intent.StateModel
	case v.modeNow(a) == check.Off:
		return intent.StateOff
	}
	return intent.StateUnserved
}
