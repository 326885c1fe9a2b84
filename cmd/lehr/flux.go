package main

import (
	"context"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/importer/cluster"
	"lehr.dev/internal/importer/flux"
	"lehr.dev/internal/prodspec/generate/render"
)

// fluxTools are what an import of Flux does by other parts of Lehr.
func fluxTools() flux.Tools {
	return flux.Tools{
		Program: func() (string, error) { return render.LookUp("kustomize") },
		Objects: cluster.Objects,
		Build: func(ctx context.Context, definition, sources string) (map[string][]string, error) {
			built, err := app.Build(ctx, app.Building{Definition: definition, Sources: sources})
			if err != nil {
				return nil, err
			}
			ids := map[string][]string{}
			for _, asset := range built.Assets {
				ids[asset.Generator] = append(ids[asset.Generator], string(asset.ID))
			}
			for _, finding := range built.Findings {
				if finding.Severity == intent.Error {
					return ids, fault.New(fault.Invalid, "%s:%d: %s", finding.File, finding.Line, finding.Message).WithHint("%s", finding.Hint)
				}
			}
			return ids, nil
		},
	}
}
