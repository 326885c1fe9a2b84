package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/test/gitrepo"
)

const knobsYAML = `# What runs where.
clusters:
  a: {version: '1.3', replicas: 3}   # the old one
  b:
    version: "1.4"
log: info # or debug
`

// desk is a person's repository, the bare one that all push to, and what edits it.
type desk struct {
	testing.TB
	own *gitrepo.Repository
	// bare is where it is pushed to.
	bare     string
	options  Options
	git      source.Git
	writing  *Writing
	recorded []string
	deny     error
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	d := &desk{TB: t, own: newOrigin(t)}
	d.own.Write("prod/knobs.yaml", knobsYAML)
	d.own.Write("other.txt", "x")
	d.own.Commit("Begin")
	d.bare = filepath.Join(filepath.Dir(d.own.Folder), "shop.git")
	d.own.Git("clone", "--quiet", "--bare", d.own.Folder, d.bare)
	d.own.Git("remote", "add", "bare", d.bare)
	policy := &Policy{Networks: local}
	d.options = Options{Partition: "shop", Folder: t.TempDir(), Policy: func() *Policy { return policy }, Runtime: loop.Real()}
	d.git = source.Git{URL: d.bare, Branch: "main", Directory: "prod", Document: "prod/knobs.yaml"}
	return d
}

func (d *desk) open() *Writing {
	d.Helper()
	w, err := Write(d.options, "knobs", d.git, func(_ context.Context, name, detail, reason string, by intent.Actor) error {
		d.recorded = append(d.recorded, by.Name+" "+name+" "+detail+" "+reason)
		return d.deny
	})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(w.Close)
	d.writing = w
	return w
}

// push what a person wrote in a file.
func (d *desk) push(old, by, subject string) string {
	d.Helper()
	d.own.Git("pull", "--quiet", "--rebase", "bare", "main")
	text, err := os.ReadFile(filepath.Join(d.own.Folder, "prod/knobs.yaml"))
	if err != nil {
		d.Fatal(err)
	}
	d.own.Write("prod/knobs.yaml", strings.Replace(string(text), old, by, 1))
	commit := d.own.Commit(subject)
	d.own.Git("push", "--quiet", "bare", "main")
	return commit
}

func (d *desk) pushed() string {
	d.Helper()
	return d.own.Git("--git-dir="+d.bare, "show", "main:prod/knobs.yaml") + "\n"
}

func (d *desk) read() document.Document {
	d.Helper()
	found, err := d.writing.Read(d.Context(), "")
	if err != nil {
		d.Fatal(err)
	}
	return found
}

var bob = intent.Actor{Name: "bob@example.com", Origin: "api"}

func setting(base, path, value string) document.Edit {
	return document.Edit{Base: base, Operations: []document.Operation{{Path: path, Value: json.RawMessage(value)}}, Reason: "the spring release"}
}

// An edit is a commit by the person, which changes the field and no other byte.
func TestAnEditIsACommit(t *testing.T) {
	d := newDesk(t)
	w := d.open()
	base := d.read()
	if string(base.Content) != `{"clusters":{"a":{"replicas":3,"version":"1.3"},"b":{"version":"1.4"}},"log":"info"}` || base.Revision.By.Name != gitrepo.Author || base.Revision.Reason != "Begin" {
		t.Errorf("read %+v", base)
	}
	edit := setting(base.Revision.ID, "/clusters/a/version", `"1.10"`)
	made, err := w.Edit(t.Context(), edit, bob)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(knobsYAML, "'1.3'", "'1.10'", 1); d.pushed() != want {
		t.Errorf("the file is\n%s, want\n%s", d.pushed(), want)
	}
	log := d.own.Git("--git-dir="+d.bare, "log", "-1", "--format=%H %an <%ae> %cn%n%B", "main")
	if !strings.HasPrefix(log, made.Revision.ID+" bob@example.com <bob@example.com> Lehr\nthe spring release\n") || !strings.Contains(log, "\nLehr-Document: shop/knobs\n") {
		t.Errorf("the commit is %s", log)
	}
	if other := d.own.Git("--git-dir="+d.bare, "show", "main:other.txt"); other != "x" {
		t.Errorf("other files became %q", other)
	}
	if len(d.recorded) != 1 || !strings.Contains(d.recorded[0], "bob@example.com knobs commit "+made.Revision.ID) || !strings.Contains(d.recorded[0], "set /clusters/a/version") {
		t.Errorf("recorded: %q", d.recorded)
	}
	// Repeated, as when the answer was lost, it is made once.
	again, err := w.Edit(t.Context(), edit, bob)
	if err != nil || again.Revision.ID != made.Revision.ID || len(d.recorded) != 1 {
		t.Errorf("again: %+v, %v", again.Revision, err)
	}
	// What others changed elsewhere is no hindrance; the same fields are.
	theirs := d.push("log: info", "log: warn", "Be quiet")
	if _, err := w.Edit(t.Context(), setting(base.Revision.ID, "/clusters/b/version", `"2"`), bob); err != nil {
		t.Fatal(err)
	}
	_, err = w.Edit(t.Context(), setting(base.Revision.ID, "/log", `"debug"`), bob)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "Ann Author <ann@example.com> set /log (revision "+theirs[:12]) || !strings.Contains(err.Error(), "Be quiet") {
		t.Errorf("the same field: %v", err)
	}
	if found, ok := errors.AsType[*document.Conflict](err); !ok || found.Revision != d.read().Revision.ID || found.More ||
		!slices.Equal(found.Changed, []string{"/clusters/a/version", "/clusters/b/version", "/log"}) || !slices.Equal(found.Conflicting, []string{"/log"}) {
		t.Errorf("it conflicts with %+v", found)
	}
	// Undone is what the commit changed, by a commit.
	undone, err := w.Undo(t.Context(), made.Revision.ID, "it is slow", bob)
	if err != nil || undone.Revision.Of != made.Revision.ID || undone.Revision.Kind != document.Undone {
		t.Fatalf("undone: %+v, %v", undone.Revision, err)
	}
	want := strings.NewReplacer("log: info", "log: warn", `"1.4"`, `"2"`).Replace(knobsYAML)
	if d.pushed() != want {
		t.Errorf("the file is\n%s, want\n%s", d.pushed(), want)
	}
	if _, err := w.Undo(t.Context(), made.Revision.ID, "still", bob); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "/clusters/a/version changed since") {
		t.Errorf("undone twice: %v", err)
	}
	list, err := w.Revisions(t.Context(), "", 3)
	if err != nil || len(list) != 3 || list[0].ID != undone.Revision.ID || list[2].ID != theirs || list[2].What() != "set /log" {
		t.Errorf("history %+v, %v", list, err)
	}
	rest, err := w.Revisions(t.Context(), list[2].ID, 10)
	if err != nil || len(rest) != 2 || rest[1].Kind != document.Created {
		t.Errorf("the rest %+v, %v", rest, err)
	}
	if then, err := w.Read(t.Context(), made.Revision.ID[:10]); err != nil || !strings.Contains(string(then.Content), `"1.10"`) {
		t.Errorf("as of the commit: %s, %v", then.Content, err)
	}
}

// Many edit at once, through processes of their own, and a person pushes
// meanwhile: each edit is there, once.
func TestManyEditARepository(t *testing.T) {
	d := newDesk(t)
	base := func() string { d.open(); return d.read().Revision.ID }()
	var group sync.WaitGroup
	fields := []string{"a", "b", "c", "d"}
	for _, field := range fields {
		options := d.options
		options.Folder = t.TempDir()
		w, err := Write(options, "knobs", d.git, func(context.Context, string, string, string, intent.Actor) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		group.Go(func() {
			for range 2 { // Repeated, too.
				if _, err := w.Edit(t.Context(), setting(base, "/new/"+field, `1`), bob); err != nil && !fault.Is(err, fault.Conflict) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	// The map that all of them make is one field: of those that came later, each
	// is told so, or is there.
	value := string(d.read().Content)
	if !strings.Contains(value, `"new":{`) {
		t.Errorf("nothing of them is there: %s", value)
	}
	count := d.own.Git("--git-dir="+d.bare, "rev-list", "--count", "main")
	if there := strings.Count(value[strings.Index(value, `"new":{`):], `:1`); count != []string{"1", "2", "3", "4", "5"}[there] {
		t.Errorf("%d edits are there, by %s commits", there, count)
	}
}

// What may not be pushed is not, and it is said why.
func TestPushesThatAreRefused(t *testing.T) {
	d := newDesk(t)
	w := d.open()
	base := d.read().Revision.ID
	d.deny = fault.New(fault.Denied, "bob may not")
	if _, err := w.Edit(t.Context(), setting(base, "/log", `"debug"`), bob); !fault.Is(err, fault.Denied) || d.pushed() != knobsYAML {
		t.Errorf("without leave: %v", err)
	}
	d.deny = nil
	for says, edit := range map[string]document.Edit{
		"no commit":       setting("7", "/log", `1`),
		"has no commit":   setting(strings.Repeat("a", 40), "/log", `1`),
		"changes nothing": setting(base, "/log", `"info"`),
		"neither a map":   setting(base, "/log/x", `1`),
	} {
		if _, err := w.Edit(t.Context(), edit, bob); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", edit, err, says)
		}
	}
	hook := filepath.Join(d.bare, "hooks", "update")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Edit(t.Context(), setting(base, "/log", `"debug"`), bob); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "no hooks are run") {
		t.Errorf("past a hook: %v", err)
	}
	if d.pushed() != knobsYAML {
		t.Errorf("something was pushed: %s", d.pushed())
	}
}

// Over HTTP, with a token that the policy gives; a server whose hook refuses, and
// one that may only be read, say so.
func TestEditsOverHTTP(t *testing.T) {
	d := newDesk(t)
	d.own.Git("--git-dir="+d.bare, "config", "http.receivepack", "true")
	server := gitServer(t, filepath.Dir(d.bare), func(r *http.Request) bool {
		_, password, _ := r.BasicAuth()
		return password == "sesame"
	})
	d.git.URL = server.URL + "/shop.git"
	t.Setenv("PUSH_TOKEN", "sesame")
	d.git.Token = source.Secret{Env: "PUSH_TOKEN"}
	w := d.open()
	if _, err := w.Read(t.Context(), ""); !fault.Is(err, fault.Denied) {
		t.Errorf("a secret that the policy does not give: %v", err)
	}
	policy := d.options.Policy()
	policy.Secrets = append(policy.Secrets, ListedSecret{Env: "PUSH_TOKEN", Hosts: []string{host(t, server.URL)}, Partitions: []string{"shop"}})
	base := d.read().Revision.ID
	made, err := w.Edit(t.Context(), setting(base, "/log", `"debug"`), bob)
	if err != nil || d.pushed() != strings.Replace(knobsYAML, "log: info", "log: debug", 1) {
		t.Fatalf("%v: %s", err, d.pushed())
	}
	hook := filepath.Join(d.bare, "hooks", "update")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho protected >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Edit(t.Context(), setting(made.Revision.ID, "/log", `"warn"`), bob); !fault.Is(err, fault.Denied) || strings.Contains(err.Error(), "sesame") {
		t.Errorf("a hook that refuses: %v", err)
	}
	d.own.Git("--git-dir="+d.bare, "config", "http.receivepack", "false")
	if _, err := w.Edit(t.Context(), setting(made.Revision.ID, "/log", `"warn"`), bob); err == nil || strings.Contains(d.pushed(), "warn") {
		t.Errorf("a server that may only be read: %v", err)
	}
}

// A file that is not there is made.
func TestAFileIsMade(t *testing.T) {
	d := newDesk(t)
	d.git.Document = "prod/deep/new.yaml"
	w := d.open()
	if _, err := w.Read(t.Context(), ""); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "lehr document create knobs") {
		t.Errorf("before: %v", err)
	}
	for range 2 {
		made, err := w.Create(t.Context(), []byte(`{"a":{"b":1}}`), "begun", bob)
		if err != nil || string(made.Content) != `{"a":{"b":1}}` {
			t.Fatalf("made: %+v, %v", made, err)
		}
	}
	if _, err := w.Create(t.Context(), []byte(`{}`), "again", bob); !fault.Is(err, fault.Conflict) {
		t.Errorf("made twice: %v", err)
	}
	if text := d.own.Git("--git-dir="+d.bare, "show", "main:prod/deep/new.yaml"); text != "a:\n  b: 1" {
		t.Errorf("the file is %q", text)
	}
}

// What a document was, and what changed it since, is read by commits, also where history was
// rewritten since.
func TestADocumentAsOfCommits(t *testing.T) {
	d := newDesk(t)
	w := d.open()
	first := d.read().Revision.ID
	second := d.push("info", "debug", "Say more")
	third := d.push("replicas: 3", "replicas: 4", "Grow")
	d.read()
	past, err := w.At(t.Context(), second)
	if err != nil || past.Revision.ID != second || !strings.Contains(string(past.Content), `"replicas":3`) || !strings.Contains(string(past.Content), `"log":"debug"`) {
		t.Errorf("%s, %v", past.Content, err)
	}
	since := func(until, after string) (names []string) {
		t.Helper()
		list, err := w.Since(t.Context(), until, after)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			names = append(names, r.Reason+" "+r.Changes[0].Path)
		}
		return names
	}
	if got := since(third, first); !slices.Equal(got, []string{"Grow /clusters/a/replicas", "Say more /log"}) {
		t.Errorf("%q", got)
	}
	if got := since(third, third); len(got) != 0 {
		t.Errorf("%q", got)
	}
	if got := since(third, "1234567"); len(got) != 3 {
		t.Errorf("since a commit that nobody has: %q", got)
	}
	d.own.Git("reset", "--quiet", "--hard", first)
	d.own.Git("push", "--quiet", "--force", "bare", "HEAD:main")
	d.read()
	if _, err := w.At(t.Context(), third); !fault.Is(err, fault.NotFound) {
		t.Errorf("a commit that is in the branch no more: %v", err)
	}
	if _, err := w.Since(t.Context(), "main", first); !fault.Is(err, fault.Invalid) {
		t.Errorf("no commit: %v", err)
	}
}
