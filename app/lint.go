package app

import (
	"context"
	"encoding/json"
	"fmt"

	"lehr.dev/external"
	"lehr.dev/intent"
	"lehr.dev/prodspec"
)

// Lint is Build, and warns of what is probably not meant.
func Lint(ctx context.Context, of Building) (prodspec.Built, error) {
	built, err := of.run(ctx, prodspec.Lint)
	if err != nil || built.Assets == nil {
		return built, err
	}
	allowed, err := external.ReadPolicy(of.ExternalChecks)
	if err != nil {
		return built, err
	}
	said, err := saidIn(built)
	if err != nil {
		return built, err
	}
	for _, what := range allowed.Unused(built.Partition, func(name string) bool { return said[name] }) {
		built.Findings = append(built.Findings, intent.Finding{
			Rule: "lint", Severity: intent.Warning, File: of.ExternalChecks, Line: 1,
			Message: fmt.Sprintf("partition %s may use the %s, and its definition names it nowhere", built.Partition, what),
			Hint:    fmt.Sprintf("take %s out of its partitions, or look whether the definition means another", built.Partition),
		})
	}
	return built, nil
}

// saidIn are the texts in a partition's policy: what it asks outside is among them.
func saidIn(built prodspec.Built) (map[string]bool, error) {
	said := map[string]bool{}
	var see func(value any)
	see = func(value any) {
		switch value := value.(type) {
		case string:
			said[value] = true
		case []any:
			for _, part := range value {
				see(part)
			}
		case map[string]any:
			for _, part := range value {
				see(part)
			}
		}
	}
	for _, asset := range built.Assets {
		if asset.ID != intent.PolicyAsset {
			continue
		}
		var policy any
		if err := json.Unmarshal(asset.Asset, &policy); err != nil {
			return nil, err
		}
		see(policy)
	}
	return said, nil
}
