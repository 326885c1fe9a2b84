package postgres_test

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/postgres"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/pgserver"
)

// TestOneOfTwoClaims: two partitions find one resource in sync at the same
// moment, each with its own writer; each has read that nobody has it before
// the other writes. One of them has it, and the other is told (S3). Where the
// level of isolation is lower both believe that they have it: this test would
// tell.
func TestOneOfTwoClaims(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	for name, c := range map[string]struct {
		open    func(url string) (*postgres.Store, error)
		believe int
	}{
		"serializable": {func(url string) (*postgres.Store, error) {
			return postgres.Open(t.Context(), postgres.Options{URL: url})
		}, 1},
		"read committed": {func(url string) (*postgres.Store, error) {
			return postgres.OpenWeakly(t.Context(), postgres.Options{URL: url})
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			url := server.Database()
			if believe := rivals(t, server, url, c.open); believe != c.believe {
				t.Errorf("%d partitions believe that the resource is theirs, want %d", believe, c.believe)
			}
		})
	}
}

// rivals is how many of two partitions are told that a resource is theirs.
func rivals(t *testing.T, server *pgserver.Server, url string, open func(string) (*postgres.Store, error)) (believe int) {
	t.Helper()
	beside, err := sql.Open("pgx", url)
	must(t, err)
	defer beside.Close()
	gate, err := beside.Conn(t.Context())
	must(t, err)
	pass := func(statement string) {
		t.Helper()
		_, err := gate.ExecContext(t.Context(), statement)
		must(t, err)
	}
	var saves []func() (map[intent.AssetID]store.Claim, error)
	for n := range 2 {
		s, err := open(url)
		must(t, err)
		defer s.Close()
		partition := intent.PartitionID(fmt.Sprint("shop-", n))
		must(t, s.AddPartition(t.Context(), partition, "/srv/lehr.yaml", "a try", storetest.Tester))
		lease, err := s.Acquire(t.Context(), partition, fmt.Sprint("server-", n))
		must(t, err)
		saves = append(saves, func() (map[intent.AssetID]store.Claim, error) {
			return s.SaveEnforced(t.Context(), lease, []store.Enforced{{Asset: "web", Type: "test.v1.Text", ResourceKey: "the one", At: time.Now()}})
		})
	}
	// Whoever writes a claim waits here; reading them does not.
	pass("BEGIN")
	pass("LOCK TABLE claim IN EXCLUSIVE MODE")
	var mutex sync.Mutex
	var group sync.WaitGroup
	for _, save := range saves {
		group.Go(func() {
			others, err := save()
			if err != nil {
				t.Error(err)
			}
			mutex.Lock()
			defer mutex.Unlock()
			if len(others) == 0 {
				believe++
			}
		})
	}
	for waiting := 0; waiting < len(saves); {
		must(t, gate.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'claim'::regclass").Scan(&waiting))
	}
	pass("COMMIT")
	group.Wait()
	return believe
}
