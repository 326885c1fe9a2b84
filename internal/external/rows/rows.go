// Package rows asks databases that the operator lists (package external), in
// transactions that can only read, within limits of time and size. What does not answer is
// an error, which holds nothing of the address. Validation rules and validations of
// rollouts ask through it.
package rows

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files/lite"
	"lehr.dev/internal/ground/intent"
)

// Query of a database.
type Query struct {
	Partition intent.PartitionID
	// Database is its name in the operator's policy.
	Database  string
	Text      string
	Arguments []any
	// MaxRows of an answer; it has external.MaxAnswer bytes at most, too.
	MaxRows int
	// PostgreSQL: of no other kind.
	PostgreSQL bool
}

// Answer of a database: times, texts, numbers, truths and nil.
type Answer struct {
	Columns []string
	Rows    [][]any
}

// Read asks until the context ends; PostgreSQL is told when that is.
func Read(ctx context.Context, policy *external.Policy, q Query) (answer Answer, err error) {
	address, err := policy.Address(q.Partition, q.Database)
	if err != nil {
		return answer, err
	}
	driver, file := "pgx", ""
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		if q.PostgreSQL {
			return answer, fault.New(fault.Invalid, "the database %s is no PostgreSQL", q.Database).WithHint("name one whose address is a postgres URL")
		}
		driver, file = "sqlite", address
	}
	unavailable := func(err error) error {
		// The address may hold a password, and errors of connecting tell of it.
		message := strings.ReplaceAll(err.Error(), address, q.Database)
		return fault.New(fault.Unavailable, "the database %s did not answer: %.300s", q.Database, message)
	}
	db, err := open(file, address)
	if err != nil {
		return answer, unavailable(err)
	}
	defer db.Close()
	reading, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: driver == "pgx"})
	if err != nil {
		return answer, unavailable(err)
	}
	defer reading.Rollback()
	if ends, bounded := ctx.Deadline(); bounded && driver == "pgx" {
		// Else it would go on when nobody waits any more. It is whoever waits that says
		// so first.
		timeout := strconv.FormatInt(max(1, (time.Until(ends)+time.Second).Milliseconds()), 10)
		if _, err := reading.ExecContext(ctx, "SELECT set_config('statement_timeout', $1, true)", timeout); err != nil {
			return answer, unavailable(err)
		}
	}
	rows, err := reading.QueryContext(ctx, q.Text, q.Arguments...)
	if err != nil {
		return answer, unavailable(err)
	}
	defer rows.Close()
	if answer.Columns, err = rows.Columns(); err != nil {
		return answer, unavailable(err)
	}
	names := 0
	for _, column := range answer.Columns {
		names += len(column)
	}
	for size := 0; rows.Next(); {
		values := make([]any, len(answer.Columns))
		targets := make([]any, len(answer.Columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return answer, unavailable(err)
		}
		size += names
		for i := range values {
			values[i] = readable(values[i])
			size += len(fmt.Sprint(values[i]))
		}
		if answer.Rows = append(answer.Rows, values); len(answer.Rows) > q.MaxRows || size > external.MaxAnswer {
			return Answer{}, fault.New(fault.Unavailable, "the database %s gave more than %d rows or %d bytes", q.Database, q.MaxRows, external.MaxAnswer)
		}
	}
	if err := rows.Err(); err != nil {
		return Answer{}, unavailable(err)
	}
	return answer, nil
}

// open opens a file, or a database by its URL.
func open(file, address string) (*sql.DB, error) {
	if file != "" {
		return lite.Open(file, nil, "busy_timeout(1000)")
	}
	return sql.Open("pgx", address)
}

// readable is a value as it may be found by expressions and people.
func readable(value any) any {
	switch value := value.(type) {
	case []byte:
		return strings.ToValidUTF8(string(value), "\ufffd")
	case string:
		return strings.ToValidUTF8(value, "\ufffd")
	case nil, bool, int64, float64, time.Time:
		return value
	}
	return fmt.Sprint(value)
}
