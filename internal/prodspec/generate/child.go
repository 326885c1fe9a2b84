package generate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/allowance"
	"lehr.dev/internal/prodspec/generate/native"
	"lehr.dev/internal/prodspec/generate/render"
	"lehr.dev/internal/prodspec/generate/starlark"
	"lehr.dev/internal/prodspec/generate/wasm"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/validate"
)

// ChildCommand is the hidden argument that makes the binary a generator child.
const ChildCommand = "__generate"

// maxInputFrame is what a child accepts from its parent: a content, or a job
// with the names of all its inputs.
const maxInputFrame = 256 << 20

// ChildMain answers jobs until its input ends. It limits its own process
// before it looks at anything a tenant wrote, and returns the exit code.
func ChildMain(input io.Reader, w io.Writer) int {
	// The memory of a run is measured with uncollected garbage, so collection is as usual here.
	debug.SetGCPercent(100)
	if native.IsStage() {
		return native.Stage()
	}
	c := &child{input: bufio.NewReader(input), out: w, fetched: map[intent.Digest][]byte{}}
	if err := c.serve(); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "generator child:", err)
		return 1
	}
	return 0
}

type child struct {
	input  *bufio.Reader
	out    io.Writer
	limits Limits
	set    *schema.Set
	setup  setup
	// What answers need, made when first asked for.
	starlark *starlark.Evaluator
	wasm     *wasm.Evaluator
	native   *native.Evaluator
	contents *validate.Contents
	// fetched contents, fetched before, by digest, up to cacheBytes.
	fetched map[intent.Digest][]byte
	cached  int
}

const cacheBytes = 16 << 20

func (c *child) serve() error {
	kind, payload, err := read(c.input, maxInputFrame)
	if err != nil {
		return err
	}
	var s setup
	if err := json.Unmarshal(payload, &s); err != nil || kind != frameSetup {
		return fmt.Errorf("the first frame is not a setup: %w", err)
	}
	// Before anything is looked at that a tenant wrote; types are.
	c.limits, c.setup = s.Limits, s
	files, written := uint64(32), uint64(0)
	switch {
	case s.Language == work.Native || s.Native:
		files, written = 512, maxWritten
	case s.Cache != "":
		written = maxWritten
	}
	if err := LimitSelf(s.Limits.MemoryBytes+room, files, written); err != nil {
		return err
	}
	debug.SetMemoryLimit(s.Limits.MemoryBytes + room/2)
	debug.SetMaxStack(64 << 20)
	c.set = schema.Builtin()
	if len(s.Schema) > 0 {
		if c.set, err = schema.FromSet(s.Schema); err != nil {
			return err
		}
	}
	if err := write(c.out, frameReady, nil); err != nil {
		return err
	}
	for {
		kind, payload, err := read(c.input, maxInputFrame)
		if err != nil {
			return err
		}
		result, err := c.answer(kind, payload)
		if err != nil {
			return err
		}
		if err := writeJSON(c.out, frameResult, result); err != nil {
			return err
		}
	}
}

// answer does what one frame asks for.
func (c *child) answer(kind frameKind, payload []byte) (any, error) {
	var err error
	switch kind {
	case frameJob:
		var job Job
		if err := json.Unmarshal(payload, &job); err != nil {
			return nil, err
		}
		result, err := c.run(job)
		if err != nil {
			return nil, err
		}
		result = judgeSQL(context.Background(), result, func(read work.Read) []byte {
			// What it opened can be opened again; else the place is not found.
			content, _ := c.open(read.Kind, Input{Name: read.Name, Digest: read.Digest})
			return content
		})
		result = judgeProcedures(result, func(read work.Read) []byte {
			content, _ := c.open(read.Kind, Input{Name: read.Name, Digest: read.Digest})
			return content
		})
		shortenFindings(result.Findings)
		shortenFindings(result.Warnings)
		return result, nil
	case frameTypes:
		var request typesRequest
		if err := json.Unmarshal(payload, &request); err != nil {
			return nil, err
		}
		schemas, findings := compileTypes(context.Background(), request.Files)
		shortenFindings(findings)
		if schemas == nil {
			return typesReply{Findings: findings}, nil
		}
		return typesReply{Set: schemas.Files()}, nil
	case frameSplit:
		var request splitRequest
		if err := json.Unmarshal(payload, &request); err != nil {
			return nil, err
		}
		var reply splitReply
		reply.Entries, reply.Findings = starlark.Split(request.File, request.Text, request.Keys)
		shortenFindings(reply.Findings)
		return reply, nil
	case frameWorkflow:
		var request workflowRequest
		if err := json.Unmarshal(payload, &request); err != nil {
			return nil, err
		}
		reply := exploreWorkflow(request.File, request.Text)
		shortenFindings(reply.Findings)
		return reply, nil
	case frameJudge:
		var request judgeRequest
		if err := json.Unmarshal(payload, &request); err != nil {
			return nil, err
		}
		if c.contents == nil {
			if c.contents, err = validate.NewContents(c.set); err != nil {
				return nil, err
			}
		}
		reply := judgeReply{Findings: judgeBodies(c.contents, request.Bodies)}
		shortenFindings(reply.Findings)
		return reply, nil
	}
	return nil, fmt.Errorf("frame %q asks for nothing that is known", kind)
}

// mostFindingBytes bounds each text of a finding. The server copies them often: a
// message of 5 MB cost it 120 MB.
const mostFindingBytes = 8000

// shortenFindings cuts long texts off.
func shortenFindings(findings []intent.Finding) {
	for i := range findings {
		for _, text := range []*string{&findings[i].Message, &findings[i].Hint, &findings[i].Field, &findings[i].File} {
			if len(*text) > mostFindingBytes {
				*text = strings.ToValidUTF8((*text)[:mostFindingBytes], "") + " …"
			}
		}
	}
}

// run evaluates one job in its language.
func (c *child) run(job Job) (result work.Result, err error) {
	switch job.Language {
	case work.WASM:
		// It ends with this process, which the parent ends: to look at a context
		// all the time costs four times as much.
		if c.wasm == nil {
			c.wasm, err = wasm.New(context.Background(), c.set, wasm.Options{
				MemoryBytes: c.limits.MemoryBytes / 2, OutputBytes: c.limits.OutputBytes, Cache: c.setup.Cache, Elsewhere: c.setup.Elsewhere,
				Begins: func() error { return write(c.out, frameReady, nil) },
			})
			if err != nil {
				return result, err
			}
		}
		return c.wasm.Evaluate(context.Background(), job, c.open), nil
	case work.Render:
		if !work.Apart(job.Program) {
			return render.Evaluate(c.set, job, c.open, c.limits.OutputBytes), nil
		}
		fallthrough
	case work.Native:
		if c.native == nil {
			c.native = native.New(c.set, native.Options{
				Policy: c.setup.Policy, MemoryBytes: c.limits.MemoryBytes, OutputBytes: c.limits.OutputBytes,
				Timeout: time.Duration(c.limits.Milliseconds) * time.Millisecond,
			})
		}
		return c.native.Evaluate(context.Background(), job, c.open), nil
	}
	if c.starlark == nil {
		c.starlark = starlark.New(c.set, c.limits.Limits)
	}
	return c.interpret(job), nil
}

// interpret evaluates a program in Starlark under the limits that can name the
// place in it; the process limits and the parent stand behind them.
func (c *child) interpret(job Job) work.Result {
	timeout := time.Duration(c.limits.Milliseconds) * time.Millisecond
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go watchTime(ctx, cancel, timeout)
	go watchMemory(ctx, cancel, c.limits.MemoryBytes)
	return c.starlark.Evaluate(ctx, job, c.open)
}

// watchTime stops the program when it takes too long. What counts is the time that
// this process had a core.
func watchTime(ctx context.Context, cancel context.CancelCauseFunc, most time.Duration) {
	startedAt, usedBefore := time.Now(), used()
	for remaining := most; remaining > 0; remaining = most - (used() - usedBefore) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(remaining, most/50)):
		}
		if time.Since(startedAt) >= allowance.MostPatience*most {
			break
		}
	}
	cancel(fmt.Errorf("it took longer than %s", most))
}

// used is the time that this process had a core.
func used() time.Duration {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// watchMemory stops the program when it holds too much.
func watchMemory(ctx context.Context, cancel context.CancelCauseFunc, most int64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if metrics.Read(sample); int64(sample[0].Value.Uint64()) > most {
			cancel(fmt.Errorf("it needs more than %d MB of memory", most>>20))
			return
		}
	}
}

// open asks the parent for a content.
func (c *child) open(kind work.Kind, input Input) ([]byte, error) {
	if content, ok := c.fetched[input.Digest]; ok {
		return content, nil
	}
	if err := writeJSON(c.out, frameWant, want{Kind: kind, Input: input}); err != nil {
		return nil, err
	}
	answer, content, err := read(c.input, maxInputFrame)
	if err != nil || answer != frameContent {
		return nil, fmt.Errorf("no content for %s: %w", input.Name, err)
	}
	if c.cached += len(content); c.cached > cacheBytes {
		clear(c.fetched)
		c.cached = len(content)
	}
	c.fetched[input.Digest] = content
	return content, nil
}

// room is for the collector, stacks, and what one step may allocate before it
// is seen.
const room = 128 << 20

// maxWritten is how large a file a child for modules or native programs may
// write: a compiled module, or what a program without a sandbox reads.
const maxWritten = 256 << 20

// LimitSelf bounds this process: memory in bytes, files that it has open, and
// the bytes of each that it writes; it leaves no core. Writable memory is bounded beyond what the
// runtime has reserved already; the runtime dies when it cannot get more.
func LimitSelf(memory int64, files, written uint64) error {
	var reservedPages int64
	statm, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		var ignored int64
		_, err = fmt.Sscan(string(statm), &ignored, &ignored, &ignored, &ignored, &ignored, &reservedPages)
	}
	if err != nil {
		return fmt.Errorf("cannot see this process's own memory: %w", err)
	}
	for _, l := range []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_DATA, uint64(reservedPages*int64(os.Getpagesize()) + memory + raceRoom)},
		{unix.RLIMIT_FSIZE, max(written, raceWritten)},
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_NOFILE, files},
		{unix.RLIMIT_CPU, 3600},
	} {
		var now unix.Rlimit
		if unix.Getrlimit(l.resource, &now) == nil {
			l.most = min(l.most, now.Max)
		}
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("cannot limit this process (resource %d to %d): %w", l.resource, l.most, err)
		}
	}
	return nil
}
