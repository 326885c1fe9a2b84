package validate

import (
	"context"
	"errors"
	"fmt"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// assets judges each new or changed asset on its own.
func (j *judging) assets(ctx context.Context) error {
	for _, entry := range j.delta {
		if err := ctx.Err(); err != nil {
			return err
		}
		if entry.Removed || entry.Body == nil {
			continue
		}
		if err := j.asset(entry); err != nil {
			return err
		}
	}
	own := &elsewhere{judging: j}
	for _, entry := range j.delta {
		if !entry.Removed && entry.Body != nil {
			if err := own.add(ctx, entry.Body); err != nil {
				return err
			}
		}
	}
	if j.Again != nil {
		err := j.Again(ctx, func(_ intent.AssetID, body []byte) error {
			asset, err := schema.Decode(body)
			if err != nil {
				return err
			}
			j.contents(asset)
			return own.add(ctx, body)
		})
		if err != nil {
			return err
		}
	}
	return own.flush(ctx)
}

// contents applies the rules of the asset's types: of all, or of those that
// are not judged elsewhere.
func (j *judging) contents(asset intent.Asset) {
	wanted := LinkedTypes
	if j.Elsewhere == nil {
		wanted = func(intent.TypeName) bool { return true }
	}
	for _, finding := range j.rules.Judge(asset, wanted) {
		j.add(finding)
	}
}

func (j *judging) asset(entry *store.Entry) error {
	asset, err := schema.Decode(entry.Body)
	if err != nil {
		return err
	}
	if asset.ID != entry.Asset || asset.Payload.Type != entry.Member.Type {
		return fault.New(fault.Internal, "the delta has asset %s of type %s, but its bytes are %s of type %s",
			entry.Asset, entry.Member.Type, asset.ID, asset.Payload.Type)
	}
	if _, err := intent.ParseAssetID(string(asset.ID)); err != nil {
		j.add(FromError("id", asset.ID, err))
	}
	if len(entry.Body) > intent.MaxAssetBytes {
		j.add(intent.Finding{
			Rule: "size", Severity: intent.Error, Asset: asset.ID,
			Message: fmt.Sprintf("asset %s has %d canonical bytes, at most %d are allowed", asset.ID, len(entry.Body), intent.MaxAssetBytes),
			Hint:    "keep large content elsewhere and name it by digest, or split the asset",
		})
	}
	if (asset.ID == intent.PolicyAsset) != (asset.Payload.Type == policyType) {
		j.add(intent.Finding{
			Rule: "policy", Severity: intent.Error, Asset: asset.ID,
			Message: fmt.Sprintf("asset %s is a %s; a partition's policy is the asset %s of type %s, and no other is", asset.ID, asset.Payload.Type, intent.PolicyAsset, policyType),
			Hint:    "choose another id or type",
		})
	}
	j.contents(asset)
	j.addons(asset)
	return nil
}

// FromError renders an error about an asset, for example of schema.Encode, as
// a finding.
func FromError(rule string, asset intent.AssetID, err error) intent.Finding {
	finding := intent.Finding{Rule: rule, Severity: intent.Error, Asset: asset, Message: err.Error()}
	if e, ok := errors.AsType[*fault.Error](err); ok && e == err {
		finding.Message, finding.Hint = e.Message, e.Hint
	}
	return finding
}
