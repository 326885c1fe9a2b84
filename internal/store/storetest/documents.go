package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
)

const knobs = "knobs"

// setting sets one path.
func setting(base, path, value string) document.Edit {
	return document.Edit{Base: base, Operations: []document.Operation{{Path: path, Value: json.RawMessage(value)}}, Reason: "a try"}
}

func (w *world) document(revision string) string {
	w.t.Helper()
	doc, err := w.Document(w.t.Context(), shop, knobs, revision)
	w.must(err)
	return string(doc.Content)
}

func (w *world) created(content string) {
	w.t.Helper()
	_, err := w.CreateDocument(w.t.Context(), shop, knobs, []byte(content), "begun", alice)
	w.must(err)
}

func testDocuments(t *testing.T, open func(t *testing.T) store.All) {
	t.Run("life", func(t *testing.T) { documentLife(newWorld(t, open)) })
	t.Run("refused", func(t *testing.T) { documentsRefused(newWorld(t, open)) })
	t.Run("repeated", func(t *testing.T) { documentsRepeated(newWorld(t, open)) })
	t.Run("model", func(t *testing.T) { documentModel(t, open) })
}

func documentLife(w *world) {
	t := w.t
	ctx := store.WithCaller(t.Context(), store.Caller{Actor: bob, Local: true, From: "10.0.0.7:1"})
	_, err := w.Document(ctx, shop, knobs, "")
	w.refused(err, fault.NotFound)
	if !strings.Contains(err.Error(), "lehr document create knobs -p shop") {
		t.Errorf("%v does not say how to make it", err)
	}
	previous, changed := w.revision(), w.Changed(shop)
	created, err := w.CreateDocument(ctx, shop, knobs, []byte(` {"b": 12345678901234567890, "a": {"version": "1"}} `), "begun", bob)
	w.must(err)
	select {
	case <-changed:
	case <-time.After(10 * time.Second): // It is told after it was answered.
		t.Error("nobody was told of it")
	}
	if w.revision() != previous {
		t.Error("a document moved the revision that admissions rest on")
	}
	if string(created.Content) != `{"a":{"version":"1"},"b":12345678901234567890}` || created.Revision.ID != "1" || created.Revision.From != "10.0.0.7:1" || created.Revision.By != bob {
		t.Errorf("made %+v", created)
	}
	edit := setting("1", "/a/version", `"2"`)
	edit.Operations = append(edit.Operations, document.Operation{Path: "/b"})
	edited, err := w.EditDocument(ctx, shop, knobs, edit, bob)
	w.must(err)
	if want := `{"a":{"version":"2"}}`; string(edited.Content) != want || w.document("") != want || w.document("2") != want || w.document("1") != string(created.Content) {
		t.Errorf("edited %+v; it reads %s", edited, w.document(""))
	}
	// All of an edit, or nothing.
	edit = setting("2", "/a/version", `"3"`)
	edit.Operations = append(edit.Operations, document.Operation{Path: "/b"})
	_, err = w.EditDocument(ctx, shop, knobs, edit, bob)
	w.refused(err, fault.Invalid)
	_, err = w.EditDocument(ctx, shop, knobs, setting("2", "/c", "1"), alice)
	w.must(err)
	// What is undone is what was changed, and no more.
	undone, err := w.UndoDocument(ctx, shop, knobs, "2", "a mistake", alice)
	w.must(err)
	if want := `{"a":{"version":"1"},"b":12345678901234567890,"c":1}`; string(undone.Content) != want || undone.Revision.Of != "2" || undone.Revision.Kind != document.Undone {
		t.Errorf("undone: %+v", undone)
	}
	_, err = w.EditDocument(ctx, shop, knobs, setting("4", "/c", "2"), bob)
	w.must(err)
	_, err = w.UndoDocument(ctx, shop, knobs, "3", "that too", alice)
	w.refused(err, fault.Conflict)
	if !strings.Contains(err.Error(), "/c changed since: bob set /c (revision 5") {
		t.Errorf("%v does not say who changed it since", err)
	}
	conflicts(t, err, document.Conflict{Revision: "5", Changed: []string{"/a/version", "/b", "/c"}, Conflicting: []string{"/c"}})
	// Deleted, it is not there, and what it was is; undone, it is back.
	_, err = w.EditDocument(ctx, shop, knobs, setting("3", "/a", `{"version":"7"}`), bob)
	w.refused(err, fault.Conflict)
	conflicts(t, err, document.Conflict{Revision: "5", Changed: []string{"/a/version", "/b", "/c"}, Conflicting: []string{"/a/version"}})
	_, err = w.EditDocument(ctx, shop, knobs, setting("4", "/d", "1"), bob)
	w.refused(err, fault.Conflict)
	conflicts(t, err, document.Conflict{Revision: "5", Changed: []string{"/c"}})
	_, err = w.DeleteDocument(ctx, shop, knobs, "4", "old", bob)
	w.refused(err, fault.Conflict)
	conflicts(t, err, document.Conflict{Revision: "5", Changed: []string{"/c"}, Conflicting: []string{"/c"}})
	_, err = w.DeleteDocument(ctx, shop, knobs, "5", "not needed", bob)
	w.must(err)
	for _, revision := range []string{"", "6"} {
		_, err = w.Document(ctx, shop, knobs, revision)
		w.refused(err, fault.NotFound)
		if !strings.Contains(err.Error(), "deleted in revision 6 by bob") || !strings.Contains(err.Error(), "not needed") {
			t.Errorf("%v does not say who deleted it", err)
		}
	}
	_, err = w.EditDocument(ctx, shop, knobs, setting("6", "/c", "2"), bob)
	w.refused(err, fault.NotFound)
	if list, err := w.ListDocuments(ctx, shop); err != nil || len(list) != 0 {
		t.Errorf("deleted, it is listed: %+v, %v", list, err)
	}
	_, err = w.UndoDocument(ctx, shop, knobs, "6", "needed", alice)
	w.must(err)
	if got := w.document(""); got != w.document("5") {
		t.Errorf("brought back, it is %s", got)
	}
	list, err := w.ListDocuments(ctx, shop)
	w.must(err)
	if len(list) != 1 || list[0].Name != knobs || list[0].Revision.ID != "7" || list[0].Content != nil || list[0].Size != len(w.document("")) {
		t.Errorf("listed: %+v", list)
	}
	var lines []string
	for previous := ""; ; {
		page, err := w.DocumentRevisions(ctx, shop, knobs, previous, 3)
		w.must(err)
		for _, r := range page {
			lines = append(lines, r.ID+" "+r.By.Name+" "+r.What())
			previous = r.ID
		}
		if len(page) == 0 {
			break
		}
	}
	want := "7 alice undid 6; 6 bob deleted the document; 5 bob set /c; 4 alice undid 2; 3 alice set /c; 2 bob set /a/version, removed /b; 1 bob created the document"
	if got := strings.Join(lines, "; "); got != want {
		t.Errorf("history:\n%s, want\n%s", got, want)
	}
	verified, err := w.Verify(ctx)
	w.must(err)
	if verified.Documents != 1 {
		t.Errorf("verified: %+v", verified)
	}
}

// conflicts checks what a refused change is told to conflict with.
func conflicts(t testing.TB, err error, want document.Conflict) {
	t.Helper()
	got, isConflict := errors.AsType[*document.Conflict](err)
	if !isConflict || got.Revision != want.Revision || !slices.Equal(got.Changed, want.Changed) || !slices.Equal(got.Conflicting, want.Conflicting) || got.More != want.More {
		t.Errorf("it conflicts with %+v, want %+v", got, want)
	}
}

func documentsRefused(w *world) {
	ctx := w.t.Context()
	w.created(`{"a":1}`)
	_, err := w.CreateDocument(ctx, shop, knobs, []byte(`{}`), "again", bob)
	w.refused(err, fault.Conflict)
	conflicts(w.t, err, document.Conflict{Revision: "1"})
	for _, name := range []string{"", "A", "a/b", "../a", "-a", strings.Repeat("a", document.MaxName+1)} {
		_, err := w.CreateDocument(ctx, shop, name, []byte(`{}`), "", alice)
		w.refused(err, fault.Invalid)
	}
	_, err = w.CreateDocument(ctx, shop, "other", []byte(`{`), "", alice)
	w.refused(err, fault.Invalid)
	_, err = w.CreateDocument(ctx, "nowhere", "other", []byte(`{}`), "", alice)
	w.refused(err, fault.NotFound)
	for _, base := range []string{"", "0", "x", "-1"} {
		_, err = w.EditDocument(ctx, shop, knobs, setting(base, "/a", "2"), alice)
		w.refused(err, fault.Invalid)
	}
	_, err = w.EditDocument(ctx, shop, knobs, setting("2", "/a", "2"), alice)
	w.refused(err, fault.Conflict)
	conflicts(w.t, err, document.Conflict{Revision: "1", More: true})
	_, err = w.EditDocument(ctx, shop, knobs, setting("1", "/a", "1"), alice)
	w.refused(err, fault.Invalid)
	if !strings.Contains(err.Error(), "changes nothing") {
		w.t.Errorf("%v", err)
	}
	_, err = w.EditDocument(ctx, shop, knobs, setting("1", "/a", `"`+strings.Repeat("x", document.MaxBytes)+`"`), alice)
	w.refused(err, fault.Invalid)
	_, err = w.EditDocument(ctx, shop, knobs, setting("1", "/a", `"`+strings.Repeat("x", document.MaxBytes-8)+`"`), alice)
	w.must(err) // As large as may be.
	// Of two edits of one revision only one is made, be they of other fields.
	_, err = w.EditDocument(ctx, shop, knobs, setting("1", "/b", "2"), bob)
	w.refused(err, fault.Conflict)
	if !strings.Contains(err.Error(), "alice set /a (revision 2") {
		w.t.Errorf("%v does not say who changed what", err)
	}
	for _, revision := range []string{"3", "0", "x"} {
		_, err := w.Document(ctx, shop, knobs, revision)
		if !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
			w.t.Errorf("revision %s: %v", revision, err)
		}
	}
	_, err = w.UndoDocument(ctx, shop, knobs, "9", "", alice)
	w.refused(err, fault.NotFound)
	for i := 1; i < document.MaxDocuments; i++ {
		_, err := w.CreateDocument(ctx, shop, fmt.Sprint("d", i), []byte(`{}`), "", alice)
		w.must(err)
	}
	_, err = w.CreateDocument(ctx, shop, "one-too-many", []byte(`{}`), "", alice)
	w.refused(err, fault.Invalid)
}

// documentsRepeated: a call whose answer was lost is made once, and answered as
// it was; the same by somebody else is another.
func documentsRepeated(w *world) {
	ctx := w.t.Context()
	for range 2 {
		w.created(`{"a":1}`)
	}
	first, err := w.EditDocument(ctx, shop, knobs, setting("1", "/a", "2"), alice)
	w.must(err)
	_, err = w.EditDocument(ctx, shop, knobs, setting("1", "/a", "2"), bob)
	w.refused(err, fault.Conflict)
	_, err = w.EditDocument(ctx, shop, knobs, setting("2", "/b", "2"), bob)
	w.must(err)
	again, err := w.EditDocument(ctx, shop, knobs, setting("1", "/a", "2"), alice)
	w.must(err)
	if again.Revision.ID != "2" || string(again.Content) != string(first.Content) {
		w.t.Errorf("repeated: %+v, at first %+v", again, first)
	}
	for range 2 {
		undone, err := w.UndoDocument(ctx, shop, knobs, "2", "no", alice)
		w.must(err)
		if undone.Revision.ID != "4" {
			w.t.Errorf("undone twice: %+v", undone)
		}
	}
	for range 2 {
		_, err := w.DeleteDocument(ctx, shop, knobs, "4", "over", alice)
		w.must(err)
	}
	if list, err := w.DocumentRevisions(ctx, shop, knobs, "", 0); err != nil || len(list) != 5 {
		w.t.Errorf("%d revisions, %v, want 5", len(list), err)
	}
}

// documentModel compares any edits, undos and deletions with a list of what the
// document was.
func documentModel(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	run := 0
	rapid.Check(t, func(r *rapid.T) {
		run++
		name := fmt.Sprint("model-", run)
		contents := []string{""} // By revision; empty: it was not there.
		for range rapid.IntRange(1, 15).Draw(r, "steps") {
			newest := len(contents) - 1
			now := contents[newest]
			var result document.Document
			var err error
			path := rapid.SampledFrom([]string{"/a", "/b/c", "/b/d", "/l/-", "/b"}).Draw(r, "path")
			reason := fmt.Sprint("step ", newest)
			switch rapid.IntRange(0, 5).Draw(r, "kind") {
			case 0:
				result, err = w.CreateDocument(t.Context(), shop, name, []byte(`{"l":[]}`), reason, alice)
			case 1:
				result, err = w.DeleteDocument(t.Context(), shop, name, fmt.Sprint(max(newest, 1)), reason, alice)
			case 2:
				target := rapid.IntRange(1, max(newest, 1)).Draw(r, "of")
				result, err = w.UndoDocument(t.Context(), shop, name, fmt.Sprint(target), reason, alice)
				if err == nil && target == newest && string(result.Content) != contents[newest-1] {
					r.Fatalf("undoing the newest of %v gives %s", contents, result.Content)
				}
			default:
				edit := setting(fmt.Sprint(max(newest, 1)), path, fmt.Sprint(newest))
				edit.Reason = reason
				result, err = w.EditDocument(t.Context(), shop, name, edit, alice)
				if err == nil {
					want, applyErr := document.Apply([]byte(now), edit.Operations)
					if applyErr != nil || string(want) != string(result.Content) {
						r.Fatalf("%v of %s gives %s, want %s, %v", edit, now, result.Content, want, applyErr)
					}
				}
			}
			if err == nil {
				if result.Revision.ID != fmt.Sprint(len(contents)) {
					r.Fatalf("revision %s after %d", result.Revision.ID, newest)
				}
				contents = append(contents, string(result.Content))
			} else if fault.Is(err, fault.Internal) || fault.Is(err, fault.Unavailable) {
				r.Fatal(err)
			}
		}
		for number := 1; number < len(contents); number++ {
			doc, err := w.Document(t.Context(), shop, name, fmt.Sprint(number))
			if string(doc.Content) != contents[number] || (err == nil) != (contents[number] != "") {
				r.Fatalf("revision %d is %s, %v, want %s", number, doc.Content, err, contents[number])
			}
		}
	})
	if _, err := w.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}
