// Package postgres keeps a store in a PostgreSQL database, or in any that
// speaks its protocol and is serializable: it is the engine under package
// relational. Any number of processes share a database; each partition is
// acted for by the one that has its lease. Only app opens it.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5/pgconn"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/store/relational"
)

// Options say where the store is and through what it runs.
type Options struct {
	// URL of the database: postgres://USER@HOST:PORT/NAME?sslmode=…. A password
	// belongs into PGPASSWORD or a file named by PGPASSFILE.
	URL string
	// Witness is a file on this machine that remembers how far this process was.
	// Empty: it is remembered while the store is open.
	Witness string
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
	db *sql.DB
}

// Close ends the writer after what waits is written, and all connections.
func (s *Store) Close() error {
	err := s.Store.Close()
	if closing := s.db.Close(); closing != nil {
		err = errors.Join(err, fault.New(fault.Internal, "closing the store: %w", closing))
	}
	return err
}

// engine is PostgreSQL to package relational.
type engine struct{}

// Begin asks for what admissions rest on: that transactions come out as if
// they had run one after the other. A weaker level would let two of them each
// miss what the other does.
func (engine) Begin() string { return "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE" }

// Reading is from one moment, and is never in anybody's way.
func (engine) Reading() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
}

// Tune asks for durable commits whatever the server's configuration says
// (S14), and ends a transaction that stands still, before the lease of whoever
// began it does: what it has locked would be in the way of the next holder.
func (engine) Tune(ctx context.Context, conn *sql.Conn) error {
	for _, setting := range []string{
		"SET synchronous_commit = on",
		"SET idle_in_transaction_session_timeout = '1s'",
		"SET statement_timeout = '60s'",
	} {
		if _, err := conn.ExecContext(ctx, setting); err != nil {
			return err
		}
	}
	return nil
}

func (engine) Failure(attempt string, err error) error { return failure(attempt, err) }

func (engine) Again(err error) bool { return inTheWay(err) || connectionLost(err) }

func (engine) Lost(err error) bool { return connectionLost(err) }

// Undone: the server gave the transaction up for standing still, so it had not
// been told to commit it.
func (engine) Undone(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "25P03"
}

func (engine) News() string { return relational.SharedNews }

func (engine) Now() string {
	return "CAST(extract(epoch FROM clock_timestamp()) * 1000000000 AS BIGINT)"
}

func (engine) Size() string { return "SELECT pg_database_size(current_database())" }

// Place names the cluster, the timeline that a promoted standby begins, and the
// very table, which a restored dump makes anew.
func (engine) Place() string {
	return `((SELECT system_identifier FROM pg_control_system()) || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || '/' || CAST(CAST(CAST('history' AS regclass) AS oid) AS TEXT))`
}
