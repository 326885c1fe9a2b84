package prodspec_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/test/gitrepo"
)

// TestSourcesReadNothingOfTheServersNorOfOthers: whatever a definition names, and by
// whatever links, a partition's generators are given nothing of the server's own
// files, nor of what lies elsewhere where sources are confined.
func TestSourcesReadNothingOfTheServersNorOfOthers(t *testing.T) {
	top := t.TempDir()
	home, data, other := filepath.Join(top, "home"), filepath.Join(top, "data"), filepath.Join(top, "other")
	for _, folder := range []string{home, data, other} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store, theirs := filepath.Join(data, "lehr.db"), filepath.Join(other, "theirs.db")
	for _, path := range []string{store, theirs} {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('x')"); err != nil {
			t.Fatal(err)
		}
		db.Close()
	}
	put(store+".server.json", `{"token": "x"}`)
	put(filepath.Join(other, "a.json"), `{}`)
	put(filepath.Join(home, "none.star"), "def generate(ctx):\n    return [ctx.files]\n")
	for link, to := range map[string]string{"data": data, "other": other, "store.db": store, "theirs.db": theirs} {
		if err := os.Symlink(to, filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(store+".server.json", filepath.Join(home, "hard.json")); err != nil {
		t.Fatal(err)
	}
	repository := gitrepo.New(t)
	repository.Write("a.json", "{}")
	repository.Commit("Begin")
	mirror := store + ".sources"
	if err := os.Rename(repository.Folder, mirror); err != nil {
		t.Fatal(err)
	}
	defer files.Guard([]string{store}, nil)()
	const own, out, gone = "a file of Lehr's own", "not below the folder of the definition", "no file in"
	for _, c := range []struct {
		name, source string
		confined     bool
		told         string
	}{
		{"the store's folder", "{dir: " + data + `, files: ["*.json"]}`, false, gone},
		{"its folder by a link", `{dir: data, files: ["*.json"]}`, false, gone},
		{"its folder from above", `{dir: .., files: ["data/*"]}`, false, gone},
		{"its word for clients", "{dir: " + data + `, files: ["lehr.db.server.json"]}`, false, gone},
		{"another name of a file", `{dir: ., files: ["hard.json"]}`, false, gone},
		{"all of the process", `{dir: /proc/self/root` + data + `, files: ["*"]}`, false, gone},
		{"the store", `{sql: "sqlite:` + store + `", query: "SELECT a FROM t", file: a.json}`, false, own},
		{"the store by a link", `{sql: "sqlite:store.db", query: "SELECT a FROM t", file: a.json}`, false, own},
		{"the store by a folder's link", `{sql: "sqlite:data/lehr.db", query: "SELECT a FROM t", file: a.json}`, false, own},
		{"a mirror", `{git: "` + mirror + `", files: ["*.json"]}`, false, own},
		{"another's folder", "{dir: " + other + `, files: ["*.json"]}`, true, out},
		{"another's folder by a link", `{dir: other, files: ["*.json"]}`, true, out},
		{"another's folder from above", `{dir: ../other, files: ["*.json"]}`, true, out},
		{"another's database", `{sql: "sqlite:` + theirs + `", query: "SELECT a FROM t", file: a.json}`, true, out},
		{"another's database by a link", `{sql: "sqlite:theirs.db", query: "SELECT a FROM t", file: a.json}`, true, out},
		{"a repository", `{git: "` + top + `/other", files: ["*.json"]}`, true, out},
		{"versions of a repository", `{git_tags: "` + top + `/other", file: a.json}`, true, out},
		{"another's folder where nobody is confined", "{dir: " + other + `, files: ["*.json"]}`, false, ""},
		{"another's database where nobody is confined", `{sql: "sqlite:` + theirs + `", query: "SELECT a FROM t", file: a.json}`, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			definition := filepath.Join(home, "lehr.yaml")
			put(definition, "lehr: v1\npartition: p\nsources:\n  s: "+c.source+"\ngenerate:\n  g: {starlark: none.star, from: [s]}\n")
			elsewhere := fetch.Options{Folder: t.TempDir(), Mode: fetch.Once}
			if c.confined {
				elsewhere.Within = func() []string { return []string{home} }
			}
			built, err := prodspec.Build(t.Context(), prodspec.Program{Definition: definition, Runner: generate.InProcess{Limits: generate.DefaultLimits()}, Elsewhere: elsewhere}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, finding := range built.Findings {
				if finding.Rule == "source" {
					said = append(said, finding.Message)
				}
			}
			if got := strings.Join(said, "\n"); c.told == "" && got != "" || !strings.Contains(got, c.told) {
				t.Errorf("it is told %q of %v, want %q", got, built.Findings, c.told)
			}
		})
	}
}
