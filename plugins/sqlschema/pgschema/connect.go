// Package pgschema keeps a part of a PostgreSQL database as its statements
// declare it. The server itself says what they mean: they are run in a scratch
// schema, inside a transaction that is always rolled back. Changes are one
// transaction, which first compares the base. It never touches what the
// statements do not name. Package schemas calls it.
package pgschema

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/statement"
	"lehr.dev/plugins/sqlschema/database"
	"lehr.dev/sdk/serve"
)

const connectTimeout = 4 * time.Second

// parameters of the URL that are understood.
var parameters = []string{"host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "target_session_attrs"}

// ParseURL refuses addresses that hold a password or that cannot be read. Its
// errors do not repeat the address, for it may hold one (S13).
func ParseURL(text string) (*url.URL, error) {
	address, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, serve.Errorf(serve.Invalid, "database is not an address that can be read").
			WithHint("write postgres://user@host:port/database, with %%-escapes for special characters; it is not shown here, as it may hold a password")
	case hasPassword(address):
		return nil, serve.Errorf(serve.Invalid, "database holds a password").
			WithHint("take it out of the address, change it, for intent is kept for ever, and say with password: {env: …} or {file: …} where the new one is")
	case strings.Trim(address.Path, "/") == "":
		return nil, serve.Errorf(serve.Invalid, "database names no database").WithHint("write postgres://user@host:port/database")
	}
	for name := range address.Query() {
		if !slices.Contains(parameters, name) {
			return nil, serve.Errorf(serve.Invalid, "database has the parameter %.40q, which is not understood", name).
				WithHint("the parameters are %s", strings.Join(parameters, ", "))
		}
	}
	return address, nil
}

func hasPassword(address *url.URL) bool {
	if _, has := address.User.Password(); has {
		return true
	}
	for name := range address.Query() {
		if strings.Contains(strings.ToLower(name), "pass") {
			return true
		}
	}
	return false
}

// place names the database for people.
func place(address *url.URL) string {
	host := address.Host
	if host == "" {
		host = address.Query().Get("host")
	}
	return "database " + strings.Trim(address.Path, "/") + " on " + host
}

// connect opens one connection. Without a password in the request there is
// none: no file and no environment of PostgreSQL's own is asked.
func connect(ctx context.Context, request database.Request) (*pgx.Conn, error) {
	address, err := ParseURL(request.URL)
	if err != nil {
		return nil, err
	}
	if err := files.CheckDatabase(address); err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(request.URL)
	if err != nil {
		return nil, serve.Errorf(serve.Invalid, "database is not an address that can be read: a parameter or a certificate file is wrong").
			WithHint("write postgres://user@host:port/database?sslmode=…; files must exist where the plugin runs")
	}
	config.Password = request.Password
	config.ConnectTimeout = connectTimeout
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		// The server is told to give up the statement and its locks.
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
	}
	config.RuntimeParams["application_name"] = "lehr-sqlschema"
	config.RuntimeParams["standard_conforming_strings"] = "on"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, explain("connecting to "+place(address), err)
	}
	return conn, nil
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // what was not committed is rolled back by the server
}

// session is a connection with an open transaction.
type session struct {
	conn    *pgx.Conn
	tx      pgx.Tx
	request database.Request
	place   string
}

// begin opens the transaction in which all of a look or a push happens.
func begin(ctx context.Context, conn *pgx.Conn, request database.Request) (*session, error) {
	address, err := ParseURL(request.URL)
	if err != nil {
		return nil, err
	}
	tx, err := conn.Begin(ctx)
	s := &session{conn: conn, tx: tx, request: request, place: place(address)}
	if err != nil {
		return nil, s.explain("beginning a transaction", err)
	}
	limits := "set local lock_timeout = " + milliseconds(request.LockTimeout) +
		"; set local statement_timeout = " + milliseconds(request.StatementTimeout) +
		"; set local idle_in_transaction_session_timeout = 60000"
	if slices.ContainsFunc(request.Statements, func(one statement.Statement) bool { return one.Kind == statement.Unchecked }) {
		limits += "; set local check_function_bodies = off"
	}
	if _, err := tx.Exec(ctx, limits); err != nil {
		return nil, s.explain("setting time limits", err)
	}
	if err := s.path(ctx, request.Schema); err != nil {
		return nil, err
	}
	var exists bool
	if err := tx.QueryRow(ctx, "select exists (select from pg_namespace where nspname = $1)", request.Schema).Scan(&exists); err != nil {
		return nil, s.explain("looking for the schema "+request.Schema, err)
	}
	if !exists {
		return nil, serve.Errorf(serve.NotFound, "%s has no schema %s", s.place, request.Schema).
			WithHint("create it by hand: CREATE SCHEMA %s", quote(request.Schema))
	}
	return s, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }

// path sets where names without a schema are looked up and made.
func (s *session) path(ctx context.Context, schemas ...string) error {
	quoted := make([]string, len(schemas))
	for i, schema := range schemas {
		quoted[i] = quote(schema)
	}
	_, err := s.tx.Exec(ctx, "set local search_path = "+strings.Join(quoted, ", "))
	return s.explain("setting the search path", err)
}

// run runs exactly one statement: the extended protocol refuses a second one.
func (s *session) run(ctx context.Context, statement string) error {
	_, err := s.conn.PgConn().ExecParams(ctx, statement, nil, nil, nil, nil).Close()
	return err
}

func (s *session) explain(attempted string, err error) error {
	if err == nil {
		return nil
	}
	return explain(attempted+" in "+s.place, err)
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

// code is the SQLSTATE of an error of the server, or empty.
func code(err error) string {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return server.Code
	}
	return ""
}
