package fetch

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/ordering"
)

// FuzzQuery: a query that passes for one statement changes nothing, even where
// it might write.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"SELECT 1", "SELECT name FROM shop;", "SELECT 1) AS x; DELETE FROM shop; SELECT * FROM (SELECT 1", "SELECT ';'", "SELECT 1 -- ;\n", "SELECT /* ; */ 1",
		"SELECT ';'';' AS \";\"", "DELETE FROM shop RETURNING name", "SELECT [;]", "SELECT `;`", "SELECT 1 /* ", "SELECT 'a\\'; DELETE FROM shop; --'", "SELECT 1\x00; DELETE FROM shop",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if several(query) || len(query) > 200 || strings.Contains(strings.ToUpper(query), "RECURSIVE") {
			return
		}
		db, err := sql.Open("sqlite", ":memory:")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		if _, err := db.Exec("CREATE TABLE shop (name text); INSERT INTO shop VALUES ('a')"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if answer, err := db.QueryContext(ctx, "SELECT * FROM ("+trimmed(query)+"\n)"); err == nil {
			for answer.Next() {
			}
			answer.Close()
		}
		count := 0
		if err := db.QueryRow("SELECT count(*) FROM shop WHERE name = 'a'").Scan(&count); err != nil || count != 1 {
			t.Fatalf("%q changed the table: %d, %v", query, count, err)
		}
	})
}

// FuzzPackages: an index of packages is read or refused, whatever it says, and
// its versions have an order.
func FuzzPackages(f *testing.F) {
	f.Add(packages)
	f.Add("Package: a\nVersion: 1\n\n\n:\n")
	f.Add(" x\nVersion: ~~\n\nVersion: 1:~-\n")
	f.Fuzz(func(t *testing.T, text string) {
		var found []string
		_ = stanzas(strings.NewReader(text), func(fields map[string]string) error {
			found = append(found, fields["Version"])
			return nil
		})
		for _, a := range found[:min(len(found), 5)] {
			for _, b := range found[:min(len(found), 5)] {
				if ordering.CompareDebian(a, b) != -ordering.CompareDebian(b, a) || ordering.CompareDebian(a, a) != 0 {
					t.Fatalf("%q and %q have no order", a, b)
				}
			}
		}
	})
}
