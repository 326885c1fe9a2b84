// Package render has Lehr's own renderers, which turn files of a known format into
// assets: the table of those that are built in, and where those are that are
// programs. A renderer is a function of the SDK (package generator), sees the
// declared files and other generators' assets, in memory, and nothing of the
// process. Package generate, the only caller, runs it in a limited child.
package render

import (
	"bytes"
	"fmt"

	generatorpb "lehr.dev/gen/lehr/generator/v1"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/protocol"
	"lehr.dev/internal/prodspec/generate/tree"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/sdk/generator"
	"lehr.dev/sdk/generator/kubernetes"
)

// renderer of a format. Its version changes whenever the same inputs may give
// other assets.
type renderer struct {
	version int
	// render with the types of a partition.
	render func(schemas *schema.Set, input *generator.Input, output *generator.Output) error
}

// builtIn are those that need no program.
var builtIn = map[string]renderer{
	"assets":     {2, assets},
	"http":       {1, plain(httpObjects)},
	"kubernetes": {5, plain(kubernetes.Render)},
	"sql-schema": {2, plain(sqlSchema)},
	"terraform":  {1, plain(terraform)},
}

// plain renderers give assets of built-in types only.
func plain(render func(input *generator.Input, output *generator.Output) error) func(*schema.Set, *generator.Input, *generator.Output) error {
	return func(_ *schema.Set, input *generator.Input, output *generator.Output) error {
		return render(input, output)
	}
}

// Version is part of what a run is cached by. That of a program is its digest.
func Version(format string) string { return fmt.Sprint(format, "/", builtIn[format].version) }

// Evaluate runs a job of a built-in renderer. outputBytes bounds its assets
// together.
func Evaluate(schemas *schema.Set, job work.Job, open work.Opener, outputBytes int) work.Result {
	reads := work.Reads{}
	result := evaluate(schemas, &job, open, reads, outputBytes)
	result.Reads = reads.Sorted()
	return result
}

func evaluate(schemas *schema.Set, job *work.Job, open work.Opener, reads work.Reads, outputBytes int) (result work.Result) {
	renderer, ok := builtIn[job.Program]
	if !ok {
		return protocol.Fail(job, "use a format that docs/use/renderers.md names", "has no renderer for %q", job.Program)
	}
	files, err := tree.New(schemas, job, open, reads)
	if err != nil {
		return protocol.Fail(job, "give the files other names, or leave a source out", "cannot begin: %s", err)
	}
	defer func() {
		if problem := recover(); problem != nil {
			result = protocol.Fail(job, "look for what is unusual in its files, and tell Lehr's authors of it", "crashed: %.300v", problem)
		}
	}()
	input := generator.NewInput(&generatorpb.Job{
		Partition: string(job.Partition), Generator: job.Generator, File: protocol.FilePath(job.File), Assets: tree.AssetList,
	}, job.Arguments, files)
	var stream bytes.Buffer
	err = generator.Run(func(input *generator.Input, output *generator.Output) error {
		return renderer.render(schemas, input, output)
	}, input, schemas.Types(), &stream)
	if err != nil {
		return protocol.Fail(job, "mend its files, or what with: says", "failed: %s", err)
	}
	return protocol.Read(&stream, job, schemas, outputBytes)
}
