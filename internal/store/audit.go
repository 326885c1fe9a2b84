package store

import (
	"context"

	"lehr.dev/internal/ground/intent"
)

// Audit reads the record. Writing is part of the writes it records: while a
// record cannot be written, nothing is that has one.
type Audit interface {
	// AuditRecords lists records after a number, in their order.
	AuditRecords(ctx context.Context, partition intent.PartitionID, cursor uint64, limit int) ([]intent.AuditRecord, error)
	// AuditEnds lists the ends of all chains in the order of their partitions,
	// and with them every partition that was ever registered.
	AuditEnds(ctx context.Context) ([]intent.AuditEnd, error)
	// WalkAudit recomputes the chain from its beginning, as far as it is
	// stored, and shows each record once it is verified. It is Internal, and
	// names the first bad record, when the chain is not as it was written. An
	// error of visit ends the walk.
	WalkAudit(ctx context.Context, partition intent.PartitionID, visit func(intent.AuditRecord) error) error
	// VerifyAudit is WalkAudit with nothing shown.
	VerifyAudit(ctx context.Context, partition intent.PartitionID) error
	// AuditTrouble says why records could not be written when this was last
	// tried; empty: they could.
	AuditTrouble() string
	// Identity names the store, for ever.
	Identity(ctx context.Context) (string, error)
}
