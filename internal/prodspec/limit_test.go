package prodspec_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
)

// TestGreedyProgramHarmsOnlyItself: what no step limit bounds is ended by the
// child's other limits, and the partition goes on.
func TestGreedyProgramHarmsOnlyItself(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the memory of children")
	}
	for name, c := range map[string]struct{ code, message string }{
		"string repeated":   {`x = "a" * (1 << 29)`, "256 MB"},
		"string doubled":    {"x = \"ab\"\n    for _ in range(40):\n        x = x + x", "256 MB"},
		"list repeated":     {`x = [0] * (1 << 28)`, "256 MB"},
		"many small":        {"x = []\n    for i in range(100000000):\n        x.append([i])", "256 MB"},
		"tower of integers": {"x = 3\n    for _ in range(40):\n        x = x * x", "3"},
		"nesting":           {"x = []\n    for _ in range(3000000):\n        x = [x]\n    print(x == [x])\n    print(str(x))", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "web")
			// What memory is to end must not run out of time first.
			if w.limits.Milliseconds = 3000; c.message == "256 MB" {
				w.limits.Milliseconds = 60_000
			}
			w.start()
			w.served(1)
			w.replace("web.star", "    service = decode", "    "+c.code+"\n    service = decode")
			f := w.refused(prodspec.Rejected, 1)
			t.Logf("%s:%d %s (%s)", f.File, f.Line, f.Message, f.Hint)
			if f.File != "web.star" || f.Line == 0 || f.Hint == "" || !strings.Contains(f.Message, c.message) {
				t.Errorf("finding %+v, want web.star and %q", f, c.message)
			}
			w.replace("web.star", "    "+c.code+"\n", "")
			w.replace("service.yaml", "replicas: 3", "replicas: 4")
			w.served(2)
		})
	}
}

// TestChildThatDiesIsNotRepeated: an input that lost its child is told at
// once, and does not run again until it changes.
func TestChildThatDiesIsNotRepeated(t *testing.T) {
	w := newWorld(t, "web")
	w.limits.Milliseconds = 60_000
	w.limits.Steps = 1 << 62
	w.start()
	w.served(1)
	w.replace("web.star", "    service = decode", "    for _ in range(1 << 40):\n        pass\n    service = decode")
	kill(t, child(t))
	f := w.refused(prodspec.Rejected, 1)
	if f.File != "web.star" || !strings.Contains(f.Message, "killed") {
		t.Errorf("finding %+v, want web.star and that its child was killed", f)
	}
	ran := w.pipeline.Status().Executions
	w.replace("service.yaml", "service: shop", "# seen again\nservice: shop")
	// The manifest is an input too, so this runs again; a restart does not.
	kill(t, child(t))
	w.wait("second finding", func(s prodspec.Status) bool { return s.Executions == ran+1 && s.State == prodspec.Rejected })
	w.stop()
	w.start()
	f = w.refused(prodspec.Rejected, 1)
	if got := w.pipeline.Status().Executions; got != 0 || !strings.Contains(f.Message, "killed") {
		t.Errorf("%d executions after a restart, want none: %+v", got, f)
	}
}

// child waits for the one child process of this test.
func child(t *testing.T) int {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	// It is under way when it has used far more time than it needs to start, on any machine and
	// under the race detector: one that is killed while it starts is started again.
	const underWay = 100
	for time.Now().Before(deadline) {
		for _, pid := range children(t) {
			if ticks(pid) > underWay {
				return pid
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no generator child is running")
	return 0
}

func children(t *testing.T) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has gone
		}
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// ticks of processor time, of 10 ms each, that a process has used.
func ticks(pid int) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	used, _ := strconv.Atoi(fields[11])
	return used
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestNoChildOutlivesItsPipeline(t *testing.T) {
	w := newWorld(t, "web")
	w.limits.Steps = 1 << 62
	w.start()
	w.served(1)
	w.replace("web.star", "    service = decode", "    for _ in range(1 << 40):\n        pass\n    service = decode")
	pid := child(t)
	w.stop()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("child %d is still there", pid)
	}
}

func TestEmptyOrMissingFolderIsNotEmptyIntent(t *testing.T) {
	// Each step is one rename: half of one would be another partition.
	rename := func(w *world, from, to string) {
		w.t.Helper()
		if err := os.Rename(filepath.Join(w.folder, from), filepath.Join(w.folder, to)); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, break_ := range map[string]func(w *world){
		"removed": func(w *world) { rename(w, "manifests", "aside") },
		"emptied": func(w *world) {
			rename(w, "manifests", "aside")
			if err := os.Mkdir(filepath.Join(w.folder, "manifests"), 0o755); err != nil {
				w.t.Fatal(err)
			}
		},
		"unreadable file": func(w *world) {
			if err := os.Symlink("/etc/hostname", filepath.Join(w.folder, "link")); err != nil {
				w.t.Fatal(err)
			}
			rename(w, "link", "manifests/a.yaml")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "many")
			w.write("manifests/a.yaml", "replicas: 1")
			w.write("manifests/b.yaml", "replicas: 2")
			w.start()
			w.served(1)
			break_(w)
			f := w.refused(prodspec.Unavailable, 1)
			if f.Field != "sources.manifests" || f.File != "lehr.yaml" || f.Hint == "" || !strings.Contains(f.Message, "manifests") {
				t.Errorf("finding %+v, want the source and what to do", f)
			}
			w.write("mended/a.yaml", "replicas: 5")
			w.write("mended/b.yaml", "replicas: 2")
			if _, err := os.Stat(filepath.Join(w.folder, "manifests")); err == nil {
				rename(w, "manifests", "broken")
			}
			rename(w, "mended", "manifests")
			w.served(2)
		})
	}
}

func TestHeldUntilAcknowledged(t *testing.T) {
	w := newWorld(t, "web")
	w.start()
	w.served(1)
	w.write("service.yaml", "service: shop\nbinary: /bin/true\nversion: \"1\"\nclusters: []\n")
	w.refused(prodspec.Held, 1)
	held := w.pipeline.Status().Candidate
	if err := w.store.Acknowledge(context.Background(), held, "moved away", person); err != nil {
		t.Fatal(err)
	}
	w.served(2)
	if got := w.assets(); len(got) != 1 || got[0] != intent.PolicyAsset {
		t.Errorf("assets %v, want the policy alone", got)
	}
	stored, err := w.store.Candidate(t.Context(), "shop", held.Digest.String())
	if err != nil || stored.State != intent.CandidatePublished {
		t.Errorf("candidate %+v, %v: want it published", stored, err)
	}
}
