// Package sqlite keeps all that Lehr stores in one SQLite file: every role of
// package store. Writes of many callers share one commit on one connection;
// reads have connections of their own and never wait for it. The file's lock
// is the lease: one process serves a file. Only app opens it; it never looks
// into payloads, and decides nothing but what an admission's transaction must.
//
// open, lock, migrate, writer and failure are the engine; every other file is
// one role in SQL that PostgreSQL also speaks.
package sqlite

import (
	"database/sql"
	"log/slog"
	"sync"

	"lehr.dev/fault"
	"lehr.dev/loop"
	"lehr.dev/store"
)

// Options say where the store is and through what it runs.
type Options struct {
	// Path of the file; its folder must exist. Unused when DB is set.
	Path string
	// DB is a database that outlives the Store, see Memory. Close leaves it
	// open, and no lock is taken: its owner opens one Store at a time.
	DB *sql.DB
	// Runtime is the clock, and starts the writer. Default: loop.Real().
	Runtime loop.Runtime
	// Log receives what has no caller to be told. Default: slog.Default().
	Log *slog.Logger
}

// Store is an open store.
type Store struct {
	db      *sql.DB
	ownsDB  bool
	serving bool
	lock    *fileLock
	runtime loop.Runtime
	log     *slog.Logger
	writer  *writer
	readers *readers
	changes announcement
}

var _ store.All = (*Store)(nil)

// Changed returns a channel that is closed at the next commit that may matter.
func (s *Store) Changed() <-chan struct{} { return s.changes.channel() }

// Close ends the writer after what waits is written, then frees the file.
func (s *Store) Close() error {
	s.writer.close()
	s.readers.close()
	var err error
	if s.ownsDB {
		if closing := s.db.Close(); closing != nil {
			err = fault.New(fault.Internal, "closing the store: %w", closing)
		}
	}
	s.lock.release()
	return err
}

// announcement tells any number of listeners of the next change.
type announcement struct {
	mutex sync.Mutex
	next  chan struct{}
}

func (a *announcement) channel() <-chan struct{} {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.next == nil {
		a.next = make(chan struct{})
	}
	return a.next
}

func (a *announcement) announce() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.next != nil {
		close(a.next)
		a.next = nil
	}
}
