package main

import (
	"context"
	"database/sql"
	"regexp"
	"sort"
	"strings"

	"modernc.org/libc"
	_ "modernc.org/sqlite" // The engine that reads the SQL.
	sqlite3 "modernc.org/sqlite/lib"
)

// readSQLite runs the statements in an empty database in memory, in their order.
func readSQLite(text string) (found []wrong, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // Each has a memory of its own.
	for from := 0; from < len(text) && len(found) < mostWrong; {
		end, err := endOf(text, from)
		if err != nil {
			return nil, err
		}
		if _, failed := db.ExecContext(context.Background(), text[from:end]); failed != nil {
			found = append(found, wrong{lineAt(text, from+failingWord(db, text[from:end], failed)), failed.Error()})
		}
		from = end
	}
	return found, nil
}

// endOf the statement at a place, as SQLite says: a semicolon may be in a string or a trigger.
func endOf(text string, from int) (int, error) {
	for end := from; ; {
		next := strings.IndexByte(text[end:], ';')
		if next < 0 {
			return len(text), nil
		}
		end += next + 1
		complete, err := isComplete(text[from:end])
		if complete || err != nil {
			return end, err
		}
	}
}

// isComplete reports whether SQLite takes a text for whole statements.
func isComplete(text string) (bool, error) {
	thread := libc.NewTLS()
	defer thread.Close()
	given, err := libc.CString(text)
	if err != nil {
		return false, err
	}
	defer libc.Xfree(thread, given)
	return sqlite3.Xsqlite3_complete(thread, given) != 0, nil
}

var word = regexp.MustCompile(`\S+`)

// failingWord is where the word begins that the engine stumbles over: the first up to which the
// statement fails as the whole does, for until there it only ends too early. What fails only as
// a whole fails by what it means, and is placed at its beginning.
func failingWord(db *sql.DB, statement string, whole error) int {
	words := word.FindAllStringIndex(statement, -1)
	if len(words) == 0 {
		return 0
	}
	found := sort.Search(len(words)-1, func(i int) bool {
		failed := tryStatement(db, statement[:words[i][1]])
		return failed != nil && failed.Error() == whole.Error()
	})
	if found == len(words)-1 {
		return words[0][0]
	}
	return words[found][0]
}

// tryStatement runs a part of a statement, and takes back what it did.
func tryStatement(db *sql.DB, text string) error {
	transaction, err := db.Begin()
	if err != nil {
		return err
	}
	_, failed := transaction.ExecContext(context.Background(), text)
	if err := transaction.Rollback(); err != nil {
		return err
	}
	return failed
}
