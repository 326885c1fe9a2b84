// Package liteschema keeps a part of an SQLite database as its statements
// declare it. SQLite itself says what they mean: they are run in a fresh
// database in memory. Changes are one transaction, which first compares the
// base. It never touches what the statements do not name, and never makes a
// database file. Package schemas calls it.
package liteschema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	code "modernc.org/sqlite/lib"

	"lehr.dev/internal/ground/files/lite"
	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/sdk/serve"
)

// Path returns the file that an address names.
func Path(address string) (string, error) {
	path := filepath.Clean(strings.TrimPrefix(address, "sqlite:"))
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return "", serve.Errorf(serve.Invalid, "database %.200q is not the address of a file", address).WithHint("write sqlite:/absolute/path.db")
	}
	return path, nil
}

// file is a database file that exists.
type file struct {
	path, real string
	// identity is that of the file itself: another one in its place is
	// another base.
	identity string
}

func find(request database.Request) (file, error) {
	path, err := Path(request.URL)
	if err != nil {
		return file{}, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return file{}, serve.Errorf(serve.NotFound, "there is no database file %s where the plugin runs", path).
			WithHint("is its folder mounted? If it is to be new, make an empty one: touch %s", path)
	case err != nil:
		return file{}, serve.Errorf(serve.Unavailable, "looking for the database file: %w", err).WithHint("see that the plugin's user may read the folder")
	case !info.Mode().IsRegular():
		return file{}, serve.Errorf(serve.Invalid, "%s is not a file", path).WithHint("name the database file itself")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return file{}, serve.Errorf(serve.Unavailable, "resolving the path of the database file: %w", err).WithHint("see that the plugin's user may read the folder")
	}
	f := file{path: path, real: real}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		f.identity = fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
	}
	return f, nil
}

// session is one connection to the file.
type session struct {
	db      *sql.DB
	conn    *sql.Conn
	request database.Request
	file    file
}

// open connects. A reading connection never writes, but for SQLite's own
// repair of what a crash left.
func open(ctx context.Context, request database.Request, write bool) (*session, error) {
	f, err := find(request)
	if err != nil {
		return nil, err
	}
	if write {
		s, err := connect(ctx, request, f, "rw", "foreign_keys(0)", "legacy_alter_table(1)")
		return s, err
	}
	s, err := connect(ctx, request, f, "ro", "query_only(1)")
	if err == nil {
		return s, nil
	}
	switch resultCode(err) {
	case code.SQLITE_READONLY_ROLLBACK, code.SQLITE_READONLY_RECOVERY, code.SQLITE_READONLY_CANTINIT, code.SQLITE_CANTOPEN:
		// Only a connection that may write can roll back what a crash left.
		return connect(ctx, request, f, "rw", "query_only(1)")
	}
	return nil, err
}

func connect(ctx context.Context, request database.Request, f file, mode string, pragmas ...string) (*session, error) {
	pragmas = append([]string{fmt.Sprintf("busy_timeout(%d)", max(1, request.LockTimeout.Milliseconds()))}, pragmas...)
	name, err := lite.Name(f.real, mode, pragmas...)
	if err != nil {
		return nil, explain("opening", f.path, err)
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, explain("opening", f.path, err)
	}
	db.SetMaxOpenConns(1)
	s := &session{db: db, request: request, file: f}
	if s.conn, err = db.Conn(ctx); err == nil {
		_, err = s.number(ctx, "PRAGMA schema_version")
	}
	if err != nil {
		_ = s.close() // the error says more
		return nil, explain("opening", f.path, err)
	}
	return s, nil
}

func (s *session) close() error {
	if s.conn == nil {
		return s.db.Close()
	}
	return errors.Join(s.conn.Close(), s.db.Close())
}

// run runs one statement within the time for one.
func (s *session) run(ctx context.Context, statement string, arguments ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.request.StatementTimeout, errTooLong)
	defer cancel()
	_, err := s.conn.ExecContext(ctx, statement, arguments...)
	if err != nil && errors.Is(context.Cause(ctx), errTooLong) {
		return errTooLong
	}
	return err
}

func (s *session) number(ctx context.Context, query string, arguments ...any) (n int64, err error) {
	return n, s.conn.QueryRowContext(ctx, query, arguments...).Scan(&n)
}

func (s *session) explain(attempted string, err error) error {
	return explain(attempted, s.file.path, err)
}

var errTooLong = errors.New("it took longer than statement_timeout")

// resultCode is SQLite's code of an error, or 0.
func resultCode(err error) int {
	if engine, ok := errors.AsType[*sqlite.Error](err); ok {
		return engine.Code()
	}
	return 0
}

// explain makes an answer for people of an error.
func explain(attempted, path string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if _, already := errors.AsType[*serve.Error](err); already {
		return err
	}
	said := serve.Errorf(serve.Invalid, "%s, in %s: %w", attempted, path, err)
	if errors.Is(err, errTooLong) || errors.Is(err, context.DeadlineExceeded) {
		said.Kind = serve.Unavailable
		return said.WithHint("nothing was changed; raise statement_timeout, or do this when there is less to copy")
	}
	switch resultCode(err) & 0xff {
	case code.SQLITE_BUSY, code.SQLITE_LOCKED:
		said.Kind = serve.Unavailable
		return serve.Retryable(said.WithHint("another program holds the lock longer than lock_timeout; nothing was changed, and it is tried again"))
	case code.SQLITE_READONLY, code.SQLITE_PERM, code.SQLITE_AUTH:
		said.Kind = serve.Denied
		return said.WithHint("the plugin's user must be able to write the file and its folder, and the disk must not be read-only")
	case code.SQLITE_CANTOPEN:
		said.Kind = serve.Denied
		return said.WithHint("the plugin's user must be able to read and write the file and its folder")
	case code.SQLITE_NOTADB, code.SQLITE_CORRUPT:
		said.Kind = serve.Conflict
		return said.WithHint("it is not an SQLite database, or it is damaged: restore it, or name another")
	case code.SQLITE_FULL, code.SQLITE_IOERR:
		said.Kind = serve.Unavailable
		return serve.Retryable(said.WithHint("see to the disk; nothing was changed"))
	case code.SQLITE_CONSTRAINT:
		said.Kind = serve.Conflict
		return said.WithHint("rows do not keep what is declared: mend the rows first; nothing was changed")
	}
	return said
}
