// Package sqlite keeps a store in one SQLite file: it is the engine under
// package relational. The file's lock is the lease: one process serves a file.
// Only app opens it.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"log/slog"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/relational"
)

// Options say where the store is and through what it runs.
type Options struct {
	// Path of the file; its folder must exist. Unused when DB is set.
	Path string
	// DB is a database that outlives the Store, see Memory. Close leaves it
	// open, and no lock is taken: its owner opens one Store at a time.
	DB *sql.DB
	// Clock is for a DB that several stores serve at once: an SQL expression of
	// the time in nanoseconds, by which leases end. Empty: one store at a time
	// has them all.
	Clock string
	// Runtime is the clock, and starts the writer. Default: loop.Real().
	Runtime loop.Runtime
	// Log receives what has no caller to be told. Default: slog.Default().
	Log *slog.Logger
	// Measure is told of commits; nil: nobody is.
	Measure *measure.Store
}

// Store is an open store.
type Store struct {
	*relational.Store
	file *file
	db   *sql.DB
}

// Verify also asks SQLite whether its own structures are whole.
func (s *Store) Verify(ctx context.Context) (store.Verified, error) {
	const attempt = "verifying the store"
	var verdict string
	if err := s.db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return store.Verified{}, failure(attempt, err)
	}
	if verdict != "ok" {
		return store.Verified{}, fault.New(fault.Internal, "%s: it is damaged: %s", attempt, verdict).WithHint("stop, and restore a backup")
	}
	return s.Store.Verify(ctx)
}

// Close ends the writer after what waits is written, then frees the file.
func (s *Store) Close() error {
	return errors.Join(s.Store.Close(), s.file.close())
}

// engine is SQLite to package relational.
type engine struct {
	// shared: another process may write to the database too.
	shared bool
	clock  string
}

// Begin takes the one lock of writers at once: a reader that became a writer
// could find that another one was first.
func (engine) Begin() string { return "BEGIN IMMEDIATE" }

func (engine) Reading() *sql.TxOptions { return &sql.TxOptions{ReadOnly: true} }

// Tune: indexes by digest are written all over, so the writer keeps more pages
// (KiB) than a reader, and moves the log into the file less often (pages) than
// SQLite would by itself.
func (engine) Tune(ctx context.Context, conn *sql.Conn) error {
	for _, pragma := range []string{"PRAGMA cache_size = -65536", "PRAGMA wal_autocheckpoint = 8000"} {
		if _, err := conn.ExecContext(ctx, pragma); err != nil {
			return err
		}
	}
	return nil
}

func (engine) Failure(attempt string, err error) error { return failure(attempt, err) }

// Again is never: nobody is in a writer's way once it has begun.
func (engine) Again(error) bool { return false }

func (engine) Lost(err error) bool {
	return errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn)
}

// Undone is never told.
func (engine) Undone(error) bool { return false }

// News is a number that stays when the connection itself commits.
func (e engine) News() string {
	switch {
	case e.clock != "":
		return relational.SharedNews
	case e.shared:
		return "PRAGMA data_version"
	}
	return ""
}

// Now is none where the file's lock is the lease.
func (e engine) Now() string { return e.clock }

// Place of a file is nothing that it could tell: a copy is like it.
func (engine) Place() string { return "''" }

func (engine) Size() string {
	return "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
}

// file is the store's file, open and, to be served, locked.
type file struct {
	db   *sql.DB
	lock *fileLock
	// older: its pages have no checksums.
	older bool
}

// close does nothing to a database that outlives the store.
func (f *file) close() error {
	if f == nil {
		return nil
	}
	var err error
	if f.db != nil {
		if closing := f.db.Close(); closing != nil {
			err = fault.New(fault.Internal, "closing the store: %w", closing)
		}
	}
	f.lock.release()
	return err
}
