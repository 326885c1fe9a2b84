package schema_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/schema"
)

// TestLargestSet: what a set may hold costs the server this much.
func TestLargestSet(t *testing.T) {
	var b strings.Builder
	b.WriteString("syntax = \"proto3\";\npackage acme.v1;\n")
	for m := range 660 {
		fmt.Fprintf(&b, "message M%d {", m)
		for f := range 29 {
			fmt.Fprintf(&b, "string f%d=%d;", f, f+1)
		}
		b.WriteString("}\n")
	}
	made := compiled(t, files("a.proto", b.String()))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	set, err := schema.FromFiles(made.Set.Files())
	took := time.Since(start)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d bytes of descriptors, read in %s, hold %d kB", len(set.Files()), took, held>>10)
	runtime.KeepAlive(set)
	runtime.KeepAlive(made)
	if held > 64<<20 {
		t.Errorf("a set that is allowed holds %d bytes", held)
	}
}
