package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

// TestEverythingIsStopped: the page of the server stops all partitions and lets all go on; an act of a partition has no address
// without one, and the other way round.
func TestEverythingIsStopped(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.shows("/server", `href="act/stop-all"`)
	w.shows("/", `href="act/stop-all"`)
	if text := w.shows("/act/resume-all", "no stop of all partitions is in force"); strings.Contains(text, `method="post"`) {
		t.Error("nothing is stopped, and can be resumed")
	}
	w.shows("/act/stop-all", "No push of any partition begins")
	if stops, err := w.store.Stops(t.Context()); err != nil || len(stops) > 0 {
		t.Fatalf("looking at a form stopped %v, %v", stops, err)
	}
	if said := words(w.acts("/act/stop-all", "reason", "a fire <b>")); !strings.Contains(said, "All partitions are stopped, by local user: a fire <b>") || !strings.Contains(said, "Resume everything") {
		t.Errorf("it says %s", said)
	}
	stops, err := w.store.Stops(t.Context())
	w.must(err)
	if len(stops) != 1 || stops[0].Partition != "" || stops[0].Reason != "a fire <b>" {
		t.Fatalf("stopped are %+v", stops)
	}
	w.shows("/server", "All partitions are stopped", `href="act/resume-all"`)
	w.acts("/act/resume-all", "reason", "it is out")
	if stops, err = w.store.Stops(t.Context()); err != nil || len(stops) > 0 {
		t.Errorf("after it all is stopped by %v, %v", stops, err)
	}
	for _, path := range []string{"/act/stop", "/act/none", "/act/", "/partition/shop/act/stop-all"} {
		if status, _ := w.get(path); status != http.StatusNotFound {
			t.Errorf("%s is answered %d", path, status)
		}
	}
}

// TestATokenIsRevoked on the page that lists them.
func TestATokenIsRevoked(t *testing.T) {
	w := newWorld(t)
	token, _ := access.Mint(store.Token{Owner: "local user", Description: "<b>CI</b>", Until: time.Now().Add(time.Hour)})
	token, err := w.store.CreateToken(t.Context(), token, 0)
	w.must(err)
	w.shows("/access", "&lt;b&gt;CI", `href="act/revoke-token?token=`+token.ID+`"`)
	w.acts("/act/revoke-token?token="+token.ID, "reason", "it was lost")
	if text := w.shows("/access", "revoked"); strings.Contains(text, "act/revoke-token") {
		t.Errorf("a revoked token can be revoked: %s", words(text))
	}
}

// TestAnIncarnationIsLabelled, and the label is taken away again.
func TestAnIncarnationIsLabelled(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.shows("/partition/shop/incarnation/1", "Label it")
	w.acts("/partition/shop/act/label?incarnation=1", "key", "release", "value", "spring", "reason", "to find it")
	w.shows("/partition/shop/incarnation/1", "release=spring")
	w.acts("/partition/shop/act/label?incarnation=1", "key", "release", "value", "", "reason", "over")
	if text := w.shows("/partition/shop/incarnation/1"); strings.Contains(text, "release=spring") {
		t.Error("the label is still there")
	}
}

// TestAnAssetIsTurnedDown: the form shows what goes and what is in the way, and is bound to the document that it showed.
func TestAnAssetIsTurnedDown(t *testing.T) {
	w := newWorld(t)
	payload, err := schema.Builtin().Pack(&intentpb.Policy{
		Mode:    intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE,
		Plugins: []*intentpb.PluginBinding{{Type: "lehr.command.v1.Command", Run: []string{"lehr-command"}}},
	})
	w.must(err)
	w.publish(0, w.command("db", "schema"), w.command("api", "v2", "db"), w.command("web/b", "v1"), intent.Asset{ID: intent.PolicyAsset, Payload: payload})
	if said := words(w.shows("/partition/shop/act/turndown?asset=db")); !strings.Contains(said, "lehr turndown db api") || strings.Contains(said, "Turn it down") {
		t.Errorf("what api needs can be turned down alone: %s", said)
	}
	w.shows("/partition/shop/asset/web/b", "Turn it down")
	said := words(w.shows("/partition/shop/act/turndown?asset=web/b"))
	for _, want := range []string{"What goes", "web/b", "waits for its approval"} {
		if !strings.Contains(said, want) {
			t.Errorf("the form does not say %q: %s", want, said)
		}
	}
	stale := w.form("/partition/shop/act/turndown?asset=web/b")
	stale.Set("reason", "it is old")
	w.acts("/partition/shop/act/turndown?asset=web/b", "reason", "it is old")
	held, err := w.store.Document(t.Context(), "shop", "turndown", "")
	w.must(err)
	if !strings.Contains(string(held.Content), "web/b") || !strings.Contains(string(held.Content), "it is old") {
		t.Errorf("the document is %s", held.Content)
	}
	if status, text := w.send("/partition/shop/act/turndown?asset=web/b", stale); status != http.StatusConflict {
		t.Errorf("a form that showed another document is answered %d: %s", status, words(text))
	}
	w.acts("/partition/shop/act/undo-turndown?asset=web/b", "reason", "we need it")
	if held, err = w.store.Document(t.Context(), "shop", "turndown", ""); err != nil || strings.Contains(string(held.Content), "web/b") {
		t.Errorf("the document is %s, %v", held.Content, err)
	}
}

// TestATokenIsMade: its secret is on the page that says so, and nowhere afterwards.
func TestATokenIsMade(t *testing.T) {
	w := newWorld(t)
	w.shows("/access", `href="act/token-create"`)
	w.shows("/act/token-create", "It is shown once", "at most viewer")
	said := words(w.acts("/act/token-create", "reason", "CI <b>", "role", "viewer", "partitions", "shop, web", "for", "8h"))
	tokens, err := w.store.Tokens(t.Context())
	w.must(err)
	if len(tokens) != 1 || tokens[0].Description != "CI <b>" || len(tokens[0].Roles) != 1 || tokens[0].Roles[0] != intent.Viewer || len(tokens[0].Partitions) != 2 || time.Until(tokens[0].Until) > 9*time.Hour || time.Until(tokens[0].Until) < 7*time.Hour {
		t.Fatalf("made are %+v", tokens)
	}
	_, secret, ok := strings.Cut(said, "Its secret is shown only here: ")
	secret, _, _ = strings.Cut(secret, " ")
	if !ok || len(secret) < 20 {
		t.Fatalf("it says %s", said)
	}
	if text := w.shows("/access", "CI &lt;b&gt;"); strings.Contains(text, secret) {
		t.Error("the page of access shows the secret")
	}
}

// TestAPartitionIsAddedAndForgotten on the pages.
func TestAPartitionIsAddedAndForgotten(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.shows("/", `href="act/partition-add"`)
	if said := words(w.acts("/act/partition-add", "definition", "/srv/mail/lehr.yaml", "id", "mail", "reason", "we have mail")); !strings.Contains(said, "Partition mail is added.") {
		t.Errorf("it says %s", said)
	}
	p, err := w.store.Partition(t.Context(), "mail")
	w.must(err)
	if p.Definition != "/srv/mail/lehr.yaml" {
		t.Errorf("it is %+v", p)
	}
	values := w.form("/act/partition-add")
	values.Set("definition", "lehr.yaml")
	values.Set("id", "shop/../x")
	values.Set("reason", "x")
	if status, text := w.send("/act/partition-add", values); status != http.StatusBadRequest || !strings.Contains(text, `role="alert"`) && !strings.Contains(text, "notice bad") {
		t.Errorf("a name that is none is answered %d: %s", status, words(text))
	}
	w.shows("/partition/shop", `href="partition/shop/act/partition-remove"`)
	w.shows("/partition/shop/act/partition-remove", "Production stays as it is")
	w.acts("/partition/mail/act/partition-remove", "reason", "we have none")
	if _, err := w.store.Partition(t.Context(), "mail"); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is still there: %v", err)
	}
}
