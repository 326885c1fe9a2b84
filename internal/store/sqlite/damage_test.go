package sqlite_test

import (
	"path/filepath"
	"testing"

	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
)

func TestDamagedBlobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lehr.db")
	s := openFile(t, path)
	db, err := sqlite.Connect(path, "busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	storetest.DamagedBlobs(t, s, db)
}
