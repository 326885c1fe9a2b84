// Package generate runs a partition's generators: in limited child processes
// (Process), or in this one for the simulator (InProcess); and keeps what they
// gave until one of the inputs they really read changes (Graph). An input that
// kills its child is quarantined and kills no second one. It publishes
// nothing, and it never takes half of a run's output: a run ended by itself
// with all its assets, or it has findings. Package prodspec calls it.
package generate

import (
	"context"
	"errors"
	"fmt"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/render"
	"lehr.dev/internal/prodspec/generate/starlark"
	"lehr.dev/internal/prodspec/generate/wasm"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/validate"
)

// What a run is given and gives is the same for every kind of program.
type (
	Job    = work.Job
	Input  = work.Input
	Read   = work.Read
	Opener = work.Opener
)

// Result of a run: complete assets, or findings.
type Result struct {
	work.Result
	// Died: the run took its child process along. It is not tried again with
	// the same inputs; but where Stopped says that time, or somebody outside,
	// ended it, it is after a while.
	Died bool
}

// ErrOvertaken is the cause of a context that ended because newer inputs came.
var ErrOvertaken = errors.New("newer sources came while the partition was being built")

// Runner does what tenants' programs and types ask for. An error concludes
// nothing: the context ended, no child could be started, or an input could not
// be opened.
type Runner interface {
	// Run runs jobs with the types of a set. Results are in the order of jobs:
	// with an error, those of the first jobs, which had ended; without, at least
	// one, and not all where together they are too large to be held at once.
	Run(ctx context.Context, schemas *schema.Set, jobs []Job, open Opener) ([]Result, error)
	// Compile compiles .proto files beside the built-in types. There is a set,
	// or there are findings.
	Compile(ctx context.Context, files []schema.SourceFile) (*schema.Set, []intent.Finding, error)
	// Split lists the entries of a file, or there are findings.
	Split(ctx context.Context, file string, text []byte, keys work.Keys) ([]work.Entry, []intent.Finding, error)
	// Explore reads a file that defines a workflow, and follows everything that a run of it can
	// do, within bounds. There are errors among the findings, or it can be run.
	Explore(ctx context.Context, file string, text []byte) (Explored, []intent.Finding, error)
	// Judge applies the buf.validate rules of users' own types to assets.
	Judge(ctx context.Context, schemas *schema.Set, bodies [][]byte) ([]intent.Finding, error)
}

// Limits of one run. All are in force at once.
type Limits struct {
	starlark.Limits
	// MemoryBytes that the program may hold; it dies or is stopped beyond.
	MemoryBytes int64 `json:"memoryBytes"`
	// Milliseconds that it has a core; package allowance says what counts.
	Milliseconds int64 `json:"milliseconds"`
}

// DefaultLimits: 100 million steps, 10 MB of assets, 256 MB, 10 s.
func DefaultLimits() Limits {
	return Limits{
		Limits:       starlark.Limits{Steps: 100_000_000, OutputBytes: 10_000_000},
		MemoryBytes:  256 << 20,
		Milliseconds: 10_000,
	}
}

// InProcess works in this process. Steps and output are limited, memory is
// not: it is for the simulator and for tests that count runs.
type InProcess struct {
	Limits Limits
}

// Run implements Runner.
func (p InProcess) Run(ctx context.Context, schemas *schema.Set, jobs []Job, open Opener) ([]Result, error) {
	evaluate := starlark.New(schemas, p.Limits.Limits).Evaluate
	if len(jobs) > 0 && jobs[0].Language == work.Render {
		evaluate = func(_ context.Context, job Job, open Opener) work.Result {
			return render.Evaluate(schemas, job, open, p.Limits.OutputBytes)
		}
	}
	if len(jobs) > 0 && jobs[0].Language == work.WASM {
		modules, err := wasm.New(ctx, schemas, wasm.Options{MemoryBytes: p.Limits.MemoryBytes / 2, OutputBytes: p.Limits.OutputBytes, Interrupt: true})
		if err != nil {
			return nil, err
		}
		defer modules.Close(context.WithoutCancel(ctx))
		evaluate = modules.Evaluate
	}
	results := make([]Result, 0, len(jobs))
	for _, job := range jobs {
		if job.Language == work.Native || apart(job) {
			// Here is no child to end with it.
			results = append(results, refused([]Job{job}, fault.New(fault.Denied, "%s is a native program, which runs in children only", job.Generator).WithHint("build it for WASI"))...)
			continue
		}
		var unopened error
		result := evaluate(ctx, job, func(kind work.Kind, input Input) ([]byte, error) {
			// The program is stopped a little later than the context ends: until
			// then it is to ask for nothing more.
			err := ctx.Err()
			var content []byte
			if err == nil {
				content, err = open(kind, input)
			}
			if err != nil {
				unopened = err
			}
			return content, err
		})
		if err := ctx.Err(); err != nil {
			return results, context.Cause(ctx)
		}
		if unopened != nil {
			return results, unopened
		}
		results = append(results, Result{Result: result})
	}
	return results, nil
}

// Compile implements Runner.
func (p InProcess) Compile(ctx context.Context, files []schema.SourceFile) (*schema.Set, []intent.Finding, error) {
	schemas, findings := compileTypes(ctx, files)
	return schemas, findings, ctx.Err()
}

// Judge implements Runner.
func (p InProcess) Judge(ctx context.Context, schemas *schema.Set, bodies [][]byte) ([]intent.Finding, error) {
	contents, err := validate.NewContents(schemas)
	if err != nil {
		return nil, err
	}
	return judgeBodies(contents, bodies), ctx.Err()
}

// died is the finding for a run that took its child along.
func died(job Job, reason, hint string) Result {
	return Result{Died: true, Result: work.Result{Findings: []intent.Finding{{
		Rule: "generate", Severity: intent.Error, File: job.Where(), Line: 1,
		Message: fmt.Sprintf("the run of %s %s", job.Name(), reason), Hint: hint,
	}}}}
}
