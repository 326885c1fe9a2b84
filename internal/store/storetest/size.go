package storetest

import (
	"crypto/rand"
	"testing"

	"lehr.dev/internal/store"
)

// testSize: a store takes room, and does not take less when more is in it.
func testSize(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	sizeBefore, err := w.Size(t.Context())
	w.must(err)
	large := make([]byte, 1<<20)
	rand.Read(large) // Zeros would be compressed.
	w.must(w.PutBlobs(t.Context(), w.lease, "test", map[string][]byte{"large": large}))
	sizeAfter, err := w.Size(t.Context())
	w.must(err)
	if sizeBefore <= 0 || sizeAfter < sizeBefore+1<<20 {
		t.Errorf("a MB more took it from %d to %d bytes", sizeBefore, sizeAfter)
	}
}
