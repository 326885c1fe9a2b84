package postgres_test

import (
	"database/sql"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"

	"lehr.dev/store/sqlite"
	"lehr.dev/test/pgserver"
)

// TestBothSchemasAreOne: SQLite's tables, columns and indexes are PostgreSQL's.
func TestBothSchemasAreOne(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	open(t, url)
	theirs, err := sql.Open("pgx", url)
	must(t, err)
	defer theirs.Close()
	ours, err := sqlite.Memory()
	must(t, err)
	defer ours.Close()
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: ours})
	must(t, err)
	defer s.Close()
	for what, texts := range map[string][2]string{
		"columns": {
			`SELECT m.name || '.' || c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
				WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND m.name <> 'goose_db_version'`,
			`SELECT table_name || '.' || column_name FROM information_schema.columns
				WHERE table_schema = current_schema() AND table_name <> 'goose_db_version'`,
		},
		"indexes": {
			`SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL`,
			`SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND indexname NOT LIKE '%_pkey'`,
		},
	} {
		have, want := list(t, theirs, texts[1]), list(t, ours, texts[0])
		if diff := cmp.Diff(want, have); diff != "" || len(want) < 20 {
			t.Errorf("%s of SQLite (-) and PostgreSQL (+):\n%s", what, diff)
		}
	}
}

func list(t *testing.T, db *sql.DB, text string) (values []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var value string
		must(t, rows.Scan(&value))
		values = append(values, value)
	}
	must(t, rows.Err())
	slices.Sort(values)
	return values
}
