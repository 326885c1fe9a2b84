package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestSQLite: each statement that SQLite refuses is told by the line of the word that it names.
func TestSQLite(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"-- nothing\n": "",
		"CREATE TABLE a (x TEXT DEFAULT ';');\nSELECT x FROM a;":                                                     "",
		"CREATE TABLE a (x);\nCREATE TRIGGER t AFTER INSERT ON a BEGIN\n  SELECT 1;\n  SELECT ';';\nEND;\n":          "",
		"CREATE TABLE a (\n  x INTEGER,\n  y INTEGER PRIMARY KYE\n);\nCREATE TABLE b (x);\nCREATE INDEX i ON b (y);": "3 6",
		"CREATE TABEL a (x);\nCREATE TABLE a (x);\nINSERT INTO a\n  VALUES (1, 2);\n":                                "1 3",
		"CREATE TABLE a (x TEXT DEFAULT 'open);\nSELECT 1;\n":                                                        "1",
	} {
		found, err := readSQLite(text)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, w := range found {
			lines = append(lines, fmt.Sprint(w.line))
		}
		if got := strings.Join(lines, " "); got != want {
			t.Errorf("in %q the lines %q are wrong, want %q: %+v", text, got, want, found)
		}
	}
}
