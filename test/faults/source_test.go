package faults

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"lehr.dev/test/faults/production"
)

// A folder that is away is not a folder that is empty: nothing is touched (S5),
// and when it comes back its changes are taken.
func TestSourceGoesAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "away"})
	source := filepath.Join(w.folder, "source")
	w.want(values{"a": 1, "b": 1})
	w.serve()
	w.converges(values{"a": 1, "b": 1})
	if err := os.Rename(source, source+".elsewhere"); err != nil {
		t.Fatal(err)
	}
	w.untouched("the reason is told", values{"a": 1, "b": 1}, func() string {
		return unmatched(w.why("resource/a"), `source`, `no such file|does not exist|cannot be read`)
	})
	t.Log(w.why("resource/a"))
	t.Log(w.lehr("describe", "partition", "away"))
	// What was served goes on being enforced.
	w.write(production.ValuePath(w.production, "b"), "77\n")
	w.converges(values{"a": 1, "b": 1})
	if err := os.Rename(source+".elsewhere", source); err != nil {
		t.Fatal(err)
	}
	w.want(values{"a": 2, "b": 2})
	w.converges(values{"a": 2, "b": 2})
}

// An unmounted folder is there and empty.
func TestSourceUnmounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "unmounted"})
	source := filepath.Join(w.folder, "source")
	mount(t, source, "size=1m")
	w.want(values{"a": 1})
	w.serve()
	w.converges(values{"a": 1})
	if err := syscall.Unmount(source, syscall.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	w.untouched("the reason is told", values{"a": 1}, func() string {
		return unmatched(w.why("resource/a"), `service\.yaml`, `source`)
	})
	t.Log(w.why("resource/a"))
	// Mounted again, over the watched folder.
	mount(t, source, "size=1m")
	w.want(values{"a": 2})
	w.converges(values{"a": 2})
}

// A broken definition is refused with its place; the last good one goes on.
func TestDefinitionBroken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "broken"})
	w.want(values{"a": 1})
	w.serve()
	w.converges(values{"a": 1})
	w.edit(w.definition, "mode: enforce", "mode: enforced")
	w.want(values{"a": 2})
	w.untouched("the place is told", values{"a": 1}, func() string {
		return unmatched(w.why("resource/a"), `lehr\.yaml:3`, `enforced`, `write enforce, observe or off`)
	})
	t.Log(w.why("resource/a"))
	// A drift is repaired meanwhile, and after a crash as well.
	w.write(production.ValuePath(w.production, "a"), "77\n")
	w.converges(values{"a": 1})
	w.kill()
	w.serve()
	w.write(production.ValuePath(w.production, "a"), "78\n")
	w.converges(values{"a": 1})
	w.edit(w.definition, "mode: enforced", "mode: enforce")
	w.converges(values{"a": 2})
}
