package sqlite_test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
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

// emptyFile is the file of an empty store: to copy it takes a third of the time of making one.
var emptyFile = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "lehr-empty-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "lehr.db")
	if err := sqlite.NewFile(context.Background(), path); err != nil {
		return nil, err
	}
	if left, err := os.Stat(path + "-wal"); err == nil && left.Size() > 0 {
		return nil, errors.New("not all of an empty store is in its file")
	}
	return os.ReadFile(path)
})

// openFile opens a store, an empty one where there is no file, that is closed when the test ends.
// That Open makes the file itself, the tests of histories, flipped bits and kills show.
func openFile(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		content, err := emptyFile()
		if err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
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
