package fetch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/commitgraph"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/versionlist"
	"lehr.dev/internal/prodspec/source"
)

// list reads the list of versions of a source.
func (r *reader) list() (versionlist.List, *source.Snapshot) {
	r.Helper()
	found, snapshot, err := r.read()
	if err != nil {
		r.Fatal(err)
	}
	list, err := versionlist.Parse([]byte(found["web.json"]))
	if err != nil {
		r.Fatal(err)
	}
	return list, snapshot
}

func textOf(list versionlist.List) string {
	var names []string
	for _, v := range list.Versions {
		names = append(names, v.Version)
	}
	return strings.Join(names, " ")
}

// versionsOf opens a list of versions.
func versionsOf(t *testing.T, v source.Versions) *reader {
	t.Helper()
	v.File = "web.json"
	return newReader(t, source.Remote{Versions: &v}, "web.json")
}

// wantRefused wants one version refused, for a cause and by words.
func wantRefused(t *testing.T, list versionlist.List, name string, cause versionlist.Cause, says string) {
	t.Helper()
	for _, a := range list.Refused {
		if a.Name == name && a.Cause == cause && strings.Contains(a.Reason, says) {
			return
		}
	}
	t.Errorf("%s is not refused for %s by %q: %+v", name, cause, says, list.Refused)
}

// Tags of git have their commit's author, message and time, and only those on a branch count.
func TestTagsOfABranch(t *testing.T) {
	o := newOrigin(t)
	o.Commit("The first")
	o.Git("tag", "v1.0.0")
	o.Git("checkout", "--quiet", "-b", "feature")
	o.Commit("An idea")
	o.Git("tag", "v2.0.0")
	o.Git("checkout", "--quiet", "main")
	second := o.Commit("The second")
	o.Git("tag", "-a", "v1.1.0", "-m", "notes of the release")
	o.Git("tag", "nightly")
	o.Git("tag", "v3.0.0", second+"^{tree}")
	r := versionsOf(t, source.Versions{Tags: &source.Git{URL: o.Folder}, Branch: "main"})
	list, _ := r.list()
	wantVersions(t, strings.Fields(textOf(list)), "1.1.0 1.0.0")
	if v := list.Versions[0]; v.Commit != second || v.Message != "The second" || v.Author != "Ann Author <ann@example.com>" || v.Created.IsZero() || v.Branch != "main" {
		t.Errorf("v1.1.0 is %+v", v)
	}
	wantRefused(t, list, "v2.0.0", versionlist.OtherBranch, "not on the branch main")
	wantRefused(t, list, "v3.0.0", versionlist.Unreadable, "tree")
	if len(list.Unordered) != 1 || list.Unordered[0].Name != "nightly" {
		t.Errorf("unordered %+v", list.Unordered)
	}
	// A tag that is deleted, and one that is moved.
	o.Git("tag", "-d", "v1.0.0")
	moved := o.Commit("The third")
	o.Git("tag", "-f", "v1.1.0")
	list, snapshot := r.list()
	if len(list.Withdrawn) != 2 || list.Versions[0].Digest != moved || !strings.Contains(snapshot.Warning, "v1.1.0 moved from "+second) || !strings.Contains(snapshot.Warning, "v1.0.0 was withdrawn") {
		t.Errorf("withdrawn %+v, warning %s", list.Withdrawn, snapshot.Warning)
	}
}

// Commits of a branch are versions in the order of the branch; no limit hides one that is kept.
func TestCommitsOfABranch(t *testing.T) {
	o := newOrigin(t)
	var commits []string
	for i := range 5 {
		commits = append(commits, o.Commit(fmt.Sprintf("Number %d", i+1)))
	}
	r := versionsOf(t, source.Versions{Commits: &source.Git{URL: o.Folder, Branch: "main"}, Limit: 2})
	r.options.KeepVersions = func(_ context.Context, partition intent.PartitionID, name string) ([]string, error) {
		if partition != "shop" || name != "service" {
			t.Errorf("asked for %s of %s", name, partition)
		}
		return []string{commits[1]}, nil
	}
	list, _ := r.list()
	var got []string
	for _, v := range list.Versions {
		got = append(got, fmt.Sprintf("%d:%s", v.Build, v.Message))
	}
	if text := strings.Join(got, " "); text != "5:Number 5 4:Number 4 2:Number 2" || list.Older != 2 {
		t.Errorf("versions %s, %d older", text, list.Older)
	}
	if v := list.Versions[0]; v.Digest != commits[4] || v.Branch != "main" || v.Author == "" || v.Created.IsZero() {
		t.Errorf("the newest is %+v", v)
	}
	// History that is rewritten: what is gone is withdrawn.
	o.Git("reset", "--quiet", "--hard", commits[3])
	rewritten := o.Commit("Another")
	list, _ = r.list()
	if list.Versions[0].Digest != rewritten || len(list.Withdrawn) != 1 || list.Withdrawn[0].Digest != commits[4] {
		t.Errorf("versions %+v, withdrawn %+v", list.Versions, list.Withdrawn)
	}
}

// Charts of an index made by Helm, and two entries of one version.
func TestChartsOfAnIndex(t *testing.T) {
	index, err := os.ReadFile("../artifact/testdata/charts/index.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, says(string(index)))
	r := versionsOf(t, source.Versions{Charts: s.URL, Chart: "web"})
	list, _ := r.list()
	if textOf(list) != "1.3.0 1.2.4 1.2.3" || !strings.HasPrefix(list.Versions[0].Digest, "sha256:") || list.Versions[0].Created.IsZero() {
		t.Errorf("versions %+v", list.Versions)
	}
	twice := `{"apiVersion": "v1", "entries": {"web": [
		{"version": "1.0.0", "digest": "` + strings.Repeat("a", 64) + `", "urls": ["x"], "annotations": {"org.opencontainers.image.revision": "abc"}},
		{"version": "1.1.0", "digest": "` + strings.Repeat("a", 64) + `", "urls": ["x"]},
		{"version": "1.1.0", "digest": "` + strings.Repeat("b", 64) + `", "urls": ["x"]},
		{"version": "1.2.0", "urls": ["x"]}]}}`
	s.now(says(twice))
	list, snapshot := r.list()
	if textOf(list) != "1.0.0" || list.Versions[0].Commit != "abc" {
		t.Errorf("versions %+v", list.Versions)
	}
	wantRefused(t, list, "1.1.0", versionlist.Ambiguous, "more than once")
	wantRefused(t, list, "1.2.0", versionlist.Unreadable, "does not say its SHA-256")
	if !strings.Contains(snapshot.Warning, "1.1.0") {
		t.Errorf("warning %q", snapshot.Warning)
	}
}

// Files of a folder as Go's own file server lists it, with their sums.
func TestFilesOfAPage(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"shop-1.9.0.tar.gz", "shop-1.10.0.tar.gz", "shop-1.11.0.tar.gz", "other-2.0.0.tar.gz", "shop-edge.tar.gz"} {
		write(name, name)
	}
	sums := exec.Command("sha256sum", "shop-1.9.0.tar.gz", "shop-1.10.0.tar.gz", "shop-edge.tar.gz")
	sums.Dir = folder
	text, err := sums.Output()
	if err != nil {
		t.Fatal(err)
	}
	write("SHA256SUMS", string(text))
	s := serve(t, http.FileServer(http.Dir(folder)).ServeHTTP)
	r := versionsOf(t, source.Versions{Listing: s.URL + "/", Pattern: `shop-(.*)\.tar\.gz`, Sums: "SHA256SUMS"})
	list, _ := r.list()
	if textOf(list) != "1.10.0 1.9.0" || list.Versions[0].Name != "shop-1.10.0.tar.gz" || list.Versions[0].Digest != digestOf("shop-1.10.0.tar.gz") || list.Unmatched != 1 {
		t.Errorf("versions %+v, %d have other names", list.Versions, list.Unmatched)
	}
	wantRefused(t, list, "shop-1.11.0.tar.gz", versionlist.Unreadable, "SHA256SUMS")
	if len(list.Unordered) != 1 || list.Unordered[0].Version.Version != "edge" {
		t.Errorf("unordered %+v", list.Unordered)
	}
	s.now(says(`<a href="https://elsewhere.example/shop-9.0.0.tar.gz"><a href="../shop-9.1.0.tar.gz"><a href="below/shop-9.2.0.tar.gz"><img href="shop-9.3.0.tar.gz">`))
	r.restart(true)
	r.remote.Versions.Sums, r.remote.Versions.Listing = "", s.URL+"/sub/page/"
	r.refuses(fault.Unavailable, "no version that counts")
}

func digestOf(content string) string {
	output, _ := exec.Command("sh", "-c", "printf %s '"+content+"' | sha256sum").Output()
	return "sha256:" + strings.Fields(string(output))[0]
}

// A document of JSON, as an API gives it, with fields where it has them.
func TestVersionsOfADocumentOfJSON(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data": [
			{"tag_name": "v1.0.0", "published_at": "2026-01-01T10:00:00Z", "author": {"login": "ann"}, "state": "passed", "run": {"id": 17, "url": "https://ci.example/17"}},
			{"tag_name": "v1.1.0", "state": "failed"}, {"tag_name": "v1.2.0"}, {"other": 1}]}`)
	})
	fields := map[string]string{"version": "tag_name", "created": "published_at", "author": "/author/login", "status": "state", "build": "/run/id", "build_url": "/run/url"}
	r := versionsOf(t, source.Versions{Listing: s.URL + "/releases", Items: "/data", Fields: fields, Status: []string{"passed"}})
	list, _ := r.list()
	if len(list.Versions) != 1 {
		t.Fatalf("versions %+v", list.Versions)
	}
	if v := list.Versions[0]; v.Version != "1.0.0" || v.Author != "ann" || v.Build != 17 || v.BuildURL != "https://ci.example/17" || !v.Created.Equal(time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("it is %+v", v)
	}
	wantRefused(t, list, "v1.1.0", versionlist.OtherStatus, "is failed, and passed is asked for")
	wantRefused(t, list, "v1.2.0", versionlist.OtherStatus, "is not known")
	wantRefused(t, list, "an item without a name", versionlist.Unreadable, "fields")
	for body, want := range map[string]string{`{"data": 1}`: "neither a list", `{}`: "nothing at", `[`: "not JSON", `{"data": [1]}`: "neither an object nor a text"} {
		s.now(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		})
		r.list()
		if reason := r.folder.Failing().Reason; !strings.Contains(reason, want) {
			t.Errorf("%s fails by %q, want %q", body, reason, want)
		}
	}
}

// A command lists versions if the operator lists it for the partition.
func TestVersionsByACommand(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "list-builds")
	script := func(text string) {
		t.Helper()
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script(`echo "{\"versions\": [{\"version\": \"1.0.0\", \"digest\": \"$KEY$HOME$LEHR_PARTITION\"}, \"1.1.0\"]}"`)
	policy := filepath.Join(folder, "sources.yaml")
	if err := os.WriteFile(policy, []byte("sources: v1\ncommands:\n  - {name: builds, run: [list-builds], env: [KEY], partitions: [shop]}\n  - {name: others, run: [list-builds], partitions: [other]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := ReadPolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KEY", "k3y-")
	r := versionsOf(t, source.Versions{Command: "builds"})
	r.options.Policy = func() *Policy { return read }
	list, _ := r.list()
	if textOf(list) != "1.1.0 1.0.0" || list.Versions[1].Digest != "k3y-shop" {
		t.Errorf("versions %+v", list.Versions)
	}
	for text, want := range map[string]string{
		"echo the reason is $KEY >&2; exit 3": "the reason is ***", "echo no": "not JSON", "exec yes": "more than",
	} {
		script(text)
		r.limits.FileBytes = 1 << 16
		r.folder.fetcher.(*versions).limits.FileBytes = 1 << 16
		r.list()
		if reason := r.folder.Failing().Reason; !strings.Contains(reason, want) {
			t.Errorf("%s fails by %q, want %q", text, reason, want)
		}
	}
	for _, name := range []string{"others", "none"} {
		r := versionsOf(t, source.Versions{Command: name})
		r.options.Policy = func() *Policy { return read }
		r.refuses(fault.Denied, "have no command "+name)
	}
	if err := os.WriteFile(policy, []byte("sources: v1\ncommands:\n  - {name: builds, partitions: [shop]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPolicy(policy); err == nil || !strings.Contains(err.Error(), "command 1") {
		t.Errorf("a command that runs nothing: %v", err)
	}
}

// Versions that are pushed by call are read of a document.
func TestVersionsThatArePushed(t *testing.T) {
	content := `{"1.0.0": {"digest": "sha256:1", "commit": "abc", "build_url": "https://ci.example/1", "branch": "main"}, "1.1.0": {"digest": "sha256:2", "branch": "idea"}}`
	r := versionsOf(t, source.Versions{Pushed: "builds", Branch: "main"})
	r.options.Documents = func(_ context.Context, partition intent.PartitionID, name string) (document.Document, error) {
		return document.Document{Content: json.RawMessage(content)}, nil
	}
	list, _ := r.list()
	if textOf(list) != "1.0.0" || list.Versions[0].Commit != "abc" || list.Versions[0].BuildURL == "" {
		t.Errorf("versions %+v", list.Versions)
	}
	wantRefused(t, list, "1.1.0", versionlist.OtherBranch, "is idea, and main is asked for")
	content = `{"1.0.0": 1}`
	r.list()
	if reason := r.folder.Failing().Reason; !strings.Contains(reason, "no object") {
		t.Errorf("it fails by %q", reason)
	}
}

// Versions are those of one of several statuses, of branches by a pattern, and of pull requests.
func TestVersionsByStatusesBranchesAndRequests(t *testing.T) {
	const content = `{"1.0.0": {"status": "RELEASE", "branch": "feature/a", "pull_request": "https://h/1"}, "1.1.0": {"status": "FINAL", "branch": "feature/b", "pull_request": "https://h/2"},
		"1.2.0": {"status": "SNAPSHOT", "branch": "feature/c", "pull_request": "https://h/3"}, "1.3.0": {"status": "FINAL", "branch": "a-feature/d", "pull_request": "https://h/4"},
		"1.4.0": {"status": "FINAL", "branch": "feature/e"}}`
	r := versionsOf(t, source.Versions{Pushed: "builds", Status: []string{"RELEASE", "FINAL"}, Branches: "feature/.*|hotfix/.*", Requested: true})
	r.options.Documents = func(_ context.Context, _ intent.PartitionID, _ string) (document.Document, error) {
		return document.Document{Content: json.RawMessage(content)}, nil
	}
	list, _ := r.list()
	if textOf(list) != "1.1.0 1.0.0" {
		t.Errorf("versions %+v", list.Versions)
	}
	wantRefused(t, list, "1.2.0", versionlist.OtherStatus, "is SNAPSHOT, and RELEASE or FINAL is asked for")
	wantRefused(t, list, "1.3.0", versionlist.OtherBranch, "is a-feature/d, and one that matches feature/.*|hotfix/.* is asked for")
	wantRefused(t, list, "1.4.0", versionlist.NotRequested, "not known to be of a pull or merge request")
}

// What an environment has is kept, and a document that cannot be read leaves nothing out.
func TestWhatIsDeployedIsKept(t *testing.T) {
	s := serve(t, says(`["1.0.0", "1.1.0", "1.2.0", "1.3.0"]`))
	r := versionsOf(t, source.Versions{Listing: s.URL + "/list", Limit: 1, Deployed: []source.DocumentField{{Document: "knobs", Pointer: "/test/version"}, {Document: "knobs", Pointer: "/none"}, {Document: "gone", Pointer: "/x"}}})
	var away error
	r.options.Documents = func(_ context.Context, _ intent.PartitionID, name string) (document.Document, error) {
		if name == "gone" {
			return document.Document{}, fault.New(fault.NotFound, "there is none")
		}
		return document.Document{Content: json.RawMessage(`{"test": {"version": "1.1.0"}}`)}, away
	}
	if list, _ := r.list(); textOf(list) != "1.3.0 1.1.0" || list.Older != 2 {
		t.Errorf("%+v", list)
	}
	away = fault.New(fault.Unavailable, "the store is away")
	if list, _ := r.list(); textOf(list) != "1.3.0 1.1.0" || !strings.Contains(r.folder.Failing().Reason, "the store is away") {
		t.Errorf("%+v, failing by %s", list, r.folder.Failing().Reason)
	}
}

// Names that are not asked for are counted, and orders are those of delivery.
func TestOrdersAndPatterns(t *testing.T) {
	body := `["build-9", "build-10", "build-x", "other-11"]`
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
	r := versionsOf(t, source.Versions{Listing: s.URL + "/list", Match: "build-*", Order: &source.VersionOrder{By: "number", Match: "build-([0-9]+)"}})
	list, _ := r.list()
	if textOf(list) != "build-10 build-9" || list.Unmatched != 1 || len(list.Unordered) != 1 {
		t.Errorf("%+v", list)
	}
	if slices.ContainsFunc(list.Unordered, func(a versionlist.Aside) bool { return a.Reason == "" }) {
		t.Errorf("unordered %+v", list.Unordered)
	}
}

// With tags come the commits before them, and the requests that they were merged by.
func TestHistoryOfTags(t *testing.T) {
	o := newOrigin(t)
	first := o.Commit("The first")
	o.Git("tag", "v1.0.0")
	second := o.Commit("Fix the cart (#7)")
	third := o.Commit("Merge branch 'cart' into 'main'\n\nSee merge request shop/web!34\n" + strings.Repeat("long ", 500))
	o.Git("tag", "v1.1.0")
	r := versionsOf(t, source.Versions{Tags: &source.Git{URL: o.Folder}})
	list, _ := r.list()
	graph := commitgraph.New(list.History)
	between, ok := graph.Between(first, third)
	if len(list.History) != 3 || len(between) != 2 || !ok {
		t.Fatalf("history %+v, between %+v, known %v", list.History, between, ok)
	}
	if c := between[0]; c.ID != third || c.PullRequest != "34" || c.Author != "Ann Author <ann@example.com>" || c.At.IsZero() || c.Message != "Merge branch 'cart' into 'main'" {
		t.Errorf("the third is %+v", c)
	}
	if c := between[1]; c.ID != second || c.PullRequest != "7" {
		t.Errorf("the second is %+v", c)
	}
	// The next look takes what it knows, and a new tag has it read anew.
	fourth := o.Commit("The fourth")
	list, _ = r.list()
	if len(list.History) != 3 {
		t.Errorf("without a tag history has %d commits", len(list.History))
	}
	o.Git("tag", "v1.2.0")
	if list, _ = r.list(); len(list.History) != 4 || list.History[0].ID != fourth {
		t.Errorf("history %+v", list.History)
	}
}
