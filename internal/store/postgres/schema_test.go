package postgres_test

import (
	"database/sql"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
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

// TestTablesMadeAtOnceAreTheMigrations: an empty database that gets all tables in one
// transaction has those, and the versions, that one migration after the other makes.
func TestTablesMadeAtOnceAreTheMigrations(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url, stepwiseURL := server.Database(), server.Database()
	open(t, url)
	atOnce, err := sql.Open("pgx", url)
	must(t, err)
	defer atOnce.Close()
	stepwise, err := sql.Open("pgx", stepwiseURL)
	must(t, err)
	defer stepwise.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, stepwise, os.DirFS("migrations"))
	must(t, err)
	_, err = provider.Up(t.Context())
	must(t, err)
	for _, query := range []string{
		`SELECT table_name || '.' || ordinal_position || ' ' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' ||
			coalesce(replace(column_default, current_schema() || '.', ''), '')
			FROM information_schema.columns WHERE table_schema = current_schema()`,
		`SELECT replace(indexdef, current_schema() || '.', '') FROM pg_indexes WHERE schemaname = current_schema()`,
		`SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
			WHERE connamespace = current_schema()::regnamespace`,
		`SELECT id || ' ' || version_id || ' ' || is_applied FROM goose_db_version`,
	} {
		got, want := list(t, atOnce, query), list(t, stepwise, query)
		if diff := cmp.Diff(want, got); diff != "" || len(want) < 20 {
			t.Errorf("%s: one after the other (-) and at once (+):\n%s", query, diff)
		}
	}
}

// TestReportsOfOldAreTyped: what was read out of sentences has fields once a store is
// brought up.
func TestReportsOfOldAreTyped(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	s := open(t, url)
	db, err := sql.Open("pgx", url)
	must(t, err)
	defer db.Close()
	migration, err := os.ReadFile("migrations/0018_typed.sql")
	must(t, err)
	for _, statement := range []string{
		`INSERT INTO report (partition, asset, state, record) VALUES
			('shop', 'a', 'in-sync', '{"asset":"a","health":{"state":"unknown","reason":"after its push: protection smoke passes; its plugin says that it is unhealthy"}}'),
			('shop', 'b', 'in-sync', '{"asset":"b","health":{"state":"unknown","reason":"it was told before"}}'),
			('shop', 'c', 'waiting', '{"asset":"c","waiting":[{"kind":"hold","reason":"mine"},{"kind":"metric","reason":"check lag: 7 is over 5"},{"kind":"check-broken","reason":"check errors cannot answer: no"}]}')`,
		string(migration),
	} {
		_, err := db.ExecContext(t.Context(), statement)
		must(t, err)
	}
	reports, err := s.ListReports(t.Context(), "shop", store.ReportFilter{Limit: 9})
	must(t, err)
	if len(reports) != 3 {
		t.Fatalf("reports are %+v", reports)
	}
	if h := reports[0].Health; h.Source != intent.SourceAfterPush || h.Plugin != intent.Unhealthy {
		t.Errorf("what was asked after a push is %+v", h)
	}
	if h := reports[1].Health; h.Source != intent.SourcePlugin || h.Plugin != intent.HealthUnknown {
		t.Errorf("what was told before is %+v", h)
	}
	if w := reports[2].Waiting; len(w) != 3 || w[0].Check != "" || w[1].Check != "lag" || w[2].Check != "errors" {
		t.Errorf("waits are %+v", w)
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
