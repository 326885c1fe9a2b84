package validate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/Masterminds/semver/v3"
	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// addons judges what built-in addons say of the payload beside them.
func (j *judging) addons(asset intent.Asset) {
	dependencies, unmanaged := &intentpb.Dependencies{}, &intentpb.Unmanaged{}
	capacity, version, health := &intentpb.Capacity{}, &intentpb.Version{}, &intentpb.Health{}
	for _, addon := range []proto.Message{dependencies, unmanaged, capacity, version, health} {
		if _, err := schema.Addon(asset, addon); err != nil {
			j.add(FromError("content", asset.ID, err))
			return
		}
	}
	for i, dependency := range dependencies.Dependencies {
		if dependency.AtLeast == "" {
			continue
		}
		if _, err := semver.NewVersion(dependency.AtLeast); err != nil {
			j.add(intent.Finding{
				Rule: "version", Severity: intent.Error, Asset: asset.ID, Field: fmt.Sprintf("%sdependencies[%d].at_least", dependencyFields, i),
				Message: fmt.Sprintf("asset %s needs %s at least at %.120q, which is no version", asset.ID, dependency.On, dependency.AtLeast),
				Hint:    "write a semantic version, of which parts may be missing: 3, 1.2, v1.2.3",
			})
		}
	}
	j.unmanaged(asset, unmanaged)
	// They are evaluated on current state, too, which has no addons.
	bare := intent.Asset{ID: asset.ID, Payload: asset.Payload}
	for _, dimension := range slices.Sorted(maps.Keys(capacity.Dimensions)) {
		field := fmt.Sprintf("lehr.intent.v1.Capacity.dimensions[%q]", dimension)
		compiled, err := j.expressions.Compile(capacity.Dimensions[dimension], asset.Payload.Type)
		if err == nil {
			_, err = compiled.Number(bare)
		}
		j.expressionError("capacity", bare.ID, field, "the dimension "+dimension+" of its Capacity", err)
	}
	if version.Expression != "" {
		j.version(bare, version.Expression)
	}
	if health.Expression != "" { // It is about what is there, which nobody has read yet.
		_, err := j.expressions.HealthRule(health.Expression, asset.Payload.Type)
		j.expressionError("health", bare.ID, "lehr.intent.v1.Health.expression", "its Health", err)
	}
}

func (j *judging) version(asset intent.Asset, expression string) {
	const field = "lehr.intent.v1.Version.expression"
	compiled, err := j.expressions.Compile(expression, asset.Payload.Type)
	text := ""
	if err == nil {
		text, err = compiled.Text(asset)
	}
	if err != nil {
		j.expressionError("version", asset.ID, field, "its Version", err)
		return
	}
	if _, err := semver.NewVersion(text); err != nil {
		j.add(intent.Finding{
			Rule: "version", Severity: intent.Warning, Asset: asset.ID, Field: field,
			Message: fmt.Sprintf("asset %s declares the version %.120q, which is none: what needs a version of it waits for ever", asset.ID, text),
			Hint:    "let the expression give a semantic version, of which parts may be missing: 3, 1.2, v1.2.3",
		})
	}
}

func (j *judging) expressionError(rule string, asset intent.AssetID, field, subject string, err error) {
	if err == nil {
		return
	}
	finding := FromError(rule, asset, err)
	finding.Field = field
	finding.Message = fmt.Sprintf("asset %s: %s: %s", asset, subject, finding.Message)
	j.add(finding)
}
