package server_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/store"
)

// enforcing is a policy that binds a plugin to commands.
func (w *world) enforcing() intent.Asset {
	w.Helper()
	return w.policy(&intentpb.Policy{
		Mode:    intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE,
		Plugins: []*intentpb.PluginBinding{{Type: "lehr.command.v1.Command", Run: []string{"lehr-command"}}},
	})
}

// policy is the asset that has one.
func (w *world) policy(p *intentpb.Policy) intent.Asset {
	w.Helper()
	payload, err := schema.Builtin().Pack(p)
	w.must(err)
	return intent.Asset{ID: intent.PolicyAsset, Payload: payload}
}

func (w *world) turnDown(reason, base string, assets ...string) error {
	_, err := w.client.Turndowns.TurnDown(w.Context(), &apipb.TurnDownRequest{Partition: "shop", Assets: assets, Reason: reason, Base: base})
	return err
}

func (w *world) preview(assets ...string) *apipb.PreviewTurndownResponse {
	w.Helper()
	response, err := w.client.Turndowns.PreviewTurndown(w.Context(), &apipb.PreviewTurndownRequest{Partition: "shop", Assets: assets})
	w.must(err)
	return response
}

// entries of the document, by asset.
func (w *world) turndowns() map[intent.AssetID]turndown.Entry {
	w.Helper()
	doc, err := w.store.Document(w.Context(), "shop", turndown.Document, "")
	w.must(err)
	list, findings := turndown.Parse(doc.Content)
	if len(findings) > 0 {
		w.Fatalf("%+v", findings)
	}
	found := map[intent.AssetID]turndown.Entry{}
	for _, e := range list {
		found[e.Asset] = e
	}
	return found
}

// TestTurningDownWritesTheDocument: what is there and is not needed is written, with the
// reason; all else is refused with what to do.
func TestTurningDownWritesTheDocument(t *testing.T) {
	w := newWorld(t)
	down := w.with(w.command("web/down", "x"), &intentpb.Turndown{Reason: "the sources say so"})
	model := w.job("web/model", 1, "1")
	w.publish(0, w.enforcing(), w.command("db", "x"), w.command("web/a", "x", "db"), w.command("web/b", "x"), down, model, w.with(w.command("web/watched", "x"), &intentpb.Mode{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_OBSERVE}))

	seen := w.preview("db")
	if len(seen.Assets) != 1 || !slices.Equal(seen.Assets[0].NeededBy, []string{"web/a"}) || seen.Base != "" || seen.Quorum != 1 {
		t.Errorf("preview of db: %v", seen)
	}
	if mode := w.preview("web/b").Assets[0].Mode; mode != "enforce" {
		t.Errorf("web/b has the mode %q", mode)
	}
	if seen := w.preview("db", "web/a"); len(seen.Assets[0].NeededBy) != 0 {
		t.Errorf("what goes too is in the way: %v", seen)
	}
	w.refused(w.turnDown("gone", "", "db"), fault.Conflict, "web/a needs it, and stays")
	w.refused(w.turnDown(" ", "", "web/b"), fault.Invalid, "needs a reason")
	w.refused(w.turnDown("gone", "", "web/bb"), fault.NotFound, "did you mean web/b?")
	w.refused(w.turnDown("gone", "", "web/down"), fault.Conflict, "turned down already: the sources say so")
	if mode := w.preview("web/watched").Assets[0].Mode; mode != "observe" {
		t.Errorf("web/watched has the mode %q", mode)
	}
	w.refused(w.turnDown("gone", "", "web/model"), fault.Conflict, "no plugin is bound to its type")
	w.refused(w.turnDown("gone", "", "lehr/policy"), fault.Invalid, "the partition's policy")
	w.refused(w.turnDown("gone", ""), fault.Invalid, "0 assets were named")
	w.refused(w.turnDown("gone", "4", "web/b"), fault.Conflict, "look again")

	w.must(w.turnDown("gone", "", "db", "web/a"))
	w.refused(w.turnDown("again", "1", "db"), fault.Conflict, "db is turned down already: gone")
	w.refused(w.turnDown("gone", "", "web/b"), fault.Conflict, "look again")
	w.must(w.turnDown("too", "1", "web/b"))
	if got := w.turndowns(); len(got) != 3 || got["db"].Reason != "gone" || got["web/b"].Reason != "too" || got["web/b"].Orphan != nil {
		t.Errorf("the document has %+v", got)
	}
	audited, err := w.store.AuditRecords(t.Context(), "shop", 0, 0)
	w.must(err)
	if last := audited[len(audited)-1]; last.Verb != "edit-document" || last.Reason != "too" || last.By.Name != ann.Name {
		t.Errorf("the audit says %+v", last)
	}

	undo := func(reason string, assets ...string) error {
		_, err := w.client.Turndowns.UndoTurndown(t.Context(), &apipb.UndoTurndownRequest{Partition: "shop", Assets: assets, Reason: reason})
		return err
	}
	w.refused(undo("not yet", "web/bb"), fault.NotFound, "did you mean web/b?")
	w.refused(undo("", "web/b"), fault.Invalid, "needs a reason")
	w.must(undo("not yet", "web/b"))
	w.refused(undo("not yet", "web/b"), fault.NotFound, "was not turned down by command")
	if got := w.turndowns(); len(got) != 2 {
		t.Errorf("the document has %+v", got)
	}
	_, err = w.client.Documents.DeleteDocument(t.Context(), &apipb.DeleteDocumentRequest{Partition: "shop", Name: turndown.Document, Base: "3", Reason: "all"})
	w.refused(err, fault.Invalid, "lehr turndown --undo")
}

// TestAnOrphanComesBackAsItWas: its last enforced content is in the document, without
// dependencies on what left, too.
func TestAnOrphanComesBackAsItWas(t *testing.T) {
	w := newWorld(t)
	head := w.publish(0, w.enforcing(), w.command("db", "x"), w.command("web/a", "was", "db", "web/b"), w.command("web/b", "x"))
	_, err := w.store.SaveEnforced(t.Context(), w.lease, []store.Enforced{{
		Asset: "web/a", Type: "lehr.command.v1.Command", Incarnation: head.ID, ResourceKey: "file/a", At: time.Now(),
	}})
	w.must(err)
	w.must(w.store.Stage(t.Context(), w.lease, head.ID, []store.Entry{{Asset: "web/a", Removed: true}, {Asset: "db", Removed: true}}))
	_, err = w.store.Publish(t.Context(), w.lease, intent.Incarnation{ID: intent.IncarnationID{Partition: "shop", Sequence: 2}, Parent: head.ID, Schema: head.Schema})
	w.must(err)

	w.refused(w.turnDown("gone", "", "web/c"), fault.NotFound, "did you mean the orphan web/a?")
	seen := w.preview("web/a").Assets[0]
	if seen.OrphanOf != "shop@1" || seen.ResourceKey != "file/a" || !slices.Equal(seen.LeftOut, []string{"db"}) {
		t.Errorf("preview %v", seen)
	}
	w.must(w.turnDown("left behind", "", "web/a"))
	entry := w.turndowns()["web/a"]
	if entry.Orphan == nil || entry.Orphan.Incarnation != "shop@1" {
		t.Fatalf("the document has %+v", entry)
	}
	content, err := schema.Decode(entry.Orphan.Body)
	w.must(err)
	dependencies := &intentpb.Dependencies{}
	_, err = schema.Addon(content, dependencies)
	w.must(err)
	want := &intentpb.Dependencies{Dependencies: []*intentpb.Dependency{{On: "web/b", Rule: intentpb.Dependency_RULE_ORDER}}}
	if was := w.command("web/a", "was"); string(content.Payload.Bytes) != string(was.Payload.Bytes) || !proto.Equal(dependencies, want) {
		t.Errorf("it would come back as %+v", content)
	}
}
