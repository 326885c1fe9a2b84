package fetch

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source"
)

// sweepAll sweeps the reader's folder as of a time, with its partition registered or
// not.
func (r *reader) sweepAll(registered bool, now time.Time) int {
	r.Helper()
	removed, err := SweepUnused(r.Context(), r.options.Folder, func(id intent.PartitionID) bool { return id == "shop" && registered }, now)
	if err != nil {
		r.Fatal(err)
	}
	return removed
}

// mirrors of the reader's partition.
func (r *reader) mirrors() []string { return mirrors(filepath.Join(r.options.Folder, "shop")) }

func inRepository(t *testing.T) *reader {
	origin := newOrigin(t)
	origin.Write("a.yaml", "a")
	origin.Commit("Begin")
	return newReader(t, source.Remote{Git: &source.Git{URL: origin.Folder}}, "*.yaml")
}

// TestMirrorsThatNobodyUsesAreSwept: of a partition that is gone at once, of others
// after a long time; never one that is in use. What was swept is fetched anew.
func TestMirrorsThatNobodyUsesAreSwept(t *testing.T) {
	r := inRepository(t)
	look := func() {
		t.Helper()
		if files, _, err := r.read(); err != nil || files["a.yaml"] != "a" {
			t.Fatalf("%v (%v)", files, err)
		}
	}
	look()
	ages := time.Now().Add(100 * Unused)
	if removed := r.sweepAll(false, ages); removed != 0 || len(r.mirrors()) != 1 {
		t.Fatalf("%d mirrors were swept in use", removed)
	}
	look()
	r.restart(false)
	if removed := r.sweepAll(true, time.Now().Add(Unused-time.Minute)); removed != 0 || len(r.mirrors()) != 1 {
		t.Fatalf("%d mirrors were swept that may be used again", removed)
	}
	look()
	r.restart(false)
	if removed := r.sweepAll(true, time.Now().Add(Unused+time.Minute)); removed != 1 || len(r.mirrors()) != 0 {
		t.Fatalf("%d mirrors were swept that were not used for long, want one", removed)
	}
	look()
	r.restart(false)
	if removed := r.sweepAll(false, time.Now().Add(time.Second)); removed != 1 {
		t.Fatalf("%d mirrors of a partition that is gone were swept, want one", removed)
	}
	if left, err := os.ReadDir(r.options.Folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
	look()
}

// TestMirrorOfAnotherProcess is let be while that one uses it, and swept when it was
// killed.
func TestMirrorOfAnotherProcess(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("no flock on this machine")
	}
	r := inRepository(t)
	if _, _, err := r.read(); err != nil {
		t.Fatal(err)
	}
	r.restart(false)
	other := exec.Command(flock, "--shared", "--no-fork", r.mirrors()[0]+lockSuffix, "sh", "-c", "echo locked; exec sleep 600")
	out, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("%q (%v)", line, err)
	}
	ages := time.Now().Add(100 * Unused)
	if removed := r.sweepAll(false, ages); removed != 0 || len(r.mirrors()) != 1 {
		t.Fatalf("%d mirrors were swept that another process uses", removed)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	// It used it until then.
	if removed := r.sweepAll(true, time.Now().Add(Unused-time.Minute)); removed != 0 {
		t.Errorf("%d mirrors were swept that were in use just now", removed)
	}
	if removed := r.sweepAll(false, ages); removed != 1 {
		t.Errorf("%d mirrors of a killed process were swept, want one", removed)
	}
}

// TestMirrorsOfTagsAreInUse, as those of files are.
func TestMirrorsOfTagsAreInUse(t *testing.T) {
	origin := newOrigin(t)
	origin.Write("a.yaml", "a")
	origin.Commit("Begin")
	origin.Git("tag", "v1.0.0")
	r := newReader(t, source.Remote{Versions: &source.Versions{Tags: &source.Git{URL: origin.Folder}}}, "*")
	if _, _, err := r.read(); err != nil {
		t.Fatal(err)
	}
	before := r.mirrors()
	r.options.Sweep([]source.Lasting{r.folder})
	if len(before) != 1 || len(r.mirrors()) != 1 {
		t.Fatalf("of %d mirrors in use %d are left", len(before), len(r.mirrors()))
	}
	r.restart(false)
	r.options.Sweep(nil)
	if len(r.mirrors()) != 0 {
		t.Error("a mirror that no source uses is left")
	}
}

// TestSweepsAreBounded, and go on the next time; what is no mirror is let be.
func TestSweepsAreBounded(t *testing.T) {
	root := t.TempDir()
	make := func(path ...string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(append([]string{root}, path...)...), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range mostSwept + 1 {
		make("gone", fmt.Sprintf("%032x", i), "objects")
	}
	make("gone", "home")
	make("mine", "notes")
	make(".documents", "gone", fmt.Sprintf("%032x", 1))
	for _, want := range []int{mostSwept, 1, 0} {
		removed, err := SweepUnused(t.Context(), root, func(intent.PartitionID) bool { return false }, time.Now().Add(time.Hour))
		if err != nil || removed != want {
			t.Errorf("%d were swept (%v), want %d", removed, err, want)
		}
	}
	for path, want := range map[string]bool{"gone": false, "mine/notes": true, ".documents/gone/" + fmt.Sprintf("%032x", 1): true} {
		if _, err := os.Stat(filepath.Join(root, path)); (err == nil) != want {
			t.Errorf("%s is there: %t", path, !want)
		}
	}
}

// TestWhoTakesAMirrorHasIt, however often others sweep meanwhile.
func TestWhoTakesAMirrorHasIt(t *testing.T) {
	folder := filepath.Join(t.TempDir(), fmt.Sprintf("%032x", 7))
	done := make(chan struct{})
	var sweeping sync.WaitGroup
	swept := 0
	sweeping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if sweep(folder, time.Now().Add(time.Hour)) {
				swept++
			}
		}
	})
	for range 2000 {
		h := hold{path: folder + lockSuffix}
		if err := h.take(); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(folder, "objects"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(folder, "objects")); err != nil {
			t.Fatalf("it was swept while it was held: %v", err)
		}
		h.drop()
	}
	close(done)
	sweeping.Wait()
	t.Logf("swept %d times", swept)
}
