package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/test/gitrepo"
)

// TestMirrorsOfWhatIsGone: what an earlier process mirrored for partitions that are
// not registered any more, and documents that nobody edits, is swept; what is in use,
// and what may soon be, is not.
func TestMirrorsOfWhatIsGone(t *testing.T) {
	folder, origin := t.TempDir(), gitrepo.New(t)
	mirror := func(age time.Duration, path ...string) string {
		t.Helper()
		made := filepath.Join(append(append([]string{folder}, path...), fmt.Sprintf("%032x", 1))...)
		if err := os.MkdirAll(filepath.Join(made, "objects"), 0o700); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(made, then, then); err != nil {
			t.Fatal(err)
		}
		return made
	}
	gone := []string{mirror(0, "gone"), mirror(0, ".documents", "gone"), mirror(2*fetch.Unused, ".documents", "one")}
	stays := []string{mirror(time.Hour, ".documents", "two")}
	origin.Write("list.yaml", "- a\n")
	origin.Commit("Begin")
	home := t.TempDir()
	for name, content := range map[string]string{
		"lehr.yaml": strings.NewReplacer("NAME", "one", "{dir: ., files: [list.yaml]}", "{git: "+origin.Folder+", branch: main, files: [list.yaml]}").Replace(definition),
		"web.star":  strings.Replace(program, `"list.yaml"`, `"service/list.yaml"`, 1),
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := newProduction()
	begin(t, p, map[intent.PartitionID]string{"one": filepath.Join(home, "lehr.yaml"), "two": "/nowhere/lehr.yaml"}, func(o *app.Options) { o.Fetched = folder })
	eventually(t, "it is swept", func() bool {
		for _, path := range gone {
			if _, err := os.Stat(path); err == nil {
				return false
			}
		}
		return true
	})
	eventually(t, "what its source says is enforced", func() bool { return p.has("a") })
	own, err := filepath.Glob(filepath.Join(folder, "one", strings.Repeat("?", 32)))
	if err != nil || len(own) != 1 {
		t.Errorf("the mirrors of one are %v (%v), want that of its source", own, err)
	}
	for _, path := range stays {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s is gone: %v", path, err)
		}
	}
}
