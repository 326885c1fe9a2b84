package storetest

import (
	"database/sql"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// DamagedBlobs shows that a blob which assets name, and which somebody who can write
// the database, or a disk, changed or lost, is told as damage with an asset that
// names it, and never served; others are, and all assets' contents (S7).
func DamagedBlobs(t *testing.T, s store.All, db *sql.DB) {
	w := newWorld(t, func(*testing.T) store.All { return s })
	ctx := t.Context()
	long := strings.Repeat("0123456789", 20_000)
	w.spill("first", long, "candidate's")
	w.publish(naming("a", "1", "first"), naming("b", "1", long), entry("c", "1"))
	heldID := intent.CandidateID{Partition: shop, Digest: digestOf("candidate")}
	w.must(w.SaveCandidate(ctx, w.lease, intent.Candidate{ID: heldID, Base: at(1), State: intent.CandidateHeld}, []store.Entry{naming("d", "1", "candidate's")}))
	run := func(text string, arguments ...any) {
		t.Helper()
		if result, err := db.ExecContext(ctx, text, arguments...); err != nil {
			t.Fatal(err)
		} else if rows, err := result.RowsAffected(); err != nil || rows != 1 {
			t.Fatalf("%s: %d rows (%v), want one", text, rows, err)
		}
	}
	type row struct{ digest, bytes []byte }
	stored := func(blob string) (r row) {
		t.Helper()
		err := db.QueryRowContext(ctx, "SELECT digest, bytes FROM blob WHERE kind = $1 AND name = $2", store.SpillBlobs, spillName(blob)).Scan(&r.digest, &r.bytes)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	writeRow := func(blob string, r row) {
		t.Helper()
		run("UPDATE blob SET digest = $1, bytes = $2 WHERE kind = $3 AND name = $4", r.digest, r.bytes, store.SpillBlobs, spillName(blob))
	}
	whole := func(label, blob string) {
		t.Helper()
		if !w.spilled(blob) {
			t.Errorf("%s: %.10s is not served", label, blob)
		}
	}
	flipped := func(bytes []byte) []byte {
		copied := append([]byte{}, bytes...)
		copied[len(copied)/2] ^= 1
		return copied
	}
	for label, c := range map[string]struct {
		blob, asset, told string
		damage            func(row) row
	}{
		"a bit":             {long, "b", "another digest", func(r row) row { return row{r.digest, flipped(r.bytes)} }},
		"a bit of a digest": {long, "", "", func(r row) row { return row{flipped(r.digest), r.bytes} }},
		"the end is gone":   {long, "b", "another digest", func(r row) row { return row{r.digest, r.bytes[:len(r.bytes)-1]} }},
		"all is gone":       {long, "b", "another digest", func(r row) row { return row{r.digest, []byte{}} }},
		"another's":         {long, "b", "another digest", func(row) row { return stored("first") }},
		"a candidate's":     {"candidate's", "d", "another digest", func(row) row { return stored("first") }},
	} {
		original := stored(c.blob)
		writeRow(c.blob, c.damage(original))
		bytes, err := s.GetBlob(ctx, shop, store.SpillBlobs, spillName(c.blob))
		if !fault.Is(err, fault.Internal) || bytes != nil || !strings.Contains(err.Error(), spillName(c.blob)) || !strings.Contains(err.Error(), c.told) ||
			c.asset != "" && !strings.Contains(err.Error(), `asset "`+c.asset+`" names it`) || !strings.Contains(err.Error(), "restore it from a backup") {
			t.Errorf("%s: %d bytes, %v", label, len(bytes), err)
		}
		if _, err := s.Verify(ctx); !fault.Is(err, fault.Internal) || !strings.Contains(err.Error(), spillName(c.blob)) {
			t.Errorf("%s: verifying the store: %v", label, err)
		}
		whole(label, "first")
		for _, asset := range []intent.AssetID{"a", "b", "c"} {
			if _, _, err := s.Content(ctx, at(1), asset); err != nil {
				t.Errorf("%s: the content of %s: %v", label, asset, err)
			}
		}
		writeRow(c.blob, original)
		whole(label, c.blob)
	}
	lostRow := stored("first")
	run("DELETE FROM blob WHERE kind = $1 AND name = $2", store.SpillBlobs, spillName("first"))
	if bytes, err := s.GetBlob(ctx, shop, store.SpillBlobs, spillName("first")); !fault.Is(err, fault.Internal) || bytes != nil || !strings.Contains(err.Error(), `it is not there, and asset "a" names it`) {
		t.Errorf("a lost one: %d bytes, %v", len(bytes), err)
	}
	if _, err := s.Verify(ctx); !fault.Is(err, fault.Internal) {
		t.Errorf("a lost one, verifying the store: %v", err)
	}
	whole("a lost one", long)
	// Whoever generates it again puts it back.
	w.spill("first")
	whole("put back", "first")
	if now := stored("first"); string(now.digest) != string(lostRow.digest) {
		t.Error("what was put back has another digest")
	}
	if _, err := s.GetBlob(ctx, shop, store.SpillBlobs, spillName("nobody's")); !fault.Is(err, fault.NotFound) {
		t.Errorf("one that nobody names: %v", err)
	}
	if _, err := s.Verify(ctx); err != nil {
		t.Errorf("mended: %v", err)
	}
}
