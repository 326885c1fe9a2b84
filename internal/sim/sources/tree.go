// Package sources keeps partitions' source files in memory: every version that
// was ever written, one of which readers see. It is a source.Place that fails,
// goes back and tears on demand, as shared disks and checkouts do. It waits
// only in the runtime that it is handed, starts no goroutine and reads no
// clock, so that a simulation with the same seed reads the same. Patterns,
// limits, digests and the settling of changes are those of package source. A
// simulator hands it to app.
package sources

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/source"
)

var _ source.Place = (*Tree)(nil)

// Newest is the number of the newest version, whichever that is.
const Newest = -1

// Tree is files in folders. It is safe for concurrent use. A folder is there
// while a file is in it.
type Tree struct {
	lock sync.Mutex
	// versions in the order in which they were made; the first is empty.
	versions []version
	serving  int
	torn     bool
	// failure of readings in the folders at and below failing.
	failure error
	failing string
	watches []*watch
}

// version is files by absolute path. It is not changed once made.
type version map[string]file

type file struct {
	content string
	digest  intent.Digest
}

// New returns a tree without files, which is version 0.
func New() *Tree { return &Tree{versions: []version{{}}, serving: Newest} }

// Write adds or replaces files, by absolute path, and so makes a version.
func (t *Tree) Write(files map[string]string) {
	t.change(func() {
		next := maps.Clone(t.versions[len(t.versions)-1])
		for path, content := range files {
			next[absolute(path)] = file{content, source.Digest([]byte(content))}
		}
		t.versions = append(t.versions, next)
	})
}

// Remove takes files away, and so makes a version.
func (t *Tree) Remove(paths ...string) {
	t.change(func() {
		next := maps.Clone(t.versions[len(t.versions)-1])
		for _, path := range paths {
			delete(next, absolute(path))
		}
		t.versions = append(t.versions, next)
	})
}

// Fail makes every reading fail with an error, until Fail(nil).
func (t *Tree) Fail(err error) { t.FailBelow("/", err) }

// FailBelow makes the readings of a folder, and of those in it, fail.
func (t *Tree) FailBelow(folder string, err error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.failure, t.failing = err, folder
	for _, w := range t.watches {
		w.Wake()
	}
}

// Serve makes readers see an old version; Newest: what is written last. One
// that is not there yet is the newest.
func (t *Tree) Serve(version int) { t.change(func() { t.serving = version }) }

// Torn says whether readers list the folders in the middle of the last write:
// of the files that it changes, the first half is as before. What they open
// afterwards is as it was written. Nobody is told when it begins, and
// everybody when it ends.
func (t *Tree) Torn(torn bool) {
	t.change(func() { t.torn = torn })
}

// Version is the number of the newest version.
func (t *Tree) Version() int {
	t.lock.Lock()
	defer t.lock.Unlock()
	return len(t.versions) - 1
}

// Show returns the files of a version by path.
func (t *Tree) Show(version int) map[string]string {
	t.lock.Lock()
	defer t.lock.Unlock()
	shown := map[string]string{}
	for path, file := range t.versions[t.index(version)] {
		shown[path] = file.content
	}
	return shown
}

// Open implements source.Place.
func (t *Tree) Open(directory string, patterns []string, limits source.Limits) (source.Folder, error) {
	return open(t, directory, patterns, limits)
}

// Watch implements source.Place.
func (t *Tree) Watch(runtime loop.Runtime) source.Watch {
	w := &watch{Notices: source.NewNotices(runtime), tree: t, followed: map[string]bool{}}
	const rarely = 5 * time.Minute // A tree forgets no notice.
	w.Rely(rarely)
	t.lock.Lock()
	defer t.lock.Unlock()
	t.watches = append(t.watches, w)
	return w
}

// change does something, and tells those who follow what a reader would now
// find otherwise.
func (t *Tree) change(do func()) {
	t.lock.Lock()
	defer t.lock.Unlock()
	before := t.listed()
	do()
	changed := differing(before, t.listed())
	for _, w := range t.watches {
		w.tell(changed)
	}
}

// failed says why a folder cannot be read; nil: it can.
func (t *Tree) failed(folder string) error {
	if _, below := relative(t.failing, folder); t.failure == nil || !below {
		return nil
	}
	return t.failure
}

func (t *Tree) index(version int) int {
	if newest := len(t.versions) - 1; version < 0 || version > newest {
		return newest
	}
	return version
}

// opened is what a reader finds that opens files.
func (t *Tree) opened() version { return t.versions[t.index(t.serving)] }

// listed is what a reader finds that walks through the folders.
func (t *Tree) listed() version {
	at := t.index(t.serving)
	if !t.torn || at == 0 {
		return t.versions[at]
	}
	before, after := t.versions[at-1], t.versions[at]
	changed := differing(before, after)
	mixed := maps.Clone(after)
	for _, path := range changed[:(len(changed)+1)/2] {
		delete(mixed, path)
		if old, ok := before[path]; ok {
			mixed[path] = old
		}
	}
	return mixed
}

// differing lists the paths at which two versions differ, sorted.
func differing(a, b version) []string {
	var paths []string
	for path, file := range a {
		if b[path] != file {
			paths = append(paths, path)
		}
	}
	for path := range b {
		if _, both := a[path]; !both {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// below lists the paths of the files in a folder relative to it, sorted.
func (v version) below(folder string) []string {
	var names []string
	for path := range v {
		if name, ok := relative(folder, path); ok && name != "." {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// relative is a path as seen from a folder that it is in.
func relative(folder, path string) (string, bool) {
	if path == folder {
		return ".", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

func absolute(path string) string {
	if !filepath.IsAbs(path) {
		panic("the path " + path + " is not absolute")
	}
	return filepath.Clean(path)
}
