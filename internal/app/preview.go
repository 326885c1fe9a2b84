package app

import (
	"context"

	"lehr.dev/internal/annealing/previewer"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/store"
)

// previewPlaces list branches and pull requests as the partition's sources and the operator's git hosts
// say.
type previewPlaces struct {
	app     *App
	runtime loop.Runtime
}

var _ previewer.Places = previewPlaces{}

// previewer keeps the previews of a partition.
func (a *App) previewer(partition intent.PartitionID, runtime loop.Runtime) *previewer.Previewer {
	places := a.options.Parts.Previews
	if places == nil {
		places = previewPlaces{a, runtime}
	}
	return previewer.New(previewer.Options{Partition: partition, Store: a.store, Places: places, Runtime: runtime, Log: a.log})
}

// Branches implements previewer.Places.
func (p previewPlaces) Branches(ctx context.Context, partition store.Partition, source, repository string) ([]branchpreview.Branch, error) {
	options := p.app.written.options(partition)
	program := prodspec.Program{Definition: partition.Definition, Partition: partition.ID, Place: p.app.options.Parts.Sources, Elsewhere: options}
	git, err := prodspec.FindGitSource(ctx, program, source, repository, p.app.runtime.Now())
	if err != nil {
		return nil, err
	}
	return options.Branches(ctx, git)
}

// Host implements previewer.Places.
func (p previewPlaces) Host(partition intent.PartitionID, name string) (previewer.Host, error) {
	return p.app.elsewhere.options(p.app.options).GitHost(partition, name, p.runtime)
}
