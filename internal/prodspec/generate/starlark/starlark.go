// Package starlark evaluates one run of one generator written in Starlark: a
// file that defines generate(ctx) and returns assets. A program sees the
// inputs its partition declared and nothing else, neither clock nor network
// nor randomness, and what it really read is recorded, for that is what the
// run may be cached by. Memory is not bounded here: package generate, the only
// caller, runs this in a limited child process.
package starlark

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/manifest"
	"lehr.dev/internal/prodspec/generate/work"
)

// Version changes whenever the same inputs may give other assets.
const Version = "starlark/3"

// Limits of one run.
type Limits struct {
	Steps       uint64 `json:"steps"`
	OutputBytes int    `json:"outputBytes"`
}

// Evaluator runs jobs, one at a time, with what they share.
type Evaluator struct {
	schema      *schema.Set
	limits      Limits
	predeclared starlark.StringDict
	compiled    map[intent.Digest]*starlark.Program
}

// New returns an evaluator for the types of a schema.
func New(schemas *schema.Set, limits Limits) *Evaluator {
	e := &Evaluator{schema: schemas, limits: limits, compiled: map[intent.Digest]*starlark.Program{}}
	e.predeclared = predeclared(schemas)
	return e
}

// run is the state of one evaluation. Builtins find it in the thread.
type run struct {
	*Evaluator
	job     work.Job
	open    work.Opener
	reads   work.Reads
	loaded  map[string]starlark.StringDict
	loading []string
	output  int
	log     strings.Builder
	// manifest that was decoded last, whose fields assets may be made from.
	decoded *manifest.Document
	// last is the file that was opened last; empty: none was.
	last string
	// outOfSteps: the program was ended for it took too many steps.
	outOfSteps bool
}

const (
	runKey = "lehr.run"
	maxLog = 64 << 10
)

// Evaluate runs a job. Cancelling the context stops the program at its next
// step; the cause of the context is then the finding.
func (e *Evaluator) Evaluate(ctx context.Context, job work.Job, open work.Opener) (result work.Result) {
	r := &run{Evaluator: e, job: job, open: open, reads: work.Reads{}, loaded: map[string]starlark.StringDict{}}
	thread := &starlark.Thread{Name: job.Name(), Load: r.load, Print: r.print}
	thread.SetLocal(runKey, r)
	setPool(thread, e.schema)
	thread.SetMaxExecutionSteps(e.limits.Steps)
	thread.OnMaxSteps = func(t *starlark.Thread) {
		r.outOfSteps = true
		t.Cancel(fmt.Sprintf("it took too many steps: more than %d", e.limits.Steps))
	}
	stop := context.AfterFunc(ctx, func() { thread.Cancel(context.Cause(ctx).Error()) })
	defer stop()
	defer func() {
		if problem := recover(); problem != nil {
			result = work.Result{Findings: r.crashed(problem)}
		}
		result.Reads, result.Log = r.reads.Sorted(), r.log.String()
	}()
	assets, err := r.generate(thread)
	if err != nil {
		return work.Result{Findings: r.findings(err), Stopped: ctx.Err() != nil}
	}
	return work.Result{Assets: assets}
}

func (r *run) generate(thread *starlark.Thread) ([]work.Asset, error) {
	globals, err := r.load(thread, r.job.Program)
	if err != nil {
		return nil, err
	}
	function, ok := globals["generate"].(*starlark.Function)
	if !ok {
		return nil, &place{file: r.job.Program, line: 1, message: "the program does not define generate(ctx)", hint: "write def generate(ctx): and return a list of assets"}
	}
	value, err := starlark.Call(thread, function, starlark.Tuple{&contextValue{r}}, nil)
	if err != nil {
		return nil, err
	}
	return r.assets(function, value)
}

// assets checks what generate returned.
func (r *run) assets(function *starlark.Function, value starlark.Value) ([]work.Asset, error) {
	at := function.Position()
	wrong := func(format string, arguments ...any) error {
		return &place{file: at.Filename(), line: int(at.Line), column: int(at.Col), message: fmt.Sprintf(format, arguments...), hint: "return a list of what asset(id, payload) gave"}
	}
	iterable, ok := value.(starlark.Iterable)
	if !ok {
		return nil, wrong("generate returned %s, not a list of assets", value.Type())
	}
	iterator := iterable.Iterate()
	defer iterator.Done()
	var list []work.Asset
	byID := map[intent.AssetID]*assetValue{}
	var item starlark.Value
	for i := 0; iterator.Next(&item); i++ {
		a, ok := item.(*assetValue)
		if !ok {
			return nil, wrong("generate returned %s at index %d, not an asset", item.Type(), i)
		}
		if previous, duplicate := byID[a.asset.ID]; duplicate {
			return nil, &place{
				file: a.asset.File, line: a.asset.Line, asset: a.asset.ID,
				message: fmt.Sprintf("asset %s is generated twice by %s, also at %s:%d%s", a.asset.ID, r.job.Name(), previous.asset.File, previous.asset.Line, a.after(previous)),
				hint:    "an id names one asset: rename or drop one of them",
			}
		}
		byID[a.asset.ID] = a
		list = append(list, a.asset)
	}
	return list, nil
}

var fileOptions = &syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}

// load runs a program file, once in a run.
func (r *run) load(thread *starlark.Thread, path string) (starlark.StringDict, error) {
	if globals, loaded := r.loaded[path]; loaded {
		return globals, nil
	}
	if slices.Contains(r.loading, path) {
		return nil, fmt.Errorf("files load each other in a circle: %s", strings.Join(append(r.loading, path), " → "))
	}
	input, ok := work.Find(r.job.Programs, path)
	if !ok {
		return nil, fmt.Errorf("%s is not a declared .star file; declared: %s (declare it as a source of this generator, by its path from lehr.yaml's folder)", path, names(r.job.Programs))
	}
	r.reads.Note(work.ReadProgram, path, input.Digest)
	program, err := r.compile(input)
	if err != nil {
		return nil, err
	}
	r.loading = append(r.loading, path)
	defer func() { r.loading = r.loading[:len(r.loading)-1] }()
	globals, err := program.Init(thread, r.predeclared)
	globals.Freeze()
	if err == nil {
		r.loaded[path] = globals
	}
	return globals, err
}

// Loads are the files that a program's load statements name; none of what is no
// program. They stand at the top level, so all are found without running it.
func Loads(program []byte) (names []string) {
	file, err := fileOptions.Parse("", program, 0)
	if err != nil {
		return nil
	}
	for _, statement := range file.Stmts {
		if load, ok := statement.(*syntax.LoadStmt); ok {
			names = append(names, load.ModuleName())
		}
	}
	return names
}

func (r *run) compile(input work.Input) (*starlark.Program, error) {
	// The name is in the positions, so two files of one content differ.
	key := intent.Sum("lehr.program.v1", []byte(input.Name), input.Digest[:])
	if program, ok := r.compiled[key]; ok {
		return program, nil
	}
	text, err := r.open(work.ReadProgram, input)
	if err != nil {
		return nil, err
	}
	_, program, err := starlark.SourceProgramOptions(fileOptions, input.Name, text, r.predeclared.Has)
	if err == nil {
		r.compiled[key] = program
	}
	return program, err
}

func (r *run) print(_ *starlark.Thread, message string) {
	if room := maxLog - r.log.Len(); room > 0 {
		r.log.WriteString(message[:min(room, len(message))])
		r.log.WriteByte('\n')
	}
}

func names(inputs []work.Input) string {
	const most = 8
	list := []string{}
	for _, input := range inputs {
		if len(list) == most {
			list = append(list, "…")
			break
		}
		list = append(list, input.Name)
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
