package generate

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/test/detector"
)

// TestOutputIsSmall: a partition may have a million. What is the same for many
// belongs into Make, what few have into more.
func TestOutputIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Output{}); size > 72 {
		t.Errorf("an output takes %d bytes, more than 72", size)
	}
}

// TestInputsTakeLittle: a tenant may have many of them (S12). A stage has a list of
// its own, of 64 bytes each, and nothing besides; when it is over, nothing is left.
func TestInputsTakeLittle(t *testing.T) {
	const inputs, mostBytes = 10_000, 80
	list := make([]Input, inputs)
	for i := range list {
		list[i].Name = fmt.Sprintf("source/%06d.yaml", i)
	}
	g := NewGraph(nil, NewMemory())
	generator := definition.Generator{Name: "web", Program: "web.star", Language: work.Starlark, Sources: []string{"service"}}
	g.setOutcome("web", "", record{Base: newStage(g, generator, Inputs{}, nil).base}, false)
	g.Take()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := g.bringUpToDate(t.Context(), newStage(g, generator, Inputs{Sources: map[string][]Input{"service": list}}, nil), time.Now()); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / inputs; got > mostBytes && !detector.On { // Which has bytes of its own.
		t.Errorf("an input takes %d bytes in a stage, want at most %d", got, mostBytes)
	}
	if g.Executions() != 0 || len(g.settled["web"].items) != 0 {
		t.Errorf("%d executions, and %d inputs are kept", g.Executions(), len(g.settled["web"].items))
	}
}
