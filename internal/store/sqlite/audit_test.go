package sqlite_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/detector"
)

func TestAudited(t *testing.T) {
	detector.SkipSequential(t)
	storetest.Audited(t, func(t *testing.T) storetest.Spoiled {
		path := filepath.Join(t.TempDir(), "lehr.db")
		return storetest.Spoiled{
			All: openFile(t, path),
			Spoil: func() {
				execute(t, path, "CREATE TRIGGER spoiled BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no more'); END")
			},
			Mend: func() { execute(t, path, "DROP TRIGGER spoiled") },
		}
	})
}

func TestAdversary(t *testing.T) {
	detector.SkipSequential(t)
	path := filepath.Join(t.TempDir(), "lehr.db")
	s := openFile(t, path)
	db, err := sqlite.Connect(path, "busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.Adversary(t, s, db)
}

// TestAuditOfAnOlderVersionGoesOn: a chain that was begun before reasons were
// recorded is as it was, and what is written now follows from it.
func TestAuditOfAnOlderVersionGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lehr.db")
	s := openFile(t, path)
	storetest.Register(t, s)
	records, err := s.AuditRecords(t.Context(), "shop", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	chain := audit.Chain{Partition: "shop"}
	for i := range records {
		r := &records[i]
		r.Version, r.Reason = 0, ""
		r.Link = audit.Short(audit.Link(chain.Link, *r))
		if err := chain.Next(*r); err != nil {
			t.Fatal(err)
		}
		r.Partition = ""
	}
	text, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, path, "DELETE FROM audit")
	execute(t, path, "INSERT INTO audit (partition, last, records, digest) VALUES ('shop', $1, $2, $3)", chain.Number, string(text), chain.Link[:])
	execute(t, path, "UPDATE audit_head SET digest = $1", chain.Link[:])
	if err := s.SetHold(t.Context(), "shop", intent.Hold{Asset: "a", Owner: storetest.Tester, Reason: "looking"}); err != nil {
		t.Fatal(err)
	}
	report, err := audit.VerifyStore(t.Context(), s, nil, func(intent.PartitionID) bool { return true })
	if err != nil || !report.OK() || report.Chains[1].Records != 3 {
		t.Errorf("%+v %v", report, err)
	}
	execute(t, path, `UPDATE audit SET records = replace(records, '"link"', '"v":2,"link"') WHERE last = 2`)
	if err := s.VerifyAudit(t.Context(), "shop"); err == nil {
		t.Error("an old record passed for a new one")
	}
}
