// Package store says what Lehr keeps, as small roles. Each engine implements
// all of them (All); storetest holds the one suite that every engine passes.
// Actors take the roles they need; app hands out the whole.
//
// Every write that acts for a partition names the lease it acts under, and is
// refused in the same transaction when the lease's epoch is not current (S4).
// Every write that a person or program causes names the actor, and its audit
// record is committed with it, or before it (S25); in the same transaction it
// is asked whether the caller of the context may (S24). A method that returned nil
// has been made durable (S14). Writers share commits: call from many
// goroutines, and hand in slices, to go fast.
//
// Errors carry a fault.Kind: Conflict for a lost lease, a moved base or a
// stale revision; Unavailable for a full or unreachable store; NotFound;
// Invalid; Internal for a corrupt body, which is never served (S7).
package store

import (
	"context"
	"errors"
	"time"

	"lehr.dev/internal/ground/intent"
)

// ErrAway is in what fails because the database cannot be reached, whatever was
// attempted.
var ErrAway = errors.New("the database cannot be reached")

// All is everything an engine implements.
type All interface {
	Partitions
	Leases
	Snapshots
	Labels
	Publisher
	Candidates
	Blobs
	Documents
	Brakes
	Rollouts
	Deliveries
	Workflows
	Approvals
	Journal
	Memos
	Reports
	Groups
	Surveys
	Audit
	Access
	Common
	Collector
	Histories
	// Changed returns a channel that is closed at the next commit that may
	// matter to an actor of the partition, or of any if it is empty: a head, pin, hold, approval, rejection, override, stop,
	// acknowledgement, document or definition, by this process or, within a second, by
	// another.
	Changed(partition intent.PartitionID) <-chan struct{}
	// Size is how many bytes it takes where it lies, what waits to be reused
	// included.
	Size(ctx context.Context) (int64, error)
	Close() error
}

// Partition is a registered partition.
type Partition struct {
	ID intent.PartitionID `json:"id"`
	// Definition is the absolute path of its lehr.yaml, or its place in a
	// repository.
	Definition string               `json:"definition"`
	Head       intent.IncarnationID `json:"head"`
	// Covered are the source revisions that head is known to be built from.
	Covered []intent.SourceRevision `json:"covered"`
	// Revision grows with every change of what a decision in the partition
	// may rest on: head, pins, holds, approvals, rejections, overrides, stop, the common
	// policy. Admission compares it.
	Revision uint64       `json:"revision"`
	Stop     *intent.Stop `json:"stop,omitempty"`
	Created  time.Time    `json:"created"`
	// Replica that acts for it, if its lease runs, and the Epoch of the last
	// lease. Where a lock is the lease no replica is named.
	Replica string `json:"replica,omitempty"`
	Epoch   uint64 `json:"epoch,omitempty"`
}

// Partitions registers partitions.
type Partitions interface {
	// AddPartition registers a partition or moves its definition. The same id
	// and path again changes nothing.
	AddPartition(ctx context.Context, id intent.PartitionID, definition, reason string, actor intent.Actor) error
	// RemovePartition forgets the registration and the memos. Assets in production, and
	// what was stored otherwise, stay as they are.
	RemovePartition(ctx context.Context, id intent.PartitionID, reason string, actor intent.Actor) error
	// Partition is NotFound when it is not registered.
	Partition(ctx context.Context, id intent.PartitionID) (Partition, error)
	ListPartitions(ctx context.Context) ([]Partition, error)
	// Hint says that a partition's sources may have changed, to whichever replica
	// acts for it; NotFound when it is not registered.
	Hint(ctx context.Context, id intent.PartitionID) error
	// Hints is how often that was said.
	Hints(ctx context.Context, id intent.PartitionID) (int64, error)
}

// Lease is the fenced right of one replica to act for a partition.
type Lease struct {
	Partition intent.PartitionID
	Holder    string
	// Epoch is never reused and never decreases.
	Epoch uint64
}

// Leases hands out leases. On an engine whose file one process locks, the
// lock is the lease: its taker raises the epoch at once. On others a holder's
// leases run until the end that it last asked for with Renew; one that never
// did has leases that anybody may take.
type Leases interface {
	// Acquire raises the epoch, and marks the partition's open pushes as in
	// doubt. Conflict while another holder's lease runs.
	Acquire(ctx context.Context, partition intent.PartitionID, holder string) (Lease, error)
	// Free lists the registered partitions that the holder could acquire: no
	// other's lease of them runs. In the order of their ids; none where a lock is
	// the lease.
	Free(ctx context.Context, holder string) ([]intent.PartitionID, error)
	// Check is Conflict when the lease is not current.
	Check(ctx context.Context, lease Lease) error
	// Release ends the lease at once; the epoch stays.
	Release(ctx context.Context, lease Lease) error
	// Renew lets all leases of a holder run for the period, by the database's
	// clock. It waits for no other writer. Where a lock is the lease, it does
	// nothing.
	Renew(ctx context.Context, holder string, period time.Duration) error
	// Retire ends all leases of a holder at once.
	Retire(ctx context.Context, holder string) error
	// Replicas lists the holders whose leases run, in the order of their names;
	// none where a lock is the lease.
	Replicas(ctx context.Context) ([]Replica, error)
}

// Replica is a process that serves.
type Replica struct {
	Name string `json:"name"`
	// Left is how long its leases run if it is not heard of again.
	Left time.Duration `json:"left"`
	// Partitions that it acts for.
	Partitions int `json:"partitions"`
}

// Retention says what the collector keeps beside what is live.
type Retention struct {
	// Incarnations newest, and those that were head within Period: guards
	// measure from what was served when a period began (S23).
	Incarnations int
	Period       time.Duration
	// Pushes, candidates and past reports older than this are forgotten, but what an
	// asset still was when it began.
	History time.Duration
	// Reports of an asset that are kept at most; 0: as many as History lets.
	Reports int
}

// Collector removes what nothing needs (S17): not head, nor what a pin, an
// enforced record, an open admission or a held candidate names.
type Collector interface {
	// Collect works in bounded transactions and returns how many rows went.
	Collect(ctx context.Context, lease Lease, keep Retention, now time.Time) (int, error)
}
