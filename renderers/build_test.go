// Package renderers holds the tests of the programs as lehr runs them.
package renderers_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lehr.dev/test/building"
)

// programs builds lehr with the renderers beside it, as make build does.
func programs(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds programs")
	}
	bin := t.TempDir()
	static, stripped := []string{"CGO_ENABLED=0"}, []string{"-ldflags", "-s -w"}
	for name, p := range map[string]building.Program{
		"lehr":           {Of: "../cmd/lehr"}, // As other tests build it, so that it is linked once.
		"lehr-kustomize": {Of: "kustomize", Flags: stripped, Env: static},
		"lehr-helm":      {Of: "helm", Flags: stripped, Env: static},
	} {
		if err := p.At(filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	// Plugins that nothing here starts: lint looks whether they are there.
	for _, plugin := range []string{"lehr-sqlschema", "lehr-task"} {
		if err := os.WriteFile(filepath.Join(bin, plugin), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(bin, "lehr")
}

// addCheckers puts the checking programs that the ferry uses beside lehr, built as the tests
// of the checkers build them, so that each is linked once.
func addCheckers(t *testing.T, lehr string) {
	t.Helper()
	static, stripped := []string{"CGO_ENABLED=0"}, []string{"-ldflags", "-s -w"}
	for name, p := range map[string]building.Program{
		"lehr-kubernetes-objects": {Of: "../checkers/kubernetesobjects", Flags: stripped, Env: static},
		"lehr-prometheus-rules":   {Of: "../checkers/prometheusrules", Flags: stripped, Env: static},
		"lehr-sql-syntax":         {Of: "../checkers/sqlsyntax", Flags: []string{"-tags", "netgo,osusergo", "-ldflags", "-s -w -linkmode external -extldflags -static"}, Env: []string{"CGO_ENABLED=1"}},
	} {
		if err := p.At(filepath.Join(filepath.Dir(lehr), name)); err != nil {
			t.Fatal(err)
		}
	}
}

func run(t *testing.T, lehr string, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), lehr, arguments...)
	command.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir())
	out, err := command.CombinedOutput()
	return string(out), err
}

// built is what a build gave.
type built struct {
	kinds map[string]int
	// edges are what an asset waits for, without what is before KIND.
	edges map[string][]string
	json  map[string]string
}

func build(t *testing.T, lehr, file string, flags ...string) built {
	t.Helper()
	folder := t.TempDir()
	if out, err := run(t, lehr, append([]string{"build", "--verify", file}, flags...)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := run(t, lehr, append([]string{"build", "--out", folder, file}, flags...)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := built{map[string]int{}, map[string][]string{}, map[string]string{}}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var asset struct {
			ID      string
			Payload struct{ Kind, JSON string }
			Addons  struct {
				Dependencies struct{ Dependencies []struct{ On string } } `json:"lehr.intent.v1.Dependencies"`
			}
		}
		if err := json.Unmarshal(text, &asset); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if asset.Payload.Kind == "" {
			return nil // The policy.
		}
		b.kinds[asset.Payload.Kind]++
		b.json[short(asset.ID)] = asset.Payload.JSON
		for _, d := range asset.Addons.Dependencies.Dependencies {
			b.edges[short(asset.ID)] = append(b.edges[short(asset.ID)], short(d.On))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func short(id string) string {
	parts := strings.Split(id, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

func (b built) edgeCount() (n int) {
	for _, edges := range b.edges {
		n += len(edges)
	}
	return n
}

// TestFerry: the example is rendered whole, in all three environments, twice to
// the same bytes, and its checking programs find nothing.
func TestFerry(t *testing.T) {
	lehr := programs(t)
	addCheckers(t, lehr)
	for environment, want := range map[string]struct {
		boards int
		has    string
	}{
		"dev":     {1, "map[ConfigMap:3 Deployment:13 Ingress:1 Job:1 Namespace:1 Role:1 RoleBinding:1 Service:13 ServiceAccount:1 StatefulSet:1], 52 edges"},
		"staging": {2, "map[ConfigMap:4 Deployment:14 Ingress:1 Job:1 Namespace:1 Role:1 RoleBinding:1 Service:13 ServiceAccount:1 StatefulSet:1], 55 edges"},
		"prod":    {3, "map[ConfigMap:5 Deployment:15 HorizontalPodAutoscaler:1 Ingress:1 Job:1 Namespace:1 PodDisruptionBudget:1 Role:1 RoleBinding:1 Service:13 ServiceAccount:1 StatefulSet:1], 60 edges"},
	} {
		b := build(t, lehr, "../examples/ferry/"+environment+".yaml")
		// One warning tells what became of the chart's hook, the others what the common policy observes.
		out, err := run(t, lehr, "lint", "--common-policy", "../examples/ferry/policy.yaml", "../examples/ferry/"+environment+".yaml")
		boards := strings.Count(out, "breaks the rule common.room.requests")
		if err != nil || boards != want.boards || !strings.Contains(out, fmt.Sprintf("0 errors, 0 holds, %d warning", boards+1)) {
			t.Errorf("lint says of %s\n%s", environment, out)
		}
		// What a plugin that Lehr starts sees of its environment.
		if text, err := os.ReadFile("../examples/ferry/" + environment + ".yaml"); err != nil || !strings.Contains(string(text), `password: "env:LEHR_`) {
			t.Errorf("%s names a password that no plugin sees: %v", environment, err)
		}
		if got := fmt.Sprintf("%v, %d edges", b.kinds, b.edgeCount()); got != want.has {
			t.Errorf("%s has %s, want %s", environment, got, want.has)
		}
		if !strings.Contains(b.json["configmap/alerts"], "alert: BookingsFail") {
			t.Errorf("%s has the alerts %s", environment, b.json["configmap/alerts"])
		}
		if environment == "prod" {
			boardsOfARepository(t, lehr, b)
		}
		desk := b.edges["deployment.apps/desk"]
		if len(desk) != 3 || !strings.HasPrefix(desk[0], "configmap/settings-") || desk[1] != "serviceaccount/desk" || desk[2] != "namespace/ferry-"+environment {
			t.Errorf("%s: the desk waits for %v", environment, desk)
		}
	}
}

// boardsOfARepository builds the ferry's boards with their chart from a repository: they are
// what the folder gives.
func boardsOfARepository(t *testing.T, lehr string, whole built) {
	t.Helper()
	const chart = "../examples/ferry/boards/chart"
	archive := packed(t, chart, "boards")
	served := map[string]string{
		"/index.yaml":       fmt.Sprintf("apiVersion: v1\nentries:\n  boards:\n  - {name: boards, version: 1.2.0, urls: [boards-1.2.0.tgz], digest: %x}\n", sha256.Sum256(archive)),
		"/boards-1.2.0.tgz": string(archive),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := served[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, content)
	}))
	defer server.Close()
	folder := t.TempDir()
	definition, err := os.ReadFile("../examples/ferry/registry.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const address = "http://127.0.0.1:8879"
	if !strings.Contains(string(definition), address) {
		t.Fatalf("registry.yaml does not name %s", address)
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(folder, "registry.yaml"), []byte(strings.ReplaceAll(string(definition), address, server.URL)), 0o600),
		os.CopyFS(filepath.Join(folder, "boards"), os.DirFS("../examples/ferry/boards")),
	)
	if err != nil {
		t.Fatal(err)
	}
	b := build(t, lehr, filepath.Join(folder, "registry.yaml"), "--sources", "../examples/ferry/sources.yaml")
	if b.kinds["Deployment"] == 0 || b.kinds["Job"] == 0 {
		t.Errorf("with the chart of a repository there are %v", b.kinds)
	}
	for _, id := range slices.Sorted(maps.Keys(b.json)) {
		if b.json[id] != whole.json[id] {
			t.Errorf("%s differs with the chart of a repository:\n%s\n%s", id, b.json[id], whole.json[id])
		}
	}
}

// packed is a chart's folder as helm package packs it.
func packed(t *testing.T, folder, name string) []byte {
	t.Helper()
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	files := tar.NewWriter(compressed)
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil {
			return err
		}
		if err := files.WriteHeader(&tar.Header{Name: name + "/" + path, Mode: 0o644, Size: int64(len(text))}); err != nil {
			return err
		}
		_, err = files.Write(text)
		return err
	})
	if err := errors.Join(err, files.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// TestCorpus reads what others wrote for real use, unchanged.
func TestCorpus(t *testing.T) {
	corpus := os.Getenv("LEHR_CORPUS")
	if corpus == "" {
		t.Skip("LEHR_CORPUS names no folder with the corpus")
	}
	lehr := programs(t)
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("lehr.yaml", "lehr: v1\npartition: boutique\nsources:\n  manifests: {dir: "+filepath.Join(corpus, "online-boutique")+", files: [\"*.yaml\"]}\ngenerate:\n  boutique: {render: kubernetes, from: [manifests], with: {cluster: prod, namespace: shop}}\n")
	plain := build(t, lehr, filepath.Join(folder, "lehr.yaml"))
	if got := fmt.Sprintf("%v, %d edges", plain.kinds, plain.edgeCount()); got != "map[Deployment:12 Service:12 ServiceAccount:11], 11 edges" {
		t.Errorf("the manifests have %s", got)
	}
	// The same through Kustomize, with a namespace object: the same objects, and
	// each waits for it.
	text, err := os.ReadFile(filepath.Join(corpus, "online-boutique/kubernetes-manifests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write("manifests.yaml", string(text))
	write("namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
	write("kustomization.yaml", "namespace: shop\nresources: [namespace.yaml, manifests.yaml]\n")
	write("kustomized.yaml", "lehr: v1\npartition: boutique\nsources:\n  all: {dir: ., files: [kustomization.yaml, namespace.yaml, manifests.yaml]}\ngenerate:\n  boutique: {render: kustomize, from: [all], with: {cluster: prod}}\n")
	kustomized := build(t, lehr, filepath.Join(folder, "kustomized.yaml"))
	if got := fmt.Sprintf("%v, %d edges", kustomized.kinds, kustomized.edgeCount()); got != "map[Deployment:12 Namespace:1 Service:12 ServiceAccount:11], 46 edges" {
		t.Errorf("through Kustomize they have %s", got)
	}
	for _, id := range slices.Sorted(maps.Keys(plain.json)) {
		if plain.json[id] != kustomized.json[id] {
			t.Errorf("%s differs:\n%s\n%s", id, plain.json[id], kustomized.json[id])
		}
	}
}

// TestRemoteBase: what is said through lehr names the line and what to do.
func TestRemoteBase(t *testing.T) {
	lehr := programs(t)
	folder := t.TempDir()
	for name, text := range map[string]string{
		"prod.yaml":          "lehr: v1\npartition: a\nsources:\n  all: {dir: ., files: [kustomization.yaml]}\ngenerate:\n  c: {render: kustomize, from: [all], with: {cluster: prod, folder: nowhere}}\n  a: {render: kustomize, from: [all], with: {cluster: prod}}\n  b: {render: helm, from: [all], with: {cluster: prod, chart: b}}\n",
		"kustomization.yaml": "resources:\n- https://github.com/x/y?ref=v1\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run(t, lehr, "build", filepath.Join(folder, "prod.yaml"))
	if err == nil || !strings.Contains(out, "kustomization.yaml:2: https://github.com/x/y?ref=v1 is elsewhere: only declared files are read\n  declare it as a source in lehr.yaml") {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "prod.yaml:6: generate.c: the folder nowhere has no kustomization.yaml") {
		t.Errorf("of the folder it says\n%s", out)
	}
	if !strings.Contains(out, `write with: {kube_version: "1.34"}`) {
		t.Errorf("of the chart it says\n%s", out)
	}
}

// TestPage builds what docs/use/kubernetes.md shows.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/use/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	definition, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page shows no lehr.yaml")
	}
	lehr := programs(t)
	folder := t.TempDir()
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
	for name, text := range map[string]string{
		"lehr.yaml":                         definition,
		"manifests/a.yaml":                  strings.Replace(object, "NAME", "a", 1),
		"kustomize/prod/kustomization.yaml": "resources: [b.yaml]\nnamespace: shop\n",
		"kustomize/prod/b.yaml":             strings.Replace(object, "NAME", "b", 1),
		"chart/Chart.yaml":                  "apiVersion: v2\nname: c\nversion: 1.0.0\n",
		"chart/prod.yaml":                   "name: c\n",
		"chart/templates/c.yaml":            strings.Replace(object, "NAME", "{{ .Values.name }}", 1),
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := build(t, lehr, filepath.Join(folder, "lehr.yaml"))
	if got := slices.Sorted(maps.Keys(b.json)); !slices.Equal(got, []string{"configmap/a", "configmap/b", "configmap/c"}) {
		t.Errorf("it gives %v", got)
	}
}
