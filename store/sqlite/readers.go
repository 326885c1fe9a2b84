package sqlite

import (
	"context"
	"database/sql"

	"lehr.dev/fault"
)

// readers are the connections that read. Statements are prepared on each of
// them, never on the pool: preparing on the pool needs a connection, and
// whoever waits for one while it holds another can wait for ever.
type readers struct {
	db *sql.DB
	// idle holds every connection that nobody uses; nil ones are not open yet.
	idle   chan *connection
	closed chan struct{}
}

// connection is one reader's, with what is prepared on it.
type connection struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

func newReaders(db *sql.DB, count int) *readers {
	r := &readers{db: db, idle: make(chan *connection, count), closed: make(chan struct{})}
	for range count {
		r.idle <- nil
	}
	return r
}

// take waits for a connection. Whoever takes one gives it back, and takes no
// second one meanwhile.
func (r *readers) take(ctx context.Context) (*connection, error) {
	select {
	case <-r.closed:
		return nil, fault.New(fault.Unavailable, "the store is closed")
	default:
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.closed:
		return nil, fault.New(fault.Unavailable, "the store is closed")
	case c := <-r.idle:
		if c != nil {
			return c, nil
		}
		conn, err := r.db.Conn(ctx)
		if err != nil {
			r.idle <- nil
			return nil, err
		}
		return &connection{conn: conn, statements: map[string]*sql.Stmt{}}, nil
	}
}

func (r *readers) give(c *connection) { r.idle <- c }

// close waits for the reads under way and closes the connections.
func (r *readers) close() {
	close(r.closed)
	for range cap(r.idle) {
		if c := <-r.idle; c != nil {
			for _, statement := range c.statements {
				statement.Close()
			}
			c.conn.Close()
		}
	}
}

// prepare prepares each text once.
func (c *connection) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if statement, known := c.statements[text]; known {
		return statement, nil
	}
	statement, err := c.conn.PrepareContext(ctx, text)
	if err == nil {
		c.statements[text] = statement
	}
	return statement, err
}
