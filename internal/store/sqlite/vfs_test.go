package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"lehr.dev/internal/store/sqlite"
)

// TestPagesUnderPressure: transactions larger than SQLite's cache write pages to
// the log before they commit, and some of them twice; savepoints take some back,
// and the log is begun anew. Whatever is read meanwhile by another connection,
// or found in the log of a killed process, is as it was committed.
func TestPagesUnderPressure(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	ctx, chance := t.Context(), rand.New(rand.NewPCG(3, 3))
	p := place(filepath.Join(t.TempDir(), "lehr.db"))
	p.Open(t).Close()
	db, err := sqlite.Connect(string(p), "journal_mode(WAL)", "cache_size(8)", "wal_autocheckpoint(300)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	execute := func(text string, arguments ...any) {
		t.Helper()
		if _, err := conn.ExecContext(ctx, text, arguments...); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	execute("CREATE TABLE pressed (id INTEGER PRIMARY KEY, text BLOB)")
	execute("CREATE INDEX pressed_by_text ON pressed (substr(text, 1, 20))")
	for round := range rounds {
		execute("BEGIN IMMEDIATE")
		for range 1 + chance.IntN(4) {
			execute("SAVEPOINT part")
			for range chance.IntN(60) {
				id := chance.IntN(200)
				switch chance.IntN(4) {
				case 0:
					execute("DELETE FROM pressed WHERE id BETWEEN $1 AND $1 + 20", id)
				default:
					execute("INSERT INTO pressed VALUES ($1, randomblob($2)) ON CONFLICT (id) DO UPDATE SET text = excluded.text", id, chance.IntN(9000))
				}
			}
			if chance.IntN(3) == 0 {
				execute("ROLLBACK TO part")
			}
			execute("RELEASE part")
		}
		execute([]string{"COMMIT", "COMMIT", "COMMIT", "ROLLBACK"}[chance.IntN(4)])
		if chance.IntN(5) == 0 {
			execute("PRAGMA wal_checkpoint(" + []string{"PASSIVE", "RESTART", "TRUNCATE"}[chance.IntN(3)] + ")")
		}
		want := sum(t, ctx, conn)
		// Another connection, and one that follows a kill.
		for _, at := range []place{p, p.image(t).write(t)} {
			other, err := sqlite.Connect(string(at))
			if err != nil {
				t.Fatal(err)
			}
			if got := sum(t, ctx, other); got != want {
				t.Fatalf("round %d: it reads %s, not %s", round, got, want)
			}
			other.Close()
		}
	}
}

// sum is what all that is in the database comes to.
func sum(t *testing.T, ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, arguments ...any) *sql.Row
}) string {
	t.Helper()
	var verdict, text string
	err := q.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&verdict)
	if err == nil {
		err = q.QueryRowContext(ctx, "SELECT coalesce(group_concat(id || ':' || length(text) || ':' || hex(substr(text, 1, 8)) || hex(substr(text, -8))), '') FROM (SELECT * FROM pressed ORDER BY id)").Scan(&text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(verdict, " ", text)
}
