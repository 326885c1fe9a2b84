package monitor

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
)

// open is the end of an interval that has none.
const open = 1<<63 - 1

// database reads by statements that are prepared once.
type database struct {
	db         *sql.DB
	statements map[string]*sql.Stmt
}

func (d *database) prepare(text string) (*sql.Stmt, error) {
	if statement := d.statements[text]; statement != nil {
		return statement, nil
	}
	statement, err := d.db.PrepareContext(context.Background(), text)
	if err == nil {
		d.statements[text] = statement
	}
	return statement, err
}

// one scans the first row, if there is any.
func (d *database) one(text string, arguments []any, targets ...any) (ok bool, err error) {
	statement, err := d.prepare(text)
	if err != nil {
		return false, err
	}
	switch err := statement.QueryRowContext(context.Background(), arguments...).Scan(targets...); err {
	case nil:
		return true, nil
	case sql.ErrNoRows:
		return false, nil
	default:
		return false, err
	}
}

// each calls row for every row.
func (d *database) each(text string, arguments []any, row func(*sql.Rows) error) error {
	statement, err := d.prepare(text)
	if err != nil {
		return err
	}
	rows, err := statement.QueryContext(context.Background(), arguments...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// digest scans a digest.
type digest struct{ intent.Digest }

func (d *digest) Scan(value any) error {
	bytes, ok := value.([]byte)
	switch {
	case ok && len(bytes) == len(d.Digest):
		copy(d.Digest[:], bytes)
	case ok && len(bytes) == 0, value == nil:
		d.Digest = intent.Digest{}
	default:
		return fmt.Errorf("a digest of %T", value)
	}
	return nil
}

// moment is a time as the store keeps it.
func moment(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds).UTC()
}

// glance is what tells cheaply whether there is anything new.
type glance struct {
	head                                     intent.Sequence
	revision, pins, epoch, push, own, global uint64
}

const glanceText = `SELECT p.head, p.revision, p.pin_revision, p.epoch,
	(SELECT coalesce(max(number), 0) FROM push),
	coalesce((SELECT last FROM audit_head WHERE partition = $1), 0),
	coalesce((SELECT last FROM audit_head WHERE partition = ''), 0)
	FROM partitions p WHERE p.id = $1`

func (d *database) glance(partition intent.PartitionID) (g glance, ok bool, err error) {
	ok, err = d.one(glanceText, []any{string(partition)}, &g.head, &g.revision, &g.pins, &g.epoch, &g.push, &g.own, &g.global)
	return g, ok, err
}
