package profile_test

import (
	"errors"
	"strings"
	"testing"

	"lehr.dev/plugins/http/profile"
)

// TestReadyProfiles: each is as strict as one of a user's own, and says what it is.
func TestReadyProfiles(t *testing.T) {
	if got := strings.Join(profile.Ready(), " "); got != "crud github grafana" {
		t.Fatal(got)
	}
	for _, name := range profile.Ready() {
		p, err := profile.OpenReady(name)
		if err != nil || p.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := profile.OpenReady("gitlab"); err == nil || !strings.Contains(err.Error(), "crud, github, grafana") {
		t.Error(err)
	}
}

const fine = `http-profile: v1
resources:
  thing:
    identity: {id: /id}
    read: {request: "GET /things/{id}", absent: [{status: 404}]}
    update: {request: "PUT /things/{id}"}
    delete: {request: "DELETE /things/{id}"}
    compare: {etag: true, unique: true}
`

// TestWrongProfilesAreRefused, with the place of what is wrong.
func TestWrongProfilesAreRefused(t *testing.T) {
	if _, err := profile.Parse("p.yaml", []byte(fine)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, text, want string }{
		{"http-profile: v1", "http-profile: v2", "start it with http-profile: v1"},
		{"resources:", "timeout: soon\nresources:", "p.yaml:2: \"soon\" is no length of time"},
		{"resources:", "timeout: 2h\nresources:", "at most 1m0s"},
		{"resources:", "retires: 2\nresources:", `p.yaml:2: unknown key "retires" (did you mean retries?`},
		{"resources:", "requests_per_second: -1\nresources:", "requests_per_second"},
		{"GET /things/{id}", "FETCH /things/{id}", "p.yaml:5: the request"},
		{"GET /things/{id}", "GET things", "no plain path"},
		{"GET /things/{id}", "GET /things/../{id}", "no plain path"},
		{"GET /things/{id}", "GET /things/{ID}", "neither a name nor a place"},
		{"GET /things/{id}", "GET /things/{id", "{ that does not end"},
		{"GET /things/{id}", "GET /things/{uid}", "{uid}, which identity does not name"},
		{"GET /things/{id}", "GET /things/{/id}", "nothing was read before"},
		{"GET /things/{id}", "POST /things/{id}", `read has the method "POST"`},
		{"status: 404", "status: 200", "has no at"},
		{"status: 404", "status: 500", "does not say that nothing is there"},
		{"status: 404", "status: 403", "does not say that nothing is there"},
		{"status: 404", "status: 301", "does not say that nothing is there"},
		{"absent: [{status: 404}]", "absent: []", "read has no absent"},
		{"id: /id}", "id: id}", "no JSON pointer"},
		{"{etag: true, unique: true}", "{unique: true}", "neither etag nor at"},
		{"PUT /things/{id}\"", "PUT /things/{id}\", send: half", "write ours or whole"},
		{"    compare", "    list: {request: GET /things, page: {first: 1}}\n    compare", "without a parameter"},
		{"    compare", "    list: {request: GET /things, link: true, page: {parameter: p}}\n    compare", "more than one of page, cursor and link"},
	} {
		text := strings.Replace(fine, c.old, c.text, 1)
		if text == fine {
			t.Fatalf("%q is not in the profile", c.old)
		}
		if _, err := profile.Parse("p.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestGuardedResources: a kind is of class C only when the API compares each write with
// what never comes again.
func TestGuardedResources(t *testing.T) {
	guarded := func(old, text string) bool {
		p, err := profile.Parse("p.yaml", []byte(strings.Replace(fine, old, text, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return p.Resources["thing"].IsGuarded()
	}
	if !guarded("", "") {
		t.Error("ETags that never come again are no class C")
	}
	for old, text := range map[string]string{
		", unique: true":             "",
		"etag: true":                 "at: /version, send: /version", // The deletion is compared with nothing.
		"    compare":                "    create: {request: POST /things}\n    compare",
		"{etag: true, unique: true}": "{at: /version, unique: true}",
	} {
		if guarded(old, text) {
			t.Errorf("with %q it is of class C", text)
		}
	}
	if !guarded("etag: true", "at: /version, send: /version, send_delete: /if/version") {
		t.Error("versions that each write sends are no class C")
	}
	if !guarded("    compare", "    create: {request: \"PUT /things/{id}\", if_none_match: true}\n    compare") {
		t.Error("a creation with If-None-Match is no class C")
	}
}

// TestValuesStayInTheirPartOfAPath: no value leads to another path.
func TestValuesStayInTheirPartOfAPath(t *testing.T) {
	p, err := profile.Parse("p.yaml", []byte(strings.Replace(fine, "/things/{id}", "/things/{id}?of={id}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	request := &p.Resources["thing"].Read.Request
	for value, want := range map[string]string{
		"a": "/things/a?of=a", "a/b": "/things/a%2Fb?of=a%2Fb", "a?b&c": "/things/a%3Fb&c?of=a%3Fb%26c", "ü %": "/things/%C3%BC%20%25?of=%C3%BC+%25", "..": "", ".": "", "": "",
	} {
		path, query, err := request.Fill(func(string) (string, error) { return value, nil })
		if got := path + "?" + query; err == nil && got != want || err != nil && want != "" {
			t.Errorf("%q: %s %v, want %s", value, got, err, want)
		}
	}
	if _, _, err := request.Fill(func(string) (string, error) { return "", errors.New("none") }); err == nil {
		t.Error("an error was lost")
	}
}
