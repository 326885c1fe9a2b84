package postgres

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/test/pgserver"
)

// shop is a partition in a store of its own, and a connection beside it.
func shop(t *testing.T) (*Store, *sql.Conn) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	s, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.AddPartition(t.Context(), "shop", "/srv/lehr.yaml", "a try", intent.Actor{Name: "tester"}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	beside, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s, beside
}

func execute(t *testing.T, conn *sql.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// TestALeaseIsRenewedWhileTheWriterWaits: a process that stands still with a
// row locked does not take the leases of one that waits for that row along.
func TestALeaseIsRenewedWhileTheWriterWaits(t *testing.T) {
	s, beside := shop(t)
	execute(t, beside, "BEGIN", "UPDATE partitions SET news = news WHERE id = 'shop'")
	written := make(chan error, 1)
	go func() {
		written <- s.SetHold(context.Background(), "shop", intent.Hold{Asset: "web", Owner: intent.Actor{Name: "tester"}})
	}()
	waits := "SELECT count(*) FROM pg_locks WHERE NOT granted"
	for waiting := 0; waiting == 0; {
		if err := beside.QueryRowContext(t.Context(), waits).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Renew(ctx, "a", time.Hour); err != nil {
		t.Errorf("the leases were not renewed while the writer waits: %v", err)
	}
	select {
	case err := <-written:
		t.Errorf("the writer did not wait: %v", err)
	default:
	}
	execute(t, beside, "ROLLBACK")
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// TestATransactionThatStandsStillEndsBeforeItsLease: the row that it locked is
// free when the lease of whoever began it ends, after 3 s.
func TestATransactionThatStandsStillEndsBeforeItsLease(t *testing.T) {
	s, beside := shop(t)
	if err := (engine{}).Tune(t.Context(), beside); err != nil {
		t.Fatal(err)
	}
	var patience int
	if err := beside.QueryRowContext(t.Context(), "SELECT setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'").Scan(&patience); err != nil {
		t.Fatal(err)
	}
	if lease := 3 * time.Second; time.Duration(patience)*time.Millisecond > lease/2 {
		t.Errorf("it is ended after %d ms, and a lease after %s", patience, lease)
	}
	execute(t, beside, "BEGIN", "UPDATE partitions SET news = news WHERE id = 'shop'")
	if _, err := s.Acquire(t.Context(), "shop", "b"); err != nil {
		t.Error(err)
	}
	if _, err := beside.ExecContext(t.Context(), "COMMIT"); err == nil {
		t.Error("the transaction that stood still was committed")
	}
}

// TestALeaseIsFree: while nobody else's runs.
func TestALeaseIsFree(t *testing.T) {
	s, _ := shop(t)
	free := func(holder string) bool {
		t.Helper()
		free, err := s.Free(t.Context(), holder)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(free, "shop")
	}
	if !free("a") {
		t.Error("nobody has it, and it is not free")
	}
	if err := s.Renew(t.Context(), "a", time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), "shop", "a"); err != nil {
		t.Fatal(err)
	}
	if free("b") || !free("a") {
		t.Errorf("a has it: free to a: %t, to b: %t", free("a"), free("b"))
	}
	if err := s.Retire(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if !free("b") {
		t.Error("a has retired, and it is not free to b")
	}
}
