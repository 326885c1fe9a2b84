package render

import (
	"fmt"
	"strings"
	"testing"

	httppb "lehr.dev/gen/lehr/http/v1"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/work"
)

// things are the assets of a result, one a line.
func things(t *testing.T, result work.Result) string {
	t.Helper()
	var lines []string
	for _, a := range result.Assets {
		content, err := schema.Decode(a.Body)
		made := &httppb.Resource{}
		if err == nil {
			err = schema.Payload(content, made)
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %s:%d %s %s %v %s%v", a.ID, a.File, a.Line, made.Endpoint, made.Resource, made.Identity, made.Body, made.Initial))
	}
	return strings.Join(lines, "\n")
}

// TestHTTPObjects: documents that say what they are for, and whole bodies as an API
// exports them.
func TestHTTPObjects(t *testing.T) {
	result := render(t, "http", map[string]string{"a.yaml": `
resource: folder
identity: {uid: Ops}
body: {title: Operations, big: 9007199254740993, none: null}
---
id: http/other
endpoint: github
resource: repository
identity: {owner: acme, repo: web}
initial: [/has_wiki]
body: {has_wiki: true}
`}, "--endpoint=grafana")
	want := `http/grafana/folder/ops a.yaml:2 grafana folder map[uid:Ops] {"big":9007199254740993,"none":null,"title":"Operations"}[]
http/other a.yaml:6 github repository map[owner:acme repo:web] {"has_wiki":true}[/has_wiki]`
	if got := things(t, result); got != want || len(result.Findings) > 0 {
		t.Errorf("%s\n%s", got, told(result))
	}
	result = render(t, "http", map[string]string{"boards/web.json": `{"uid":"web","title":"Web","id":12345678901234567890}`},
		"--endpoint=grafana", "--resource=dashboard", "--identity=uid=/uid", "--at=/dashboard", "--set=/folderUid=ops")
	want = `http/grafana/dashboard/web boards/web.json:1 grafana dashboard map[uid:web] {"dashboard":{"id":12345678901234567890,"title":"Web","uid":"web"},"folderUid":"ops"}[]`
	if got := things(t, result); got != want || len(result.Findings) > 0 {
		t.Errorf("%s\n%s", got, told(result))
	}
	// What is too large for an asset is a blob.
	large := render(t, "http", map[string]string{"l.json": `{"uid":"l","text":"` + strings.Repeat("long ", 50_000) + `"}`},
		"--endpoint=grafana", "--resource=dashboard", "--identity=uid=/uid")
	if len(large.Assets) != 1 || len(large.Blobs) != 1 || !strings.HasPrefix(string(large.Blobs[0].Bytes), `{"text":"long `) {
		t.Errorf("%d assets, %d blobs: %s", len(large.Assets), len(large.Blobs), told(large))
	}
}

// TestWrongHTTPObjects: with file, line and what to write instead.
func TestWrongHTTPObjects(t *testing.T) {
	fine := "endpoint: e\nresource: r\nidentity: {uid: a}\nbody: {t: 1}\n"
	for text, want := range map[string]string{
		"- a":                                                      "a.yaml:1",
		fine + "title: x\n":                                        "a.yaml:5:1 : there is no key \"title\"",
		"endpoint: e\nresource: r\n":                               "no body",
		fine + "---\n" + fine:                                      "is in a.yaml:1, too",
		fine + "id: No Id\n":                                       "segment",
		"endpoint: E\n" + fine[12:]:                                "endpoint",
		fine + "initial: [size]\n":                                 "initial",
		strings.Replace(fine, "1", "yes", 1):                       "a.yaml:4",
		strings.Replace(fine, "{uid: a}", "[a]", 1):                "identity cannot be read",
		strings.Replace(fine, "t: 1", "t: 1, t: 2", 1):             "a.yaml:4",
		strings.Replace(fine, "t: 1", "password: 9f8GhR7sK2pQ", 1): "looks like a secret",
		strings.Replace(fine, "t: 1", `t: "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"`, 1): "private key",
	} {
		result := render(t, "http", map[string]string{"a.yaml": text})
		if got := told(result); !strings.Contains(got, want) {
			t.Errorf("%s\n%s\nwant %s", text, got, want)
		}
	}
	for argument, want := range map[string]string{
		"--resource=r":    "names a resource",
		"--at=/x":         "without a resource",
		"--identity=uid":  "NAME=VALUE",
		"--folder=/a":     "not known",
		"--endpoint=UPPE": "endpoint",
	} {
		result := render(t, "http", map[string]string{"a.yaml": strings.Replace(fine, "endpoint: e\n", "", 1)}, argument)
		if got := told(result); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", argument, got, want)
		}
	}
	result := render(t, "http", map[string]string{"a.yaml": "title: x\n"}, "--endpoint=e", "--resource=r", "--identity=uid=/uid")
	if got := told(result); !strings.Contains(got, "a.yaml:1:1 : it has no uid at /uid") {
		t.Error(got)
	}
}
