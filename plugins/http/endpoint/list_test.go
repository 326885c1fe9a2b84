package endpoint

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const fine = `http-endpoints: v1
endpoints:
- name: things
  url: https://things.example/api/
  profile: crud
  partitions: [shop]
`

// TestWrongListsAreRefused, with the place and what to write instead.
func TestWrongListsAreRefused(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "list.yaml")
	write(t, filepath.Join(folder, "broken.yaml"), "http-profile: v1\nresourcs: {}\n")
	for text, want := range map[string]string{
		fine:                     "",
		"":                       "empty",
		"http-endpoints: v2\n":   "start it with http-endpoints: v1",
		fine + "  colour: red\n": `list.yaml:7: unknown key "endpoints[0].colour" (the keys here are: name,`,
		fine + "---\n" + fine:    "more than one document",
		fine + "  timeout: 2h\n": "at most 60s",
		"http-endpoints: v1\nendpoints:\n  things: {url: 'https://a'}\n":         "list.yaml:3: endpoints is a mapping, not a list (write [A, B], or one - ITEM a line;",
		fine + "  timeout: soon\n":                                               `list.yaml:7: "soon" is no length of time`,
		fine + "  methods: [PUT]\n":                                              "methods lacks GET",
		fine + "  methods: [FETCH]\n":                                            `methods has "FETCH"`,
		fine + "  resources: [shelf]\n":                                          `resources has "shelf"`,
		fine + "  ca: none.pem\n":                                                "reading its ca",
		fine + "  proxy: ':'\n":                                                  "proxy",
		fine + "  networks: [here]\n":                                            "list.yaml",
		fine + fine[strings.Index(fine, "- name"):]:                              "two endpoints",
		strings.Replace(fine, "crud", "soap", 1):                                 "no ready profile",
		strings.Replace(fine, "crud", "none.yaml", 1):                            "reading its profile",
		strings.Replace(fine, "crud", "broken.yaml", 1):                          `broken.yaml:2: unknown key "resourcs" (did you mean resources?`,
		strings.Replace(fine, "https:", "http:", 1):                              "plain HTTP",
		strings.Replace(fine, "https:", "ftp:", 1):                               "no URL",
		strings.Replace(fine, "https://", "https://me:hush@", 1):                 "a user or a password",
		strings.Replace(fine, "api/", "api?key=hush", 1):                         "a query",
		strings.Replace(fine, "[shop]", "[]", 1):                                 "no partition may use it",
		strings.Replace(fine, "name: things", "name: Things", 1):                 "small letters",
		fine + "  headers: [{name: X-Key}]\n":                                    "has no value",
		fine + "  headers: [{name: X-Key, env: HOME}]\n":                         "begins with LEHR_",
		fine + "  headers: [{name: X-Key, env: LEHR_A, file: b}]\n":              "keep one",
		fine + "  headers: [{name: X-Key, kubernetes: {name: b}}]\n":             "needs namespace",
		fine + "  headers: [{name: X-Key, sops: {file: b}}]\n":                   "needs file, and path",
		fine + "  headers: [{name: X-Key, env: LEHR_A, value: Bearer}]\n":        "without {secret}",
		fine + "  headers: [{name: 'X Key', value: a}]\n":                        "no name of a header",
		fine + "  headers: [{name: if-match, value: a}]\n":                       "not for a list to set",
		strings.Replace(fine, "https:", "http:", 1) + "  insecure: true\n":       "",
		strings.Replace(fine, "https://things.example", "http://[::1]:80", 1):    "",
		strings.Replace(fine, "https://things.example", "http://localhost:1", 1): "",
	} {
		write(t, path, text)
		_, err := Open(path, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n%v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("it tells a secret: %v", err)
		}
	}
	if _, err := Open(filepath.Join(folder, "nowhere.yaml"), nil); err == nil || !strings.Contains(err.Error(), "--endpoints FILE") {
		t.Error(err)
	}
}

// TestWhoMayUseWhat: another partition's endpoint is as unknown as none.
func TestWhoMayUseWhat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.yaml")
	write(t, path, fine+"  resources: [object]\n")
	list, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := list.Find("things", "shop"); err != nil || e.Key() != "things.example/api" {
		t.Error(e, err)
	}
	_, theirs := list.Find("things", "zoo")
	_, none := list.Find("thingz", "zoo")
	if !errors.Is(theirs, ErrNotListed) || !errors.Is(none, ErrNotListed) || strings.ReplaceAll(none.Error(), "thingz", "things") != theirs.Error() {
		t.Errorf("%v\n%v", theirs, none)
	}
}

// TestAddressesThatTheOperatorDidNotMean are not dialled: those of this machine, of its
// link and of a cloud's credentials, unless the list says so.
func TestAddressesThatTheOperatorDidNotMean(t *testing.T) {
	for _, c := range []struct {
		url, more, to string
		refused       bool
	}{
		{"https://things.example", "", "93.184.216.34:443", false},
		{"https://things.example", "", "10.1.2.3:443", false},
		{"https://things.example", "", "127.0.0.1:443", true},
		{"https://things.example", "", "169.254.169.254:443", true},
		{"https://things.example", "", "[fe80::1]:443", true},
		{"https://things.example", "", "[::ffff:169.254.169.254]:443", true},
		{"https://things.example", "", "100.100.100.200:443", true},
		{"https://things.example", "  networks: [169.254.0.0/16]\n", "169.254.169.254:443", false},
		{"https://169.254.169.254", "", "169.254.169.254:443", false},
		{"https://localhost", "", "127.0.0.1:443", false},
		{"https://localhost", "", "169.254.169.254:443", true},
	} {
		path := filepath.Join(t.TempDir(), "list.yaml")
		write(t, path, strings.Replace(fine, "https://things.example", c.url, 1)+c.more)
		list, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := list.Named("things")
		if err := e.judge("tcp", c.to, nil); (err != nil) != c.refused {
			t.Errorf("%s to %s: %v", c.url, netip.MustParseAddrPort(c.to), err)
		}
	}
}

// TestMethodsThatAreNotAllowed are not sent.
func TestMethodsThatAreNotAllowed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was sent", r.Method) }))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "list.yaml")
	write(t, path, strings.Replace(fine, "https://things.example/api/", server.URL, 1)+"  methods: [GET]\n")
	list, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := list.Named("things")
	if _, err := e.Do(t.Context(), Call{Method: "DELETE", Path: "/c/a"}); !errors.Is(err, ErrNotListed) {
		t.Error(err)
	}
}

// TestTheListIsReadAgain when its file changes; one that is wrong, or that asks for less
// than the plugin declared, changes nothing.
func TestTheListIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.yaml")
	guarded := fine + "  unique_versions: true\n"
	write(t, path, guarded)
	var log strings.Builder
	source, err := OpenSource(path, nil, &log)
	if err != nil || !source.IsGuarded() || source.LongestEffect() != 5*time.Second {
		t.Fatal(err, source.IsGuarded(), source.LongestEffect())
	}
	names := func(text string) string {
		write(t, path, text)
		return strings.Join(source.List().Names(), " ")
	}
	if got := names(strings.Replace(guarded, "name: things", "name: others", 1)); got != "others" {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"http-endpoints: v1\nendpoint: []\n": `unknown key "endpoint" (did you mean endpoints?`,
		fine:                                 "lower guarantee class",
		guarded + "  timeout: 30s\n":         "longer timeout",
	} {
		log.Reset()
		if got := names(text); got != "others" || !strings.Contains(log.String(), want) {
			t.Errorf("%s: %s, and the log says %q", text, got, log.String())
		}
		if source.List(); strings.Count(log.String(), "\n") != 1 {
			t.Errorf("it says so again and again: %s", log.String())
		}
	}
	if none, err := OpenSource("", nil, &log); err != nil || none.IsGuarded() || len(none.List().Names()) != 0 {
		t.Error("without a file something is listed")
	}
}
