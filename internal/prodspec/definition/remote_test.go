package definition_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/source"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestSourcesElsewhere(t *testing.T) {
	token := source.Login{User: "bot", Token: source.Secret{Env: "TOKEN"}}
	for text, want := range map[string]definition.Source{
		`{git: "https://h/shop.git", branch: main, dir: prod/eu/, files: ["*.yaml", a.sql], every: 10s, user: bot, token: {env: TOKEN}}`: {
			Files:  []string{"*.yaml", "a.sql"},
			Remote: &source.Remote{Every: 10 * time.Second, Git: &source.Git{URL: "https://h/shop.git", Branch: "main", Directory: "prod/eu", Login: token}},
		},
		`{git: "git@h:shop.git", tag: v1, files: a, key: {file: /k}, known_hosts: {file: /h}}`: {
			Files:  []string{"a"},
			Remote: &source.Remote{Git: &source.Git{URL: "git@h:shop.git", Tag: "v1", Key: source.Secret{File: "/k"}, KnownHosts: source.Secret{File: "/h"}}},
		},
		`{http: "https://h/a", file: a.json, every: 1h}`: {
			Files: []string{"a.json"}, Remote: &source.Remote{Every: time.Hour, HTTP: &source.HTTP{URL: "https://h/a", File: "a.json"}},
		},
		`{sql: "sqlite:shop.db", query: SELECT 1, file: a.json, empty: true}`: {
			Files: []string{"a.json"}, Remote: &source.Remote{SQL: &source.SQL{SQLite: "shop.db", Query: "SELECT 1", File: "a.json", Empty: true}},
		},
		`{sql: {env: DSN}, query: SELECT 1, rows: name}`: {
			Files: []string{"*.json"}, Remote: &source.Remote{SQL: &source.SQL{DSN: source.Secret{Env: "DSN"}, Query: "SELECT 1", Rows: "name"}},
		},
		`{registry: "https://h/team/web", file: a.json, match: "v1.*", user: bot, token: {env: TOKEN}}`: {
			Files: []string{"a.json"}, Remote: &source.Remote{Versions: &source.Versions{Registry: "https://h/team/web", File: "a.json", Match: "v1.*", Login: token}},
		},
		`{document: knobs}`: {Files: []string{"knobs.json"}, Remote: &source.Remote{Document: "knobs"}},
		`{git: "https://h/shop.git", branch: main, document: prod/knobs.yaml}`: {
			Files: []string{"knobs.yaml"}, Remote: &source.Remote{Git: &source.Git{URL: "https://h/shop.git", Branch: "main", Directory: "prod", Document: "prod/knobs.yaml"}},
		},
		`{debian: "https://h/Packages.gz", package: web, file: a.json}`: {
			Files: []string{"a.json"}, Remote: &source.Remote{Versions: &source.Versions{Debian: "https://h/Packages.gz", Package: "web", File: "a.json"}},
		},
		`{chart: "https://h/charts/", name: web, version: "~1.2", every: 10m, verify: releases, user: bot, token: {env: TOKEN}}`: {
			Remote: &source.Remote{Every: 10 * time.Minute, Packed: &source.Packed{Address: "https://h/charts", Chart: "web", Version: "~1.2", Verify: "releases", Login: token}},
		},
		`{chart: "oci://h/charts/web", version: 1.2.3, digest: "` + digest + `", files: [Chart.yaml, "templates/**"]}`: {
			Files:  []string{"Chart.yaml", "templates/**"},
			Remote: &source.Remote{Packed: &source.Packed{Address: "https://h/charts/web", InRegistry: true, Chart: "web", Version: "1.2.3", Digest: digest}},
		},
		`{artifact: "oci://h:5000/team/base:v1@` + digest + `"}`: {
			Remote: &source.Remote{Packed: &source.Packed{Address: "https://h:5000/team/base", InRegistry: true, Tag: "v1", Digest: digest}},
		},
		`{artifact: "oci+http://localhost:5000/base:latest", files: "*.yaml"}`: {
			Files: []string{"*.yaml"}, Remote: &source.Remote{Packed: &source.Packed{Address: "http://localhost:5000/base", InRegistry: true, Tag: "latest"}},
		},
		`{git_tags: "https://h/shop.git", file: a.json}`: {
			Files: []string{"a.json"}, Remote: &source.Remote{Versions: &source.Versions{Tags: &source.Git{URL: "https://h/shop.git"}, File: "a.json"}},
		},
	} {
		d, findings := definition.Parse("lehr.yaml", []byte(strings.Replace(whole, "{dir: ., files: [service.yaml]}", text, 1)), schema.Builtin())
		if len(findings) > 0 {
			t.Errorf("%s: %+v", text, findings)
			continue
		}
		want.Name, want.Directory, want.Line = "service", "service", 7
		if diff := cmp.Diff(want, d.Sources[0]); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestSourcesElsewhereAreCheckedStrictly(t *testing.T) {
	for text, says := range map[string]string{
		`{git: "https://h/a", http: "https://h/a", files: a}`:                      "unknown field",
		`{git: "https://h/a"}`:                                                     "files is missing",
		`{git: "https://h/a", branch: main, document: a.toml}`:                     "no file of YAML or JSON",
		`{git: "https://h/a", branch: main, document: ../a.yaml}`:                  "leads out",
		`{git: "https://h/a", branch: main, document: a.yaml, files: a}`:           "dir or files beside it",
		`{git: "https://h/a", tag: v1, document: a.yaml}`:                          "branch is missing",
		`{git: "https://h/a", files: a, branch: main, tag: v1}`:                    "more than one of branch, tag and commit",
		`{git: "https://h/a", files: a, token: s3cret}`:                            "must say where the secret is found",
		`{git: "https://h/a", files: a, token: {value: s3cret}}`:                   "unknown field sources.service.token.value",
		`{git: "https://h/a", files: a, token: {env: A, file: /b}}`:                "a variable or a file, one of them",
		`{git: "https://h/a", files: a, key: {file: k}}`:                           "is not an absolute path",
		`{git: "https://h/a", files: a, dirs: b}`:                                  "unknown field sources.service.dirs",
		`{git: "https://h/a", files: ../a}`:                                        "a segment that is empty, . or ..",
		`{chart: "https://h/a", name: web}`:                                        "version is missing",
		`{chart: "https://h/a", version: 1.0.0}`:                                   "the chart has no name",
		`{chart: "oci://h/web", name: web, version: 1.0.0}`:                        "is the end of its address",
		`{chart: "https://h/a", name: web, version: newest}`:                       "neither a version nor a constraint",
		`{chart: "https://h/a", name: web, version: ~1, digest: "` + digest + `"}`: "a digest is of one version",
		`{chart: "https://h/a", name: web, version: 1.0.0, digest: abc}`:           "is no digest",
		`{chart: "https://h/a?b=c", name: web, version: 1.0.0}`:                    "a query or a fragment",
		`{chart: "https://h/a", name: ../web, version: 1.0.0}`:                     "no name of a chart",
		`{chart: "ftp://h/a", name: web, version: 1.0.0}`:                          "a URL of https or http is needed",
		`{chart: "https://h/a", name: web, version: 1.0.0, verify: A B}`:           "no name of a key",
		`{chart: "https://bot:s3cret@h/a", name: web, version: 1.0.0}`:             "holds a user or a password",
		`{artifact: "oci+http://h/a:v1", token: {env: A}}`:                         "in the clear",
		`{artifact: "https://h/a:v1"}`:                                             "is no artifact of a registry",
		`{artifact: "oci://h/a"}`:                                                  "names neither a tag nor a digest",
		`{artifact: "oci://h/A:v1"}`:                                               "is no repository of a registry",
		`{artifact: "oci://h/a:v 1"}`:                                              "is no tag",
		`{artifact: "oci://h/a@sha256:12"}`:                                        "is no digest",
		`{artifact: "oci://h/a:v1", dir: b}`:                                       "unknown field sources.service.dir",
		`{http: "https://h/a"}`:                                                    "file is missing",
		`{http: "https://h/a", file: ../a.json}`:                                   "is no name of a file",
		`{http: "https://h/a", file: "*.json"}`:                                    "is no name of a file",
		`{http: "https://h/a", file: a, every: never}`:                             "is not a length of time",
		`{sql: "postgres://user:s3cret@h/a", query: SELECT 1, file: a}`:            "neither the file of an SQLite database",
		`{sql: {env: A}, file: a}`:                                                 "query is missing",
		`{sql: {env: A}, query: SELECT 1}`:                                         "file is missing",
		`{sql: {env: A}, query: SELECT 1, file: a, rows: b}`:                       "both file and rows",
		`{sql: {env: A}, query: SELECT 1, file: a, empty: perhaps}`:                "must be true or false",
	} {
		_, findings := definition.Parse("lehr.yaml", []byte(strings.Replace(whole, "{dir: ., files: [service.yaml]}", text, 1)), schema.Builtin())
		if len(findings) == 0 || !strings.Contains(findings[0].Message, says) {
			t.Errorf("%s: %+v, want %q", text, findings, says)
		}
		for _, f := range findings {
			if strings.Contains(f.Message+f.Hint, "s3cret") {
				t.Errorf("%s: a secret shows: %+v", text, f)
			}
		}
	}
}

// TestDefinitionsOfTheDocuments: whole definitions that pages show of sources are right.
func TestDefinitionsOfTheDocuments(t *testing.T) {
	for page, want := range map[string]string{"sources.md": "oci://registry.example.com/charts/web 1.4.2", "kubernetes.md": "", "versions.md": ""} {
		text, err := os.ReadFile("../../../docs/use/" + page)
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, block := range regexp.MustCompile("(?s)```yaml\n# lehr.yaml\n(lehr: v1\n.*?)```").FindAllStringSubmatch(string(text), -1) {
			count++
			d, findings := definition.Parse("lehr.yaml", []byte(block[1]), schema.Builtin())
			if len(findings) > 0 {
				t.Errorf("%s: %+v", page, findings)
			}
			for _, s := range d.Sources {
				if s.Remote != nil && s.Remote.Packed != nil && s.Name == "web" && s.Remote.Packed.String()+" "+s.Remote.Packed.Version != want {
					t.Errorf("%s: %s %s, want %s", page, s.Remote.Packed, s.Remote.Packed.Version, want)
				}
			}
		}
		if count == 0 {
			t.Errorf("%s shows no definition", page)
		}
	}
}

// TestOriginsAreToldToKustomize: it knows of which repositories its sources are, and
// nobody else can say so.
func TestOriginsAreToldToKustomize(t *testing.T) {
	const text = "lehr: v1\npartition: shop\nsources:\n  up: {git: \"git@h:org/repo.git\", tag: v1, dir: prod, files: [a]}\n  other: {git: /b, files: [a]}\n  own: {dir: ., files: [a]}\ngenerate:\n" +
		"  web: {render: kustomize, from: [own, up], with: {cluster: eu WITH}}\nmodels: [google.protobuf.Struct]\n"
	d, findings := definition.Parse("lehr.yaml", []byte(strings.Replace(text, " WITH", "", 1)), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("%+v", findings)
	}
	want := []string{"--cluster=eu", `--origins={"source":"up","url":"ssh://git@h/org/repo.git","directory":"prod","revision":"v1"}`}
	if diff := cmp.Diff(want, d.Generators[0].Arguments); diff != "" {
		t.Error(diff)
	}
	_, findings = definition.Parse("lehr.yaml", []byte(strings.Replace(text, " WITH", ", origins: x", 1)), schema.Builtin())
	if len(findings) == 0 || !strings.Contains(findings[0].Message, "is told by Lehr itself") {
		t.Errorf("%+v", findings)
	}
}

// A list of versions may be of several statuses, of branches by a pattern, and of pull requests.
func TestWhichVersionsCount(t *testing.T) {
	d, findings := definition.Parse("lehr.yaml", []byte("lehr: v1\npartition: shop\nsources:\n  a: {pushed: builds, file: a.json, status: [RELEASE, FINAL], branches: \"feature/.*\", pull_requests: true}\n"+
		"  b: {pushed: builds, file: b.json, status: passed}\ngenerate: {}\n"), schema.Builtin())
	if len(findings) > 0 {
		t.Fatalf("%+v", findings)
	}
	a, b := d.Sources[0].Remote.Versions, d.Sources[1].Remote.Versions
	if !slices.Equal(a.Status, []string{"RELEASE", "FINAL"}) || a.Branches != "feature/.*" || !a.Requested || !slices.Equal(b.Status, []string{"passed"}) || b.Requested {
		t.Errorf("%+v, %+v", a, b)
	}
}

// What is wrong with a list of versions is told by its key, with what to do.
func TestListsOfVersionsThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		`{git_commits: "https://h/a.git", file: a.json}`:                                    "whose commits are versions is not said",
		`{listing: "https://h/", file: a.json, verify: release}`:                            "unknown field sources.a.verify",
		`{registry: "https://h/a", file: a.json, attested: build}`:                          "an attestation has a key and a type",
		`{registry: "https://h/a", file: a.json, regexp: "("}`:                              "is no regular expression",
		`{registry: "https://h/a", file: a.json, regexp: "(a)(b)"}`:                         "has 2 groups",
		`{registry: "https://h/a", file: a.json, limit: 501}`:                               "is not between 1 and 500",
		`{registry: "https://h/a", file: a.json, order: semvre}`:                            "semver",
		`{registry: "https://h/a", file: a.json, order: {by: date}}`:                        "has no year",
		`{registry: "https://h/a", file: a.json, fields: {comit: x}}`:                       "commit",
		`{charts: "https://h/stable", file: a.json}`:                                        "the chart has no name",
		`{command: ./list, file: a.json}`:                                                   "is no name of a command",
		`{pushed: "../x", file: a.json}`:                                                    "is no name of a document",
		`{listing: "https://h/", file: a.json, sums: ../SUMS}`:                              "is no name of a file beside the page",
		`{registry: "http://h/a", file: a.json, token: {env: T}}`:                           "in the clear",
		`{pushed: builds, file: a.json, branches: "("}`:                                     "is no regular expression",
		`{pushed: builds, file: a.json, branches: "a.*", branch: a}`:                        "write one of both",
		`{pushed: builds, file: a.json, status: []}`:                                        "must be a list that is not empty",
		`{pushed: builds, file: a.json, pull_requests: 1}`:                                  "true or false",
		`{git_tags: "https://h/a.git", file: a.json, branch: "-x"}`:                         "is no name of a branch",
		`{debian: "https://h/Packages", package: a-b, file: a.json, verify: "A KEY"}`:       "is no name of a key",
		`{git_tags: "https://h/a.git", file: a.json, status: passed}`:                       "unknown field sources.a.status",
		`{registry: "https://h/a", file: a.json, order: {by: number, prereleases: ["rc"]}}`: "prereleases are of semver only",
	} {
		_, findings := definition.Parse("lehr.yaml", []byte("lehr: v1\npartition: shop\nsources:\n  a: "+text+"\ngenerate: {}\n"), schema.Builtin())
		found := false
		for _, f := range findings {
			found = found || strings.Contains(f.Message+" "+f.Hint, want) && f.Line == 4 && f.Hint != ""
		}
		if !found {
			t.Errorf("%s: %+v, want %q", text, findings, want)
		}
	}
}
