package sqlite_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store/sqlite"
)

// TestNoPipeIsWaitedFor: one in the place of a store, of a file beside it or of a backup is
// refused at once, and no lock is held then.
func TestNoPipeIsWaitedFor(t *testing.T) {
	pipe := func(more string) string {
		store := filepath.Join(t.TempDir(), "lehr.db")
		if err := syscall.Mkfifo(store+more, 0o600); err != nil {
			t.Fatal(err)
		}
		return store
	}
	for _, more := range []string{"", "-wal", "-journal", ".lock", ".witness"} {
		for what, open := range map[string]func(string) error{
			"serving": func(path string) error {
				_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
				return err
			},
			"beside": func(path string) error {
				if more != "" {
					if err := os.WriteFile(path, nil, 0o600); err != nil {
						return err
					}
				}
				_, err := sqlite.OpenUnlocked(t.Context(), sqlite.Options{Path: path})
				return err
			},
			"reserving": func(path string) error {
				_, err := sqlite.Reserve(path)
				return err
			},
			"restoring over it": func(path string) error {
				_, _, err := sqlite.Restore(t.Context(), path+".backup", path, time.Now())
				return err
			},
		} {
			store := pipe(more)
			if err := open(store); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s, a pipe at %q: %v", what, more, err)
			}
			if more != ".lock" {
				if _, err := os.Stat(store + ".lock"); err == nil {
					t.Errorf("%s, a pipe at %q: it was locked", what, more)
				}
			}
		}
	}
	fresh := filepath.Join(t.TempDir(), "lehr.db")
	if _, _, err := sqlite.Restore(t.Context(), pipe(""), fresh, time.Now()); !fault.Is(err, fault.Invalid) {
		t.Error("a pipe as a backup:", err)
	}
	opened, err := sqlite.Open(t.Context(), sqlite.Options{Path: fresh})
	if err != nil {
		t.Fatal("its lock was kept:", err)
	}
	opened.Close()
}
