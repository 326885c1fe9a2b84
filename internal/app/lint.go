package app

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/remote"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/validate"
)

// Lint is Build, and warns of what is probably not meant.
func Lint(ctx context.Context, building Building) (prodspec.Built, error) {
	built, err := building.run(ctx, prodspec.Lint)
	if err != nil || built.Assets == nil {
		return built, err
	}
	missing, err := missingPlugins(building.Definition, built)
	if err != nil {
		return built, err
	}
	built.Findings = append(built.Findings, missing...)
	allowed, err := external.ReadPolicy(building.ExternalChecks)
	if err != nil {
		return built, err
	}
	mentioned, err := saidIn(built)
	if err != nil {
		return built, err
	}
	for _, unused := range allowed.Unused(built.Partition, func(name string) bool { return mentioned[name] }) {
		built.Findings = append(built.Findings, intent.Finding{
			Rule: "lint", Severity: intent.Warning, File: building.ExternalChecks, Line: 1,
			Message: fmt.Sprintf("partition %s may use the %s, and its definition names it nowhere", built.Partition, unused),
			Hint:    fmt.Sprintf("take %s out of its partitions, or look whether the definition means another", built.Partition),
		})
	}
	return built, nil
}

// missingPlugins warns of plugins whose programs this machine does not have. A server on
// another one may have them.
func missingPlugins(file string, built prodspec.Built) (findings []intent.Finding, err error) {
	content, err := files.Read(file, definition.MaxBytes)
	if err != nil {
		return nil, err
	}
	defined, _ := definition.Parse(filepath.Base(file), content, built.Schema)
	for _, binding := range defined.Policy.GetPlugins() {
		if len(binding.Run) == 0 {
			continue
		}
		if _, err := remote.LookUp(binding.Run[0]); err != nil {
			finding := validate.FromError("lint", "", err)
			finding.Severity, finding.File, finding.Line = intent.Warning, filepath.Base(file), defined.PluginLines[binding.Type]
			finding.Field = "plugins." + binding.Type + ".run"
			findings = append(findings, finding)
		}
	}
	return findings, nil
}

// saidIn are the texts in a partition's policy: what it asks outside is among them.
func saidIn(built prodspec.Built) (map[string]bool, error) {
	mentioned := map[string]bool{}
	var see func(value any)
	see = func(value any) {
		switch value := value.(type) {
		case string:
			mentioned[value] = true
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
	return mentioned, nil
}
