package crash

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// contents is all that a store holds: each table's rows as text.
type contents map[string]string

// dump reads a whole database by SQL of its own, but what is chance and how
// many commits there were: opening a store commits, too.
func dump(ctx context.Context, db *sql.DB) (contents, error) {
	transaction, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer transaction.Rollback()
	tables, err := texts(ctx, transaction, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT IN ('writer', 'history', 'identity') ORDER BY name")
	if err != nil {
		return nil, err
	}
	c := contents{}
	for _, table := range tables {
		columns := "*"
		if table == "goose_db_version" {
			columns = "version_id, is_applied" // and not when
		}
		if c[table], err = tableText(ctx, transaction, "SELECT "+columns+" FROM "+table); err != nil {
			return nil, fmt.Errorf("reading the table %s: %w", table, err)
		}
	}
	return c, nil
}

func tableText(ctx context.Context, transaction *sql.Tx, query string) (string, error) {
	rows, err := transaction.QueryContext(ctx, query)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	values, pointers := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		pointers[i] = &values[i]
	}
	var lines []string
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprintf("%q", values))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), rows.Err()
}

// texts is a query's only column.
func texts(ctx context.Context, transaction *sql.Tx, query string) (all []string, err error) {
	rows, err := transaction.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}

// difference names the tables in which two contents differ.
func (c contents) difference(other contents) (tables []string) {
	for table := range maps.Keys(c) {
		if text, ok := other[table]; !ok || text != c[table] {
			tables = append(tables, table)
		}
	}
	for table := range maps.Keys(other) {
		if _, ok := c[table]; !ok {
			tables = append(tables, table)
		}
	}
	slices.Sort(tables)
	return tables
}
