package validate

import (
	"context"
	"errors"
	"fmt"

	"buf.build/go/protovalidate"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/schema"
	"lehr.dev/store"
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
	return nil
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
	j.content(asset.ID, asset.Payload)
	for _, addon := range asset.Addons {
		j.content(asset.ID, addon)
	}
	return nil
}

// content applies the buf.validate rules of a payload's or addon's type.
func (j *judging) content(id intent.AssetID, content intent.Message) {
	message, err := j.types.Unpack(content)
	if err != nil {
		j.add(FromError("content", id, err))
		return
	}
	err = j.rules.Validate(message)
	if err == nil {
		return
	}
	violations, ok := errors.AsType[*protovalidate.ValidationError](err)
	if !ok {
		j.add(intent.Finding{
			Rule: "content", Severity: intent.Error, Asset: id, Field: string(content.Type),
			Message: fmt.Sprintf("the rules of %s cannot be applied to asset %s: %v", content.Type, id, err),
			Hint:    "mend the buf.validate options in the .proto file",
		})
		return
	}
	for _, violation := range violations.Violations {
		path := protovalidate.FieldPathString(violation.Proto.GetField())
		field, what := string(content.Type), "the "+string(content.Type)
		if path != "" {
			field, what = field+"."+path, path
		}
		said := violation.Proto.GetMessage()
		if said == "" {
			said = "it breaks the rule " + violation.Proto.GetRuleId()
		}
		j.add(intent.Finding{
			Rule: "content", Severity: intent.Error, Asset: id, Field: field,
			Message: fmt.Sprintf("asset %s: %s: %s", id, what, said),
		})
	}
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
