package validate

import (
	"context"
	"fmt"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

var versionType = intent.TypeName((*intentpb.Version)(nil).ProtoReflect().Descriptor().FullName())

// versions warns of what needs a version of an asset that declares none: it
// would wait for ever.
func (j *judging) versions(ctx context.Context) error {
	declares := map[intent.AssetID]bool{}
	for _, entry := range j.delta {
		if entry.Removed || entry.Body == nil {
			continue
		}
		asset, err := schema.Decode(entry.Body)
		if err != nil {
			return err
		}
		addon := &intentpb.Dependencies{}
		if _, err := schema.Addon(asset, addon); err != nil {
			return err
		}
		for i, dependency := range addon.Dependencies {
			target := intent.AssetID(dependency.On)
			if dependency.Rule != intentpb.Dependency_RULE_VERSION {
				continue
			}
			if _, ok := declares[target]; !ok {
				if declares[target], err = j.declares(ctx, target); err != nil {
					return err
				}
			}
			if !declares[target] {
				j.add(intent.Finding{
					Rule: "version", Severity: intent.Warning, Asset: entry.Asset, Field: fmt.Sprintf("%sdependencies[%d]", dependencyFields, i),
					Message: fmt.Sprintf("asset %s needs %s at least at %.120s, but that declares no version: it waits for ever", entry.Asset, target, dependency.AtLeast),
					Hint:    fmt.Sprintf("give %s the addon Version, or depend on it by order", target),
				})
			}
		}
	}
	return nil
}

// declares reports whether an asset of the candidate has a Version. One that
// does not exist is another finding.
func (j *judging) declares(ctx context.Context, id intent.AssetID) (bool, error) {
	entry := j.entries[id]
	var body []byte
	switch {
	case entry != nil && entry.Removed:
		return true, nil
	case entry != nil && entry.Body != nil:
		body = entry.Body
	default:
		member, err := j.baseMember(ctx, id)
		if err != nil || member.Digest.IsZero() {
			return true, err
		}
		if body, err = j.Snapshots.Body(ctx, member.Digest); err != nil {
			return false, err
		}
	}
	asset, err := schema.Decode(body)
	_, declared := asset.Addon(versionType)
	return declared, err
}
