package relational

import (
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// transaction is one caller's part of a commit.
type transaction struct {
	writer *writer
	// now is when the commit began.
	now time.Time
	// caller causes it; nil: Lehr itself.
	caller  *store.Caller
	records []*entry
	// changed are the partitions to whose actors it may matter; "": to all.
	changed []intent.PartitionID
	// ends: this process commits nothing after it.
	ends bool
}

// exec runs a statement and returns the number of rows it changed.
func (t *transaction) exec(text string, arguments ...any) (int64, error) {
	return t.writer.exec(text, arguments...)
}

// one scans the only row; found is false when there is none.
func (t *transaction) one(text string, arguments []any, targets ...any) (ok bool, err error) {
	statement, err := t.writer.statement(text)
	if err != nil {
		return false, err
	}
	return scanOne(statement.QueryRow(arguments...), targets...)
}

// queryEach calls scan for each row.
func (t *transaction) queryEach(text string, arguments []any, scan func(scanner) error) error {
	statement, err := t.writer.statement(text)
	if err != nil {
		return err
	}
	rows, err := statement.Query(arguments...)
	if err != nil {
		return err
	}
	return scanAll(rows, scan)
}

// tell tells the listeners of Changed of what no decision rests on.
func (t *transaction) tell(partition intent.PartitionID) error {
	t.changed = append(t.changed, partition)
	_, err := t.exec("UPDATE partitions SET news = news + 1 WHERE id = $1", string(partition))
	return err
}

// bump moves the partition's revision and tells the listeners of Changed. The
// empty partition means all.
func (t *transaction) bump(partition intent.PartitionID) error {
	t.changed = append(t.changed, partition)
	_, err := t.exec("UPDATE partitions SET revision = revision + 1 WHERE $1 = '' OR id = $1", string(partition))
	return err
}
