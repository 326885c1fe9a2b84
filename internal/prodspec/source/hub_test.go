package source

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lehr.dev/internal/ground/loop"
)

// told waits until a watcher is told of a path.
func told(t *testing.T, w *Watcher, path string) {
	t.Helper()
	for {
		if err := w.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := w.Changes(); c.All || c.Paths[path] {
			return
		}
	}
}

// TestOneHubForAll: a thousand watchers, far more than the system gives
// instances, each hear of their own folder.
func TestOneHubForAll(t *testing.T) {
	h := NewHub(slog.New(slog.DiscardHandler))
	defer h.Close()
	root := t.TempDir()
	const many = 1000
	watchers := make([]*Watcher, many)
	for i := range watchers {
		folder := filepath.Join(root, fmt.Sprint(i))
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		watchers[i] = h.Watcher(loop.Real())
		if !watchers[i].Follow([]string{folder}) || watchers[i].missing {
			t.Fatalf("folder %d cannot be watched", i)
		}
		watchers[i].Changes()
	}
	for _, i := range []int{0, 500, many - 1} {
		file := filepath.Join(root, fmt.Sprint(i), "a")
		write(t, file, "1")
		told(t, watchers[i], file)
	}
	if c := watchers[1].Changes(); c.All || len(c.Paths) > 0 {
		t.Errorf("a watcher was told of another's folder: %+v", c)
	}
	for _, w := range watchers {
		w.Close()
	}
	if len(h.folders) != 0 || len(h.paths) != 0 || len(h.notify.WatchList()) != 0 {
		t.Errorf("%d folders are still followed", len(h.folders))
	}
}

// TestFolderOfSeveralNames: each follower hears of it by the name that it uses,
// also when a follower leaves, and when another folder takes the name.
func TestFolderOfSeveralNames(t *testing.T) {
	h := NewHub(nil)
	defer h.Close()
	root := t.TempDir()
	real, link := root+"/real", root+"/link"
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	a, b := h.Watcher(loop.Real()), h.Watcher(loop.Real())
	a.Follow([]string{real})
	b.Follow([]string{link, real})
	a.Changes()
	b.Changes()
	write(t, real+"/x", "1")
	told(t, a, real+"/x")
	told(t, b, link+"/x")
	a.Close()
	b.Changes()
	write(t, real+"/y", "1")
	told(t, b, link+"/y")
	if err := os.Rename(real, root+"/old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	told(t, b, real)
	if !b.Follow([]string{link, real}) {
		t.Error("another folder of the same name is not new")
	}
	b.Changes()
	write(t, real+"/z", "1")
	told(t, b, real+"/z")
	b.Close()
}

const fewWatches = "LEHR_TEST_FEW_WATCHES"

// TestWatchesRunOut: what the system does not watch is polled, which is said
// once; what it does watch is not.
func TestWatchesRunOut(t *testing.T) {
	if os.Getenv(fewWatches) == "" {
		inNamespace(t)
		return
	}
	if err := os.WriteFile("/proc/sys/user/max_inotify_watches", []byte("3"), 0); err != nil {
		fmt.Println("NOT HERE:", err)
		return
	}
	var log bytes.Buffer
	h := NewHub(slog.New(slog.NewTextHandler(&log, nil)))
	defer h.Close()
	polled := 0
	for range 10 {
		w := h.Watcher(loop.Real())
		folder := t.TempDir()
		w.Follow([]string{folder})
		w.Follow([]string{folder})
		if w.missing {
			polled++
		}
	}
	if lines := strings.Count(log.String(), "\n"); polled != 7 || lines != 1 || !strings.Contains(log.String(), "max_user_watches") {
		t.Errorf("%d folders are polled, want 7, and it was said: %s", polled, log.String())
	}
}

// inNamespace runs the test in a user namespace, which has limits of its own.
func inNamespace(t *testing.T) {
	t.Helper()
	child := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), fewWatches+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := child.CombinedOutput()
	if strings.Contains(string(out), "NOT HERE") || err != nil && len(out) == 0 {
		t.Skipf("this system has no namespaces of users with limits of their own: %v %s", err, out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
