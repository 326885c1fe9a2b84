package postgres_test

import (
	"database/sql"
	"testing"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store/postgres"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/pgserver"
)

func TestAudited(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	databases := emptied{server: server}
	storetest.Audited(t, func(t *testing.T) storetest.Spoiled {
		url, _ := databases.next(t)
		return storetest.Spoiled{
			All: open(t, url),
			Spoil: func() {
				server.Execute(url, `CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no more'; END $$;
					CREATE TRIGGER spoiled BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION spoil()`)
			},
			Mend: func() { server.Execute(url, "DROP TRIGGER spoiled ON audit; DROP FUNCTION spoil()") },
		}
	})
}

func TestAdversary(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	db, err := sql.Open("pgx", url)
	must(t, err)
	defer db.Close()
	storetest.Adversary(t, open(t, url), db)
}

// TestBesideReplicas: whoever verifies opens the store beside those who serve
// it, makes no tables, and acts for no partition.
func TestBesideReplicas(t *testing.T) {
	server := pgserver.New(t)
	server.Start()
	url := server.Database()
	if s, err := postgres.OpenBeside(t.Context(), postgres.Options{URL: url}); !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) {
		t.Fatalf("a database without tables was opened: %v %v", s, err)
	}
	s := open(t, url)
	lease := storetest.Register(t, s)
	beside, err := postgres.OpenBeside(t.Context(), postgres.Options{URL: url})
	must(t, err)
	defer beside.Close()
	report, err := audit.VerifyStore(t.Context(), beside, nil, func(intent.PartitionID) bool { return true })
	if err != nil || !report.OK() || len(report.Chains) != 2 || report.Chains[1].Records != 2 {
		t.Errorf("%+v %v", report, err)
	}
	if _, err := beside.Acquire(t.Context(), lease.Partition, "thief"); !fault.Is(err, fault.Denied) {
		t.Errorf("acquired beside the replicas: %v", err)
	}
}
