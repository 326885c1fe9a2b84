package source

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a.yaml", "a.yaml", true},
		{"a.yaml", "b/a.yaml", false},
		{"*.yaml", "a.yaml", true},
		{"*.yaml", "b/a.yaml", false},
		{"*.yaml", ".#a.yaml", false},
		{".*.yaml", ".a.yaml", true},
		{"**/*.yaml", "a.yaml", true},
		{"**/*.yaml", "b/c/a.yaml", true},
		{"**/*.yaml", ".git/a.yaml", false},
		{"b/**", "b/c/a", true},
		{"b/**", "c/a", false},
		{"b/**/d/*.sql", "b/d/x.sql", true},
		{"b/**/d/*.sql", "b/c/e/d/x.sql", true},
		{"b/**/d/*.sql", "b/c/e/x.sql", false},
	} {
		p, err := parsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.matches(c.name); got != c.want {
			t.Errorf("%s matches %s: %t", c.pattern, c.name, got)
		}
		if folder := filepath.Dir(c.name); c.want && folder != "." && !p.mayBeBelow(folder) {
			t.Errorf("%s is not looked for in %s", c.pattern, folder)
		}
	}
	for _, bad := range []string{"", "/etc/passwd", "../a", "a/../b", "a//b", "[", "a\x00"} {
		if err := CheckPattern(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("pattern %q: %v", bad, err)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, folder string, limits Limits, patterns ...string) *Directory {
	t.Helper()
	d, err := Open(folder, patterns, limits)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSnapshotFollowsTheFolder(t *testing.T) {
	folder := t.TempDir()
	d := open(t, folder, DefaultLimits(), "**/*.yaml")
	all := Changes{All: true}
	write(t, folder+"/a.yaml", "1")
	write(t, folder+"/b/c.yaml", "1")
	write(t, folder+"/b/other", "1")
	read := func(changes Changes, want ...string) *Snapshot {
		t.Helper()
		s, err := d.Read(t.Context(), time.Now(), changes)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, file := range s.Files {
			names = append(names, file.Path)
			if _, err := d.Content(file); err != nil {
				t.Error(err)
			}
		}
		if strings.Join(names, " ") != strings.Join(want, " ") {
			t.Fatalf("files %v, want %v", names, want)
		}
		// What is read by changes is what is read whole.
		fresh, err := open(t, folder, DefaultLimits(), "**/*.yaml").Read(t.Context(), time.Now(), all)
		if err != nil || fresh.Revision != s.Revision {
			t.Errorf("revision %s, a fresh reader's is %s (%v)", s.Revision.Short(), fresh.Revision.Short(), err)
		}
		return s
	}
	at := func(names ...string) Changes {
		paths := map[string]bool{}
		for _, name := range names {
			paths[filepath.Join(folder, name)] = true
		}
		return Changes{Paths: paths}
	}
	first := read(all, "a.yaml", "b/c.yaml")
	if read(at("b/other"), "a.yaml", "b/c.yaml") != first {
		t.Error("a file that is not matched made a new snapshot")
	}
	// The same size within a tick of the clock is seen all the same.
	write(t, folder+"/a.yaml", "2")
	if read(all, "a.yaml", "b/c.yaml").Revision == first.Revision {
		t.Error("a change was not seen")
	}
	write(t, folder+"/a.yaml", "3")
	write(t, folder+"/b/b.yaml", "3")
	read(at("a.yaml", "b/b.yaml"), "a.yaml", "b/b.yaml", "b/c.yaml")
	write(t, folder+"/d/e.yaml", "4")
	read(at("d"), "a.yaml", "b/b.yaml", "b/c.yaml", "d/e.yaml")
	if err := os.RemoveAll(folder + "/b"); err != nil {
		t.Fatal(err)
	}
	last := read(at("b/b.yaml", "b/c.yaml", "b"), "a.yaml", "d/e.yaml")
	write(t, folder+"/a.yaml", "5")
	if _, err := d.Content(last.Files[0]); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a file that is not what the snapshot says: %v", err)
	}
}

func TestUnreadableIsNeverEmpty(t *testing.T) {
	folder := t.TempDir()
	write(t, folder+"/a.yaml", "12345")
	write(t, folder+"/b.yaml", "12345")
	few, small, little := DefaultLimits(), DefaultLimits(), DefaultLimits()
	few.Files, small.FileBytes, little.TotalBytes = 1, 4, 9
	if err := os.Symlink("/etc/hostname", folder+"/out"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.yaml", folder+"/in"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(folder+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		folder, pattern string
		limits          Limits
		kind            fault.Kind
		message         string
	}{
		"missing folder":  {folder + "/none", "*.yaml", DefaultLimits(), fault.Unavailable, "none"},
		"file as folder":  {folder + "/a.yaml", "*.yaml", DefaultLimits(), fault.Unavailable, "a.yaml"},
		"nothing matches": {folder, "*.yml", DefaultLimits(), fault.Unavailable, "*.yml"},
		"link out":        {folder, "out", DefaultLimits(), fault.Invalid, "leads out"},
		"pipe":            {folder, "pipe", DefaultLimits(), fault.Invalid, "named pipe"},
		"too many":        {folder, "*.yaml", few, fault.Invalid, "more than 1"},
		"too large":       {folder, "*.yaml", small, fault.Invalid, "5 bytes"},
		"too much":        {folder, "*.yaml", little, fault.Invalid, "10 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(t, c.folder, c.limits, c.pattern).Read(t.Context(), time.Now(), Changes{All: true})
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.message) {
				t.Errorf("read %v, %v; want %s with %q", s, err, c.kind, c.message)
			}
		})
	}
	if s, err := open(t, folder, DefaultLimits(), "in").Read(t.Context(), time.Now(), Changes{All: true}); err != nil || len(s.Files) != 1 {
		t.Errorf("a link inside the folder: %v, %v", s, err)
	}
}

// TestSameProblemIsTold: of several that changed, whichever way they are told.
func TestSameProblemIsTold(t *testing.T) {
	folder := t.TempDir()
	limits := DefaultLimits()
	limits.FileBytes = 4
	names := []string{"a", "b", "c", "d"}
	for range 10 {
		d := open(t, folder, limits, "*")
		changes := Changes{Paths: map[string]bool{}}
		for _, name := range names {
			write(t, filepath.Join(folder, name), "1")
			changes.Paths[filepath.Join(folder, name)] = true
		}
		if _, err := d.Read(t.Context(), time.Now(), Changes{All: true}); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			write(t, filepath.Join(folder, name), "12345")
		}
		if _, err := d.Read(t.Context(), time.Now(), changes); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), folder+"/a ") {
			t.Fatalf("%v, want that of the first file", err)
		}
	}
}

func TestWatcherTellsWhatChanged(t *testing.T) {
	folder := t.TempDir()
	w := NewWatcher(loop.Real())
	defer w.Close()
	if !w.Follow([]string{folder}) || w.Follow([]string{folder}) {
		t.Error("a folder is new once")
	}
	if !w.Changes().All {
		t.Error("what changed before the watch is not known")
	}
	write(t, folder+"/a~", "1")
	if err := os.Rename(folder+"/a~", folder+"/a"); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := w.Changes(); c.All || !c.Paths[folder+"/a"] {
		t.Errorf("changes %+v, want the file", c)
	}
	if c := w.Changes(); c.All || len(c.Paths) > 0 {
		t.Errorf("changes %+v, want none", c)
	}
	w.Follow([]string{folder, folder + "/none"})
	if !w.Changes().All {
		t.Error("a folder that cannot be watched is polled")
	}
}

// TestLinkedAndSetuidFiles are files like others: they are read, and nothing
// else is done with them.
func TestLinkedAndSetuidFiles(t *testing.T) {
	folder, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "x"), "1")
	if err := os.Link(filepath.Join(outside, "x"), filepath.Join(folder, "a")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "b"), "2")
	if err := os.Chmod(filepath.Join(folder, "b"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	d, err := Open(folder, []string{"*"}, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := d.Read(t.Context(), time.Now(), Changes{All: true})
	if err != nil || len(snapshot.Files) != 2 {
		t.Fatalf("%+v: %v", snapshot, err)
	}
	for i, want := range []string{"1", "2"} {
		if content, err := d.Content(snapshot.Files[i]); err != nil || string(content) != want {
			t.Errorf("%s holds %q: %v", snapshot.Files[i].Path, content, err)
		}
	}
}

// A pointer of git-lfs lies where the content should be, also in a folder.
func TestPointerOfLFS(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "big.yaml"), "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n")
	write(t, filepath.Join(folder, "a.yaml"), "1")
	open := func(pattern string) error {
		d, err := Open(folder, []string{pattern}, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Read(t.Context(), time.Now(), Changes{All: true})
		return err
	}
	if err := open("*.yaml"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "big.yaml is a pointer of git-lfs") {
		t.Errorf("%v", err)
	}
	if err := open("a.yaml"); err != nil {
		t.Errorf("%v", err)
	}
}
