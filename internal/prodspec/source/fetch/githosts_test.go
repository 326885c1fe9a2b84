package fetch

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
)

// A git host is the operator's to list, for some partitions, with a token by reference that is read
// for each request.
func TestGitHostsOfAPolicy(t *testing.T) {
	seen := ""
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization")
		fmt.Fprint(w, "[]")
	})
	folder := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := write("token", "first\n")
	host := "{name: shop, kind: github, api: " + s.URL + ", repository: team/shop, token: {file: token}, partitions: [shop]}"
	policy, err := ReadPolicy(write("sources.yaml", "sources: v1\nnetworks: [127.0.0.0/8]\ngithosts:\n  - "+host+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(policy.SecretFiles(), token) {
		t.Errorf("the token may be read as a source: %v", policy.SecretFiles())
	}
	options := Options{Partition: "shop", Policy: func() *Policy { return policy }}
	found, err := options.GitHost("shop", "shop", loop.Real())
	if err != nil {
		t.Fatal(err)
	}
	status := githost.StatusOf("shop", "web", "test", strings.Repeat("a", 40), githost.Success, "1.0.0", "")
	for _, want := range []string{"first", "second"} {
		write("token", want)
		if posted, err := found.PostStatus(t.Context(), status); err != nil || !posted || seen != "Bearer "+want {
			t.Errorf("posted %v with %q, %v", posted, seen, err)
		}
	}
	for _, name := range []string{"none", ""} {
		if _, err := options.GitHost("shop", name, loop.Real()); !fault.Is(err, fault.Denied) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := options.GitHost("other", "shop", loop.Real()); !fault.Is(err, fault.Denied) {
		t.Errorf("of another partition: %v", err)
	}
	for from, to := range map[string]string{"kind: github": "kind: svn", "{file: token}": "{}", s.URL: "http://git.example.com", "team/shop": "shop", "[shop]}": "[]}"} {
		if _, err := ReadPolicy(write("wrong.yaml", "sources: v1\ngithosts:\n  - "+strings.Replace(host, from, to, 1)+"\n")); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "git host 1") {
			t.Errorf("with %s: %v", to, err)
		}
	}
}

// Statuses of an application go to the hosts that name it, or all, for its partition.
func TestStatusHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sources.yaml")
	host := "\n  - {name: %s, kind: github, api: \"https://git.example.com\", repository: team/shop, token: {env: T}, partitions: [%s], statuses: [%s]}"
	text := "sources: v1\ngithosts:" + fmt.Sprintf(host, "one", "shop", "web") + fmt.Sprintf(host, "all", "shop", `"*"`) + fmt.Sprintf(host, "other", "eu", "web") + fmt.Sprintf(host, "none", "shop", "")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	policy, err := ReadPolicy(path)
	if err != nil {
		t.Fatal(err)
	}
	options := Options{Policy: func() *Policy { return policy }}
	for application, want := range map[string][]string{"web": {"all", "one"}, "cart": {"all"}} {
		found := options.StatusHosts("shop", application, loop.Real())
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) || found["all"].Repository != "team/shop" {
			t.Errorf("statuses of %s go to %v, want %v", application, got, want)
		}
	}
}
