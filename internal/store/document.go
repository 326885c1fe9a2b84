package store

import (
	"context"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

// Documents keeps documents: configuration that people and programs edit field
// by field. Revisions of a document only grow, also when it is deleted and made
// anew; each is kept with who made it, from where, when and why, as far as
// document.MaxRevisions and document.MaxHistory let. A write that was carried
// out and whose answer was lost can be repeated: it is known by the revision
// that it names, and done once.
type Documents interface {
	// CreateDocument is Conflict when there is one of that name.
	CreateDocument(ctx context.Context, partition intent.PartitionID, name string, content []byte, reason string, actor intent.Actor) (document.Document, error)
	// EditDocument is Conflict when the edit was made on another revision than the
	// newest, and says who changed what since.
	EditDocument(ctx context.Context, partition intent.PartitionID, name string, edit document.Edit, actor intent.Actor) (document.Document, error)
	// SaveOutputs edits the document of outputs as the enforcer does, under its lease: as
	// EditDocument, and makes the document where there is none. An edit without a base is
	// made on whatever is the newest.
	SaveOutputs(ctx context.Context, lease Lease, edit document.Edit) (document.Document, error)
	// SavePreviews edits the document of the entries of a rule of previews, under the lease, as
	// SaveOutputs does. Nothing else edits it: any other edit of such a document is Denied.
	SavePreviews(ctx context.Context, lease Lease, rule string, edit document.Edit) (document.Document, error)
	// UndoDocument gives the fields that a revision changed their values of before,
	// in a new revision; Conflict when they were changed since.
	UndoDocument(ctx context.Context, partition intent.PartitionID, name, revision, reason string, actor intent.Actor) (document.Document, error)
	// DeleteDocument takes the newest revision. What it was can be read, and
	// brought back by undoing it.
	DeleteDocument(ctx context.Context, partition intent.PartitionID, name, base, reason string, actor intent.Actor) (document.Document, error)
	// RecordCommit records, before it is pushed, that somebody who may edit
	// changes a document that lies in a repository.
	RecordCommit(ctx context.Context, partition intent.PartitionID, name, detail, reason string, actor intent.Actor) error
	// Document reads one as of a revision; of the newest, if it is empty. NotFound
	// when there is none, or it is deleted then.
	Document(ctx context.Context, partition intent.PartitionID, name, revision string) (document.Document, error)
	// ListDocuments lists those that are not deleted, without their content, in
	// the order of their names.
	ListDocuments(ctx context.Context, partition intent.PartitionID) ([]document.Document, error)
	// DocumentRevisions lists revisions with their changes, the newest first, from
	// the one before; empty: from the newest. Limit as AssetFilter's. Long values
	// are left out as document.More says.
	DocumentRevisions(ctx context.Context, partition intent.PartitionID, name, before string, limit int) ([]document.Revision, error)
}
