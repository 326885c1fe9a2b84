package web_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"
)

// counted counts what is asked of a database in memory: statements that read, and the rows that they return.
type counted struct{ queries, rows atomic.Int64 }

var countedDatabases atomic.Int64

// open returns a new database. Whoever opens a store over it makes its schema.
func (c *counted) open(t testing.TB) *sql.DB {
	t.Helper()
	db := sql.OpenDB(countedConnector{c, fmt.Sprintf("file:/web-counted-%d?vfs=memdb&_pragma=busy_timeout(5000)", countedDatabases.Add(1))})
	t.Cleanup(func() { db.Close() })
	// A database in memory lasts as long as a connection to it.
	if err := db.Ping(); err != nil {
		t.Fatal(err)
	}
	return db
}

// reset begins to count anew.
func (c *counted) reset() { c.queries.Store(0); c.rows.Store(0) }

type countedConnector struct {
	*counted
	name string
}

func (c countedConnector) Driver() driver.Driver { return &sqlite.Driver{} }

func (c countedConnector) Connect(context.Context) (driver.Conn, error) {
	inner, err := c.Driver().Open(c.name)
	if err != nil {
		return nil, err
	}
	return countedConn{inner.(fullConn), c.counted}, nil
}

// fullConn is what database/sql asks of SQLite's connections.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
}

type countedConn struct {
	fullConn
	*counted
}

func (c countedConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	inner, err := c.fullConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return countedStatement{inner.(fullStatement), c.counted}, nil
}

func (c countedConn) QueryContext(ctx context.Context, text string, arguments []driver.NamedValue) (driver.Rows, error) {
	inner, err := c.fullConn.QueryContext(ctx, text, arguments)
	return c.count(inner), err
}

type fullStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type countedStatement struct {
	fullStatement
	*counted
}

func (s countedStatement) QueryContext(ctx context.Context, arguments []driver.NamedValue) (driver.Rows, error) {
	inner, err := s.fullStatement.QueryContext(ctx, arguments)
	return s.count(inner), err
}

// count counts a statement, and then its rows.
func (c *counted) count(rows driver.Rows) driver.Rows {
	c.queries.Add(1)
	if rows == nil {
		return nil
	}
	return countedRows{rows, c}
}

type countedRows struct {
	driver.Rows
	*counted
}

func (r countedRows) Next(values []driver.Value) error {
	err := r.Rows.Next(values)
	if err == nil {
		r.rows.Add(1)
	}
	return err
}
