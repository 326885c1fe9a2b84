package store

import (
	"context"
	"time"

	"lehr.dev/intent"
)

// AuditRecord is one link of a chain: of a partition's, or, of no partition,
// of that of all together. Its JSON is how it is stored and exported.
type AuditRecord struct {
	Partition intent.PartitionID `json:"partition,omitempty"`
	Number    uint64             `json:"n"`
	At        time.Time          `json:"at"`
	By        intent.Actor       `json:"by"`
	// From is the remote address of the caller, and Token the id of the token
	// that was borne. Empty: what Lehr did by itself.
	From  string `json:"from,omitempty"`
	Token string `json:"token,omitempty"`
	// Verb is what was done: "admit", "close", "pin", "stop", ….
	Verb    string `json:"verb"`
	Subject string `json:"subject"`
	// Reason is what whoever did it said; Lehr itself says why in Detail.
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Version of its link, and the link's first eight bytes, see package audit.
	Version int    `json:"v,omitempty"`
	Link    string `json:"link"`
}

// AuditEnd is how far a chain goes, by the note that is kept beside it.
type AuditEnd struct {
	Partition intent.PartitionID
	// Number of the last record, 0 for none, and its whole link.
	Number uint64
	Link   intent.Digest
}

// Audit reads the record. Writing is part of the writes it records: while a
// record cannot be written, nothing is that has one.
type Audit interface {
	// AuditRecords lists records after a number, in their order.
	AuditRecords(ctx context.Context, partition intent.PartitionID, after uint64, limit int) ([]AuditRecord, error)
	// AuditEnds lists the ends of all chains in the order of their partitions,
	// and with them every partition that was ever registered.
	AuditEnds(ctx context.Context) ([]AuditEnd, error)
	// WalkAudit recomputes the chain from its beginning, as far as it is
	// stored, and shows each record once it is verified. It is Internal, and
	// names the first bad record, when the chain is not as it was written. An
	// error of visit ends the walk.
	WalkAudit(ctx context.Context, partition intent.PartitionID, visit func(AuditRecord) error) error
	// VerifyAudit is WalkAudit with nothing shown.
	VerifyAudit(ctx context.Context, partition intent.PartitionID) error
	// AuditTrouble says why records could not be written when this was last
	// tried; empty: they could.
	AuditTrouble() string
	// Identity names the store, for ever.
	Identity(ctx context.Context) (string, error)
}
