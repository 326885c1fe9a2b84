package main

import (
	"context"
	"database/sql"
	"regexp"
	"strings"

	_ "modernc.org/sqlite" // The engine that reads the SQL.
)

// near is what SQLite stumbles over.
var near = regexp.MustCompile(`near "([^"]+)"`)

// readSQLite runs the statements in an empty database in memory, in their order.
func readSQLite(text string) (found []wrong, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // Each has a memory of its own.
	for from := 0; from < len(text) && len(found) < mostWrong; {
		end, failed := nextStatement(db, text, from)
		if failed != nil {
			found = append(found, wrong{lineAt(text, placeOf(text, from, end, failed)), failed.Error()})
		}
		from = end
	}
	return found, nil
}

// nextStatement runs the statement at a place, and returns where it ends. A semicolon may be in a
// string or a trigger: then what ends there is not complete.
func nextStatement(db *sql.DB, text string, from int) (end int, failed error) {
	first := len(text)
	for end = from; end < len(text); {
		next := strings.IndexByte(text[end:], ';')
		if end += next + 1; next < 0 {
			end = len(text)
		}
		if first == len(text) {
			first = end
		}
		_, err := db.ExecContext(context.Background(), text[from:end])
		if err == nil {
			return end, nil
		}
		unfinished := strings.Contains(err.Error(), "incomplete input") || strings.Contains(err.Error(), "unrecognized token")
		if failed == nil || !unfinished {
			failed = err
		}
		if !unfinished {
			return end, failed
		}
	}
	return end, failed
}

// placeOf what is wrong: the word that SQLite names, else the beginning of the statement.
func placeOf(text string, from, end int, failed error) int {
	begin := from + len(text[from:end]) - len(strings.TrimLeft(text[from:end], " \t\r\n"))
	if match := near.FindStringSubmatch(failed.Error()); match != nil {
		if at := strings.Index(text[begin:end], match[1]); at >= 0 {
			return begin + at
		}
	}
	return begin
}
