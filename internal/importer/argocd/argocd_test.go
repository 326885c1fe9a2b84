package argocd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"lehr.dev/internal/importer"
)

// layFiles writes files, by name, into a folder.
func layFiles(t *testing.T, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range files {
		at := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// read imports files, by name, without a renderer.
func read(t *testing.T, files map[string]string, flags ...string) (importer.Import, error) {
	t.Helper()
	folder := layFiles(t, files)
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	reader := Kind(nil, nil).Bind(set)
	for i := range flags {
		flags[i] = strings.ReplaceAll(flags[i], "FOLDER", folder)
	}
	if err := set.Parse(flags); err != nil {
		t.Fatal(err)
	}
	return reader(context.Background(), []string{filepath.Join(folder, "apps")})
}

const repository = "https://git.example.com/r.git"

func writtenApp(name, source string) string {
	return fmt.Sprintf("---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: %s, namespace: argocd}\nspec:\n  destination: {server: https://kubernetes.default.svc, namespace: shop}\n  source: {repoURL: %s, %s}\n", name, repository, source)
}

func writtenSet(generators string) string {
	return "---\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set, namespace: argocd}\nspec:\n  generators: " + generators + "\n  template:\n    metadata: {name: 'a-{{x}}'}\n    spec: {destination: {name: in-cluster}, source: {repoURL: " + repository + ", path: good}}\n"
}

// TestWrong: what cannot be taken over is told with its place, and all else is.
func TestWrong(t *testing.T) {
	elements := strings.Repeat("{x: a}, ", mostGenerated+1)
	for name, c := range map[string]struct{ apps, want string }{
		"nowhere":           {writtenApp("bad", "path: nowhere"), "its path nowhere is not in"},
		"no URL":            {strings.Replace(writtenApp("bad", "path: good"), repository, `""`, 1), "its source has no repoURL, so it points nowhere"},
		"no source":         {"---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: bad}\nspec: {destination: {}}\n", "it has no source"},
		"values":            {writtenApp("bad", `path: chart, helm: {values: "a: [b"}`), "its values are no YAML"},
		"values of a list":  {writtenApp("bad", `path: chart, helm: {values: "- a"}`), "its values are no mapping of YAML"},
		"missing values":    {writtenApp("bad", "path: chart, helm: {valueFiles: [none.yaml]}"), "its values are in none.yaml, which is not there"},
		"no ref":            {writtenApp("bad", "path: chart, helm: {valueFiles: [$x/a.yaml]}"), "no source has ref: x"},
		"out":               {writtenApp("bad", "path: ../x"), "leads out of the repository"},
		"a plugin":          {writtenApp("bad", "path: good, plugin: {name: x}"), "a plugin of Argo CD"},
		"no chart":          {writtenApp("bad", "path: good, helm: {releaseName: x}"), "has no Chart.yaml"},
		"no manifest":       {writtenApp("bad", "path: empty"), "has no manifest that it reads"},
		"jsonnet":           {writtenApp("bad", "path: jsonnet"), "has .jsonnet, which Lehr does not evaluate"},
		"replicas":          {writtenApp("bad", "path: base, kustomize: {replicas: [{name: a, count: b}]}"), "which is no number"},
		"unknown field":     {strings.Replace(writtenApp("bad", "path: good"), "spec:\n", "spec:\n  sauce: {}\n", 1), "its field sauce is not known"},
		"a wrong type":      {strings.Replace(writtenApp("bad", "path: good"), "spec:\n", "spec:\n  project: [a]\n", 1), "it cannot be read"},
		"thousands":         {writtenSet("[{list: {elements: [" + elements + "]}}]"), "it makes more than 5000 Applications"},
		"thousands, matrix": {writtenSet("[{matrix: {generators: [{list: {elements: [" + strings.Repeat("{x: a}, ", 100) + "]}}, {list: {elements: [" + strings.Repeat("{y: a}, ", 100) + "]}}]}}]"), "it makes more than 5000 Applications"},
		"a service":         {writtenSet("[{pullRequest: {github: {}}}]"), "asks a service"},
		"no generator":      {writtenSet("[{}]"), "a generator of no known kind"},
		"elements":          {writtenSet("[{list: {elementsYaml: 'a: b'}}]"), "elementsYaml is no list of YAML"},
		"no YAML":           {"---\na: argoproj.io\n b: [\n", "it is no YAML"},
		"another checkout":  {strings.Replace(writtenApp("bad", "path: x"), repository, "https://git.example.com/other", 1), "name a checkout, --checkout https://git.example.com/other=FOLDER"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, map[string]string{
				"apps/good.yaml": writtenApp("good", "path: good"), "apps/bad.yaml": c.apps, "r/good/a.yaml": "kind: A\n", "r/empty/a.txt": "", "r/jsonnet/a.jsonnet": "{}",
				"r/chart/Chart.yaml": "name: c\n", "r/base/kustomization.yaml": "resources: []\n",
			}, "--checkout", repository+"=FOLDER/r")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got.Definition, `"good": {render: kubernetes, from: ["r-good"]`) {
				t.Errorf("the other one is missing:\n%s", got.Definition)
			}
			if !slices.ContainsFunc(got.LeftOut, func(l importer.LeftOut) bool { return l.Wrong && strings.Contains(l.Why, c.want) }) {
				t.Errorf("it does not say %q: %+v", c.want, got.LeftOut)
			}
		})
	}
}

func TestNothing(t *testing.T) {
	_, err := read(t, map[string]string{"apps/a.yaml": "kind: ConfigMap\n"})
	if err == nil || !strings.Contains(err.Error(), "it has no Application and no ApplicationSet") {
		t.Errorf("it says %v", err)
	}
	_, err = read(t, map[string]string{"apps/a.yaml": writtenApp("a", "path: x")})
	if err == nil || !strings.Contains(err.Error(), "name a checkout") {
		t.Errorf("it says %v", err)
	}
}

// TestElsewhere: charts and artifacts of registries, and files of values by URL.
func TestElsewhere(t *testing.T) {
	chart := strings.Replace(writtenApp("web", `chart: web, targetRevision: "~1.2", helm: {valueFiles: ["https://example.com/v.yaml"], skipCrds: true}`), repository, "registry.example.com/charts", 1)
	index := strings.Replace(writtenApp("index", `chart: cache, targetRevision: 1.0.0`), repository, "https://charts.example.com", 1)
	got, err := read(t, map[string]string{"apps/a.yaml": chart + index})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"web-chart": {"chart":"oci://registry.example.com/charts/web","version":"~1.2"}`, `"index-chart": {"chart":"https://charts.example.com","name":"cache","version":"1.0.0"}`,
		`"web-values": {"file":"v.yaml","http":"https://example.com/v.yaml"}`, `"values":["web-values/v.yaml"]`, `"omit":["CustomResourceDefinition.apiextensions.k8s.io/*"]`,
	} {
		if !strings.Contains(got.Definition, want) {
			t.Errorf("it has no %s:\n%s", want, got.Definition)
		}
	}
	if len(got.LeftOut) > 0 {
		t.Errorf("left out: %+v", got.LeftOut)
	}
}

// TestCalendars: windows that allow, deny and both, by days of weeks and of months.
func TestCalendars(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		windows []syncWindow
		want    string
	}{
		"allow":            {[]syncWindow{{Kind: "allow", Schedule: "0 9 * * 1-5", Duration: "8h"}}, `{"open":["Mon,Tue,Wed,Thu,Fri 09:00-17:00"],"zone":"UTC"}`},
		"two allowed":      {[]syncWindow{{Kind: "allow", Schedule: "0 9 * * mon", Duration: "1h"}, {Kind: "allow", Schedule: "30 9 * * mon", Duration: "1h"}}, `{"open":["Mon 09:00-10:30"],"zone":"UTC"}`},
		"over midnight":    {[]syncWindow{{Kind: "allow", Schedule: "0 22 * * 0", Duration: "4h"}}, `{"open":["Mon 00:00-02:00","Sun 22:00-24:00"],"zone":"UTC"}`},
		"deny":             {[]syncWindow{{Kind: "deny", Schedule: "0 0 * * sat,sun", Duration: "24h"}}, `{"open":["Mon,Tue,Wed,Thu,Fri 00:00-24:00"],"zone":"UTC"}`},
		"deny beats allow": {[]syncWindow{{Kind: "allow", Schedule: "0 8 * * *", Duration: "4h"}, {Kind: "deny", Schedule: "0 10 * * *", Duration: "30m"}}, `{"open":["Mon-Sun 08:00-10:00","Mon-Sun 10:30-12:00"],"zone":"UTC"}`},
		"by the month":     {[]syncWindow{{Kind: "allow", Schedule: "0 20 1 * *", Duration: "4h"}}, `{"open":[{"for":"4h0m0s","rrule":"FREQ=DAILY;BYMONTHDAY=1","start":"2026-12-01 20:00"}],"zone":"UTC"}`},
		"denied for ever":  {[]syncWindow{{Kind: "deny", Schedule: "* * * * *", Duration: "1h"}}, "no moment is open"},
		"no cron":          {[]syncWindow{{Kind: "deny", Schedule: "61 25 * * *", Duration: "1h"}}, `"61" is not between 0 and 59`},
		"no duration":      {[]syncWindow{{Kind: "deny", Schedule: "0 0 * * *", Duration: "soon"}}, `its duration "soon" is none`},
	} {
		check, problem := calendarOf("UTC", c.windows, now)
		if got := problem + inJSON(check); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	check, problem := calendarOf("UTC", []syncWindow{{Kind: "deny", Schedule: "0 0 24 12 *", Duration: "48h"}}, now)
	if freezes, _ := check["freezes"].([]any); problem != "" || len(freezes) != 2 || check["open"] != nil {
		t.Errorf("a freeze each year: %v, %q", check, problem)
	}
}

func TestPaths(t *testing.T) {
	var webhooks map[string]any
	value, err := parseYAML([]byte("webhooks: [{name: a.example.com, clientConfig: {}}, {name: b}]\nspec: {list: [{x: 1}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	webhooks = value.(map[string]any)
	for text, want := range map[string]string{
		"/spec/replicas":                          "json.spec.replicas",
		"/metadata/labels/a.b~1c":                 `json.metadata.labels["a.b/c"]`,
		"/spec/list/0/x":                          "json.spec.list[0].x",
		"/webhooks/1/x":                           "json.webhooks[name=b].x",
		".spec.replicas":                          "json.spec.replicas",
		".webhooks[]?.clientConfig.caBundle":      "json.webhooks[name=a.example.com].clientConfig.caBundle json.webhooks[name=b].clientConfig.caBundle",
		`.webhooks[] | select(.name == "b") | .x`: "json.webhooks[name=b].x",
		`.metadata.annotations["a/b"]`:            `json.metadata.annotations["a/b"]`,
		`.spec.x | length`:                        "",
		`.webhooks[]`:                             "",
	} {
		steps, ok := pointerSteps(text)
		if strings.HasPrefix(text, ".") {
			steps, ok = jqSteps(text)
		}
		var got []string
		if ok {
			got, _ = fieldPaths(steps, []map[string]any{webhooks})
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
}

func TestImages(t *testing.T) {
	for text, want := range map[string]map[string]any{
		"app:v2":                     {"name": "app", "newTag": "v2"},
		"app=example.com:5000/b":     {"name": "app", "newName": "example.com:5000/b"},
		"app=example.com/b:v3":       {"name": "app", "newName": "example.com/b", "newTag": "v3"},
		"example.com/b@sha256:abc":   {"name": "example.com/b", "digest": "sha256:abc"},
		"app=example.com/b@sha256:a": {"name": "app", "newName": "example.com/b", "digest": "sha256:a"},
	} {
		if diff := cmp.Diff(want, parseImage(text)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestNames(t *testing.T) {
	if got := normalizeName("Feature/A_b."); got != "feature-a-b" {
		t.Error(got)
	}
	if got := slugify(12, true, "feature/long-branch-name"); got != "feature-long" {
		t.Error(got)
	}
	for _, c := range []struct{ a, b string }{
		{"git@github.com:org/repo.git", "https://github.com/org/repo"}, {"https://user@github.com/org/repo/", "ssh://git@github.com/org/repo.git"},
	} {
		if normalURL(c.a) != normalURL(c.b) {
			t.Errorf("%s is %s, %s is %s", c.a, normalURL(c.a), c.b, normalURL(c.b))
		}
	}
}
