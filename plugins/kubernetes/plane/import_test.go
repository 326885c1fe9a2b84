package plane

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/test/building"
)

// build makes a program of Lehr's, by its folder and name.
func build(t *testing.T, folder, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if err := (building.Program{Of: "../../../" + folder}).At(program); err != nil {
		t.Fatal(err)
	}
	return program
}

// TestImportOfARealCluster: what lehr import writes of a cluster says what the
// cluster holds: applied again, it changes nothing. Reading changed nothing
// either, and no secret was copied.
func TestImportOfARealCluster(t *testing.T) {
	p := Start(t)
	lehr := build(t, "cmd/lehr", "lehr")
	text, err := os.ReadFile("testdata/harbour.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for manifest := range bytes.SplitSeq(text, []byte("\n---\n")) {
		// A kind that was just defined is served a moment later.
		p.Wait("a manifest to be applied", func() error {
			_, err := p.Apply(manifest, false)
			return err
		})
		paths = append(paths, p.Path(p.Parse(manifest)))
	}
	held := map[string]string{}
	for _, path := range paths {
		answer, err := p.Ask(http.MethodGet, path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		held[path] = shown(p.Parse(answer))
	}

	folder := filepath.Join(t.TempDir(), "harbour")
	command := exec.CommandContext(t.Context(), lehr, "import", "kubernetes", "--kubeconfig", p.Kubeconfig, "--to", folder)
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	t.Logf("lehr import said\n%s", said)
	for _, words := range []string{"Secret harbour/pilot", "objects that others own"} {
		if !strings.Contains(string(said), words) {
			t.Errorf("lehr import does not say %q", words)
		}
	}
	build := exec.CommandContext(t.Context(), lehr, "build", filepath.Join(folder, "lehr.yaml"))
	built, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("lehr build: %v\n%s", err, built)
	}

	var applied []string
	err = filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		manifest, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.Contains(manifest, []byte("aHVzaC1odXNo")) || bytes.Contains(manifest, []byte("hush-hush")) {
			t.Errorf("%s has the content of a Secret", name)
		}
		if filepath.Base(name) == "lehr.yaml" {
			return nil
		}
		path := p.Path(p.Parse(manifest))
		would, err := p.Apply(manifest, true)
		if err != nil {
			return err
		}
		if before, of := held[path]; of {
			applied = append(applied, path)
			if after := shown(would); after != before {
				t.Errorf("%s applied again would change:\n%s", path, cmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n")))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, before := range held {
		answer, err := p.Ask(http.MethodGet, path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if now := shown(p.Parse(answer)); now != before {
			t.Errorf("reading changed %s from\n%s\nto\n%s", path, before, now)
		}
		left := strings.Contains(path, "/secrets/") || strings.Contains(path, "/replicasets/")
		if slices.Contains(applied, path) == left {
			t.Errorf("%s: imported %v", path, !left)
		}
	}
	for _, id := range []string{"/harbour/deployment.apps/gate", "/harbour/berth.harbour.example/north", "/harbour/cronjob.batch/tally"} {
		if !strings.Contains(string(built), id) {
			t.Errorf("lehr build does not show %s:\n%s", id, built)
		}
	}
	importOfArgo(t, p, lehr)
}
