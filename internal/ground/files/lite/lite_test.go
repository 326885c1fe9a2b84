package lite

import (
	"database/sql"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// made is a database with one row, which is open in its log mode until the end.
func made(t *testing.T, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, statement := range []string{"CREATE TABLE t (a TEXT)", "INSERT INTO t VALUES ('row')"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func rowOf(db *sql.DB) (row string, err error) {
	defer db.Close()
	return row, db.QueryRow("SELECT a FROM t").Scan(&row)
}

func TestDatabasesAreReadBesideTheirWriters(t *testing.T) {
	path := made(t, filepath.Join(t.TempDir(), "a database.db"))
	db, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if row, err := rowOf(db); err != nil || row != "row" {
		t.Errorf("%q, %v", row, err)
	}
	if db, err = Open(path, nil); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("INSERT INTO t VALUES ('more')"); err == nil {
		t.Error("it was written to")
	}
}

func TestAStoreIsNoDatabaseToRead(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	store := made(t, filepath.Join(home, "data", "lehr.db"))
	defer files.Guard([]string{store}, nil)()
	soft, hard := filepath.Join(home, "soft.db"), filepath.Join(home, "hard.db")
	folder, log := filepath.Join(home, "folder"), made(t, filepath.Join(home, "log.db"))
	for link, to := range map[string]string{soft: store, folder: filepath.Join(home, "data")} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(store, hard); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(home, "other.db")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(store, other+"-wal"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{store, soft, hard, folder + "/lehr.db", "/proc/self/root" + store, other} {
		if _, err := Open(path, nil); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v, want it denied", path, err)
		}
	}
	if _, err := Open(log, []string{folder}); !fault.Is(err, fault.Denied) {
		t.Error("outside of what may be read:", err)
	}
}

// TestWhatIsOpenIsJudged: the store takes the place of a database after it was looked
// at and before SQLite opens it.
func TestWhatIsOpenIsJudged(t *testing.T) {
	home := t.TempDir()
	store, path := made(t, filepath.Join(home, "lehr.db")), made(t, filepath.Join(home, "theirs.db"))
	defer files.Guard([]string{store}, nil)()
	db, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(store, path); err != nil {
		t.Fatal(err)
	}
	if row, err := rowOf(db); err == nil {
		t.Errorf("the store was read: %q", row)
	}
}

func TestAPipeIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.db")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, nil); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}
