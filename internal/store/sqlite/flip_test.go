package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/detector"
)

// flips is how many bits are turned in a file, fewer where each takes long.
func flips(t *testing.T, count int) int {
	if testing.Short() {
		return count / 12
	}
	return count
}

// image is a store's files, by what their names have more than its own.
type image map[string][]byte

func (p place) image(t *testing.T) image {
	t.Helper()
	read := image{}
	for _, more := range []string{"", "-wal", ".witness"} {
		content, err := os.ReadFile(string(p) + more)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil {
			read[more] = content
		}
	}
	return read
}

// write makes a store of them.
func (i image) write(t *testing.T) place {
	t.Helper()
	folder, err := os.MkdirTemp("", "lehr-flip-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	p := filepath.Join(folder, "lehr.db")
	for more, content := range i {
		if err := os.WriteFile(p+more, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return place(p)
}

func overwrite(t *testing.T, path string, at int64, with byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteAt([]byte{with}, at)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

var quiet = slog.New(slog.DiscardHandler)

// tables reads every row of every table; those that cannot be read are errors.
func tables(t *testing.T, p place) (all map[string]any) {
	t.Helper()
	all = map[string]any{}
	db, err := sqlite.Connect(string(p))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	names, err := lines(t, db, "SELECT name FROM sqlite_master WHERE type = 'table'")
	if err != nil {
		all[""] = err
		return all
	}
	for _, name := range names {
		name = strings.Trim(name, `["]`)
		if all[name], err = lines(t, db, "SELECT * FROM "+name); err != nil {
			all[name] = err
		}
	}
	return all
}

func lines(t *testing.T, db *sql.DB, query string) (all []string, err error) {
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, pointers := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		pointers[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(pointers...); err != nil {
			return nil, err
		}
		all = append(all, fmt.Sprintf("%q", values))
	}
	return all, rows.Err()
}

// sameOrRefused reads all tables: each is as it was, or is refused.
func sameOrRefused(t *testing.T, p place, want map[string]any, flip string) (outcome string) {
	t.Helper()
	outcome = "the same"
	found := tables(t, p)
	for name, rows := range found {
		if err, ok := rows.(error); ok {
			outcome = "refused"
			if code, ok := errors.AsType[*driver.Error](err); !ok || code.Code() != lib.SQLITE_IOERR_DATA && name != "" {
				t.Errorf("%s: the table %s is refused otherwise: %v", flip, name, err)
			}
		} else if diff := cmp.Diff(want[name], rows); diff != "" {
			t.Errorf("%s: the table %s reads otherwise, and nothing tells:\n%s", flip, name, diff)
		}
	}
	if outcome == "the same" && len(found) != len(want) {
		t.Errorf("%s: there are %d tables, not %d, and nothing tells", flip, len(found), len(want))
	}
	return outcome
}

// unended is a store of which the server was killed.
func unended(t *testing.T) (image, map[string]any) {
	t.Helper()
	p := place(filepath.Join(t.TempDir(), "lehr.db"))
	var killed image
	fillUntil(t, p, func() { killed = p.image(t) })
	if len(killed["-wal"]) == 0 {
		t.Fatal("it left no log")
	}
	return killed, tables(t, killed.write(t))
}

// makeOlder makes an empty store as Lehr did before there were checksums.
func makeOlder(t *testing.T, p place) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+string(p)+"?_pragma=journal_mode(WAL)")
	if err == nil {
		_, err = db.Exec("PRAGMA application_id = 0x6c656872")
		db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// flipped calls do, again and again, with a store of which one bit is turned in
// the file of that name, and says what came of it.
func (i image) flipped(t *testing.T, name string, count int, do func(p place, flip string) string) (outcomes map[string]int) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	outcomes = map[string]int{}
	for range flips(t, count) {
		at, bit := random.IntN(len(i[name])), byte(1)<<random.IntN(8)
		changed := maps.Clone(i)
		changed[name] = slices.Clone(i[name])
		changed[name][at] ^= bit
		p := changed.write(t)
		outcomes[do(p, fmt.Sprintf("bit %08b of byte %d of %d", bit, at, len(i[name])))]++
		os.RemoveAll(filepath.Dir(string(p)))
	}
	t.Logf("%v", outcomes)
	return outcomes
}

// TestFlippedBits turns one bit anywhere in a store's file, again and again:
// every row of every table is read as it was written, or not at all.
func TestFlippedBits(t *testing.T) {
	detector.SkipSequential(t)
	whole := place(filepath.Join(t.TempDir(), "lehr.db"))
	fill(t, whole)
	want := tables(t, whole)
	outcomes := whole.image(t).flipped(t, "", 1000, func(p place, flip string) string {
		// Past what opening looks at.
		outcome := sameOrRefused(t, p, want, flip)
		if s, err := sqlite.Open(t.Context(), sqlite.Options{Path: string(p), Log: quiet}); err == nil {
			s.Close()
			if outcome != "the same" {
				t.Errorf("%s: it is served, though it is damaged", flip)
			}
		}
		return outcome
	})
	if outcomes["refused"] == 0 {
		t.Error("the flips met nothing")
	}
}

// TestFlippedBitsInTheLog turns bits of what a killed server left in its log:
// the next one reads all of it, or says that commits are missing, and pushes
// nothing (S15).
func TestFlippedBitsInTheLog(t *testing.T) {
	detector.SkipSequential(t)
	killed, want := unended(t)
	outcomes := killed.flipped(t, "-wal", 300, func(p place, flip string) string {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: string(p), Log: quiet})
		if err != nil {
			return "refused"
		}
		defer s.Close()
		h, err := s.History(t.Context())
		switch {
		case err != nil:
			return "refused"
		case h.Stop != nil:
			return "commits missing"
		default:
			return sameOrRefused(t, p, want, flip)
		}
	})
	if outcomes["commits missing"] == 0 {
		t.Error("the flips met nothing")
	}
}

// TestFlippedBitsUnderAServer turns bits of the log while others have it open:
// whoever reads from it sees that, and so does whoever moves it into the file.
func TestFlippedBitsUnderAServer(t *testing.T) {
	detector.SkipSequential(t)
	killed, want := unended(t)
	random := rand.New(rand.NewPCG(8, 8))
	outcomes := map[string]int{}
	for range flips(t, 500) {
		p := killed.write(t)
		server, err := sqlite.Connect(string(p), "wal_autocheckpoint(0)")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Exec("SELECT count(*) FROM partitions"); err != nil {
			t.Fatal(err)
		}
		at, bit := random.IntN(len(killed["-wal"])), byte(1)<<random.IntN(8)
		overwrite(t, string(p)+"-wal", int64(at), killed["-wal"][at]^bit)
		flip := fmt.Sprintf("bit %08b of byte %d of the log", bit, at)
		outcomes[sameOrRefused(t, p, want, flip)]++
		_, _ = server.Exec("PRAGMA wal_checkpoint(TRUNCATE)") // It says what became of it in its answer.
		outcomes[sameOrRefused(t, p, want, flip+", moved into the file")]++
		server.Close()
		os.RemoveAll(filepath.Dir(string(p)))
	}
	t.Logf("%v", outcomes)
	if outcomes["refused"] == 0 || outcomes["the same"] == 0 {
		t.Error("the flips met nothing")
	}
}

// TestFlippedBitsOfAnOlderStore: the pages of a store that was made without
// checksums stay so. What is content-addressed or chained is read as it was
// written, or not at all (S7): bodies, blobs, candidates' deltas, the audit.
// Verify finds every other damage that a digest covers.
func TestFlippedBitsOfAnOlderStore(t *testing.T) {
	detector.SkipSequential(t)
	older := place(filepath.Join(t.TempDir(), "lehr.db"))
	makeOlder(t, older)
	want := fill(t, older)
	outcomes := older.image(t).flipped(t, "", 500, func(p place, flip string) string { return readAll(t, p, want, flip) })
	if !testing.Short() && (outcomes["damage found"] == 0 || outcomes["not opened"] == 0) {
		t.Error("the flips met nothing")
	}
}

// contents are what a store was given.
type contents struct {
	bodies  map[intent.Digest]string
	members map[intent.AssetID]intent.Member
	blobs   map[string]string
	audit   []intent.AuditRecord
	head    intent.IncarnationID
}

func fill(t *testing.T, p place) contents {
	t.Helper()
	return fillUntil(t, p, func() {})
}

// fillUntil calls do before it closes the store.
func fillUntil(t *testing.T, p place, do func()) contents {
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
	do()
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

func sameRecord(a, b intent.AuditRecord) bool {
	a.At, b.At = a.At.UTC(), b.At.UTC()
	return a.At.Equal(b.At) && a.Number == b.Number && a.By == b.By && a.Verb == b.Verb && a.Subject == b.Subject && a.Detail == b.Detail
}
