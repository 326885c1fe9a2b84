package generate_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/wasm"
	"lehr.dev/internal/prodspec/generate/work"
)

// FuzzModule: whatever a module is made of, there are its assets, or there is a
// finding that says why not; nothing crashes, runs on after its time, or takes more
// than its memory.
func FuzzModule(f *testing.F) {
	for _, seed := range []module{
		says(owned+ended, 0), says(owned+ended, 1), says(owned, 0), sleeps(),
		{start: unreachable}, {start: forever(nil)}, {start: call(0)}, {noStart: true}, {pages: 65536},
		{start: forever(code(i32(64), growMemory, drop))}, {tables: []uint64{1}, start: code(growTable(1000), drop)}, {tables: []uint64{1 << 27}},
		{more: 300}, {locals: 49_999}, {locals: 50_001}, {locals: 1 << 32}, {padding: 1000},
		{imports: []function{{"env", "system", typeExit}}}, {imports: []function{{wasi, "sock_open", typeFill}}},
	} {
		whole := seed.bytes()
		f.Add(whole)
		f.Add(whole[:len(whole)/2])
	}
	header := []byte("\x00asm\x01\x00\x00\x00")
	for _, seed := range [][]byte{
		nil, []byte("\x00asm"), []byte("\x00asm\x0d\x00\x01\x00"), header, bytes.Repeat(header, 2),
		code(header, []byte{3, 0xff, 0xff, 0xff, 0xff, 0x0f}),                  // A section of 4 GiB.
		code(header, section(3, number(1<<32-1))),                              // Functions that are not there.
		code(header, section(1, number(1<<27))),                                // Types that are not there.
		code(header, section(1, code(number(1), []byte{0x60}, number(1<<30)))), // Parameters that are not there.
		code(header, section(10, code(number(1<<30)))),                         // Bodies that are not there.
		code(header, section(11, code(number(1), []byte{1}, number(1<<31)))),   // Data that is not there.
		code(header, section(4, code(number(2), []byte{0x70, 1}, number(1), number(0), []byte{0x6f, 0}, number(1<<40)))),
		code(header, section(0, text(strings.Repeat("x", 1000)))),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		in := inputs{"gen.wasm": string(content)}
		job := jobOf(in, work.WASM, "gen.wasm")
		result := work.Result{}
		if largeNumber(content) {
			// Whoever compiles it makes room for what it says it has: only there is
			// the memory bounded.
			limits := generate.DefaultLimits()
			limits.Milliseconds = 1000
			result = runOne(t, generate.NewProcess(generate.Options{Child: []string{"/proc/self/exe"}, Environment: []string{role + "=true"}, Limits: limits}), in, job).Result
		} else {
			result = runHere(t, in, job)
		}
		if len(result.Findings) > 0 && len(result.Assets) > 0 {
			t.Errorf("assets beside findings: %+v", result.Findings)
		}
		for _, f := range result.Findings {
			if f.Message == "" || f.File == "" || f.Severity != intent.Error || strings.Contains(f.Message, "runtime error") || strings.Contains(f.Message, "goroutine") {
				t.Errorf("%+v", f)
			}
		}
		for _, asset := range result.Assets {
			if intent.BodyDigest(asset.Body) != asset.Digest {
				t.Errorf("%s is not what it says", asset.ID)
			}
		}
	})
}

// largeNumber reports whether something in it may be one.
func largeNumber(content []byte) bool {
	for i := range content {
		if number, n := binary.Uvarint(content[i:min(i+10, len(content))]); n < 0 || number > 1<<18 {
			return true
		}
	}
	return false
}

// runHere runs a module in this process, which sees what of it is reached.
func runHere(t *testing.T, in inputs, job work.Job) work.Result {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	evaluator, err := wasm.New(ctx, schema.Builtin(), wasm.Options{MemoryBytes: 8 << 20, OutputBytes: 1 << 20, Interrupt: true})
	if err != nil {
		t.Skip(err) // The context ended: the machine is busy.
	}
	defer evaluator.Close(context.Background())
	result := evaluator.Evaluate(ctx, job, in.open)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
		t.Errorf("a module of %d bytes took %d MB", len(in[job.Program]), took>>20)
	}
	return result
}
