package storetest

import (
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// testOrigins: where content comes from is kept as long as the content is there,
// be the incarnation that changed it retained or not, and no longer (S17).
func testOrigins(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	otherLease := w.register(theatre)
	for i, delta := range [][]store.Entry{
		{entry("a", "1"), entry("b", "1")}, {entry("a", "2")}, {entry("a", "3")}, {entry("a", "4")},
	} {
		name := store.OriginName(intent.Sequence(i + 1))
		w.must(w.PutBlobs(ctx, w.lease, store.OriginBlobs, map[string][]byte{name: []byte("whole"), name + "/0": []byte("part")}))
		w.must(w.PutBlobs(ctx, w.lease, "other", map[string][]byte{name: []byte("another kind")}))
		w.must(w.PutBlobs(ctx, otherLease, store.OriginBlobs, map[string][]byte{name: []byte("another partition")}))
		w.publish(delta...)
	}
	// Written before it is published, as the next is.
	w.must(w.PutBlobs(ctx, w.lease, store.OriginBlobs, map[string][]byte{store.OriginName(5): []byte("whole")}))
	_, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 1}, noon.AddDate(1, 0, 0))
	w.must(err)
	_, err = w.Incarnation(ctx, at(1))
	w.refused(err, fault.NotFound)

	for sequence, retained := range map[intent.Sequence]bool{1: true, 2: false, 3: false, 4: true, 5: true} {
		name := store.OriginName(sequence)
		for _, blob := range []string{name, name + "/0"} {
			if sequence == 5 && blob != name {
				continue
			}
			if _, err := w.GetBlob(ctx, shop, store.OriginBlobs, blob); retained {
				w.must(err)
			} else {
				w.refused(err, fault.NotFound)
			}
		}
		if sequence < 5 {
			_, err := w.GetBlob(ctx, shop, "other", name)
			w.must(err)
			_, err = w.GetBlob(ctx, theatre, store.OriginBlobs, name)
			w.must(err)
		}
	}
}
