package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
)

const (
	// revisionsShown are on one page of a document.
	revisionsShown = 30
	// revisionsLooked are looked through for one that is to be taken back.
	revisionsLooked = 1000
)

// documentView is a document that Lehr holds, or that lies in a repository, with what changed it.
type documentView struct {
	*apipb.Document
	Partition string
	Pretty    string
	Acts      []actButton
	Command   string
}

// revisionView is a change of a document, with the form that takes it back.
type revisionView struct {
	*apipb.DocumentRevision
	Undo *actButton
}

type revisionsView struct {
	Revisions []revisionView
	pager
}

// showDocuments lists the documents of a partition.
func showDocuments(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Documents of "+at.partition)
	if err != nil {
		return page{}, err
	}
	response, err := r.Documents.ListDocuments(ctx, &apipb.ListDocumentsRequest{Partition: at.partition})
	if err != nil {
		return page{}, err
	}
	view := struct {
		*apipb.ListDocumentsResponse
		Partition, Command string
	}{response, at.partition, r.command(at.partition, "document", "list")}
	pageData.Parts = []part{makePart("acts", "act-links", []actButton{newActButton(at.partition, "document-create", "")}), makePart("documents", "documents", view)}
	return pageData, nil
}

// showDocument shows a document as it is now, and what changed it, the newest first.
func showDocument(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Document "+at.name)
	if err != nil {
		return page{}, err
	}
	pageData.Back = crumb{"documents of " + at.partition, link(at.partition, "documents", "")}
	listed, err := r.Documents.ListDocumentRevisions(ctx, &apipb.ListDocumentRevisionsRequest{Partition: at.partition, Name: at.name, Before: at.query.Get("before"), Limit: revisionsShown})
	if err != nil {
		return page{}, err
	}
	response, err := r.Documents.GetDocument(ctx, &apipb.GetDocumentRequest{Partition: at.partition, Name: at.name})
	if absent(err) && len(listed.Revisions) > 0 { // It was deleted, which can be taken back.
		response, err = &apipb.GetDocumentResponse{Document: &apipb.Document{Name: at.name, Revision: listed.Revisions[0]}}, nil
	}
	if err != nil {
		return page{}, err
	}
	view := documentView{Document: response.Document, Partition: at.partition, Command: r.command(at.partition, "document", "history", at.name)}
	if view.Content != "" {
		view.Pretty = indented(view.Content)
		for _, name := range []string{"document-set", "document-delete"} {
			view.Acts = append(view.Acts, newActButton(at.partition, name, at.name))
		}
	}
	revisions := revisionsView{pager: at.pager("before", len(listed.Revisions), listed.Next)}
	for _, revision := range listed.Revisions {
		shown := revisionView{DocumentRevision: revision}
		if revision.Kind != "create" {
			shown.Undo = &actButton{Text: acts["document-undo"].button, Link: undoAddress(at.partition, at.name, revision.Id), Loosens: true}
		}
		revisions.Revisions = append(revisions.Revisions, shown)
	}
	pageData.Parts = []part{makePart("acts", "act-links", view.Acts), makePart("document", "document-held", view), makePart("revisions", "document-revisions", revisions)}
	return pageData, nil
}

// indented returns JSON on lines of its own, and what is no JSON as it is.
func indented(content string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(content), "", "  ") != nil {
		return content
	}
	return b.String()
}

// undoAddress leads to the form that takes a change of a document back.
func undoAddress(partition, document, revision string) string {
	return address{kind: "act", partition: partition, name: "document-undo", query: url.Values{"document": {document}, "revision": {revision}}}.String()
}

func registerDocumentActs() {
	acts["document-create"] = act{
		call: apipbconnect.DocumentServiceCreateDocumentProcedure, title: "Create a document in", button: "Create a document", loosens: true,
		effect: "The document is there for sources that name it. Nothing reads it before lehr.yaml does.",
		show: func(_ context.Context, _ *reader, _ address, form *actForm) error {
			form.Texts = []field{{Name: "name", Label: "name"}, {Name: "content", Label: "content, in JSON", Value: "{}"}}
			return nil
		},
		do: createDocument, back: func(at address) crumb {
			return crumb{"documents of " + at.partition, link(at.partition, "documents", "")}
		},
	}
	acts["document-set"] = act{
		call: apipbconnect.DocumentServiceEditDocumentProcedure, subject: "document", title: "Set a field of document", button: "Set a field", loosens: true,
		effect: "The field is set, or removed where the value is empty. What is generated from the document follows, as checks and budgets let it. The document's page takes it back.",
		show:   showDocumentToEdit, do: setDocument,
	}
	acts["document-undo"] = act{
		call: apipbconnect.DocumentServiceUndoDocumentProcedure, subject: "document", title: "Take a change back of document", button: "Take it back", loosens: true,
		effect: "The fields that this change set get their values of before. It is refused where somebody changed them since.",
		show:   showChangeToUndo, do: undoDocument,
	}
	acts["document-delete"] = act{
		call: apipbconnect.DocumentServiceDeleteDocumentProcedure, subject: "document", title: "Delete document", button: "Delete it", loosens: true,
		effect: "The document is gone until somebody takes that back. What is generated from it fails, so the newest incarnation goes on being served.",
		show:   showDocumentToEdit, do: deleteDocument,
	}
}

// showDocumentToEdit shows a document, and binds the act to its revision.
func showDocumentToEdit(ctx context.Context, r *reader, at address, form *actForm) error {
	name := at.query.Get("document")
	response, err := r.Documents.GetDocument(ctx, &apipb.GetDocumentRequest{Partition: at.partition, Name: name})
	if err != nil {
		return err
	}
	form.Bound = []field{{Name: "base", Value: response.Document.Revision.GetId()}}
	if at.name == "document-set" {
		form.Texts = []field{{Name: "path", Label: "field, as /clusters/a/version"}, {Name: "value", Label: "value, as text or JSON; empty: remove it", Optional: true}}
	}
	form.parts = append(form.parts, makePart("document", "document-held", documentView{Document: response.Document, Partition: at.partition, Pretty: indented(response.Document.Content)}))
	return nil
}

// showChangeToUndo shows the change that would be taken back.
func showChangeToUndo(ctx context.Context, r *reader, at address, form *actForm) error {
	name, id := at.query.Get("document"), at.query.Get("revision")
	listed, err := r.Documents.ListDocumentRevisions(ctx, &apipb.ListDocumentRevisionsRequest{Partition: at.partition, Name: name, Limit: revisionsLooked})
	if err != nil {
		return err
	}
	for _, revision := range listed.Revisions {
		if revision.Id == id {
			form.parts = append(form.parts, makePart("revision", "document-revisions", revisionsView{Revisions: []revisionView{{DocumentRevision: revision}}}))
			return nil
		}
	}
	form.Refused = fault.New(fault.NotFound, "%.40q is none of the newest %d revisions of document %s", id, revisionsLooked, name).WithHint("its page lists them")
	return nil
}

func createDocument(ctx context.Context, r *reader, request actRequest) (string, error) {
	name := strings.TrimSpace(request.values.Get("name"))
	_, err := r.Documents.CreateDocument(ctx, &apipb.CreateDocumentRequest{Partition: request.partition, Name: name, Content: request.values.Get("content"), Reason: request.reason})
	return "Document " + name + " is there.", err
}

func setDocument(ctx context.Context, r *reader, request actRequest) (string, error) {
	path, value := strings.TrimSpace(request.values.Get("path")), strings.TrimSpace(request.values.Get("value"))
	if value != "" {
		literal, err := r.readLiteral(ctx, request, path, value)
		if err != nil {
			return "", err
		}
		value = string(literal)
	}
	response, err := r.Documents.EditDocument(ctx, &apipb.EditDocumentRequest{
		Partition: request.partition, Name: request.subject, Base: request.values.Get("base"), Reason: request.reason,
		Operations: []*apipb.DocumentOperation{{Path: path, Value: value}},
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s of document %s is changed, by revision %s.", path, request.subject, response.Document.Revision.GetId()), nil
}

// readLiteral returns the JSON that a person means by a text for a field, given what is there in the revision that the form showed.
func (r *reader) readLiteral(ctx context.Context, request actRequest, path, text string) ([]byte, error) {
	parsed, err := document.ParsePath(path)
	if err != nil {
		return nil, err
	}
	response, err := r.Documents.GetDocument(ctx, &apipb.GetDocumentRequest{Partition: request.partition, Name: request.subject, Revision: request.values.Get("base")})
	if err != nil {
		return nil, err
	}
	content, err := document.Parse([]byte(response.Document.Content))
	if err != nil {
		return nil, err
	}
	return document.ReadLiteral(content, parsed, text)
}

func undoDocument(ctx context.Context, r *reader, request actRequest) (string, error) {
	revision := request.query.Get("revision")
	_, err := r.Documents.UndoDocument(ctx, &apipb.UndoDocumentRequest{Partition: request.partition, Name: request.subject, Revision: revision, Reason: request.reason})
	return fmt.Sprintf("Revision %s of document %s is taken back.", revision, request.subject), err
}

func deleteDocument(ctx context.Context, r *reader, request actRequest) (string, error) {
	_, err := r.Documents.DeleteDocument(ctx, &apipb.DeleteDocumentRequest{Partition: request.partition, Name: request.subject, Base: request.values.Get("base"), Reason: request.reason})
	return "Document " + request.subject + " is deleted.", err
}
