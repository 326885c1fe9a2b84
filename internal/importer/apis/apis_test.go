package apis

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/importer"
	"lehr.dev/test/apiserver"
)

// read runs an import with a list of one endpoint, called api.
func read(t *testing.T, url, profile string, arguments ...string) (importer.Import, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list.yaml")
	text := fmt.Sprintf("http-endpoints: v1\nendpoints: [{name: api, url: %q, profile: %s, partitions: [shop], requests_per_second: 1000}]\n", url, profile)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("import", pflag.ContinueOnError)
	reader := Kind().Bind(flags)
	if err := flags.Parse(append([]string{"--endpoints", path, "--endpoint", "api"}, arguments...)); err != nil {
		t.Fatal(err)
	}
	return reader(t.Context(), nil)
}

func paths(result importer.Import) string {
	return strings.Join(slices.Sorted(maps.Keys(result.Files)), " ")
}

// TestEverythingOfSeveralPages is written, without what the API writes and without what
// looks like a secret; integers keep their digits.
func TestEverythingOfSeveralPages(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	for _, id := range []string{"a", "b", "c", "d", "Web", "web"} {
		api.Put("shelves", id, `{"title":"yes","big":9007199254740993,"no":{"n":null,"list":[1,{"x":"2026-01-01"}]},"on":1.50}`)
	}
	api.Put("shelves", "e", `{"title":"e","password":"9f8GhR7sK2pQ","deep":{"api_key":"sk-live-9f8GhR7sK2pQ0000"}}`)
	api.Put("shelves", "f", `{"keys":[{"private":"-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"}]}`)
	result, err := read(t, api.URL, "crud", "--resource", "object", "--identity", "collection=shelves")
	if err != nil {
		t.Fatal(err)
	}
	want := "things/object/shelves/a.yaml things/object/shelves/b.yaml things/object/shelves/c.yaml things/object/shelves/d.yaml things/object/shelves/e.yaml things/object/shelves/web-2.yaml things/object/shelves/web.yaml"
	if got := paths(result); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := string(result.Files["things/object/shelves/a.yaml"]); got != `resource: object
identity:
  collection: shelves
  id: a
body:
  big: 9007199254740993
  "no":
    list:
      - 1
      - x: "2026-01-01"
    "n": null
  "on": 1.5
  title: "yes"
` {
		t.Error(got)
	}
	if got := string(result.Files["things/object/shelves/web-2.yaml"]); !strings.HasPrefix(got, "id: http/api/object/shelves/web-2\n") {
		t.Error(got)
	}
	var left []string
	for _, l := range result.LeftOut {
		left = append(left, l.What+": "+l.Why)
	}
	told := strings.Join(left, "\n")
	for _, want := range []string{"object collection=shelves,id=e: field /password holds", "id=e: field /deep/api_key holds", "object collection=shelves,id=f: it holds a private key"} {
		if !strings.Contains(told, want) {
			t.Errorf("%s\ndoes not say %q", told, want)
		}
	}
	for name, text := range result.Files {
		if strings.Contains(string(text), "9f8GhR7s") {
			t.Errorf("%s has a secret", name)
		}
	}
	if writes := api.Writes(); len(writes) > 0 {
		t.Errorf("it wrote: %v", writes)
	}
}

// TestWhatCannotBeReadAsAWhole ends an import: what it misses would be taken for intent.
func TestWhatCannotBeReadAsAWhole(t *testing.T) {
	api := apiserver.NewCRUD("")
	defer api.Close()
	for i := range 5 {
		api.Put("shelves", fmt.Sprint("a", i), `{"title":"t"}`)
	}
	requests := 0
	for name, c := range map[string]struct {
		front func(w http.ResponseWriter, r *http.Request, next http.Handler)
		want  string
	}{
		"pages that never hold still": {func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			requests++
			api.Put("shelves", fmt.Sprint("0", requests), `{"title":"new"}`)
			next.ServeHTTP(w, r)
		}, "it changed while it was read"},
		"a page that is refused": {func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Query().Get("page") == "2" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		}, "403"},
		"a thing that cannot be read": {func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/a3") {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			next.ServeHTTP(w, r)
		}, "500"},
		"a next page that is elsewhere": {func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			w.Header().Set("Link", `<https://elsewhere.example/shelves?page=2>; rel="next"`)
			_, _ = w.Write([]byte(`[]`))
		}, "elsewhere"},
		"an API that is too busy": {func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		}, "too busy"},
	} {
		api.Front(c.front)
		result, err := read(t, api.URL, "crud", "--resource", "object", "--identity", "collection=shelves")
		if err == nil || !strings.Contains(err.Error(), c.want) || len(result.Files) > 0 {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	api.Front(nil)
	for arguments, want := range map[string]string{
		"--resource=object":                                "which collection?",
		"--resource=object --identity=collection=none":     "there is nothing of object",
		"--resource=shelf --identity=collection=shelves":   `knows no resource "shelf"`,
		"--endpoint=other --resource=object":               "there is no endpoint",
		"--endpoints=none.yaml --resource=object":          "none.yaml",
		"--resource=object --identity=collection=../admin": "there is nothing of object",
	} {
		if _, err := read(t, api.URL, "crud", strings.Fields(arguments)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arguments, err, want)
		}
	}
}

// TestRepositoriesOfAnOwner, and the one protection that is named.
func TestRepositoriesOfAnOwner(t *testing.T) {
	api := apiserver.NewGitHub("", "acme/web", "acme/shop", "other/web")
	defer api.Close()
	result, err := read(t, api.URL, "github", "--resource", "repository", "--identity", "owner=acme")
	if got := paths(result); err != nil || got != "things/repository/acme/shop.yaml things/repository/acme/web.yaml" {
		t.Fatal(err, got)
	}
	var written struct {
		Identity map[string]string
		Body     map[string]any
	}
	if err := yaml.Unmarshal(result.Files["things/repository/acme/web.yaml"], &written); err != nil {
		t.Fatal(err)
	}
	encoded, _ := json.Marshal(written)
	if want := `{"Identity":{"owner":"acme","repo":"web"},"Body":{"allow_squash_merge":true,"archived":false,"default_branch":"main","delete_branch_on_merge":false,"description":null,"has_issues":true,"has_wiki":true,"private":false,"topics":[],"visibility":"public"}}`; string(encoded) != want {
		t.Errorf("%s\nwant %s", encoded, want)
	}
	if _, err := read(t, api.URL, "github", "--resource", "branch-protection", "--identity", "owner=acme,repo=web"); err == nil || !strings.Contains(err.Error(), "identified by branch, owner, repo") {
		t.Error(err)
	}
	if _, err := read(t, api.URL, "github", "--resource", "branch-protection", "--identity", "owner=acme,repo=web,branch=main"); err == nil || !strings.Contains(err.Error(), "there is no branch-protection") {
		t.Error(err)
	}
}
