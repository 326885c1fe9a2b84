package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mount makes a small file system in memory.
func mount(t *testing.T, folder, options string) {
	t.Helper()
	if testing.Short() {
		t.Skip("mounts a file system")
	}
	err := syscall.Mount("lehr-faults", folder, "tmpfs", 0, options)
	if errors.Is(err, syscall.EPERM) && os.Getenv("CI") == "" {
		t.Skip("SKIPPED: mounting a small file system needs root; run the tests as root")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
	})
}

// fill writes until nothing more fits, and returns the file.
func fill(t *testing.T, folder string) string {
	t.Helper()
	name := filepath.Join(folder, "ballast")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 64 << 10; size > 0; {
		if _, err := file.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// A full disk stops what cannot be recorded, and nothing else: production is
// not touched, what was accepted is there, and free space is all it takes.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "full"})
	small := t.TempDir()
	mount(t, small, "size=4m")
	w.store = filepath.Join(small, "lehr.db")
	w.want(values{"a": 1, "held": 1})
	w.serve()
	w.converges(values{"a": 1, "held": 1})
	if _, err := w.lehr("hold", "resource/held", "--reason", "accepted before the disk was full"); err != nil {
		t.Fatal(err)
	}
	w.await("all is in sync", func() string { _, err := w.lehr("wait", "--timeout", "2s"); return text(err) })
	ballast := fill(t, small)
	// The file may have room left inside: use it up by writes that are answered.
	var refused error
	w.await("a write is refused", func() string {
		_, refused = w.lehr("hold", "resource/a", "--reason", strings.Repeat("fill ", 2000))
		if refused == nil {
			_, _ = w.lehr("unhold", "resource/a", "--reason", "a try")
			return "it was accepted"
		}
		return ""
	})
	if missing := unmatched(refused.Error(), `disk is full`, `free space`); missing != "" {
		t.Error(missing)
	}
	t.Log(refused)
	fill(t, small)
	w.want(values{"a": 2, "held": 2})
	w.untouched("the log tells that the disk is full", values{"a": 1, "held": 1}, func() string {
		return unmatched(w.logged(), `(?s)partition=full.*disk is full`)
	})
	t.Log(w.why("resource/a"))
	t.Log(w.lehr("get", "partitions"))
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	w.converges(values{"a": 2, "held": 1})
	if told, err := w.lehr("get", "holds"); err != nil || unmatched(told, `accepted before the disk was full`) != "" {
		t.Errorf("what was accepted is lost: %s %v", told, err)
	}
	if told, err := w.lehr("unhold", "resource/held", "--reason", "a try"); err != nil {
		t.Errorf("%s %v", told, err)
	}
	w.converges(values{"a": 2, "held": 2})
	// A server does not start on a full disk, and says what to do.
	fill(t, small)
	w.kill()
	before := len(w.logged())
	w.start()
	select {
	case <-w.server.ended:
	case <-time.After(patience):
		t.Fatal("a server started on a full disk")
	}
	if missing := unmatched(w.logged()[before:], `lehr: .*(disk is full|no space left on device)`, `free s`); missing != "" {
		t.Error(missing)
	}
	t.Log(w.logged()[before:])
	w.server = nil
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	w.serve()
	w.want(values{"a": 3, "held": 3})
	w.converges(values{"a": 3, "held": 3})
}
