package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"lehr.dev/store/storetest"
)

func TestAudited(t *testing.T) {
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
	path := filepath.Join(t.TempDir(), "lehr.db")
	s := openFile(t, path)
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.Adversary(t, s, db)
}
