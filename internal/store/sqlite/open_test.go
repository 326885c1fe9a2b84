package sqlite_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
	"lehr.dev/test/detector"
)

// refused fails the test unless the error has the kind and all the words.
func refused(t *testing.T, err error, kind fault.Kind, words ...string) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got error %v of kind %q, want one of kind %q", err, fault.KindOf(err), kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error %q does not say %q", err, word)
		}
	}
}

func opening(t *testing.T, path string) error {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err == nil {
		s.Close()
	}
	return err
}

func TestSecondServerIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lehr.db")
	command, lines := child(t, path)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "serving") {
	}
	refused(t, opening(t, path), fault.Conflict, fmt.Sprint("process ", command.Process.Pid), "stop that server")
	// Another name of the same file is the same file.
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	refused(t, opening(t, link), fault.Conflict)
	hard := filepath.Join(t.TempDir(), "hard.db")
	if err := os.Link(path, hard); err != nil {
		t.Fatal(err)
	}
	refused(t, opening(t, hard), fault.Conflict, "under another name")
	if err := os.Remove(hard); err != nil {
		t.Fatal(err)
	}
	// Nor does a file stop being served when it is given another name.
	renamed := path + ".old"
	if err := os.Rename(path, renamed); err != nil {
		t.Fatal(err)
	}
	refused(t, opening(t, renamed), fault.Conflict, "under another name")
	if err := os.Rename(renamed, path); err != nil {
		t.Fatal(err)
	}

	go func() { // so that it never waits for its reader
		for lines.Scan() {
		}
	}()
	s, err := sqlite.OpenUnlocked(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.SetStop(t.Context(), intent.Stop{Owner: storetest.Tester, Reason: "beside the server"}); err != nil {
		t.Errorf("stopping beside a running server: %v", err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	command.Wait()
	if err := opening(t, path); err != nil {
		t.Errorf("after the server is gone: %v", err)
	}
}

func TestUnlockedNeverActs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lehr.db")
	_, err := sqlite.OpenUnlocked(t.Context(), sqlite.Options{Path: path})
	refused(t, err, fault.NotFound, path)

	ctx := t.Context()
	server := openFile(t, path)
	lease := storetest.Register(t, server)
	beside, err := sqlite.OpenUnlocked(ctx, sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	for name, act := range map[string]func() error{
		"Acquire":     func() error { _, err := beside.Acquire(ctx, "shop", "thief"); return err },
		"Check":       func() error { return beside.Check(ctx, lease) },
		"Unstage":     func() error { return beside.Unstage(ctx, lease) },
		"Admit":       func() error { _, err := beside.Admit(ctx, lease, []store.Admission{{Push: "p"}}); return err },
		"SaveReports": func() error { return beside.SaveReports(ctx, lease, []intent.Report{{Asset: "a"}}) },
		"Collect":     func() error { _, err := beside.Collect(ctx, lease, store.Retention{}, time.Now()); return err },
		"SetLabel": func() error {
			return beside.SetLabel(ctx, intent.IncarnationID{Partition: "shop", Sequence: 1}, "k", "v", "a try", storetest.Tester)
		},
		"Disown":       func() error { return beside.Disown(ctx, "shop", "a", "x", storetest.Tester) },
		"AddPartition": func() error { return beside.AddPartition(ctx, "other", "/x", "a try", storetest.Tester) },
	} {
		if err := act(); !fault.Is(err, fault.Denied) {
			t.Errorf("%s beside the server: %v, want it denied", name, err)
		}
	}
	if err := server.Check(ctx, lease); err != nil {
		t.Errorf("the server's lease was touched: %v", err)
	}
	if p, err := beside.Partition(ctx, "shop"); err != nil || p.ID != "shop" {
		t.Errorf("reading beside the server: %+v, %v", p, err)
	}
}

func TestOtherProcessIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lehr.db")
	server := openFile(t, path)
	storetest.Register(t, server)
	beside, err := sqlite.OpenUnlocked(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	changed := server.Changed("")
	stopped := time.Now()
	if err := beside.SetStop(t.Context(), intent.Stop{Owner: storetest.Tester, Reason: "from outside"}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Fatal("a stop by another process was not noticed")
	}
	if took := time.Since(stopped); took > 2*time.Second {
		t.Logf("a stop by another process was noticed after %s, on a busy machine?", took)
	}
	if p, err := server.Partition(t.Context(), "shop"); err != nil || p.Stop == nil {
		t.Errorf("the server does not see the stop: %+v, %v", p, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	refused(t, opening(t, ""), fault.Invalid)
	refused(t, opening(t, filepath.Join(folder, "missing", "lehr.db")), fault.NotFound, "create the folder")
	refused(t, opening(t, folder), fault.Invalid, "is a folder, not a regular file")
	notes := write("notes.txt", "these are my notes, not a database")
	refused(t, opening(t, notes), fault.Invalid, notes, "not a SQLite database")
	refused(t, opening(t, write("short", "SQLite")), fault.Invalid, "not a SQLite database")
	refused(t, opening(t, write("torn.db", "SQLite format 3\x00"+strings.Repeat("garbage ", 600))), fault.Internal, "damaged")
	if text, err := os.ReadFile(notes); err != nil || !strings.HasPrefix(string(text), "these are my notes") {
		t.Errorf("the refused file was changed: %q, %v", text, err)
	}

	foreign := filepath.Join(folder, "foreign.db")
	db, err := sql.Open("sqlite", "file:"+foreign)
	if err == nil {
		_, err = db.Exec("CREATE TABLE customers (id INTEGER)")
		db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	refused(t, opening(t, foreign), fault.Invalid, "not a store of lehr")
}

// execute changes a store behind its back.
func execute(t *testing.T, path, text string, arguments ...any) {
	t.Helper()
	db, err := sqlite.Connect(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	result, err := db.ExecContext(t.Context(), text, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	if changed, _ := result.RowsAffected(); changed == 0 && !strings.HasPrefix(text, "CREATE") && !strings.HasPrefix(text, "DROP") {
		t.Fatalf("%s changed nothing", text)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lehr.db")
	if err := opening(t, path); err != nil {
		t.Fatal(err)
	}
	if err := opening(t, path); err != nil {
		t.Fatalf("opening a second time: %v", err)
	}
	execute(t, path, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	refused(t, opening(t, path), fault.Invalid, "9999", "newer lehr")
}

func TestDamagedContentIsNeverServed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lehr.db")
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	lease := storetest.Register(t, s)
	secret := storetest.Text("front/job", "the content")
	storetest.Publish(t, s, lease, []store.Entry{secret})
	if err := s.PutBlobs(t.Context(), lease, "output", map[string][]byte{"one": []byte("bytes")}); err != nil {
		t.Fatal(err)
	}
	candidate := intent.Candidate{ID: intent.CandidateID{Partition: "shop", Digest: intent.BodyDigest([]byte("c"))}, State: intent.CandidateHeld}
	if err := s.SaveCandidate(t.Context(), lease, candidate, []store.Entry{storetest.Text("a", "candidate's"), storetest.Text("b", "other")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, path, "UPDATE body SET bytes = $1 WHERE digest = $2", []byte("THE CONTENT"), secret.Member.Digest[:])
	execute(t, path, "UPDATE blob SET bytes = $1", []byte("BYTES"))
	execute(t, path, "DELETE FROM candidate_entry WHERE asset = 'b'")

	s = openFile(t, path)
	body, err := s.Body(t.Context(), secret.Member.Digest)
	refused(t, err, fault.Internal, secret.Member.Digest.String(), "front/job", "shop")
	if bodies, err := s.Contents(t.Context(), intent.IncarnationID{Partition: "shop", Sequence: 1}, []intent.AssetID{"front/job"}); err != nil || len(bodies) > 0 {
		t.Errorf("a damaged body among several is %q, %v", bodies, err)
	}
	if body != nil || strings.Contains(strings.ToUpper(err.Error()), "THE CONTENT") {
		t.Errorf("damaged content was shown: %q, %v", body, err)
	}
	_, err = s.GetBlob(t.Context(), "shop", "output", "one")
	refused(t, err, fault.Internal, "one")
	_, err = s.CandidateDelta(t.Context(), candidate.ID)
	refused(t, err, fault.Internal, "not as it was stored")
}

// TestEarlierAttemptIsOverwritten: bucket digests that an attempt to publish
// left behind do not get into the next one.
func TestEarlierAttemptIsOverwritten(t *testing.T) {
	folder := t.TempDir()
	digest := func(name string, leftover bool) intent.Digest {
		path := filepath.Join(folder, name)
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		storetest.Publish(t, s, storetest.Register(t, s), []store.Entry{storetest.Text("a", "1"), storetest.Text("b", "1")})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if leftover {
			bucket := intent.BucketOf("a")
			execute(t, path, "UPDATE bucket SET to_seq = 2 WHERE bucket = $1", bucket)
			execute(t, path, "INSERT INTO bucket (partition, bucket, from_seq, to_seq, digest) VALUES ('shop', $1, 2, 9223372036854775807, $2)",
				bucket, make([]byte, 32))
		}
		s = openFile(t, path)
		return storetest.Publish(t, s, storetest.Register(t, s), []store.Entry{storetest.Text("b", "2")}).Digest
	}
	if digest("clean.db", false) != digest("leftover.db", true) {
		t.Error("the membership digest depends on an earlier attempt")
	}
}

func TestAuditShowsTampering(t *testing.T) {
	detector.SkipSequential(t)
	for name, change := range map[string]struct{ text, first string }{
		"edited":     {`UPDATE audit SET records = replace(records, '"verb":"hold"', '"verb":"held"') WHERE last = 4`, "record 4"},
		"renamed":    {`UPDATE audit SET records = replace(records, 'tester', 'nobody') WHERE last = 3`, "record 3"},
		"removed":    {`DELETE FROM audit WHERE last = 4`, "record 4"},
		"first gone": {`DELETE FROM audit WHERE last = 1`, "record 1"},
		"tail gone":  {`DELETE FROM audit WHERE last >= 5`, "record 5"},
		"reordered":  {`UPDATE audit SET records = (SELECT o.records FROM audit o WHERE o.partition = audit.partition AND o.last = 7 - audit.last) WHERE last IN (3, 4)`, "record 3"},
		"relinked":   {`UPDATE audit SET digest = (SELECT digest FROM audit WHERE last = 2) WHERE last = 4`, "record 4"},
		"unreadable": {`UPDATE audit SET records = 'gone' WHERE last = 5`, "record 5"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lehr.db")
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			storetest.Register(t, s) // records 1 and 2
			for i := range 4 {
				if err := s.SetHold(t.Context(), "shop", intent.Hold{Asset: intent.AssetID(fmt.Sprint("asset-", i)), Owner: storetest.Tester}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.VerifyAudit(t.Context(), "shop"); err != nil {
				t.Fatal(err)
			}
			s.Close()
			execute(t, path, change.text)
			refused(t, openFile(t, path).VerifyAudit(t.Context(), "shop"), fault.Internal, change.first)
		})
	}
}

func TestClosedStore(t *testing.T) {
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "lehr.db")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	refused(t, s.AddPartition(t.Context(), "shop", "/srv/lehr.yaml", "a try", storetest.Tester), fault.Unavailable, "closed")
}
