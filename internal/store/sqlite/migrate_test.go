package sqlite

import (
	"database/sql"
	"io/fs"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// TestFirstSchemaIsBroughtUp: a store of the first schema is found as it was,
// and what came later is right for what it holds.
func TestFirstSchemaIsBroughtUp(t *testing.T) {
	db, _, err := memory()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	// 2 and 4 were collected; b left head, c was staged to come back.
	for _, statement := range []string{
		`INSERT INTO partitions VALUES ('shop', '/srv/lehr.yaml', 1, 6, '[]', 9, 0, 0, 1, 'old', 1)`,
		`INSERT INTO incarnation VALUES ('shop', 1, 100, '{"id":"shop@1","labels":{"lehr/acknowledged":"x"}}'), ('shop', 3, 300, '{"id":"shop@3"}'),
			('shop', 5, 500, '{"id":"shop@5"}'), ('shop', 6, 600, '{"id":"shop@6"}')`,
		`INSERT INTO member VALUES ('shop', 'a', 1, 9223372036854775807, 't', x'', x'', 0), ('shop', 'b', 1, 5, 't', x'', x'', 0),
			('shop', 'c', 1, 3, 't', x'', x'', 0), ('shop', 'c', 7, 9223372036854775807, 't', x'', x'', 0)`,
		`INSERT INTO enforced VALUES ('shop', 'a', 't', x'', x'', 6, 'k/a', 1), ('shop', 'b', 't', x'', x'', 3, 'k/b', 1), ('shop', 'c', 't', x'', x'', 1, '', 1)`,
		`INSERT INTO report VALUES
			('shop', 'a', 'in-sync', '{"asset":"a","health":{"state":"unknown","reason":"after its push: protection smoke passes, and must until 12:00; its plugin says that it is healthy"}}'),
			('shop', 'b', 'in-sync', '{"asset":"b","health":{"state":"unknown","reason":"it was told before"}}'),
			('shop', 'c', 'waiting', '{"asset":"c","waiting":[{"kind":"hold","reason":"mine"},{"kind":"metric","reason":"check lag: 7 is over 5"},{"kind":"check-broken","reason":"check errors cannot answer: no"}]}')`,
		`INSERT INTO push (id, partition, asset, target, effective, plan, resource_key, epoch, admitted, budgets, doubt, open, ending, reason, ended)
			VALUES ('old', 'shop', 'a', 1, x'', x'', '', 1, 100, '', 0, 0, 'pushed', '', 200)`,
		`INSERT INTO claim VALUES ('k/a', 'shop', 'a'), ('k/b', 'shop', 'b')`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), Options{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	orphans, err := s.Orphans(t.Context(), "shop", "", 0)
	if err != nil || len(orphans) != 2 || orphans[0].Asset != "b" || orphans[1].Asset != "c" || orphans[0].ResourceKey != "k/b" || orphans[0].Absent {
		t.Errorf("orphans are %+v, %v", orphans, err)
	}
	for nanoseconds, want := range map[int64]intent.Sequence{550: 5, 599: 5, 600: 6, 9999: 6, 100: 0, 350: 0, 50: 0} {
		found, err := s.FindIncarnation(t.Context(), "shop", store.Lookup{At: time.Unix(0, nanoseconds)})
		// Of 1 and 3 it is not known when they ended.
		if found.ID.Sequence != want || (want == 0) != fault.Is(err, fault.NotFound) {
			t.Errorf("at %d it finds %d, %v, want %d", nanoseconds, found.ID.Sequence, err, want)
		}
	}
	if push, err := s.Push(t.Context(), "shop", "old"); err != nil || push.PlanRecord != nil || push.AdmittedBy != "" || push.Ending != "pushed" {
		t.Errorf("a push of before plans were kept is %+v, %v", push, err)
	}
	reports, err := s.ListReports(t.Context(), "shop", store.ReportFilter{Limit: 9})
	if err != nil || len(reports) != 3 {
		t.Fatalf("reports are %+v, %v", reports, err)
	}
	if h := reports[0].Health; h.Source != intent.SourceAfterPush || h.Plugin != intent.Healthy {
		t.Errorf("what was asked after a push is %+v", h)
	}
	if h := reports[1].Health; h.Source != intent.SourcePlugin || h.Plugin != intent.HealthUnknown {
		t.Errorf("what was told before is %+v", h)
	}
	if w := reports[2].Waiting; len(w) != 3 || w[0].Check != "" || w[1].Check != "lag" || w[2].Check != "errors" || w[2].Kind != intent.WaitCheckBroken {
		t.Errorf("waits are %+v", w)
	}
	found, err := s.FindIncarnation(t.Context(), "shop", store.Lookup{Label: "lehr/acknowledged", Value: "x"})
	if err != nil || found.ID.Sequence != 1 {
		t.Errorf("by label it finds %s, %v", found.ID, err)
	}
	if err := s.Disown(t.Context(), "shop", "b", "moved", intent.Actor{Name: "ann"}); err != nil {
		t.Error(err)
	}
}

// TestTablesMadeAtOnceAreTheMigrations: an empty store that gets all tables in one transaction
// has those, and the versions, that one migration after the other makes.
func TestTablesMadeAtOnceAreTheMigrations(t *testing.T) {
	atOnce, err := Memory()
	if err != nil {
		t.Fatal(err)
	}
	defer atOnce.Close()
	stepwise, _, err := memory()
	if err != nil {
		t.Fatal(err)
	}
	defer stepwise.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, stepwise, files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY rowid",
		"SELECT version_id || ' ' || is_applied FROM goose_db_version ORDER BY id",
	} {
		got, want := texts(t, atOnce, query), texts(t, stepwise, query)
		if diff := cmp.Diff(want, got); diff != "" || len(want) < len(provider.ListSources()) {
			t.Errorf("%s: one after the other (-) and at once (+):\n%s", query, diff)
		}
	}
}

func texts(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
