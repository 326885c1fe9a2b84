// Package relational keeps all that Lehr stores in a relational database:
// every role of package store, in one SQL text that SQLite and PostgreSQL both
// speak. What differs between databases is an Engine; packages sqlite and
// postgres are two, and open a Store. Writes of many callers share one commit
// on one connection; reads have connections of their own and never wait for
// it. It never looks into payloads, and decides nothing but what an
// admission's transaction must.
package relational

import (
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/store"
)

// Engine is what differs between databases. Its transactions are
// serializable: they come out as if they had run one after the other.
type Engine interface {
	// Begin is the statement that opens a transaction which writes.
	Begin() string
	// Reading are the options of a transaction that only reads, all of it from
	// one moment.
	Reading() *sql.TxOptions
	// Tune makes ready the connection that writes.
	Tune(ctx context.Context, conn *sql.Conn) error
	// Failure turns what the database says into a fault that tells what was
	// attempted and what a person can do. Faults pass as they are; nil too.
	Failure(attempt string, err error) error
	// Again: the transaction was undone for what others did at the same time,
	// or its connection was lost before it was to be committed. It may succeed
	// when it is run again.
	Again(err error) bool
	// Lost: the connection is of no use any more.
	Lost(err error) bool
	// Undone: it is certain that the transaction was undone, though the
	// connection is lost.
	Undone(err error) bool
	// News is a query of one number that changes after another process's
	// commit that may matter; "": there is no other process.
	News() string
	// Now is an expression for the database's own time in nanoseconds, by
	// which leases end; "": who opened the store has all leases.
	Now() string
	// Place is an expression for what the database says of itself that is
	// another after a failover or a restore; '' where that cannot be.
	Place() string
	// Size is a query of how many bytes the database takes.
	Size() string
}

// SharedNews is a News for a database that many processes write to.
const SharedNews = "SELECT CAST(coalesce(sum(revision + news), 0) + count(*) AS BIGINT) FROM partitions"

// Options of a store.
type Options struct {
	Engine Engine
	DB     *sql.DB
	// Serving: it may act for partitions. Beside its server a store is for
	// reading and for the brakes.
	Serving bool
	// Readers are the connections that read.
	Readers int
	Runtime loop.Runtime
	// Witness is closed with the store. Without one, what was committed is
	// remembered while the store is open.
	Witness *Witness
	// Writer is the name under which commits are counted when all processes
	// count them together. Empty: each counts its own.
	Writer string
	// Log receives what has no caller to be told.
	Log *slog.Logger
	// Measure is told of commits; nil: nobody is.
	Measure *measure.Store
}

// Store is an open store.
type Store struct {
	engine  Engine
	serving bool
	runtime loop.Runtime
	db      *sql.DB
	writer  *writer
	readers *readers
	changes announcement
	// memory is the newest commit of this process.
	memory atomic.Pointer[mark]
	// How much is kept of the changes of a document.
	mostRevisions uint64
	mostHistory   int64
	// mostSpilled bytes of blobs that assets name are kept for a partition.
	mostSpilled int64
	// mostJudged bytes of records of validations are.
	mostJudged int64
	// names of assets that searches found in the database.
	names assetNames
}

var _ store.All = (*Store)(nil)

// New returns a store over a database whose schema is there.
func New(o Options) *Store {
	s := &Store{
		engine: o.Engine, serving: o.Serving, runtime: o.Runtime, db: o.DB, readers: newReaders(o.DB, o.Readers),
		mostRevisions: document.MaxRevisions, mostHistory: document.MaxHistory, mostSpilled: intent.MaxKeptBlobBytes,
		mostJudged: store.MaxJudgementBytes, names: assetNames{most: mostNameBytes},
	}
	s.changes.next = map[intent.PartitionID]chan struct{}{}
	s.writer = newWriter(o, s.changes.announce, &s.memory)
	s.runtime.Go("store writer", s.writer.run)
	return s
}

// Changed returns a channel that is closed at the next commit that may matter to
// the partition; the empty one means any.
func (s *Store) Changed(partition intent.PartitionID) <-chan struct{} {
	return s.changes.channel(partition)
}

// Size asks the database.
func (s *Store) Size(ctx context.Context) (bytes int64, err error) {
	const attempt = "asking how large the store is"
	err = s.read(ctx, attempt, func(q querier) error {
		_, err := q.one(s.engine.Size(), nil, &bytes)
		return err
	})
	return bytes, err
}

// Close ends the writer after what waits is written, and the readers. The
// database stays open.
func (s *Store) Close() error {
	s.writer.close()
	s.readers.close()
	return s.writer.witness.Close()
}

// announcement tells any number of listeners of the next change.
type announcement struct {
	mutex sync.Mutex
	// next change of each partition that somebody listens for; "": of any.
	next map[intent.PartitionID]chan struct{}
}

func (a *announcement) channel(partition intent.PartitionID) <-chan struct{} {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.next[partition] == nil {
		a.next[partition] = make(chan struct{})
	}
	return a.next[partition]
}

// announce that the partitions changed; if the empty one is among them, all did.
func (a *announcement) announce(changed []intent.PartitionID) {
	if len(changed) == 0 {
		return
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if slices.Contains(changed, "") {
		changed = slices.Sorted(maps.Keys(a.next))
	}
	for _, partition := range append(changed, "") {
		if next := a.next[partition]; next != nil {
			close(next)
			delete(a.next, partition)
		}
	}
}
