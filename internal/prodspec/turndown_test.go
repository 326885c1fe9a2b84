package prodspec_test

import (
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/prodspec"
)

// turnDown writes the document of turndowns, or adds to it.
func (w *world) turnDown(entries ...turndown.Entry) {
	w.t.Helper()
	content, err := turndown.Content(entries)
	if err == nil {
		_, err = w.store.CreateDocument(w.t.(*testing.T).Context(), "shop", turndown.Document, content, "moved", person)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) editTurndowns(base string, operations ...document.Operation) {
	w.t.Helper()
	if _, err := w.store.EditDocument(w.t.(*testing.T).Context(), "shop", turndown.Document, document.Edit{Base: base, Operations: operations, Reason: "again"}, person); err != nil {
		w.t.Fatal(err)
	}
}

// turndownOf an asset in an incarnation; empty: it has none.
func (w *world) turndownOf(sequence intent.Sequence, id intent.AssetID) string {
	w.t.Helper()
	addon := &intentpb.Turndown{}
	if _, err := schema.Addon(w.content(sequence, id), addon); err != nil {
		w.t.Fatal(err)
	}
	return addon.Reason
}

func (w *world) body(sequence intent.Sequence, id intent.AssetID) []byte {
	w.t.Helper()
	_, body, err := w.store.Content(w.t.(*testing.T).Context(), intent.IncarnationID{Partition: "shop", Sequence: sequence}, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return body
}

// TestTurnedDownByTheDocument: what the document says has a Turndown in the next incarnation,
// whatever makes it; nothing runs for it but what is about it; who and why are told.
func TestTurnedDownByTheDocument(t *testing.T) {
	w := addonWorld(t, "", "", "")
	w.start()
	before := w.served(1)
	w.turnDown(turndown.Entry{Asset: "job/web", Reason: "moved"}, turndown.Entry{Asset: settingsAsset, Reason: "moved, too"})
	after := w.served(2)
	if got := w.turndownOf(2, "job/web"); got != "moved" {
		t.Errorf("job/web has the Turndown %q", got)
	}
	if got := w.turndownOf(2, "job/base"); got != "" {
		t.Errorf("job/base has the Turndown %q", got)
	}
	if after.Executions != before.Executions {
		t.Errorf("%d runs for it", after.Executions-before.Executions)
	}
	incarnation, err := w.store.Incarnation(t.Context(), after.Head)
	if err != nil || incarnation.Removed != 0 || incarnation.Changed != 2 {
		t.Errorf("incarnation %+v, %v", incarnation, err)
	}
	blame := w.blame(2, "job/web", "addons.Turndown.reason")
	if len(blame.Origin.Derived) != 1 || blame.Origin.Derived[0].Place.File != turndown.File() || blame.Origin.Derived[0].Derivation != turndown.Document {
		t.Errorf("blame tells %+v", blame.Origin)
	}
	if change := blame.Origin.Derived[0].Place.Source; change != turndown.Document {
		t.Errorf("it is of the source %q", change)
	}

	w.editTurndowns("1", document.Operation{Path: turndown.PathOf("job/web")})
	w.served(3)
	if got := w.turndownOf(3, "job/web"); got != "" {
		t.Errorf("after undo job/web has the Turndown %q", got)
	}
	if got := w.turndownOf(3, settingsAsset); got != "moved, too" {
		t.Errorf("after undo of another, settings has the Turndown %q", got)
	}
	// A restart reads it again.
	w.stop()
	w.start()
	w.write("jobs/web.yaml", "id: job/web\ntype: Job\npayload: {name: web, binary: /bin/web, version: \"2\", replicas: 2}\n")
	w.served(4)
	if got := w.turndownOf(4, settingsAsset); got != "moved, too" {
		t.Errorf("after a restart settings has the Turndown %q", got)
	}
}

// TestAnOrphanIsTurnedDown: it comes back as it was, with a Turndown, by no generator;
// and leaves it to the generator that gives it again.
func TestAnOrphanIsTurnedDown(t *testing.T) {
	w := addonWorld(t, "", "", "")
	w.write("jobs/old.yaml", "id: job/old\ntype: Job\npayload: {name: old, binary: /bin/old, version: \"1\", replicas: 2}\n")
	w.start()
	w.served(1)
	body := w.body(1, "job/old")
	w.remove("jobs/old.yaml")
	w.served(2)
	w.turnDown(turndown.Entry{Asset: "job/old", Reason: "left behind", Orphan: &turndown.Orphan{Incarnation: "shop@1", Body: body}})
	w.served(3)
	if got := w.turndownOf(3, "job/old"); got != "left behind" {
		t.Errorf("the orphan has the Turndown %q", got)
	}
	if was, is := w.content(1, "job/old").Payload, w.content(3, "job/old").Payload; string(was.Bytes) != string(is.Bytes) {
		t.Errorf("it came back as %q, was %q", is.Bytes, was.Bytes)
	}
	// Something else changes: it stays.
	w.write("jobs/web.yaml", "id: job/web\ntype: Job\npayload: {name: web, binary: /bin/web, version: \"2\", replicas: 2}\n")
	w.served(4)
	if got := w.turndownOf(4, "job/old"); got != "left behind" {
		t.Errorf("then the orphan has the Turndown %q", got)
	}
	// A generator gives it again, as something newer: that is what is turned down.
	w.write("jobs/old.yaml", "id: job/old\ntype: Job\npayload: {name: old, binary: /bin/old, version: \"3\", replicas: 2}\n")
	w.served(5)
	if got := w.turndownOf(5, "job/old"); got != "left behind" {
		t.Errorf("given again it has the Turndown %q", got)
	}
	w.remove("jobs/old.yaml")
	w.served(6)
	if was, is := w.content(1, "job/old").Payload, w.content(6, "job/old").Payload; string(was.Bytes) != string(is.Bytes) {
		t.Errorf("it came back as %q, was %q", is.Bytes, was.Bytes)
	}
	w.editTurndowns("1", document.Operation{Path: turndown.PathOf("job/old")})
	w.served(7)
	for _, id := range w.assets() {
		if id == "job/old" {
			t.Error("after undo it is still there")
		}
	}
}

// TestADamagedDocumentOfTurndownsIsRefused: what cannot be read turns nothing down, and
// brings nothing back.
func TestADamagedDocumentOfTurndownsIsRefused(t *testing.T) {
	for path, value := range map[string]string{
		turndown.PathOf("job/web"):          `{"reason": ""}`,
		turndown.PathOf("lehr/policy"):      `{"reason": "gone"}`,
		turndown.PathOf("job/other"):        `{"reason": "gone", "orphan": {"incarnation": "shop@1", "body": "bm9uc2Vuc2U="}}`,
		turndown.PathOf("job/web") + "/why": `"x"`,
		"/asets":                            `{}`,
		turndown.PathOf("No Asset"):         `{"reason": "gone"}`,
	} {
		t.Run(strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			w := addonWorld(t, "", "", "")
			w.start()
			w.served(1)
			w.turnDown(turndown.Entry{Asset: "job/web", Reason: "moved"})
			w.served(2)
			w.editTurndowns("1", document.Operation{Path: path, Value: []byte(value)})
			status := w.wait("rejected", func(s prodspec.Status) bool { return s.State == prodspec.Rejected })
			if f := status.Findings[0]; f.Rule != "turndown" || f.File != turndown.File() || f.Line < 1 || f.Hint == "" {
				t.Errorf("finding %+v", f)
			}
			if status.Head.Sequence != 2 {
				t.Errorf("head is %s", status.Head)
			}
			w.editTurndowns("2", document.Operation{Path: path})
		})
	}
}
