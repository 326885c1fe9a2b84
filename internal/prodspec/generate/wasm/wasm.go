// Package wasm runs one run of one generator that is a WebAssembly module for
// WASI preview 1. The module finds the declared inputs in a file system that is
// in memory, a job on its standard input, and nothing else: no network and no
// environment, and a clock and a source of chance that tell every run the same.
// What it opened is recorded, for that is what the run may be cached by. Its
// time is not bounded here: package generate, the only caller, runs this in a
// child that it kills.
package wasm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/protocol"
	"lehr.dev/internal/prodspec/generate/tree"
	"lehr.dev/internal/prodspec/generate/work"
)

// Options of an evaluator.
type Options struct {
	// MemoryBytes that a module may have; OutputBytes of assets, together.
	MemoryBytes int64
	OutputBytes int
	// Cache is a folder for compiled modules, made where it is not; empty: each
	// evaluator compiles anew. Whoever can write there can have anything run.
	Cache string
	// Interrupt has runs end with their context, at four times the cost.
	Interrupt bool
	// Begins is called when a module has been compiled and a run of it begins;
	// nil: nobody asks.
	Begins func() error
	// Elsewhere has the clock and chance tell other things than usual, to see
	// whether assets depend on them.
	Elsewhere bool
}

// MaxModuleBytes is how large a module may be, MaxFunctions how many functions it
// may have, and MaxTable how many elements its tables may begin with: compiling the
// ones and making the others takes time and memory.
const (
	MaxModuleBytes = 32 << 20
	MaxFunctions   = 100_000
	MaxTable       = 1_000_000
)

const pageBytes = 64 << 10

// Evaluator runs jobs, one at a time, with what they share.
type Evaluator struct {
	set     *schema.Set
	options Options
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	// compiled modules, at most mostCompiled.
	compiled map[intent.Digest]wazero.CompiledModule
}

const mostCompiled = 4

// New returns an evaluator for the types of a schema.
func New(ctx context.Context, schemas *schema.Set, options Options) (*Evaluator, error) {
	e := &Evaluator{set: schemas, options: options, compiled: map[intent.Digest]wazero.CompiledModule{}}
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(uint32(options.MemoryBytes / pageBytes)).WithCloseOnContextDone(options.Interrupt)
	if options.Cache != "" {
		var err error
		if e.cache, err = wazero.NewCompilationCacheWithDir(options.Cache); err != nil {
			return nil, fault.New(fault.Unavailable, "cannot keep compiled modules in %s: %w", options.Cache, err).WithHint("make the folder writable for the server")
		}
		config = config.WithCompilationCache(e.cache)
	}
	e.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	_, err := wasi_snapshot_preview1.Instantiate(ctx, e.runtime)
	return e, err
}

// Close lets go of compiled modules.
func (e *Evaluator) Close(ctx context.Context) error {
	err := e.runtime.Close(ctx)
	if e.cache != nil {
		err = errors.Join(err, e.cache.Close(ctx))
	}
	return err
}

// Evaluate runs a job.
func (e *Evaluator) Evaluate(ctx context.Context, job work.Job, open work.Opener) work.Result {
	reads := work.Reads{}
	result := e.evaluate(ctx, &job, open, reads)
	result.Reads = reads.Sorted()
	if ctx.Err() != nil && len(result.Findings) > 0 {
		result.Stopped = true
	}
	return result
}

func (e *Evaluator) evaluate(ctx context.Context, job *work.Job, open work.Opener, reads work.Reads) work.Result {
	module, refusal := e.compile(ctx, job, open, reads)
	if refusal != nil {
		return *refusal
	}
	inputs, err := tree.New(e.set, job, open, reads)
	if err != nil {
		return protocol.Fail(job, "give the files other names, or leave a source out", "cannot begin: %s", err)
	}
	first, err := protocol.Job(job, "/"+tree.AssetList)
	if err != nil {
		return protocol.Fail(job, "", "cannot begin: %s", err)
	}
	if e.options.Begins != nil {
		if err := e.options.Begins(); err != nil {
			return protocol.Fail(job, "", "cannot begin: %s", err)
		}
	}
	output := &boundedOutput{most: protocol.MostBytes(e.options.OutputBytes)}
	words := &work.LastWords{}
	config := wazero.NewModuleConfig().WithName("").
		WithArgs(append([]string{path.Base(job.Program)}, job.Arguments...)...).
		WithStdin(bytes.NewReader(first)).WithStdout(output).WithStderr(words).
		WithRandSource(rand.NewChaCha8([32]byte{})).
		WithFSConfig(wazero.NewFSConfig().WithFSMount(inputs, "/"))
	if e.options.Elsewhere {
		config = config.WithRandSource(rand.NewChaCha8([32]byte{1})).WithWalltime(func() (int64, int32) { return elsewhen, 0 }, sys.ClockResolution(1))
	}
	instance, err := e.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(newMemory)), module, config)
	if instance != nil {
		defer instance.Close(ctx)
	}
	if output.flooded {
		return protocol.Fail(job, "split the generator, or use for_each: file", "wrote more than %d bytes", output.most)
	}
	if exit, ok := errors.AsType[*sys.ExitError](err); ok && exit.ExitCode() == 0 {
		err = nil
	}
	if err != nil {
		return e.failedResult(ctx, job, err, words.First())
	}
	return protocol.Read(&output.text, job, e.set, e.options.OutputBytes)
}

// elsewhen is another time than the one that modules are told.
const elsewhen = 4_000_000_000

// failedResult says how a run ended that did not end well.
func (e *Evaluator) failedResult(ctx context.Context, job *work.Job, err error, words string) work.Result {
	if ctx.Err() != nil {
		return protocol.Fail(job, "look for a loop that does not end", "was stopped: %s", context.Cause(ctx))
	}
	if strings.Contains(words, "out of memory") || strings.Contains(words, "cannot allocate memory") {
		return protocol.Fail(job, "make smaller values, or use for_each: file", "needed more than %d MB of memory", e.options.MemoryBytes>>20)
	}
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		return protocol.Ended(job, fmt.Sprintf("exit code %d", exit.ExitCode()), words)
	}
	// The first line says what; the stack is the module's.
	trap, _, _ := strings.Cut(err.Error(), "\n")
	return protocol.Ended(job, "a trap ("+trap+")", words)
}

// compile returns a module, or why there is none.
func (e *Evaluator) compile(ctx context.Context, job *work.Job, open work.Opener, reads work.Reads) (wazero.CompiledModule, *work.Result) {
	refuse := func(hint, format string, arguments ...any) (wazero.CompiledModule, *work.Result) {
		f := intent.Finding{Rule: "generate", Severity: intent.Error, File: job.Program, Line: 1, Message: fmt.Sprintf(format, arguments...), Hint: hint}
		return nil, &work.Result{Findings: []intent.Finding{f}}
	}
	input, ok := work.Find(job.Programs, job.Program)
	if !ok {
		return refuse("", "the module %s is not there", job.Program)
	}
	reads.Note(work.ReadProgram, input.Name, input.Digest)
	if module := e.compiled[input.Digest]; module != nil {
		return module, nil
	}
	content, err := open(work.ReadProgram, input)
	if err != nil {
		return refuse("", "the module cannot be read: %s", err)
	}
	if len(content) > MaxModuleBytes {
		return refuse("build it without debugging information (-ldflags '-s -w'), or with fewer libraries", "the module has %d bytes, at most %d are taken", len(content), MaxModuleBytes)
	}
	if err := claims(content); err != nil {
		return refuse("build it again, with fewer libraries, or as two generators", "the module has %s", err)
	}
	module, err := e.runtime.CompileModule(ctx, content)
	if err != nil && e.options.Cache != "" {
		// It may be what was kept that is broken.
		e.forget()
		module, err = e.runtime.CompileModule(ctx, content)
	}
	if err != nil {
		return refuse("build it for WASI preview 1, not as a component: GOOS=wasip1 GOARCH=wasm go build -o "+path.Base(job.Program), "no module of WebAssembly that can be run: %.500s", err)
	}
	for _, function := range module.ImportedFunctions() {
		moduleName, name, _ := function.Import()
		if moduleName != wasi_snapshot_preview1.ModuleName {
			_ = module.Close(ctx)
			return refuse("a generator has WASI preview 1 (wasi_snapshot_preview1) and nothing else", "the module needs %q of %q, which is not given", name, moduleName)
		}
	}
	if !starts(module) {
		_ = module.Close(ctx)
		return refuse("build a program with a main, not a library", "the module has no _start of its own, without parameters and results")
	}
	if len(e.compiled) == mostCompiled {
		for _, old := range e.compiled {
			_ = old.Close(ctx)
		}
		clear(e.compiled)
	}
	e.compiled[input.Digest] = module
	return module, nil
}

// starts reports whether a module has what a program begins with.
func starts(module wazero.CompiledModule) bool {
	start, ok := module.ExportedFunctions()["_start"]
	if !ok || len(start.ParamTypes()) > 0 || len(start.ResultTypes()) > 0 {
		return false
	}
	_, _, imported := start.Import()
	return !imported
}

// claims refuses a module that says it has more than is taken, or than there are
// bytes for, without reading more of it: whoever compiles it makes room first. What
// else is wrong, compiling it will say.
func claims(module []byte) error {
	const header, functionSection, tableSection, startSection, countSection = 8, 3, 4, 8, 12
	for rest := module[min(header, len(module)):]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil
		}
		content := rest[1+n : 1+n+int(size)]
		rest = rest[1+n+int(size):]
		count, n := binary.Uvarint(content)
		switch elements := tables(content); {
		case id == functionSection && count > MaxFunctions:
			return fmt.Errorf("%d functions, at most %d are taken", count, MaxFunctions)
		case id == tableSection && elements > MaxTable:
			return fmt.Errorf("tables of %d elements, at most %d are taken", elements, MaxTable)
		case id != 0 && id != startSection && id < countSection && n > 0 && count > size:
			return fmt.Errorf("a section %d of %d bytes that says it has %d entries", id, size, count)
		}
	}
	return nil
}

// tables adds up what those of a section begin with: each is a type, whether it has
// a maximum, the elements that it begins with, and the maximum.
func tables(section []byte) (elements uint64) {
	next := func() uint64 {
		number, n := binary.Uvarint(section)
		section = section[max(n, 0):]
		return number
	}
	for remaining := next(); remaining > 0 && len(section) > 2; remaining-- {
		bounded := section[1]&1 == 1
		section = section[2:]
		if elements += min(next(), math.MaxUint32); bounded {
			next()
		}
	}
	return elements
}

// forget what was compiled and kept.
func (e *Evaluator) forget() {
	cached, err := filepath.Glob(filepath.Join(e.options.Cache, "*", "*"))
	if err != nil {
		return
	}
	for _, name := range cached {
		// What cannot be removed stays broken, and is said to be.
		_ = os.Remove(name)
	}
}

// boundedOutput keeps what a run writes. More than it may write ends the run: a panic in
// what a module calls is an error of the call.
type boundedOutput struct {
	text    bytes.Buffer
	most    int64
	flooded bool
}

func (s *boundedOutput) Write(p []byte) (int, error) {
	if int64(s.text.Len()+len(p)) > s.most {
		s.flooded = true
		panic("the module wrote too much")
	}
	return s.text.Write(p)
}
