//go:build !cgo

package main

import "errors"

// readPostgreSQL: the grammar is C, and this program was built without it.
func readPostgreSQL(string) ([]wrong, error) {
	return nil, errors.New("this lehr-sql-syntax was built without PostgreSQL's grammar: build it with CGO_ENABLED=1 and a C compiler")
}
