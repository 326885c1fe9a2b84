package store

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
)

// History says which of a store's generations it is: the first is its making,
// and each adoption begins another.
type History struct {
	Generation uint64 `json:"generation"`
	// Timeline is a random name of the generation.
	Timeline string `json:"timeline"`
	// Stop is nil, or says why nothing is pushed until somebody adopts the
	// store.
	Stop *intent.Stop `json:"stop,omitempty"`
	// Lost commits that are known to be missing; Unsure: there may be more.
	Lost   int64 `json:"lost"`
	Unsure bool  `json:"unsure"`
}

// Adoption asks for a store to be served in spite of what stands against it.
type Adoption struct {
	Reason string
	By     intent.Actor
	// Beyond is an epoch that a target knows; those to come are higher.
	Beyond uint64
	At     time.Time
}

// Adopted says what an adoption did.
type Adopted struct {
	History History `json:"history"`
	// Found is the history before.
	Found History `json:"found"`
	// Partitions by the numbers from which they go on.
	Partitions []AdoptedPartition `json:"partitions"`
	// Doubted pushes were open, Voided approvals and acknowledgements unused.
	Doubted int64 `json:"doubted"`
	Voided  int64 `json:"voided"`
}

// AdoptedPartition goes on from these.
type AdoptedPartition struct {
	ID    intent.PartitionID   `json:"id"`
	Epoch uint64               `json:"epoch"`
	Head  intent.IncarnationID `json:"head"`
}

// Histories keeps a store from going on where it was once before (S15). A store
// that lacks what was committed to it is stopped by itself: no resume ends that
// stop, Adopt does.
type Histories interface {
	History(ctx context.Context) (History, error)
	// Adopt begins a generation. Epochs, incarnations and revisions go on past
	// any that were lost, open pushes are in doubt, and approvals and
	// acknowledgements that were not used are void. Conflict when nothing stands
	// against the store, unless Beyond is asked for.
	Adopt(ctx context.Context, adoption Adoption) (Adopted, error)
	// Verify recomputes every digest: bodies, blobs, memberships, candidates'
	// deltas, audit chains. The error names the first that is not as it was.
	Verify(ctx context.Context) (Verified, error)
}

// Verified counts what was found as it was written.
type Verified struct {
	Partitions   int `json:"partitions"`
	Incarnations int `json:"incarnations"`
	Bodies       int `json:"bodies"`
	Blobs        int `json:"blobs"`
	Candidates   int `json:"candidates"`
	Documents    int `json:"documents"`
	AuditRecords int `json:"auditRecords"`
}
