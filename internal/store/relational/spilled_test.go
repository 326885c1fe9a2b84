package relational_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
)

// TestBytesThatAssetsNameAreBounded: those of a partition together, each once,
// whichever incarnation names them; those of other kinds and of other partitions do
// not count. All that is put at once is kept, or nothing. What the collector removes
// makes room.
func TestBytesThatAssetsNameAreBounded(t *testing.T) {
	memory, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.SpillLess(1000)
	ctx, lease := t.Context(), storetest.Register(t, s)
	if err := s.AddPartition(ctx, "other", "/other/lehr.yaml", "", storetest.Tester); err != nil {
		t.Fatal(err)
	}
	other, err := s.Acquire(ctx, "other", "test")
	if err != nil {
		t.Fatal(err)
	}
	put := func(lease store.Lease, kind string, blobs ...string) error {
		list := map[string][]byte{}
		for _, blob := range blobs {
			list[intent.BlobSum([]byte(blob)).String()] = []byte(blob)
		}
		return s.PutBlobs(ctx, lease, kind, list)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	text := func(letter string, bytes int) string { return strings.Repeat(letter, bytes) }
	must(put(lease, "generate", text("g", 5000)))
	must(put(other, store.SpillBlobs, text("o", 1000)))
	must(put(lease, store.SpillBlobs, text("a", 600)))
	must(put(lease, store.SpillBlobs, text("b", 399)))
	must(put(lease, store.SpillBlobs, text("a", 600), text("b", 399))) // They are there.
	err = put(lease, store.SpillBlobs, "c", "d")
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "partition shop would keep 1001 bytes of blobs, for all its incarnations and candidates, and at most 1000 are allowed") ||
		!strings.Contains(err.Error(), "keep large content elsewhere") {
		t.Errorf("one byte too many: %v", err)
	}
	for _, blob := range []string{"c", "d"} {
		if _, err := s.GetBlob(ctx, "shop", store.SpillBlobs, intent.BlobSum([]byte(blob)).String()); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s was kept of what was refused: %v", blob, err)
		}
	}
	must(put(lease, store.SpillBlobs, "c"))

	naming := func(asset, blob string) store.Entry {
		e := storetest.Text(asset, "names "+blob[:1])
		e.Blobs = []intent.Digest{intent.BlobSum([]byte(blob))}
		return e
	}
	storetest.Publish(t, s, lease, []store.Entry{naming("x", text("a", 600)), naming("y", "c")})
	// Of an earlier incarnation that is kept, it counts.
	storetest.Publish(t, s, lease, []store.Entry{naming("x", "c")})
	if err := put(lease, store.SpillBlobs, "d"); !fault.Is(err, fault.Invalid) {
		t.Errorf("an incarnation's that is no head's: %v", err)
	}
	_, err = s.Collect(ctx, lease, store.Retention{Incarnations: 2}, time.Now().AddDate(1, 0, 0))
	must(err)
	must(put(lease, store.SpillBlobs, text("e", 399))) // What nobody named has gone.
	if err := put(lease, store.SpillBlobs, "d"); !fault.Is(err, fault.Invalid) {
		t.Errorf("beyond the bound again: %v", err)
	}
	_, err = s.Collect(ctx, lease, store.Retention{Incarnations: 1}, time.Now().AddDate(1, 0, 0))
	must(err)
	must(put(lease, store.SpillBlobs, text("f", 999)))
}

// TestRecordsOfValidationsAreBounded: the oldest go.
func TestRecordsOfValidationsAreBounded(t *testing.T) {
	memory, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.JudgeLess(1000)
	ctx, lease, now := t.Context(), storetest.Register(t, s), time.Now()
	records := map[string][]byte{}
	name := func(minutes int) string {
		return store.JudgementName(now.Add(time.Duration(minutes)*time.Minute), "web@1/canary/errors")
	}
	for minutes := range 5 {
		records[name(minutes)] = bytes.Repeat([]byte("r"), 400)
	}
	if err := s.PutBlobs(ctx, lease, store.JudgementBlobs, records); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collect(ctx, lease, store.Retention{Incarnations: 1, History: time.Hour}, now); err != nil {
		t.Fatal(err)
	}
	for minutes := range 5 {
		if _, err := s.GetBlob(ctx, lease.Partition, store.JudgementBlobs, name(minutes)); fault.Is(err, fault.NotFound) != (minutes < 3) {
			t.Errorf("record %d: %v", minutes, err)
		}
	}
}
