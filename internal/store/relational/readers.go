package relational

import (
	"context"
	"database/sql"
	"sync"

	"lehr.dev/internal/ground/fault"
)

// readers are the connections that read. Statements are prepared on each of
// them, never on the pool: preparing on the pool needs a connection, and
// whoever waits for one while it holds another can wait for ever.
type readers struct {
	db *sql.DB
	// free holds a token for each connection that nobody uses.
	free   chan struct{}
	closed chan struct{}

	mutex sync.Mutex
	// idle are those that are open, the one used last at the end: it is taken
	// first, for it has the most prepared and read.
	idle []*connection
}

// connection is one reader's, with what is prepared on it.
type connection struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

func newReaders(db *sql.DB, count int) *readers {
	r := &readers{db: db, free: make(chan struct{}, count), closed: make(chan struct{})}
	for range count {
		r.free <- struct{}{}
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
	case <-r.free:
		if c := r.last(); c != nil {
			return c, nil
		}
		conn, err := r.db.Conn(ctx)
		if err != nil {
			r.free <- struct{}{}
			return nil, err
		}
		return &connection{conn: conn, statements: map[string]*sql.Stmt{}}, nil
	}
}

// last takes the connection that was used last; nil when none is open.
func (r *readers) last() *connection {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(r.idle) == 0 {
		return nil
	}
	c := r.idle[len(r.idle)-1]
	r.idle = r.idle[:len(r.idle)-1]
	return c
}

func (r *readers) give(c *connection) {
	r.mutex.Lock()
	r.idle = append(r.idle, c)
	r.mutex.Unlock()
	r.free <- struct{}{}
}

// drop closes a connection that may be of no use any more.
func (r *readers) drop(c *connection) {
	c.close()
	r.free <- struct{}{}
}

// close waits for the reads under way and closes the connections.
func (r *readers) close() {
	close(r.closed)
	for range cap(r.free) {
		<-r.free
	}
	for c := r.last(); c != nil; c = r.last() {
		c.close()
	}
}

func (c *connection) close() {
	for _, statement := range c.statements {
		statement.Close()
	}
	c.conn.Close()
}

// prepare prepares each text once.
func (c *connection) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if statement, ok := c.statements[text]; ok {
		return statement, nil
	}
	statement, err := c.conn.PrepareContext(ctx, text)
	if err == nil {
		c.statements[text] = statement
	}
	return statement, err
}
