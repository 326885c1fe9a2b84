package objects

import (
	"strings"
	"testing"

	"lehr.dev/sdk/serve"
	"lehr.dev/test/apiserver"
)

// TestGrafana: a folder and a dashboard in it, as the ready profile declares them.
func TestGrafana(t *testing.T) {
	t.Setenv("LEHR_TEST_TOKEN", "glsa_secret")
	listSecret(t, "env: LEHR_TEST_TOKEN")
	api := apiserver.NewGrafana("glsa_secret")
	defer api.Close()
	b := open(t, api.URL, "grafana", `headers: [{name: Authorization, value: "Bearer {secret}", env: LEHR_TEST_TOKEN}]`)
	folder := asset(object("folder", "uid=ops", `{"title":"Operations"}`))
	b.expect(folder, `create: body.title  -> "Operations"`)
	b.pushed(folder)
	b.expect(folder, "in sync")
	api.Rename("ops", "by hand")
	b.expect(folder, `update: body.title "by hand" -> "Operations"`)
	if d := b.look(folder); d.Base != "version:2" {
		t.Error(d.Base)
	}
	// Somebody renames it once more, after the look: Grafana itself refuses.
	outcome := b.pushWith(folder, &permits{before: func() { api.Rename("ops", "again") }})
	if outcome.Ending != serve.Stale || !strings.Contains(outcome.Reason, "changed by someone else") {
		t.Errorf("the push ended: %+v", outcome)
	}
	b.pushed(folder)
	if got := api.Folder("ops"); got != "Operations 4" {
		t.Error(got)
	}
	b.unknown(asset(object("folder", "uid=ops", `{"title":"Operations","parentUid":"x"}`)), "cannot change that in place")

	// A dashboard as Grafana exports it, with an id and a version that mean nothing here.
	board := asset(object("dashboard", "uid=web", `{"folderUid":"ops","dashboard":{"id":77,"version":12,"uid":"other","title":"Web","panels":[{"id":1,"type":"graph"}],"refresh":"30s"}}`))
	b.expect(board, `create: body.dashboard.panels  -> [{"id":1,"type":"graph"}]; body.dashboard.refresh  -> "30s"; body.dashboard.title  -> "Web"; body.folderUid  -> "ops"`)
	b.pushed(board)
	b.expect(board, "in sync")
	if got := api.Dashboard("web"); got != `{"id":2,"panels":[{"id":1,"type":"graph"}],"refresh":"30s","title":"Web","uid":"web","version":1}` {
		t.Error(got)
	}
	retitled := asset(object("dashboard", "uid=web", `{"dashboard":{"title":"The web"}}`))
	b.expect(retitled, `update: body.dashboard.title "Web" -> "The web"`)
	b.pushed(retitled)
	if got := api.Dashboard("web"); !strings.Contains(got, `"refresh":"30s","title":"The web","uid":"web","version":2`) {
		t.Errorf("what is not ours was changed, or the version: %s", got)
	}
	b.expect(asset(object("dashboard", "uid=web", `{"folderUid":"ops","dashboard":{"title":"The web"}}`)), "in sync")

	gone := asset(object("dashboard", "uid=web", `{"dashboard":{"title":"The web"}}`), turndown)
	b.pushed(gone)
	b.expect(gone, "nothing is there")
	if api.Dashboard("web") != "" || api.Folder("ops") == "" {
		t.Error("not the dashboard went, or more than that")
	}
}
