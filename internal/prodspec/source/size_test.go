package source

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
)

// TestFilesTakeLittle: a tenant may have many of them, and they are read in the
// server (S12).
func TestFilesTakeLittle(t *testing.T) {
	const (
		files = 2000
		// Bytes of each file: what is kept of it, and what looking at it takes in all.
		mostKept, mostTaken = 170, 2200
	)
	folder := t.TempDir()
	long := time.Now().Add(-time.Hour)
	for i := range files {
		path := filepath.Join(folder, fmt.Sprintf("%06d.yaml", i))
		write(t, path, "a: 1")
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, folder, DefaultLimits(), "*.yaml")
	before := memory()
	if _, err := d.Read(t.Context(), time.Now(), Changes{All: true}); err != nil {
		t.Fatal(err)
	}
	after := memory()
	for _, c := range []struct {
		what      string
		got, most uint64
	}{
		{"taken", (after.TotalAlloc - before.TotalAlloc) / files, mostTaken},
		{"kept", (after.HeapAlloc - before.HeapAlloc) / files, mostKept},
	} {
		if t.Logf("%s: %d bytes a file", c.what, c.got); c.got > c.most {
			t.Errorf("%s: %d bytes a file, want at most %d", c.what, c.got, c.most)
		}
	}
	runtime.KeepAlive(d)
}

func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// TestTooMuchIsNotRead: its sizes tell that it is too much.
func TestTooMuchIsNotRead(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "a.yaml"), "")
	if err := os.Truncate(filepath.Join(folder, "a.yaml"), 1<<42); err != nil {
		t.Fatal(err)
	}
	limits := DefaultLimits()
	limits.FileBytes = 1 << 43
	_, err := open(t, folder, limits, "*.yaml").Read(t.Context(), time.Now(), Changes{All: true})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "4398046511104 bytes") {
		t.Error(err)
	}
}
