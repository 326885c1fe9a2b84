package sources

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/source"
)

// seen is what a reading gave: its files and folders, or the kind of error.
type seen struct {
	Files   []source.File
	Folders []string
	Refused fault.Kind
}

func look(t *rapid.T, folder source.Folder, changes source.Changes) seen {
	snapshot, err := folder.Read(t.Context(), time.Now(), changes)
	if err != nil {
		return seen{Refused: fault.KindOf(err)}
	}
	if got := source.Revision(snapshot.Files); got != snapshot.Revision {
		t.Fatalf("the revision is not that of the files")
	}
	for _, file := range snapshot.Files {
		if content, err := folder.Content(file); err != nil || source.Digest(content) != file.Digest {
			t.Fatalf("%s cannot be opened as it was listed: %v", file.Path, err)
		}
	}
	return seen{Files: snapshot.Files, Folders: slices.Sorted(slices.Values(snapshot.Folders))}
}

// TestTreeReadsAsTheDisk: after any edits, a folder of a tree and one of a disk
// with the same files give the same, whether a reader looks everywhere or only
// where it was told.
func TestTreeReadsAsTheDisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		home, err := os.MkdirTemp("", "lehr-tree-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(home)
		patterns := rapid.SampledFrom([][]string{{"**/*.yaml"}, {"*.yaml", "a/*.sql"}, {"a/**"}, {"a/b/x.yaml"}, {"*"}, {".h/*"}}).Draw(t, "patterns")
		limits := source.DefaultLimits()
		limits.FileBytes, limits.TotalBytes, limits.Files = 4, 9, 3
		tree := New()
		onDisk, err := source.Disk{}.Open(home, patterns, limits)
		if err != nil {
			t.Fatal(err)
		}
		inMemory, err := tree.Open(home, patterns, limits)
		if err != nil {
			t.Fatal(err)
		}
		// A folder is there while a file is in it.
		keep := filepath.Join(home, "keep")
		edit(t, tree, keep, "1")
		all := true
		for range rapid.IntRange(1, 6).Draw(t, "readings") {
			changes := source.Changes{All: all, Paths: map[string]bool{}}
			for range rapid.IntRange(0, 3).Draw(t, "edits") {
				name := rapid.SampledFrom([]string{"x.yaml", "y.yaml", "a/x.yaml", "a/b/x.yaml", "a/z.sql", ".h/x.yaml", "c/d/e.yaml"}).Draw(t, "file")
				content := rapid.SampledFrom([]string{"gone", "", "1", "22", "333", "55555"}).Draw(t, "content")
				path := filepath.Join(home, name)
				edit(t, tree, path, content)
				for at := path; at != home; at = filepath.Dir(at) {
					changes.Paths[at] = true
				}
			}
			disk, memory := look(t, onDisk, changes), look(t, inMemory, changes)
			if diff := cmp.Diff(disk, memory); diff != "" {
				t.Fatalf("the tree differs from the disk: %s", diff)
			}
			all = disk.Refused != 0 || rapid.Bool().Draw(t, "all")
		}
	})
}

// edit does the same in both places.
func edit(t *rapid.T, tree *Tree, path, content string) {
	if content == "gone" {
		tree.Remove(path)
		_ = os.Remove(path)
		for folder := filepath.Dir(path); os.Remove(folder) == nil; folder = filepath.Dir(folder) {
		}
		return
	}
	tree.Write(map[string]string{path: content})
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, folder source.Folder, changes source.Changes) *source.Snapshot {
	t.Helper()
	snapshot, err := folder.Read(t.Context(), start, changes)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func TestOnlyWhatIsToldIsSeen(t *testing.T) {
	tree := New()
	tree.Write(map[string]string{"/s/a": "1", "/s/b": "1"})
	folder, err := tree.Open("/s", []string{"**"}, source.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	all := source.Changes{All: true}
	first := read(t, folder, all)
	if read(t, folder, all) != first || read(t, folder, source.Changes{}) != first {
		t.Error("nothing changed, and the snapshot is another")
	}
	tree.Write(map[string]string{"/s/a": "2", "/s/b": "2"})
	if read(t, folder, source.Changes{}) != first {
		t.Error("a change was seen of which nobody was told")
	}
	part := read(t, folder, source.Changes{Paths: map[string]bool{"/s/b": true}})
	if part.Files[0] != first.Files[0] || part.Files[1] == first.Files[1] {
		t.Errorf("files %v, want only the second to change from %v", part.Files, first.Files)
	}
	if _, err := folder.Content(part.Files[0]); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a file that is not what the snapshot says: %v", err)
	}
	tree.Write(map[string]string{"/s/new/c": "3"})
	if told := read(t, folder, source.Changes{Paths: map[string]bool{"/s/new": true}}); len(told.Files) != 3 || told.Files[0] == first.Files[0] {
		t.Errorf("files %v, want all as they are: a folder came", told.Files)
	}
	down := errors.New("down")
	tree.Fail(down)
	_, reading := folder.Read(t.Context(), start, all)
	_, opening := folder.Content(part.Files[1])
	if !errors.Is(reading, down) || !errors.Is(opening, down) {
		t.Errorf("a failing tree gave %v and %v", reading, opening)
	}
}

func TestVersions(t *testing.T) {
	tree := New()
	tree.Write(map[string]string{"/s/a": "1", "/s/b": "1", "/s/c": "1", "/s/d": "1"})
	tree.Write(map[string]string{"/s/a": "2", "/s/c": "2", "/s/e": "2"})
	tree.Remove("/s/d")
	if tree.Version() != 3 {
		t.Errorf("version %d", tree.Version())
	}
	folder, err := tree.Open("/s", []string{"**"}, source.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	expect := func(what string, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for _, file := range read(t, folder, source.Changes{All: true}).Files {
			for _, text := range []string{"", "1", "2"} {
				if source.Digest([]byte(text)) == file.Digest {
					got["/s/"+file.Path] = text
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	expect("newest", map[string]string{"/s/a": "2", "/s/b": "1", "/s/c": "2", "/s/e": "2"})
	for version := 1; version <= tree.Version(); version++ {
		tree.Serve(version)
		expect("an old version", tree.Show(version))
	}
	tree.Serve(2)
	tree.Torn(true)
	// a, c and e differ; of them a and c are as before.
	expect("torn", map[string]string{"/s/a": "1", "/s/b": "1", "/s/c": "1", "/s/d": "1", "/s/e": "2"})
	tree.Torn(false)
	expect("whole", tree.Show(2))
	tree.Serve(Newest)
	shown := tree.Show(Newest)
	maps.DeleteFunc(shown, func(string, string) bool { return true })
	expect("what is shown is a copy", tree.Show(3))
}

func TestWatchTellsThoseWhoFollow(t *testing.T) {
	tree := New()
	tree.Write(map[string]string{"/s/a": "1", "/other/a": "1"})
	w := tree.Watch(loop.Real()).(*watch)
	if !w.Follow([]string{"/s"}) || w.Follow([]string{"/s"}) {
		t.Error("a folder is new once")
	}
	if !w.Changes().All {
		t.Error("what changed before the watch is not known")
	}
	for _, c := range []struct {
		what string
		do   func()
		want map[string]bool
	}{
		{"a file", func() { tree.Write(map[string]string{"/s/a": "2"}) }, map[string]bool{"/s/a": true}},
		{"the same again", func() { tree.Write(map[string]string{"/s/a": "2"}) }, nil},
		{"elsewhere", func() { tree.Write(map[string]string{"/other/a": "2"}) }, nil},
		{"a new folder", func() { tree.Write(map[string]string{"/s/b/c/d": "1"}) }, map[string]bool{"/s/b": true}},
		{"one less", func() { tree.Remove("/s/a") }, map[string]bool{"/s/a": true}},
		{"back", func() { tree.Serve(1) }, map[string]bool{"/s/a": true, "/s/b": true}},
	} {
		c.do()
		if got := w.Changes(); got.All || !maps.Equal(got.Paths, c.want) {
			t.Errorf("%s: %+v, want %v", c.what, got, c.want)
		}
	}
	if !w.Follow([]string{"/s", "/other"}) || !w.Changes().All {
		t.Error("what changed in a folder before it was followed is not known")
	}
	w.Follow([]string{"/s", "/none"})
	if !w.Changes().All {
		t.Error("a folder that is not there is polled")
	}
	tree.Fail(errors.New("down"))
	if w.Follow([]string{"/s"}); !w.Changes().All {
		t.Error("what cannot be read cannot be watched")
	}
	tree.Fail(nil)
	if !w.Follow([]string{"/s"}) {
		t.Error("what can be read again is new")
	}
	if err := w.Close(); err != nil || len(tree.watches) != 0 {
		t.Errorf("closing: %v, %d watches left", err, len(tree.watches))
	}
}
