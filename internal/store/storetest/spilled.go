package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// naming is an entry whose body names a blob.
func naming(asset, text, blob string) store.Entry {
	e := entry(asset, text+" names "+blob)
	e.Blobs = []intent.Digest{intent.BlobSum([]byte(blob))}
	return e
}

func spillName(blob string) string { return intent.BlobSum([]byte(blob)).String() }

func (w *world) spill(blobs ...string) {
	w.t.Helper()
	list := map[string][]byte{}
	for _, blob := range blobs {
		list[spillName(blob)] = []byte(blob)
	}
	w.must(w.PutBlobs(w.t.Context(), w.lease, store.SpillBlobs, list))
}

// spilled reports whether a blob is kept, whole.
func (w *world) spilled(blob string) bool {
	w.t.Helper()
	bytes, err := w.GetBlob(w.t.Context(), shop, store.SpillBlobs, spillName(blob))
	if fault.Is(err, fault.NotFound) {
		return false
	}
	w.must(err)
	if string(bytes) != blob {
		w.t.Errorf("the blob %q holds %.40q", blob, bytes)
	}
	return true
}

// testSpilled: what assets name is kept while an incarnation or a candidate that
// may be read has such an asset, and no longer (S17); what is not what its name
// says is never kept.
func testSpilled(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	collect := func() {
		t.Helper()
		_, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 1}, noon.AddDate(1, 0, 0))
		w.must(err)
	}
	w.refused(w.PutBlobs(ctx, w.lease, store.SpillBlobs, map[string][]byte{spillName("a"): []byte("b")}), fault.Invalid)
	w.refused(w.PutBlobs(ctx, w.lease, store.SpillBlobs, map[string][]byte{"a": []byte("a")}), fault.Invalid)
	w.refused(w.PutBlobs(ctx, w.lease, store.SpillBlobs, map[string][]byte{spillName("a"): nil}), fault.Invalid)
	large := strings.Repeat("x", intent.MaxBlobBytes+1)
	w.refused(w.PutBlobs(ctx, w.lease, store.SpillBlobs, map[string][]byte{spillName(large): []byte(large)}), fault.Invalid)

	w.refused(w.Stage(ctx, w.lease, intent.IncarnationID{Partition: shop}, []store.Entry{naming("a", "1", "first")}), fault.Conflict)
	w.spill("first", "second", "third", "nobody's")
	w.publish(naming("a", "1", "first"), naming("b", "1", "third"))
	w.publish(naming("a", "2", "second"))
	collect()
	for blob, retained := range map[string]bool{"first": false, "second": true, "third": true, "nobody's": false} {
		if w.spilled(blob) != retained {
			t.Errorf("after two incarnations, of which one is kept: %s is kept: %t", blob, !retained)
		}
	}
	w.publish(store.Entry{Asset: "b", Removed: true})
	w.spill("candidate's")
	id := intent.CandidateID{Partition: shop, Digest: digestOf("candidate")}
	w.must(w.SaveCandidate(ctx, w.lease, intent.Candidate{ID: id, Base: at(3), State: intent.CandidateHeld}, []store.Entry{naming("c", "1", "candidate's")}))
	collect()
	if w.spilled("third") {
		t.Error("the blob of an asset that no kept incarnation has is kept")
	}
	if !w.spilled("candidate's") {
		t.Error("the blob of an asset of a candidate was collected")
	}
	// What was collected is put again, and staged again, by the same names.
	w.refused(w.Stage(ctx, w.lease, at(3), []store.Entry{naming("b", "1", "third")}), fault.Conflict)
	w.spill("third")
	w.must(w.Stage(ctx, w.lease, at(3), []store.Entry{naming("b", "1", "third")}))
	collect()
	if !w.spilled("third") {
		t.Error("the blob of an asset that is staged was collected")
	}
	w.must(w.Unstage(ctx, w.lease))
	collect()
	if w.spilled("third") {
		t.Error("the blob of an asset that was staged, and is not, is kept")
	}
}

// testSpilledRaces: whatever the collector does meanwhile, what is published names
// only what is there.
func testSpilledRaces(t *testing.T, open func(t *testing.T) store.All) {
	w := newWorld(t, open)
	ctx := t.Context()
	collect := func() {
		_, err := w.Collect(ctx, w.lease, store.Retention{Incarnations: 2}, noon.AddDate(1, 0, 0))
		if err != nil {
			t.Errorf("collecting: %v", err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	rounds, again := 60, 0
	for sequence := 1; sequence <= rounds; sequence++ {
		base := intent.IncarnationID{Partition: shop}
		if sequence > 1 {
			base = at(sequence - 1)
		}
		// Few blobs, so that one goes and comes again.
		blob := fmt.Sprint("blob ", random.IntN(4))
		entries := []store.Entry{naming(fmt.Sprint("a", random.IntN(3)), fmt.Sprint(sequence), blob)}
		w.must(w.Unstage(ctx, w.lease))
		var collecting sync.WaitGroup
		collecting.Go(collect)
		for first := true; ; first = false {
			w.spill(blob)
			if first && random.IntN(2) == 0 {
				collect()
			}
			err := w.Stage(ctx, w.lease, base, entries)
			if err == nil {
				break
			}
			w.refused(err, fault.Conflict)
			again++
		}
		_, err := w.Publish(ctx, w.lease, intent.Incarnation{ID: at(sequence), Parent: base, Created: noon.Add(time.Duration(sequence) * time.Minute)})
		w.must(err)
		collecting.Wait()
		for asset, named := range w.named(at(sequence)) {
			if !w.spilled(named) {
				t.Fatalf("%s@%d has %s, which names %q, which is gone", shop, sequence, asset, named)
			}
		}
	}
	if again == 0 {
		t.Errorf("in %d publications the collector was never faster: nothing was tried", rounds)
	}
}

// named are the blobs that the assets of an incarnation name.
func (w *world) named(id intent.IncarnationID) map[intent.AssetID]string {
	w.t.Helper()
	blobs := map[intent.AssetID]string{}
	for _, asset := range []intent.AssetID{"a0", "a1", "a2"} {
		m, err := w.Member(w.t.Context(), id, asset)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		w.must(err)
		body, err := w.Body(w.t.Context(), m.Digest)
		w.must(err)
		_, blobs[asset], _ = strings.Cut(string(body), " names ")
	}
	return blobs
}
