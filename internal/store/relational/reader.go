package relational

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// open is the to_seq of an interval that has no end yet.
const open = int64(9223372036854775807)

// scanner is a row.
type scanner interface{ Scan(targets ...any) error }

// querier reads, in a snapshot or in a writer's transaction.
type querier interface {
	one(text string, arguments []any, targets ...any) (ok bool, err error)
	queryEach(text string, arguments []any, scan func(scanner) error) error
}

// snapshot is one consistent view of the database.
type snapshot struct {
	ctx context.Context
	*connection
	// lastMark is what this process had committed before the view; nil: nothing.
	lastMark *mark
}

// read runs work on one consistent view. The words say what was attempted.
func (s *Store) read(ctx context.Context, attempt string, work func(querier) error) error {
	lastMark := s.memory.Load()
	c, tx, err := s.look(ctx)
	if err != nil {
		return s.engine.Failure(attempt, err)
	}
	err = work(snapshot{ctx: ctx, connection: c, lastMark: lastMark})
	ending := tx.Rollback() // Nothing was written.
	if s.engine.Lost(err) || ending != nil || ctx.Err() != nil {
		s.readers.drop(c)
	} else {
		s.readers.give(c)
	}
	return s.engine.Failure(attempt, err)
}

// glance runs work that reads by one statement, which is a consistent view by
// itself: it takes no transaction, which costs as much as most statements. It may be
// run again.
func (s *Store) glance(ctx context.Context, attempt string, work func(querier) error) error {
	for try := 0; ; try++ {
		c, err := s.readers.take(ctx)
		if err != nil {
			return s.engine.Failure(attempt, err)
		}
		err = work(snapshot{ctx: ctx, connection: c})
		connectionLost := s.engine.Lost(err)
		if connectionLost || ctx.Err() != nil {
			s.readers.drop(c)
		} else {
			s.readers.give(c)
		}
		if !connectionLost || try > cap(s.readers.free) || ctx.Err() != nil {
			return s.engine.Failure(attempt, err)
		}
	}
}

// look begins a view. An idle connection may have been lost meanwhile, and all
// of them with it.
func (s *Store) look(ctx context.Context) (*connection, *sql.Tx, error) {
	for try := 0; ; try++ {
		c, err := s.readers.take(ctx)
		if err != nil {
			return nil, nil, err
		}
		tx, err := c.conn.BeginTx(ctx, s.engine.Reading())
		if err == nil {
			return c, tx, nil
		}
		s.readers.drop(c)
		if !s.engine.Lost(err) || try > cap(s.readers.free) || ctx.Err() != nil {
			return nil, nil, err
		}
	}
}

func (v snapshot) one(text string, arguments []any, targets ...any) (bool, error) {
	statement, err := v.prepare(v.ctx, text)
	if err != nil {
		return false, err
	}
	return scanOne(statement.QueryRowContext(v.ctx, arguments...), targets...)
}

func (v snapshot) queryEach(text string, arguments []any, scan func(scanner) error) error {
	statement, err := v.prepare(v.ctx, text)
	if err != nil {
		return err
	}
	rows, err := statement.QueryContext(v.ctx, arguments...)
	if err != nil {
		return err
	}
	return scanAll(rows, scan)
}

func scanOne(row *sql.Row, targets ...any) (bool, error) {
	err := row.Scan(targets...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func scanAll(rows *sql.Rows, scan func(scanner) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// stamp is a time as it is stored: nanoseconds since 1970, 0 for none. What is
// centuries away is as near as nanoseconds can tell, not on the other side.
func stamp(t time.Time) int64 {
	const most = math.MaxInt64 / int64(time.Second)
	switch {
	case t.IsZero():
		return 0
	case t.Unix() >= most:
		return math.MaxInt64 - 1
	case t.Unix() <= -most:
		return math.MinInt64
	}
	return t.UnixNano()
}

func unstamp(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds).UTC()
}

// digestColumn scans a digest.
type digestColumn struct{ digest *intent.Digest }

func (c digestColumn) Scan(value any) error {
	bytes, ok := value.([]byte)
	switch {
	case ok && len(bytes) == len(c.digest):
		copy(c.digest[:], bytes)
	case ok && len(bytes) == 0, value == nil:
		*c.digest = intent.Digest{}
	default:
		return fault.New(fault.Internal, "a stored digest has %d bytes", len(bytes)).WithHint("the store is damaged: restore it from a backup")
	}
	return nil
}

func encode(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

func decode(subject, text string, target any) error {
	if err := json.Unmarshal([]byte(text), target); err != nil {
		return fault.New(fault.Internal, "the stored %s cannot be read: %w", subject, err).WithHint("the store is damaged: restore it from a backup")
	}
	return nil
}

// pageSize applies the limits of a page.
func pageSize(limit int) int {
	switch {
	case limit <= 0:
		return 1000
	default:
		return min(limit, 10_000)
	}
}

// prefixEnd is above every id that begins with the prefix: "~" is not in ids.
func prefixEnd(prefix string) string { return prefix + "~" }
