package server

import (
	"context"
	"fmt"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/turndown"
	"lehr.dev/internal/store"
)

// Repositories finds documents that lie in repositories, as a partition's
// definition names them.
type Repositories interface {
	// List lists them, without their content.
	List(ctx context.Context, partition store.Partition) ([]document.Document, error)
	// Find is NotFound when the definition names none so.
	Find(ctx context.Context, partition store.Partition, name string) (Written, error)
}

// Written is one document that is edited, wherever it lies. Its errors are those
// of store.Documents. Where nobody gave a reason it is empty: a repository says
// what a commit does instead.
type Written interface {
	Read(ctx context.Context, revision string) (document.Document, error)
	Revisions(ctx context.Context, before string, limit int) ([]document.Revision, error)
	Create(ctx context.Context, content []byte, reason string, actor intent.Actor) (document.Document, error)
	Edit(ctx context.Context, edit document.Edit, actor intent.Actor) (document.Document, error)
	Undo(ctx context.Context, revision, reason string, actor intent.Actor) (document.Document, error)
	Delete(ctx context.Context, base, reason string, actor intent.Actor) (document.Document, error)
}

// storedDocument is one that the store holds.
type storedDocument struct {
	store     store.Documents
	partition intent.PartitionID
	name      string
}

func (h storedDocument) Read(ctx context.Context, revision string) (document.Document, error) {
	return h.store.Document(ctx, h.partition, h.name, revision)
}

func (h storedDocument) Revisions(ctx context.Context, cursor string, limit int) ([]document.Revision, error) {
	return h.store.DocumentRevisions(ctx, h.partition, h.name, cursor, limit)
}

func (h storedDocument) Create(ctx context.Context, content []byte, reason string, actor intent.Actor) (document.Document, error) {
	return h.store.CreateDocument(ctx, h.partition, h.name, content, because(reason), actor)
}

func (h storedDocument) Edit(ctx context.Context, edit document.Edit, actor intent.Actor) (document.Document, error) {
	edit.Reason = because(edit.Reason)
	return h.store.EditDocument(ctx, h.partition, h.name, edit, actor)
}

func (h storedDocument) Undo(ctx context.Context, revision, reason string, actor intent.Actor) (document.Document, error) {
	return h.store.UndoDocument(ctx, h.partition, h.name, revision, because(reason), actor)
}

func (h storedDocument) Delete(ctx context.Context, base, reason string, actor intent.Actor) (document.Document, error) {
	return h.store.DeleteDocument(ctx, h.partition, h.name, base, reason, actor)
}

// documentOf finds a document: in the store, if there is or was one of that name,
// else in a repository. One that is neither is the store's to make.
func (s *Server) documentOf(ctx context.Context, partition, name string) (Written, error) {
	p, err := s.registered(ctx, partition)
	if err != nil {
		return nil, err
	}
	if err := document.CheckName(name); err != nil {
		return nil, err
	}
	stored := storedDocument{s.store, p.ID, name}
	_, err = s.store.DocumentRevisions(ctx, p.ID, name, "", 1)
	if err == nil || !fault.Is(err, fault.NotFound) {
		return stored, err
	}
	if s.repositories == nil {
		return stored, nil
	}
	written, err := s.repositories.Find(ctx, p, name)
	switch {
	case fault.Is(err, fault.NotFound):
		return stored, nil
	case err != nil:
		return nil, err
	}
	return written, nil
}

func (s *Server) ListDocuments(ctx context.Context, request *apipb.ListDocumentsRequest) (*apipb.ListDocumentsResponse, error) {
	p, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	list, err := s.store.ListDocuments(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	if s.repositories != nil {
		written, err := s.repositories.List(ctx, p)
		if err != nil {
			return nil, err
		}
		list = append(list, written...)
	}
	return &apipb.ListDocumentsResponse{Documents: convertEach(list, toDocument)}, nil
}

func (s *Server) GetDocument(ctx context.Context, request *apipb.GetDocumentRequest) (*apipb.GetDocumentResponse, error) {
	d, err := s.documentOf(ctx, request.Partition, request.Name)
	if err != nil {
		return nil, err
	}
	doc, err := d.Read(ctx, request.Revision)
	if err != nil {
		return nil, err
	}
	return &apipb.GetDocumentResponse{Document: toDocument(doc)}, nil
}

func (s *Server) ListDocumentRevisions(ctx context.Context, request *apipb.ListDocumentRevisionsRequest) (*apipb.ListDocumentRevisionsResponse, error) {
	d, err := s.documentOf(ctx, request.Partition, request.Name)
	if err != nil {
		return nil, err
	}
	const usual, most = 50, 1000
	limit := page(request.Limit, usual, most)
	list, err := d.Revisions(ctx, request.Before, limit+1)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListDocumentRevisionsResponse{}
	if len(list) > limit {
		list = list[:limit]
		response.Next = list[limit-1].ID
	}
	response.Revisions = convertEach(list, toDocumentRevision)
	return response, nil
}

func (s *Server) CreateDocument(ctx context.Context, request *apipb.CreateDocumentRequest) (*apipb.CreateDocumentResponse, error) {
	d, err := s.documentOf(ctx, request.Partition, request.Name)
	if err != nil {
		return nil, err
	}
	content := request.Content
	if content == "" {
		content = "{}"
	}
	doc, err := d.Create(ctx, []byte(content), request.Reason, actorOf(ctx))
	if err != nil {
		return nil, err
	}
	return &apipb.CreateDocumentResponse{Document: toDocument(doc)}, nil
}

func (s *Server) EditDocument(ctx context.Context, request *apipb.EditDocumentRequest) (*apipb.EditDocumentResponse, error) {
	d, err := s.documentOf(ctx, request.Partition, request.Name)
	if err != nil {
		return nil, err
	}
	if request.Base == "" {
		return nil, fault.New(fault.Invalid, "the edit of document %s does not say on which revision it was made", request.Name).
			WithHint("read the document, and name its revision as base")
	}
	edit := document.Edit{Base: request.Base, Reason: request.Reason}
	for _, o := range request.Operations {
		operation := document.Operation{Path: o.Path}
		if o.Value != "" {
			operation.Value = []byte(o.Value)
		}
		edit.Operations = append(edit.Operations, operation)
	}
	doc, err := d.Edit(ctx, edit, actorOf(ctx))
	if err != nil {
		return nil, err
	}
	return &apipb.EditDocumentResponse{Document: toDocument(doc)}, nil
}

func (s *Server) UndoDocument(ctx context.Context, request *apipb.UndoDocumentRequest) (*apipb.UndoDocumentResponse, error) {
	d, err := s.documentOf(ctx, request.Partition, request.Name)
	if err != nil {
		return nil, err
	}
	doc, err := d.Undo(ctx, request.Revision, request.Reason, actorOf(ctx))
	if err != nil {
		return nil, err
	}
	return &apipb.UndoDocumentResponse{Document: toDocument(doc)}, nil
}

func (s *Server) DeleteDocument(ctx context.Context, request *apipb.DeleteDocumentRequest) (*apipb.DeleteDocumentResponse, error) {
	d, err := s.documentOf(ctx, request.Partition, request.Name)
	if err != nil {
		return nil, err
	}
	if request.Name == turndown.Document {
		return nil, fault.New(fault.Invalid, "the document %s of partition %s is not deleted: all that was turned down by command would come back", request.Name, request.Partition).
			WithHint("lehr turndown --undo ASSET takes assets out of it")
	}
	reason, err := loosened(fmt.Sprintf("deleting document %s of partition %s", request.Name, request.Partition), request.Reason)
	if err != nil {
		return nil, err
	}
	doc, err := d.Delete(ctx, request.Base, reason, actorOf(ctx))
	if err != nil {
		return nil, err
	}
	return &apipb.DeleteDocumentResponse{Document: toDocument(doc)}, nil
}

func toDocument(d document.Document) *apipb.Document {
	return &apipb.Document{
		Partition: string(d.Partition), Name: d.Name, Revision: toDocumentRevision(d.Revision), Content: string(d.Content), Size: int64(d.Size), Place: d.Place,
	}
}

func toDocumentRevision(r document.Revision) *apipb.DocumentRevision {
	return &apipb.DocumentRevision{
		Id: r.ID, Kind: r.Kind, Of: r.Of, By: &apipb.Actor{Name: r.By.Name, Origin: r.By.Origin}, From: r.From, Time: toTime(r.At), Reason: r.Reason, More: r.More,
		Changes: convertEach(r.Changes, func(c document.Change) *apipb.DocumentChange {
			return &apipb.DocumentChange{Path: c.Path, Before: string(c.Before), After: string(c.After)}
		}),
	}
}
