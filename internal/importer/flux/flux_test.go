package flux

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/importer"
)

// lay writes files into a new folder.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	top := t.TempDir()
	for name, text := range files {
		at := filepath.Join(top, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// standIn is a program that answers as lehr-kustomize does, always alike: what that builds is
// tested with the program itself, in renderers.
func standIn(t *testing.T, objects ...string) Tools {
	t.Helper()
	answer := built{}
	for _, text := range objects {
		answer.Objects = append(answer.Objects, struct {
			Text string `json:"text"`
			File string `json:"file"`
			Line int    `json:"line"`
		}{text, "x.yaml", 1})
	}
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lehr-kustomize")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec 0<&-\ncat <<'END'\n"+string(text)+"\nEND\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Tools{
		Program: func() (string, error) { return path, nil },
		Build:   func(context.Context, string, string) (map[string][]string, error) { return map[string][]string{}, nil },
	}
}

const kustomizationText = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: apps, namespace: flux-system}\nspec: {path: ./apps, sourceRef: {kind: GitRepository, name: flux-system}}\n"

func leftOut(result importer.Import) (text string) {
	for _, one := range result.LeftOut {
		text += one.What + ": " + one.Why + "\n"
	}
	return text
}

// TestFolders: which folder is a cluster's is found, asked for, or said to be none.
func TestFolders(t *testing.T) {
	tools := standIn(t, kustomizationText)
	two := lay(t, map[string]string{"clusters/a/flux-system/gotk-sync.yaml": "# Nothing yet.\n", "clusters/b/flux-system/gotk-sync.yaml": "# Nothing yet.\n"})
	for name, test := range map[string]struct {
		settings settings
		want     string
	}{
		"several clusters": {settings{folder: two}, "of several clusters: clusters/a, clusters/b"},
		"no such path":     {settings{folder: two, path: "clusters/c"}, "has no folder clusters/c"},
		"no such folder":   {settings{folder: filepath.Join(two, "none")}, "the folder"},
		"nothing of Flux":  {settings{folder: lay(t, map[string]string{"a.yaml": "kind: ConfigMap\n"})}, "no folder of"},
		"a checkout":       {settings{folder: two, path: "clusters/a", checkouts: []string{"x"}}, "names no folder of a source"},
		"no objects file":  {settings{folder: two, objects: []string{"/nowhere/x.yaml"}}, "reading the objects"},
	} {
		_, err := Read(t.Context(), test.settings, tools)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Hint == "" {
			t.Errorf("%s: nothing says what to do: %v", name, err)
		}
	}
}

// TestLive: objects of a cluster are taken as those of files are, and who applies which is
// learnt from what the Kustomizations build.
func TestLive(t *testing.T) {
	release := "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: shop}\nspec: {chart: {spec: {chart: web, sourceRef: {kind: HelmRepository, name: charts}}}, values: {adminPassword: tok-hush-hush-1, tier: gold}}\n"
	tools := standIn(t, release, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n")
	asked := ""
	tools.Objects = func(_ context.Context, _, name string, isWanted func(group, kind string) bool) ([]map[string]any, error) {
		asked = name
		if !isWanted("helm.toolkit.fluxcd.io", "HelmRelease") || isWanted("", "Secret") || isWanted("apps", "Deployment") {
			t.Error("other kinds are wanted")
		}
		var all []map[string]any
		for _, text := range []string{
			`{"apiVersion":"kustomize.toolkit.fluxcd.io/v1","kind":"Kustomization","metadata":{"name":"apps","namespace":"flux-system"},"spec":{"path":"./apps","sourceRef":{"kind":"GitRepository","name":"flux-system"},"dependsOn":[{"name":"none"}]}}`,
			`{"apiVersion":"helm.toolkit.fluxcd.io/v2","kind":"HelmRelease","metadata":{"name":"web","namespace":"shop"},"spec":{"chart":{"spec":{"chart":"web","sourceRef":{"kind":"HelmRepository","name":"charts"}}},"values":{"adminPassword":"tok-hush-hush-1","tier":"gold"}}}`,
			`{"apiVersion":"source.toolkit.fluxcd.io/v1","kind":"HelmRepository","metadata":{"name":"charts","namespace":"shop"},"spec":{"url":"https://charts.example.com","secretRef":{"name":"login"}}}`,
		} {
			var object map[string]any
			if err := json.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			all = append(all, object)
		}
		return all, nil
	}
	result, err := Read(t.Context(), settings{folder: lay(t, map[string]string{"apps/a.yaml": "kind: ConfigMap\n"}), live: true, context: "Prod_1", kubeVersion: "1.34"}, tools)
	if err != nil {
		t.Fatal(err)
	}
	everything := result.Definition + leftOut(result) + strings.Join(result.Hints, "\n")
	for _, text := range result.Files {
		everything += string(text)
	}
	for _, words := range []string{"cluster: prod-1", "chart: https://charts.example.com", "tier: gold", "adminPassword", "flux-system/none, which is not here", "logs in by the Secret login"} {
		if !strings.Contains(everything, words) {
			t.Errorf("there is no %q in\n%s", words, everything)
		}
	}
	if asked != "Prod_1" || strings.Contains(everything, "hush") {
		t.Errorf("of context %q a secret was copied:\n%s", asked, everything)
	}
}

// TestNotCarried: objects of Flux that become nothing are told by name, with what does their work.
func TestNotCarried(t *testing.T) {
	tools := standIn(t, "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: tenants, namespace: shop}\n",
		"apiVersion: notification.toolkit.fluxcd.io/v1beta3\nkind: Alert\nmetadata: {name: page, namespace: shop}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n")
	result, err := Read(t.Context(), settings{folder: lay(t, map[string]string{"apps/a.yaml": kustomizationText}), path: "apps"}, tools)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"ResourceSet shop/tenants (x.yaml): Flux Operator", "Alert shop/page (x.yaml): notifications"} {
		if !strings.Contains(leftOut(result), words) {
			t.Errorf("it does not say %q:\n%s", words, leftOut(result))
		}
	}
	if !strings.Contains(result.Definition, "*.fluxcd.controlplane.io/*") {
		t.Errorf("they are not left out:\n%s", result.Definition)
	}
}

// TestFromGit: sources are the URLs of GitRepositories; where none says one, that is told.
func TestFromGit(t *testing.T) {
	tools := standIn(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n")
	const repository = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: flux-system, namespace: flux-system}\nspec: {url: \"https://git.example.com/fleet\", ref: {branch: main}}\n"
	files := map[string]string{"clusters/a/flux-system/gotk-sync.yaml": repository, "clusters/a/x.yaml": kustomizationText}
	result, err := Read(t.Context(), settings{folder: lay(t, files), fromGit: true}, tools)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"git: https://git.example.com/fleet", "branch: main", "folder: overlays/root", "'**/*.yaml'"} {
		if !strings.Contains(result.Definition, words) {
			t.Errorf("there is no %q in\n%s", words, result.Definition)
		}
	}
	files["clusters/a/flux-system/gotk-sync.yaml"] = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: flux-system, namespace: flux-system}\nspec: {url: \"oci://registry.example.com/fleet\", ref: {tag: v3}}\n"
	files["clusters/a/x.yaml"] = strings.Replace(kustomizationText, "GitRepository", "OCIRepository", 1)
	result, err = Read(t.Context(), settings{folder: lay(t, files), fromGit: true}, tools)
	if err != nil || !strings.Contains(result.Definition, "artifact: oci://registry.example.com/fleet:v3") {
		t.Errorf("of an artifact it is %v\n%s", err, result.Definition)
	}
	files["clusters/a/flux-system/gotk-sync.yaml"] = "# Nothing yet.\n"
	if _, err := Read(t.Context(), settings{folder: lay(t, files), fromGit: true}, tools); err == nil || !strings.Contains(err.Error(), "says the URL") {
		t.Errorf("without one it says %v", err)
	}
}

// TestEdges: names that Kustomize makes by content are no ends of edges, and what cannot be built
// is told.
func TestEdges(t *testing.T) {
	f := &fleet{}
	with := map[string]any{}
	f.order("apps", "apps", with, []string{"base", "charts", "apps"}, map[string][]string{"base": {"kubernetes/a/b/configmap/x-7hf2k9bd4m", "kubernetes/a/b/service/x"}})
	if edgesIn(with) != 1 || !strings.Contains(plain(with), "service/x") {
		t.Errorf("its edges are %v", with)
	}
	if !strings.Contains(leftOut(f.Import), "it comes after charts, whose assets could not be built") {
		t.Errorf("it says %q", leftOut(f.Import))
	}
}

// TestReleaseName: as Flux makes it, also where it is too long.
func TestReleaseName(t *testing.T) {
	r := &release{}
	r.Metadata.Name = "web"
	if got := r.releaseName(); got != "web" {
		t.Errorf("it is %s", got)
	}
	r.spec.TargetNamespace = "a-very-long-namespace-of-a-team-in-a-cluster-that-is"
	if got := r.releaseName(); len(got) != 53 || !strings.HasPrefix(got, "a-very-long-namespace-of-a-team-in-a-clu-") {
		t.Errorf("it is %s", got)
	}
}

// TestFieldOf: pointers of driftDetection become paths of fields.
func TestFieldOf(t *testing.T) {
	for pointer, want := range map[string]string{
		"/spec/replicas": "spec.replicas", "/metadata/annotations/a.b~1c": `metadata.annotations["a.b/c"]`, "/spec/containers/0/image": "spec.containers[0].image", "": "",
	} {
		if got := fieldOf(pointer); got != want {
			t.Errorf("%s is %s, want %s", pointer, got, want)
		}
	}
}
