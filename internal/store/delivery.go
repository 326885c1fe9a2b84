package store

import (
	"context"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
)

// PromotionStep is what delivery does at once: all of it, or nothing. Conflict when what it
// rests on has moved.
type PromotionStep struct {
	// Home and Application whose rows these are. The lease is that of the environment's
	// partition, which may be another.
	Home        intent.PartitionID
	Application string
	// Revision of the lease's partition, and HomeRevision of the home, as they were read.
	Revision, HomeRevision uint64
	// Said is the number of the last row that a person or a program had added.
	Said uint64
	// Rests are rows of others that it rests on as well.
	Rests []DeliveryRest
	// Records to add; their numbers and times are the store's.
	Records []intent.DeliveryRecord
	// Document to edit, with the revision that the edit was made on; nil: none is edited.
	// Those of Records that are promotions get the revision that comes of it; without an edit
	// they name one of a repository.
	Document string
	Edit     *document.Edit
	// Verify is a verification that begins, or one under way with the newer Head that was looked
	// at; nil: none. One begins only while no push of its assets is open, and none of the
	// environment is under way: else Conflict. Either raises the partition's revision, so that
	// no push is admitted that was decided on before.
	Verify *intent.Verification
	// Verified is one that has ended; Conflict where it is not under way any more. Pushes go on.
	Verified *intent.Verification
}

// DeliveryRest is what a step rests on besides its own application: Number is that of the last row of a line of
// releases, or of an application that goes first in a release.
type DeliveryRest struct {
	Partition   intent.PartitionID
	Application string
	Number      uint64
}

// DeliveryFilter selects rows of deliveries of a partition.
type DeliveryFilter struct {
	// Application whose rows they are; empty: all of the partition.
	Application string
	// After: those with a higher number.
	After uint64
	// Newest: the last ones are listed, and the newest comes first.
	Newest bool
	Limit  int
}

// Deliveries keeps what delivery is decided by and cannot read elsewhere: versions that sources
// list or listed, and rows that are only added to. A version that its source lists no longer,
// and rows about one that no environment has had since, go with the collector's history.
type Deliveries interface {
	// SaveVersions says what a source lists now. Those that it listed before are gone from now
	// on; their rows stay.
	SaveVersions(ctx context.Context, lease Lease, source string, listed []intent.Version) error
	// Versions that a source lists or listed, by name, those that are gone first.
	Versions(ctx context.Context, partition intent.PartitionID, source string) ([]intent.Version, error)
	// VersionsRevision is another text after each change of what Versions lists, of whatever source of the
	// partition; empty: none were saved.
	VersionsRevision(ctx context.Context, partition intent.PartitionID, source string) (string, error)
	// RecordDelivery keeps an act, a vote or a result that somebody hands in who has one of
	// the roles in the partition given, and returns it with its number, its time and, of a
	// vote, the roles that the person has there. Conflict: rows were added by people or
	// programs after the one given, and the answer that it rests on may not hold. A release
	// gets the next number of its line.
	RecordDelivery(ctx context.Context, record intent.DeliveryRecord, may DeliveryAuthority) (intent.DeliveryRecord, error)
	// Promote carries a step out.
	Promote(ctx context.Context, lease Lease, step PromotionStep) error
	// DeliveryRecords lists rows of an application or of all, in their order or the newest first.
	DeliveryRecords(ctx context.Context, partition intent.PartitionID, filter DeliveryFilter) ([]intent.DeliveryRecord, error)
	// EndVerification ends one of an application that may not be defined any more, or as its
	// process ends; Conflict where it is not under way.
	EndVerification(ctx context.Context, lease Lease, v intent.Verification) error
	// Verifications lists those that are under way in a partition, in an order.
	Verifications(ctx context.Context, partition intent.PartitionID) ([]intent.Verification, error)
}

// DeliveryAuthority is what somebody needs who adds a row.
type DeliveryAuthority struct {
	// Partition of the environment that the row is about.
	Partition intent.PartitionID
	// AnyOf these roles.
	AnyOf []intent.Role
	// Said is the number of the last row of people and programs that it rests on; nil: it
	// rests on none.
	Said *uint64
}
