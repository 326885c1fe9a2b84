package sqlite_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
)

func TestFile(t *testing.T) {
	if testing.Short() {
		t.Skip("TestMemory runs the same suite")
	}
	storetest.Run(t, func(t *testing.T) store.All {
		return openFile(t, filepath.Join(t.TempDir(), "lehr.db"))
	})
}

func TestMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.All {
		db, err := sqlite.Memory()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		s, err := sqlite.Open(t.Context(), sqlite.Options{DB: db})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}

// openFile opens a store that is closed when the test ends.
func openFile(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestLinear(t *testing.T) {
	storetest.Linear(t, []store.All{openFile(t, filepath.Join(t.TempDir(), "lehr.db"))}, func(*rand.Rand) { time.Sleep(time.Millisecond) })
}

func TestLinearDocuments(t *testing.T) {
	storetest.LinearDocuments(t, []store.All{openFile(t, filepath.Join(t.TempDir(), "lehr.db"))}, func(*rand.Rand) { time.Sleep(time.Millisecond) })
}
