package web_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestDocuments: documents are listed, shown with what changed them, and edited by forms that are bound to what they showed.
func TestDocuments(t *testing.T) {
	w := newWorld(t)
	w.shows("/partition/shop/documents", "has no documents", "Create a document")
	w.acts("/partition/shop/act/document-create", "name", "knobs", "content", `{"version": "1.9", "replicas": 3, "note": "<b>"}`, "reason", "the first")
	w.shows("/partition/shop/documents", `href="partition/shop/document/knobs"`, "the first")
	w.shows("/partition/shop/document/knobs", "&#34;version&#34;: &#34;1.9&#34;", "&lt;b&gt;", "Set a field", "lehr document history knobs")
	content := func() string {
		held, err := w.store.Document(t.Context(), "shop", "knobs", "")
		w.must(err)
		return string(held.Content)
	}
	set := "/partition/shop/act/document-set?document=knobs"
	// A text stays a text, and a number a number.
	stale := w.form(set)
	w.acts(set, "path", "/version", "value", "1.10", "reason", "the next")
	w.acts(set, "path", "/replicas", "value", "5", "reason", "more")
	if got := content(); got != `{"note":"<b>","replicas":5,"version":"1.10"}` {
		t.Errorf("the document is %s", got)
	}
	stale.Set("path", "/version")
	stale.Set("value", "2.0")
	stale.Set("reason", "too late")
	if status, text := w.send(set, stale); status != http.StatusConflict || !strings.Contains(text, "too late") {
		t.Errorf("a form that showed another version is answered %d: %s", status, words(text))
	}
	fresh := w.form(set)
	fresh.Set("path", "/other")
	fresh.Set("value", "1.10")
	fresh.Set("reason", "a number?")
	if status, text := w.send(set, fresh); status != http.StatusBadRequest || !strings.Contains(text, "is 1.10 a text or the number 1.1?") {
		t.Errorf("a number that may be a text is answered %d: %s", status, words(text))
	}
	w.acts(set, "path", "/note", "value", "", "reason", "no note")
	text := w.shows("/partition/shop/document/knobs", "/version", "act/document-undo?document=knobs&amp;revision=2")
	if strings.Contains(text, "revision=1\"") {
		t.Error("what made the document can be taken back")
	}
	undo := "/partition/shop/act/document-undo?document=knobs&revision=2"
	w.shows(undo, "the next", "1.9")
	w.acts(undo, "reason", "it was slow")
	if got := content(); got != `{"replicas":5,"version":"1.9"}` {
		t.Errorf("after a change was taken back it is %s", got)
	}
	w.acts("/partition/shop/act/document-delete?document=knobs", "reason", "nobody reads it")
	w.shows("/partition/shop/document/knobs", "It was deleted", "act/document-undo")
	if status, _ := w.get("/partition/shop/document/none"); status != http.StatusNotFound {
		t.Errorf("a document that is none is answered %d", status)
	}
}
