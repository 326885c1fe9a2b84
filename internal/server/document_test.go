package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// TestDocumentsByJSON: what docs/use/documents.md shows for programs, and what a
// program is told when somebody was faster.
func TestDocumentsByJSON(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made, err := w.client.Documents.CreateDocument(ctx, &apipb.CreateDocumentRequest{Partition: "shop", Name: "knobs", Content: `{"clusters":{"a":{"version":"1"}},"big":12345678901234567890}`})
	w.must(err)
	if made.Document.Revision.Id != "1" || made.Document.Revision.Reason != "none given" || made.Document.Revision.From == "" {
		t.Errorf("made %+v", made.Document)
	}
	edit := func(base, operations string) string {
		t.Helper()
		body := `{"partition": "shop", "name": "knobs", "base": "` + base + `", "reason": "spring", "operations": [` + operations + `]}`
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/lehr.api.v1.DocumentService/EditDocument", strings.NewReader(body))
		w.must(err)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+w.launch)
		answer, err := http.DefaultClient.Do(request)
		w.must(err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		w.must(err)
		return string(text)
	}
	const spring = `{"path": "/clusters/a/version", "value": "\"1.10\""}, {"path": "/big"}`
	first := edit("1", spring)
	if !strings.Contains(first, `{\"clusters\":{\"a\":{\"version\":\"1.10\"}}}`) {
		t.Errorf("edited: %s", first)
	}
	if again := edit("1", spring); again != first {
		t.Errorf("repeated: %s, at first %s", again, first)
	}
	if refused := edit("3", spring); !strings.Contains(refused, "failed_precondition") {
		t.Errorf("on a revision that is not there: %s", refused)
	}
	// Whoever was slower is told in fields what there is, and what it conflicts with.
	refused := edit("1", `{"path": "/clusters", "value": "{}"}, {"path": "/new", "value": "1"}`)
	if !strings.Contains(refused, `"conflict":{"revision":"2","changed":["/big","/clusters/a/version"],"conflicting":["/clusters/a/version"]}`) {
		t.Errorf("refused: %s", refused)
	}
	_, err = w.client.Documents.EditDocument(ctx, &apipb.EditDocumentRequest{Partition: "shop", Name: "knobs", Base: "1", Operations: []*apipb.DocumentOperation{{Path: "/new", Value: "1"}}})
	if found := client.Detail(err); !fault.Is(err, fault.Conflict) || found.GetConflict().GetRevision() != "2" || len(found.Conflict.Changed) != 2 || len(found.Conflict.Conflicting) != 0 || found.Hint == "" {
		t.Errorf("the client is told %v of %v", found, err)
	}
	_, err = w.client.Documents.EditDocument(ctx, &apipb.EditDocumentRequest{Partition: "shop", Name: "knobs", Operations: []*apipb.DocumentOperation{{Path: "/a", Value: "1"}}})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "on which revision") {
		t.Errorf("without a base: %v", err)
	}
	_, err = w.client.Documents.EditDocument(ctx, &apipb.EditDocumentRequest{Partition: "shop", Name: "knobs", Base: "2", Operations: []*apipb.DocumentOperation{{Path: "/a", Value: "abc"}}})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "/a cannot be set: this is no value of a document") || !strings.Contains(err.Error(), "write JSON") {
		t.Errorf("a value that is none: %v", err)
	}
	_, err = w.client.Documents.DeleteDocument(ctx, &apipb.DeleteDocumentRequest{Partition: "shop", Name: "knobs", Base: "2"})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "reason") {
		t.Errorf("deleted without a reason: %v", err)
	}
	for range 55 {
		at, err := w.client.Documents.GetDocument(ctx, &apipb.GetDocumentRequest{Partition: "shop", Name: "knobs"})
		w.must(err)
		_, err = w.client.Documents.EditDocument(ctx, &apipb.EditDocumentRequest{
			Partition: "shop", Name: "knobs", Base: at.Document.Revision.Id, Operations: []*apipb.DocumentOperation{{Path: "/n", Value: at.Document.Revision.Id}},
		})
		w.must(err)
	}
	count, before := 0, ""
	for {
		page, err := w.client.Documents.ListDocumentRevisions(ctx, &apipb.ListDocumentRevisionsRequest{Partition: "shop", Name: "knobs", Before: before})
		w.must(err)
		count += len(page.Revisions)
		if before = page.Next; before == "" {
			break
		}
	}
	if count != 57 {
		t.Errorf("%d revisions are listed, want 57", count)
	}
	large := `{"a":"` + strings.Repeat("x", document.MaxBytes-8) + `"}`
	if _, err := w.client.Documents.CreateDocument(ctx, &apipb.CreateDocumentRequest{Partition: "shop", Name: "large", Content: large}); err != nil {
		t.Errorf("as large as may be: %v", err)
	}
	_, err = w.client.Documents.CreateDocument(ctx, &apipb.CreateDocumentRequest{Partition: "shop", Name: "larger", Content: large + " "})
	w.must(err) // A space is no content.
	if _, err := w.client.Documents.CreateDocument(ctx, &apipb.CreateDocumentRequest{Partition: "shop", Name: "largest", Content: strings.Replace(large, "x", "xx", 1)}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a byte more: %v", err)
	}
}
