package main

import (
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"lehr.dev/test/apiserver"
)

// grafana serves what Grafana's API serves until the script ends, for whoever bears the
// token in LEHR_GRAFANA_TOKEN, which it lists as a secret, and puts its URL into a variable: grafana NAME. Its folder
// "ops" is called Ops already.
func grafana(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: grafana NAME")
	}
	api := apiserver.NewGrafana("glsa-of-the-test")
	ts.Defer(api.Close)
	api.Make("ops", "Ops")
	ts.Setenv("LEHR_GRAFANA_TOKEN", "glsa-of-the-test")
	key, list := ts.MkAbs("secrets.key"), ts.MkAbs("lehr-secrets.yaml")
	ts.Check(os.WriteFile(key, []byte(rand.Text()+rand.Text()), 0o600))
	ts.Check(os.WriteFile(list, []byte("lehr-secrets: v1\nkey: "+key+"\nsecrets: [{env: LEHR_GRAFANA_TOKEN, partitions: [boards], plugins: [lehr-http]}]\n"), 0o600))
	ts.Setenv("LEHR_SECRET_LIST", list)
	ts.Setenv(args[0], api.URL)
	grafanas.Store(api.URL, api)
}

// grafanas that scripts started, by URL: scripts run side by side.
var grafanas sync.Map

func grafanaAt(ts *testscript.TestScript, url string) *apiserver.Grafana {
	found, ok := grafanas.Load(url)
	if !ok {
		ts.Fatalf("no Grafana was started at %s", url)
	}
	return found.(*apiserver.Grafana)
}

// awaitFolder waits until a folder of a Grafana is so: folder URL UID TEXT. TEXT is its
// title and version, or nothing. ! folder holds that it is not so now.
func awaitFolder(ts *testscript.TestScript, negated bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: folder URL UID TEXT")
	}
	api, deadline := grafanaAt(ts, args[0]), time.Now().Add(patience)
	for {
		got := api.Folder(args[1])
		if negated && got != args[2] || !negated && got == args[2] {
			return
		}
		if negated || time.Now().After(deadline) {
			ts.Fatalf("folder %s is %q", args[1], got)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// rename changes a folder's title, as somebody does in the browser: rename URL UID TITLE.
func rename(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: rename URL UID TITLE")
	}
	grafanaAt(ts, args[0]).Rename(args[1], args[2])
}

// TestTheScriptIsThePageOfHTTP: what docs/use/http.md shows as files is what the script
// test/scripts/http_api.txtar runs.
func TestTheScriptIsThePageOfHTTP(t *testing.T) {
	script, err := os.ReadFile(repository + "/test/scripts/http_api.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, page := range []string{"docs/use/http.md", "docs/operate/http-endpoints.md"} {
		for _, found := range block.FindAllStringSubmatch(documents(t)[page], -1) {
			if named.FindStringSubmatch(found[2]) == nil {
				continue
			}
			files++
			if !strings.Contains(string(script), found[2]) {
				t.Errorf("the script has not what %s shows:\n%s", page, found[2])
			}
		}
	}
	if files < 4 {
		t.Errorf("only %d files were found", files)
	}
}
