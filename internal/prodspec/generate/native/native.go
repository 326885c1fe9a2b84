// Package native runs one run of one generator that is a program of this
// machine. In its sandbox, made of namespaces, the program finds the declared
// inputs, itself, an empty /tmp and nothing else: no network, no other process,
// nothing to write to. What it reads there cannot be seen, so that its run rests
// on all declared inputs; and neither clock nor chance can be taken from it. It
// runs only where whoever runs the server allows it. Package generate, the only
// caller, runs this in a child of its own.
package native

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"runtime"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/protocol"
	"lehr.dev/internal/prodspec/generate/work"
)

// Sandbox says whether programs run in one.
type Sandbox string

const (
	// Required: where the kernel permits no sandbox, programs do not run.
	Required Sandbox = "required"
	// Preferred: there they run without, and what they give is labelled.
	Preferred Sandbox = "preferred"
	// Off: they run without, and what they give is labelled.
	Off Sandbox = "off"
)

// Policy is what whoever runs the server allows a partition's programs.
type Policy struct {
	Sandbox Sandbox `json:"sandbox"`
	// Visible folders of this machine, read only, such as /usr. What programs
	// give may rest on what is in them, so that it is labelled.
	Visible []string `json:"visible,omitempty"`
}

// Options of an evaluator.
type Options struct {
	Policy Policy
	// MemoryBytes of each process, and of all together; OutputBytes of assets.
	MemoryBytes int64
	OutputBytes int
	Timeout     time.Duration
}

// Evaluator runs jobs, one at a time.
type Evaluator struct {
	set     *schema.Set
	options Options
}

// New returns an evaluator for the types of a schema.
func New(schemas *schema.Set, options Options) *Evaluator { return &Evaluator{schemas, options} }

// NonHermetic is the rule of the warning about what ran outside a sandbox, or
// saw more than its inputs.
const NonHermetic = "non-hermetic"

// Evaluate runs a job.
func (e *Evaluator) Evaluate(ctx context.Context, job work.Job, open work.Opener) work.Result {
	result := e.evaluate(ctx, &job, open)
	result.Reads = work.Everything(job)
	return result
}

func (e *Evaluator) evaluate(ctx context.Context, job *work.Job, open work.Opener) work.Result {
	entries, err := e.room(job, open)
	if err != nil {
		return protocol.Fail(job, "give the files other names, or leave a source out", "cannot begin: %s", err)
	}
	if job.Renderer != "" {
		return e.renderer(ctx, job, entries)
	}
	if e.options.Policy.Sandbox == Off {
		return e.runUnsandboxed(ctx, job, entries, "the server's policy has its sandbox off")
	}
	result, refused := e.run(ctx, job, entries, true)
	switch {
	case refused == nil && len(e.options.Policy.Visible) > 0:
		return label(job, result, "sees "+strings.Join(e.options.Policy.Visible, ", ")+" of this machine")
	case refused == nil:
		return result
	case e.options.Policy.Sandbox == Preferred:
		return e.runUnsandboxed(ctx, job, entries, "this machine permits no sandbox ("+refused.Error()+")")
	}
	failed := protocol.Fail(job, "have the kernel permit user namespaces, or have whoever runs the server write sandbox: preferred", "needs a sandbox, which this machine does not permit: %s", refused)
	failed.Stopped = true
	return failed
}

// renderer runs one of Lehr's own programs, which reads its inputs and nothing
// else by itself: the sandbox stands behind it where there can be one.
func (e *Evaluator) renderer(ctx context.Context, job *work.Job, entries room) work.Result {
	result, err := e.run(ctx, job, entries, true)
	if err != nil {
		result, err = e.run(ctx, job, entries, false)
	}
	if err != nil {
		return protocol.Fail(job, "see that "+job.Renderer+" may be executed", "cannot begin: %s", err)
	}
	return result
}

func (e *Evaluator) runUnsandboxed(ctx context.Context, job *work.Job, entries room, reason string) work.Result {
	result, err := e.run(ctx, job, entries, false)
	if err != nil {
		return protocol.Fail(job, "", "cannot begin: %s", err)
	}
	return label(job, result, "ran outside a sandbox, for "+reason)
}

// label says of what a run gave that it may rest on more than its inputs.
func label(job *work.Job, result work.Result, reason string) work.Result {
	if len(result.Findings) == 0 {
		result.Warnings = append(result.Warnings, intent.Finding{
			Rule: NonHermetic, Severity: intent.Warning, File: job.Program, Line: 1,
			Message: fmt.Sprintf("%s is not hermetic: it %s", job.Generator, reason),
			Hint:    "what it gives may rest on more than its inputs; build it for WASI to be sure, or try: lehr build --verify",
		})
	}
	return result
}

// room is what a program finds around it, by path.
type room []entry

type entry struct {
	path    string
	content []byte
	// program: it can be executed.
	program bool
}

// Folders of a room.
const (
	workFolder    = "work"
	assetFolder   = "assets"
	programFolder = "program"
)

// mostInputs is how many bytes of inputs a run may have.
const mostInputs = 64 << 20

// room fetches everything that the run may read.
func (e *Evaluator) room(job *work.Job, open work.Opener) (room, error) {
	var entries room
	total, names := 0, map[string]string{}
	add := func(name string, kind work.Kind, input work.Input) error {
		content, err := open(kind, input)
		if err != nil {
			return err
		}
		if kind == work.ReadAsset {
			if content, err = protocol.Asset(e.set, content); err != nil {
				return err
			}
		}
		if total += len(content); total > mostInputs {
			return fmt.Errorf("its inputs have more than %d bytes", mostInputs)
		}
		entries = append(entries, entry{path: name, content: content, program: kind == work.ReadProgram})
		return nil
	}
	program, ok := work.Find(job.Programs, job.Program)
	if !ok {
		return nil, fmt.Errorf("the program %s is not there", job.Program)
	}
	if job.Renderer == "" {
		if err := add(programPath(job), work.ReadProgram, program); err != nil {
			return nil, err
		}
	}
	for _, input := range job.Files {
		name := protocol.FilePath(input.Name)
		if previous, duplicate := names[name]; duplicate {
			return nil, fmt.Errorf("%s and %s would both be the file %s", previous, input.Name, name)
		}
		names[name] = input.Name
		if err := add(path.Join(workFolder, name), work.ReadFile, input); err != nil {
			return nil, err
		}
	}
	for _, input := range job.Files {
		for folder := path.Dir(protocol.FilePath(input.Name)); folder != "."; folder = path.Dir(folder) {
			if previous, duplicate := names[folder]; duplicate {
				return nil, fmt.Errorf("%s is a file, and the folder of other inputs", previous)
			}
		}
	}
	list, err := protocol.List(job.Assets)
	if err != nil {
		return nil, err
	}
	entries = append(entries, entry{path: path.Join(assetFolder, protocol.AssetList), content: list})
	for i, input := range job.Assets {
		if err := add(path.Join(assetFolder, protocol.AssetName(i)), work.ReadAsset, input); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func programPath(job *work.Job) string { return path.Join(programFolder, path.Base(job.Program)) }

// LateHint is what can be done about a run that takes too long.
const LateHint = "look for a loop, or an operation on a huge value; a run that needs more time gets it by run_time in the file of --generators"

// run has the program run in a room. An error says why there was no sandbox, or
// no place to run at all.
func (e *Evaluator) run(ctx context.Context, job *work.Job, entries room, sandbox bool) (work.Result, error) {
	// The program is killed when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &process{options: e.options, words: &work.LastWords{}, output: &boundedOutput{most: protocol.MostBytes(e.options.OutputBytes)}}
	r.output.flooded = func() { r.kill("wrote more than %d bytes", r.output.most) }
	defer r.clear()
	if err := r.start(job, entries, sandbox); err != nil {
		return work.Result{}, err
	}
	stop := context.AfterFunc(ctx, func() { r.late.Store(true); r.kill("was stopped: %s", context.Cause(ctx)) })
	defer stop()
	watching, stopWatching := context.WithCancel(ctx)
	go r.watchMemory(watching)
	go r.watchTime(watching)
	err := r.command.Wait()
	stopWatching()
	if !sandbox {
		// What it left behind goes with it, as the end of the first process of a
		// namespace has the kernel see to.
		killBelow()
		reap()
	}
	if reason := r.killed.Load(); reason != nil {
		hint := "look for a loop, or make smaller values; or use for_each: file"
		if r.late.Load() {
			hint = LateHint
		}
		result := protocol.Fail(job, hint, "%s", *reason)
		result.Stopped = r.late.Load()
		return result, nil
	}
	if err != nil {
		return protocol.Ended(job, r.command.ProcessState.String(), r.words.First()), nil
	}
	return protocol.Read(bytes.NewReader(r.output.text.Bytes()), job, e.set, e.options.OutputBytes), nil
}

// boundedOutput keeps what a program writes, up to a bound.
type boundedOutput struct {
	text    bytes.Buffer
	most    int64
	flooded func()
}

func (s *boundedOutput) Write(p []byte) (int, error) {
	if int64(s.text.Len()+len(p)) > s.most {
		s.flooded()
		return 0, io.ErrShortWrite
	}
	return s.text.Write(p)
}
