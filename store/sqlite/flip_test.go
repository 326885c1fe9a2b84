package sqlite_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lehr.dev/intent"
	"lehr.dev/store"
	"lehr.dev/store/sqlite"
	"lehr.dev/store/storetest"
)

// TestFlippedBits turns one bit anywhere in a store's file, again and again.
// Whatever is content-addressed or chained is read as it was written, or not at
// all (S7): bodies, blobs, candidates' deltas, the audit. Verify finds every
// other damage that a digest covers.
func TestFlippedBits(t *testing.T) {
	flips := 1000
	if testing.Short() {
		flips = 120
	}
	folder := t.TempDir()
	whole := place(filepath.Join(folder, "whole.db"))
	want := fill(t, whole)
	bytes, err := os.ReadFile(string(whole))
	if err != nil {
		t.Fatal(err)
	}
	witness, err := os.ReadFile(string(whole) + ".witness")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 7))
	outcomes := map[string]int{}
	for n := range flips {
		at, bit := random.IntN(len(bytes)), byte(1)<<random.IntN(8)
		flipped := place(filepath.Join(folder, fmt.Sprint(n), "lehr.db"))
		if err := os.Mkdir(filepath.Dir(string(flipped)), 0o700); err != nil {
			t.Fatal(err)
		}
		changed := slices.Clone(bytes)
		changed[at] ^= bit
		for name, content := range map[string][]byte{"": changed, ".witness": witness} {
			if err := os.WriteFile(string(flipped)+name, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		outcome := readAll(t, flipped, want, fmt.Sprintf("bit %08b of byte %d", bit, at))
		outcomes[outcome]++
		os.RemoveAll(filepath.Dir(string(flipped)))
	}
	t.Logf("%d flips in %d bytes: %v", flips, len(bytes), outcomes)
	if outcomes["damage found"] == 0 || outcomes["not opened"] == 0 {
		t.Error("the flips met nothing")
	}
}

// contents are what a store was given.
type contents struct {
	bodies  map[intent.Digest]string
	members map[intent.AssetID]intent.Member
	blobs   map[string]string
	audit   []store.AuditRecord
	head    intent.IncarnationID
}

func fill(t *testing.T, p place) contents {
	t.Helper()
	s, ctx := p.Open(t), t.Context()
	lease := storetest.Register(t, s)
	want := contents{bodies: map[intent.Digest]string{}, members: map[intent.AssetID]intent.Member{}, blobs: map[string]string{}}
	for round := range 3 {
		var delta []store.Entry
		for n := range 40 {
			entry := storetest.Text(fmt.Sprint("asset/", n), fmt.Sprint("content ", n, " of round ", round%2, n%7))
			delta = append(delta, entry)
			want.bodies[entry.Member.Digest] = string(entry.Body)
			want.members[entry.Asset] = entry.Member
		}
		want.head = storetest.Publish(t, s, lease, delta).ID
	}
	blobs := map[string][]byte{}
	for n := range 20 {
		want.blobs[fmt.Sprint("b", n)] = fmt.Sprint("blob ", n)
		blobs[fmt.Sprint("b", n)] = []byte(want.blobs[fmt.Sprint("b", n)])
	}
	if err := s.PutBlobs(ctx, lease, "kind", blobs); err != nil {
		t.Fatal(err)
	}
	var err error
	if want.audit, err = s.AuditRecords(ctx, "shop", 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return want
}

// readAll reads a store on every path, and says how far one came.
func readAll(t *testing.T, p place, want contents, flip string) string {
	t.Helper()
	ctx := t.Context()
	s, err := sqlite.OpenUnlocked(ctx, sqlite.Options{Path: string(p)})
	if err != nil {
		return "not opened"
	}
	defer s.Close()
	_, damage := s.Verify(ctx)
	for digest, body := range want.bodies {
		if got, err := s.Body(ctx, digest); err == nil && string(got) != body {
			t.Errorf("%s: the body %s is read as %q", flip, digest.Short(), got)
		}
	}
	for name, blob := range want.blobs {
		if got, err := s.GetBlob(ctx, "shop", "kind", name); err == nil && string(got) != blob {
			t.Errorf("%s: the blob %s is read as %q", flip, name, got)
		}
	}
	for _, asset := range slices.Sorted(maps.Keys(want.members)) {
		member, body, err := s.Content(ctx, want.head, asset)
		if err == nil && string(body) != want.bodies[member.Digest] {
			t.Errorf("%s: %s has the content %q of no digest", flip, asset, body)
		}
		// Which content an asset has is a row: Verify finds another one.
		if err == nil && member.Digest != want.members[asset].Digest && damage == nil {
			t.Errorf("%s: %s has the content of another, and nothing tells", flip, asset)
		}
	}
	if s.VerifyAudit(ctx, "shop") == nil {
		records, err := s.AuditRecords(ctx, "shop", 0, 0)
		if err == nil && len(records) > 0 && !slices.EqualFunc(records, want.audit, sameRecord) {
			t.Errorf("%s: the audit reads otherwise, and its chain is intact", flip)
		}
	}
	if damage != nil {
		return "damage found"
	}
	return "nothing that a digest covers"
}

func sameRecord(a, b store.AuditRecord) bool {
	a.At, b.At = a.At.UTC(), b.At.UTC()
	return a.At.Equal(b.At) && a.Number == b.Number && a.By == b.By && a.Verb == b.Verb && a.Subject == b.Subject && a.Detail == b.Detail
}
