package sqlite

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestALockEndsThoughAChildHasACopyOfIt: between fork and exec a child has all descriptors
// of its parent, also those that it does not keep.
func TestALockEndsThoughAChildHasACopyOfIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lehr.db")
	store, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []int{int(store.file.lock.file.Fd()), int(store.file.lock.database.Fd())} {
		copied, err := syscall.Dup(file)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(copied)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatalf("it is locked still: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
