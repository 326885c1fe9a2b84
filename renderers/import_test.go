package renderers_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"lehr.dev/sdk/generator/kubernetes"
)

// wasApplied is what Argo CD would apply of one feature: manifests that the libraries of Helm and
// Kustomize made, or that lie there, for a namespace.
type wasApplied struct {
	feature, namespace, text string
}

// templated renders a chart as helm template does.
func templated(t *testing.T, folder, release, namespace string, values map[string]any, set, setString []string) string {
	t.Helper()
	chart, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if values == nil {
		values = map[string]any{}
	}
	for _, assignment := range set {
		if err := strvals.ParseInto(assignment, values); err != nil {
			t.Fatal(err)
		}
	}
	for _, assignment := range setString {
		if err := strvals.ParseIntoString(assignment, values); err != nil {
			t.Fatal(err)
		}
	}
	if err := chartutil.ProcessDependencies(chart, values); err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, common.DefaultCapabilities.Copy())
	if err != nil {
		t.Fatal(err)
	}
	made, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, crd := range chart.CRDObjects() {
		out.WriteString("---\n" + string(crd.File.Data) + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if !strings.HasSuffix(name, "NOTES.txt") {
			out.WriteString("---\n" + made[name] + "\n")
		}
	}
	return out.String()
}

// builtEdited builds a folder as kustomize build does, after an edit of its kustomization.
func builtEdited(t *testing.T, folder string, edit map[string]any) string {
	t.Helper()
	name := filepath.Join(folder, "kustomization.yaml")
	original, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(edit) > 0 {
		fields := map[string]any{}
		if err := yaml.Unmarshal(original, &fields); err != nil {
			t.Fatal(err)
		}
		maps.Copy(fields, edit)
		edited, err := yaml.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		lay(t, map[string]string{name: string(edited)})
		defer lay(t, map[string]string{name: string(original)})
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	made, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func lay(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shareOf compares what an import gives with what was applied, prints the share of equal objects by
// feature, and returns that of all.
func shareOf(t *testing.T, cluster string, imported map[string]string, all []wasApplied) float64 {
	t.Helper()
	total, equal := 0, 0
	for _, a := range all {
		var text strings.Builder
		for _, part := range strings.Split("\n"+a.text, "\n---") { // Argo CD applies what others would refuse.
			if strings.TrimSpace(part) != "" {
				text.WriteString("---\n" + strings.TrimSpace(part) + "\n")
			}
		}
		objects, _ := kubernetes.Read([]kubernetes.Manifest{{File: "applied.yaml", Text: []byte(text.String()), Rendered: true}}, kubernetes.Settings{Cluster: cluster, Namespace: a.namespace, Hooks: kubernetes.HooksIncluded})
		same := 0
		// What cannot be an asset, as an object without a name, counts as one that is missing.
		count := max(len(objects), strings.Count(a.text, "\nkind: ")+strings.Count(a.text[:min(6, len(a.text))], "kind: "))
		for _, o := range objects {
			switch got, ok := imported[string(o.ID)]; {
			case ok && got == o.Payload.Json:
				same++
			case ok:
				t.Logf("%s: %s differs:\n%s\n%s", a.feature, o.ID, got, o.Payload.Json)
			default:
				t.Logf("%s: %s is missing", a.feature, o.ID)
			}
		}
		t.Logf("%-28s %d of %d objects", a.feature, same, count)
		total, equal = total+count, equal+same
	}
	t.Logf("%-28s %d of %d objects, %.1f %%", "all", equal, total, 100*float64(equal)/float64(total))
	return float64(equal) / float64(total)
}

// objectsOf builds a definition, and gives the JSON of each object by its id.
func objectsOf(t *testing.T, lehr, file string) map[string]string {
	t.Helper()
	folder := t.TempDir()
	if out, err := run(t, lehr, "build", "--out", folder, file); err != nil {
		text, _ := os.ReadFile(file)
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
	made := map[string]string{}
	err := filepath.WalkDir(folder, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		var asset struct {
			ID      string
			Payload struct{ JSON string }
		}
		if err == nil {
			err = json.Unmarshal(text, &asset)
		}
		if asset.Payload.JSON != "" {
			made[asset.ID] = asset.Payload.JSON
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

const corpusURL = "https://github.com/argoproj/argocd-example-apps"

// TestImportCorpus: what Argo CD applies of the applications of others is in the imported
// partition, with equal content.
func TestImportCorpus(t *testing.T) {
	corpus := os.Getenv("LEHR_CORPUS")
	if corpus == "" {
		t.Skip("LEHR_CORPUS names no folder with the corpus")
	}
	lehr := programs(t)
	examples, folder := filepath.Join(corpus, "argocd-examples"), t.TempDir()
	lay(t, map[string]string{filepath.Join(folder, "root.yaml"): `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: apps, namespace: argocd}
spec:
  project: default
  source: {repoURL: "` + corpusURL + `", path: apps, targetRevision: HEAD}
  destination: {server: "https://kubernetes.default.svc", namespace: argocd}
  syncPolicy: {automated: {}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: boutique, namespace: argocd}
spec:
  project: default
  source: {repoURL: "https://example.com/boutique", path: online-boutique}
  destination: {server: "https://kubernetes.default.svc", namespace: boutique}
`})
	out, err := run(t, lehr, "import", "argocd", filepath.Join(folder, "root.yaml"), "--checkout", corpusURL+"="+examples, "--checkout", "https://example.com/boutique="+corpus, "--local", "--to", filepath.Join(folder, "made"))
	// The examples that are not in the corpus point nowhere, so the exit code is 2.
	if err == nil || !strings.Contains(out, "example.sock-shop: ") || strings.Contains(out, "example.guestbook:") {
		t.Fatalf("%v\n%s", err, out)
	}
	read := func(names ...string) string {
		var all strings.Builder
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(corpus, name))
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString("---\n" + string(text) + "\n")
		}
		return all.String()
	}
	all := []wasApplied{
		{"manifests", "guestbook", read("argocd-examples/guestbook/guestbook-ui-deployment.yaml", "argocd-examples/guestbook/guestbook-ui-svc.yaml")},
		{"manifests, one file", "boutique", read("online-boutique/kubernetes-manifests.yaml")},
		{"hooks and waves", "helm-hooks", read("argocd-examples/helm-hooks/manifests.yaml")},
		{"Helm", "helm-guestbook", templated(t, filepath.Join(examples, "helm-guestbook"), "helm-guestbook", "helm-guestbook", nil, nil, nil)},
		{"Kustomize", "kustomize-guestbook", builtEdited(t, filepath.Join(examples, "kustomize-guestbook"), nil)},
		{"Kustomize with hooks", "pre-post-sync", builtEdited(t, filepath.Join(examples, "pre-post-sync"), nil)},
	}
	if got := shareOf(t, "in-cluster", objectsOf(t, lehr, filepath.Join(folder, "made", "lehr.yaml")), all); got < 0.9 {
		t.Errorf("%.1f %% of the objects are equal", 100*got)
	}
}

// inGit makes a folder a repository with one commit.
func inGit(t *testing.T, folder string) {
	t.Helper()
	for _, arguments := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "all"}} {
		command := exec.CommandContext(t.Context(), "git", arguments...)
		command.Dir = folder
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// TestImportFeatures: options of Applications and generators of ApplicationSets, one object or
// more of each, against the libraries; the sources are in git.
func TestImportFeatures(t *testing.T) {
	lehr := programs(t)
	folder := t.TempDir()
	repository := filepath.Join(folder, "repository")
	text, err := os.ReadFile("testdata/argocd.txt")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, part := range strings.Split(string(text), "\n-- ")[1:] {
		name, content, _ := strings.Cut(part, " --\n")
		files[filepath.Join(repository, name)] = strings.ReplaceAll(content, "REPOSITORY", repository) + "\n"
	}
	lay(t, files)
	inGit(t, repository)
	in := func(name string) string { return filepath.Join(repository, name) }
	values := func(names ...string) map[string]any {
		all := map[string]any{}
		for _, name := range names {
			text, err := os.ReadFile(in(name))
			if err != nil {
				t.Fatal(err)
			}
			more, err := loader.LoadValues(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			all = loader.MergeMaps(all, more)
		}
		return all
	}
	read := func(names ...string) (all string) {
		for _, name := range names {
			text, err := os.ReadFile(in(name))
			if err != nil {
				t.Fatal(err)
			}
			all += "---\n" + string(text)
		}
		return all
	}
	object := values("chart/prod.yaml")
	object["extra"] = map[string]any{"size": 5, "big": 1000000}
	all := []wasApplied{
		{"Helm parameters", "parameters", templated(t, in("chart"), "parameters", "parameters", nil, []string{`image.tag=v3`, `list={a,b}`, `text=a\,b`}, []string{"extra.size=007"})},
		{"Helm values and files", "values", templated(t, in("chart"), "rel", "values", object, nil, nil)},
		{"several sources, $values", "refs", templated(t, in("chart"), "refs", "refs", values("env/prod/values.yaml"), nil, nil)},
		{"Kustomize options", "kustomized", builtEdited(t, in("overlay"), map[string]any{
			"namePrefix": "eu-", "nameSuffix": "-x", "images": []any{map[string]any{"name": "app", "newTag": "v9", "newName": "registry.example.com/app"}},
			"labels":            []any{map[string]any{"pairs": map[string]any{"team": "web"}, "includeSelectors": true}},
			"commonAnnotations": map[string]any{"by": "argo"}, "replicas": []any{map[string]any{"name": "web", "count": 7}},
			"patches": []any{map[string]any{"target": map[string]any{"kind": "Deployment"}, "patch": "- {op: add, path: /spec/minReadySeconds, value: 5}"}},
		})},
		{"directory, recurse", "recursed", read("tree/a.yaml", "tree/below/b.yml", "tree/below/c.json")},
		{"directory, include, exclude", "narrowed", read("tree/a.yaml")},
		{"app of apps", "one", read("plain/m.yaml")},
		{"app of apps, waves", "two", read("plain/m.yaml")},
		{"ApplicationSet git folders", "dirs-a", read("dirs/a/m.yaml")},
		{"ApplicationSet git folders", "dirs-b", read("dirs/b/m.yaml")},
		{"ApplicationSet git files", "file-x", templated(t, in("chart"), "file-x", "file-x", nil, []string{"replicas=4"}, nil)},
		{"ApplicationSet matrix, go", "m-a-prod", read("dirs/a/m.yaml")},
		{"ApplicationSet matrix, go", "m-b-prod", read("dirs/b/m.yaml")},
		{"ApplicationSet merge", "merged-two", templated(t, in("chart"), "merged-two", "merged-two", nil, []string{"replicas=6"}, nil)},
	}
	out, err := run(t, lehr, "import", "argocd", in("apps"), "--checkout", repository+"="+repository, "--to", filepath.Join(folder, "made"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made := objectsOf(t, lehr, filepath.Join(folder, "made", "lehr.yaml"))
	if got := shareOf(t, "in-cluster", made, all); got < 0.99 {
		t.Errorf("%.1f %% of the objects are equal", 100*got)
	}
	definition, err := os.ReadFile(filepath.Join(folder, "made", "lehr.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"path":"json.spec.replicas"`, `"path":"json.spec.template.spec.containers[name=web].image"`, `"Mode":"observe"`,
		`"open":["Mon,Tue,Wed,Thu,Fri 09:00-17:00"]`, `"on":"kubernetes/in-cluster/one/configmap/plain"`,
	} {
		if !strings.Contains(string(definition), want) {
			t.Errorf("lehr.yaml has no %s:\n%s", want, definition)
		}
	}
	if strings.Contains(string(definition), "hunter2-long-secret") || !strings.Contains(out, "env:LEHR_SECRETIVE_PARAMETER_PASSWORD is in its place") {
		t.Errorf("a secret is copied, or not told:\n%s", out)
	}
	if out, err := run(t, lehr, "import", "argocd", in("apps"), "--checkout", repository+"="+repository, "--split", "project", "--to", filepath.Join(folder, "split")); err != nil || !strings.Contains(out, "Wrote 2 partitions, each in its folder") {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(out, "Application ring-a: ") || !strings.Contains(out, "it is given by itself, through Application ring-b: it is read once") {
		t.Errorf("a circle of Applications is not told:\n%s", out)
	}
	of, err := os.ReadFile(filepath.Join(folder, "split", "web", "lehr.yaml"))
	if err != nil || !strings.Contains(string(of), `operator: ["group:web-team"]`) {
		t.Errorf("%v: the partition web has not the roles of its project:\n%s", err, of)
	}
	if got := len(objectsOf(t, lehr, filepath.Join(folder, "split", "web", "lehr.yaml"))); got != 2 {
		t.Errorf("the partition web has %d objects", got)
	}
}

// TestImportHelm: a release becomes its chart with its values, and what that renders is what was applied.
func TestImportHelm(t *testing.T) {
	lehr := programs(t)
	folder := t.TempDir()
	release := func(name string, version int, status, template, config, manifest string) string {
		record := map[string]any{
			"name": name, "namespace": "shop", "version": version, "info": map[string]any{"status": status}, "config": json.RawMessage(config), "manifest": manifest,
			"chart": map[string]any{
				"metadata":  map[string]any{"apiVersion": "v2", "name": "web", "version": "1.2.3"},
				"templates": []any{map[string]any{"name": "templates/a.yaml", "data": []byte(template)}}, "values": map[string]any{"size": 1, "big": 1000000},
			},
		}
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		var packed bytes.Buffer
		writer := gzip.NewWriter(&packed)
		if _, err := writer.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		data := base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(packed.Bytes())))
		return fmt.Sprintf("---\napiVersion: v1\nkind: Secret\ntype: helm.sh/release.v1\nmetadata: {name: sh.helm.release.v1.%s.v%d, namespace: shop, labels: {owner: helm}}\ndata: {release: %s}\n", name, version, data)
	}
	template := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {size: {{ .Values.size | quote }}, big: {{ .Values.big | int64 | quote }}}\n"
	random := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {key: {{ randAlphaNum 8 | quote }}}\n"
	manifest := func(name, data string) string {
		return "---\n# Source: web/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: " + data + "\n"
	}
	lay(t, map[string]string{filepath.Join(folder, "secrets.yaml"): release("web", 1, "superseded", template, `{"size": 2}`, "") +
		release("web", 2, "deployed", template, `{"size": 3, "password": "hunter2-long-secret"}`, manifest("web", `{size: "3", big: "1000000"}`)) +
		release("web", 3, "pending-upgrade", template, `{"size": 4}`, "") +
		release("lucky", 1, "deployed", random, `{}`, manifest("lucky", "{key: as-it-was}")) +
		release("broken", 1, "failed", template, `{}`, "") +
		"---\napiVersion: v1\nkind: Secret\nmetadata: {name: sh.helm.release.v1.torn.v1, labels: {owner: helm}}\ndata: {release: AAAA}\n"})
	out, err := run(t, lehr, "import", "helm", filepath.Join(folder, "secrets.yaml"), "--cluster", "prod", "--to", filepath.Join(folder, "made"))
	if err == nil {
		t.Errorf("what is half done is not told:\n%s", out)
	}
	for _, want := range []string{
		"revision 3 of release shop/web: ", "it is half done (pending-upgrade): revision 2, which is deployed, is taken",
		"release shop/broken: ", "its newest revision 1 is failed, and none is deployed",
		"Secret sh.helm.release.v1.torn.v1: ", "release shop/lucky: ", "what was applied is written as manifests", "env:LEHR_WEB_VALUES_PASSWORD is in its place",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	made := objectsOf(t, lehr, filepath.Join(folder, "made", "lehr.yaml"))
	all := []wasApplied{
		{"chart of the release", "shop", manifest("web", `{size: "3", big: "1000000"}`)},
		{"random values", "shop", manifest("lucky", "{key: as-it-was}")},
	}
	if got := shareOf(t, "prod", made, all); got < 1 {
		t.Errorf("%.1f %% of the objects are equal", 100*got)
	}
}
