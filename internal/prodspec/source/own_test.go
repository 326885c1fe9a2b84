package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// TestAStoreBesideASourceIsNoneOfIt: patterns pass over it, and links and other names
// that lead to it are refused.
func TestAStoreBesideASourceIsNoneOfIt(t *testing.T) {
	folder := t.TempDir()
	store := filepath.Join(folder, "lehr.db")
	for _, name := range []string{"lehr.db", "lehr.db.server.json", "lehr.db-wal", "a.json", "sub/b.json"} {
		write(t, filepath.Join(folder, name), "x")
	}
	defer files.Guard([]string{store}, nil)()
	d := open(t, folder, DefaultLimits(), "**/*.json", "*")
	snapshot, err := d.Read(t.Context(), time.Now(), Changes{All: true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range snapshot.Files {
		names = append(names, file.Path)
	}
	if got := strings.Join(names, " "); got != "a.json sub/b.json" {
		t.Errorf("it has %s", got)
	}
	// Changes are told one by one.
	if _, err := d.Read(t.Context(), time.Now(), Changes{Paths: map[string]bool{store + ".server.json": true}}); err != nil {
		t.Error("its changes:", err)
	}
	if err := os.Symlink("lehr.db.server.json", filepath.Join(folder, "link.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Read(t.Context(), time.Now(), Changes{All: true}); !fault.Is(err, fault.Denied) {
		t.Errorf("a link to it: %v", err)
	}
	if _, err := open(t, folder, DefaultLimits(), "lehr.db.server.json").Read(t.Context(), time.Now(), Changes{All: true}); err == nil {
		t.Error("it is found by its name")
	}
	link := filepath.Join(t.TempDir(), "dir")
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, link, DefaultLimits(), "lehr.db*").Read(t.Context(), time.Now(), Changes{All: true}); err == nil {
		t.Error("it is found through a link to its folder")
	}
}

// TestAConfinedPlace: a folder that a link leads out to is not read.
func TestAConfinedPlace(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(home, "in", "a.yaml"), "x")
	write(t, filepath.Join(other, "a.yaml"), "x")
	if err := os.Symlink(other, filepath.Join(home, "out")); err != nil {
		t.Fatal(err)
	}
	place := Disk{}.Within([]string{home})
	for path, denied := range map[string]bool{filepath.Join(home, "in"): false, filepath.Join(home, "out"): true, other: true, home + "/in/../../" + filepath.Base(other): true} {
		folder, err := place.Open(path, []string{"*.yaml"}, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := folder.Read(t.Context(), time.Now(), Changes{All: true}); fault.Is(err, fault.Denied) != denied {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := (Disk{}).Open(other, []string{"*.yaml"}, DefaultLimits()); err != nil {
		t.Error(err)
	}
}
