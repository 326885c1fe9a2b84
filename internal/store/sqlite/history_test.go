package sqlite_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
)

// place is a store's file, with a copy of it.
type place string

func (p place) Open(t *testing.T) store.All {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: string(p)})
	if err != nil {
		t.Fatal(err)
	}
	return storetest.ClosedOnce(t, s)
}

func (p place) Keep(t *testing.T)    { copyOf(t, string(p), string(p)+".kept") }
func (p place) PutBack(t *testing.T) { copyOf(t, string(p)+".kept", string(p)) }

func copyOf(t *testing.T, from, to string) {
	t.Helper()
	bytes, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, bytes, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestHistories(t *testing.T) {
	storetest.Histories(t, func(t *testing.T) storetest.Place { return place(filepath.Join(t.TempDir(), "lehr.db")) })
}

// published is a place with a store that has an incarnation.
func published(t *testing.T) place {
	p := place(filepath.Join(t.TempDir(), "lehr.db"))
	s := p.Open(t)
	storetest.Publish(t, s, storetest.Register(t, s), []store.Entry{storetest.Text("a", "1")})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

func suspicion(t *testing.T, s store.All) string {
	t.Helper()
	h, err := s.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if h.Stop == nil {
		return ""
	}
	return h.Stop.Reason
}

// TestWitness: what stands beside a store tells whether it is as new as it was.
func TestWitness(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, p place)
		want   string
	}{
		"as it was":              {func(*testing.T, place) {}, ""},
		"a copy without witness": {func(t *testing.T, p place) { remove(t, string(p)+".witness") }, "its witness is missing"},
		"the store of another": {func(t *testing.T, p place) {
			copyOf(t, string(published(t)), string(p))
		}, "another than was served here"},
		"no store any more": {func(t *testing.T, p place) { remove(t, string(p)) }, "another than was served here"},
		// A whole folder that was put back says what it said then. Only a target
		// could know better: see docs/operate/operating.md.
		"both put back": {func(t *testing.T, p place) {
			copyOf(t, string(p), string(p)+".old")
			copyOf(t, string(p)+".witness", string(p)+".old.witness")
			s := p.Open(t)
			storetest.Publish(t, s, storetest.Register(t, s), []store.Entry{storetest.Text("a", "2")})
			s.Close()
			copyOf(t, string(p)+".old", string(p))
			copyOf(t, string(p)+".old.witness", string(p)+".witness")
		}, ""},
		"a commit beside the server": {func(t *testing.T, p place) {
			p.Keep(t)
			s, err := sqlite.OpenUnlocked(t.Context(), sqlite.Options{Path: string(p)})
			if err == nil {
				err = s.SetStop(t.Context(), intent.Stop{Owner: storetest.Tester, Reason: "it burns"})
			}
			if err == nil {
				err = s.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			p.PutBack(t)
		}, "lost the last "}, // One commit, and on a busy machine that of a look for what others committed.
	} {
		t.Run(name, func(t *testing.T) {
			p := published(t)
			c.change(t, p)
			if got := suspicion(t, p.Open(t)); !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("suspicion %q, want %q", got, c.want)
			}
		})
	}
	t.Run("damaged", func(t *testing.T) {
		p := published(t)
		bytes, err := os.ReadFile(string(p) + ".witness")
		if err != nil {
			t.Fatal(err)
		}
		bytes[len(bytes)/4] ^= 4
		if err := os.WriteFile(string(p)+".witness", bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite.Open(t.Context(), sqlite.Options{Path: string(p)}); !fault.Is(err, fault.Internal) {
			t.Errorf("a store with a damaged witness: %v", err)
		}
	})
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestWitnessIsNeverAhead: at each commit that was answered, the witness says
// what the store has.
func TestWitnessIsNeverAhead(t *testing.T) {
	p := place(filepath.Join(t.TempDir(), "lehr.db"))
	s := p.Open(t)
	storetest.Register(t, s)
	for range 20 {
		if err := s.SetHold(t.Context(), "shop", intent.Hold{Asset: "a", Owner: storetest.Tester}); err != nil {
			t.Fatal(err)
		}
		// As if the machine had gone now, and the disk had kept what was answered.
		crashed := place(filepath.Join(t.TempDir(), "lehr.db"))
		for _, more := range []string{"", "-wal", ".witness"} {
			copyOf(t, string(p)+more, string(crashed)+more)
		}
		again := crashed.Open(t)
		if got := suspicion(t, again); got != "" {
			t.Fatal(got)
		}
		again.Close()
	}
}

// TestBackup: a copy of a store that is written meanwhile is whole, and when it
// takes the store's place nothing is pushed until it is adopted.
func TestBackup(t *testing.T) {
	folder := t.TempDir()
	p, backup := place(filepath.Join(folder, "lehr.db")), filepath.Join(folder, "backup.db")
	s := p.Open(t)
	lease := storetest.Register(t, s)
	storetest.Publish(t, s, lease, []store.Entry{storetest.Text("a", "kept")})
	ended, writing := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-ended:
				writing <- nil
				return
			default:
			}
			if err := s.SetHold(t.Context(), "shop", intent.Hold{Asset: "a", Owner: storetest.Tester}); err != nil {
				writing <- err
				return
			}
		}
	}()
	verified, err := sqlite.Backup(t.Context(), string(p), backup)
	if err != nil || verified.Partitions != 1 || verified.Bodies != 1 || verified.AuditRecords < 2 {
		t.Fatalf("verified %+v, %v", verified, err)
	}
	if _, err := sqlite.Backup(t.Context(), string(p), backup); !fault.Is(err, fault.Conflict) {
		t.Errorf("a backup over another: %v", err)
	}
	if _, _, err := sqlite.Restore(t.Context(), backup, string(p), time.Now()); !fault.Is(err, fault.Conflict) {
		t.Errorf("a restore under a server: %v", err)
	}
	close(ended)
	if err := <-writing; err != nil {
		t.Fatal(err)
	}
	storetest.Publish(t, s, lease, []store.Entry{storetest.Text("a", "lost")})
	s.Close()

	aside, _, err := sqlite.Restore(t.Context(), backup, string(p), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	restored := time.Now().Truncate(time.Millisecond)
	s = p.Open(t)
	if got := suspicion(t, s); !regexp.MustCompile(`^the store is a backup of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; it lost the last \d+ commits of \d+$`).MatchString(got) {
		t.Errorf("suspicion %q", got)
	}
	h, _ := s.History(t.Context())
	if h.Unsure || h.Lost == 0 {
		t.Errorf("%+v: its witness says exactly what is lost", h)
	}
	if h.Stop.Since.Before(restored) {
		t.Errorf("it is stopped since %s, and was restored at %s", h.Stop.Since, restored)
	}
	s.Close()
	if old := place(aside).Open(t); suspicion(t, old) == "" { // Its witness is the other's.
		t.Error("the store that was kept aside is served as if it were in its place")
	}
	// Where nothing is known, the mark in it is enough.
	elsewhere := place(filepath.Join(t.TempDir(), "lehr.db"))
	if aside, _, err := sqlite.Restore(t.Context(), backup, string(elsewhere), time.Now()); err != nil || aside != "" {
		t.Fatal(aside, err)
	}
	restored = time.Now().Truncate(time.Millisecond)
	if h, err := elsewhere.Open(t).History(t.Context()); err != nil || h.Stop == nil || !strings.HasPrefix(h.Stop.Reason, "the store is a backup of ") || h.Stop.Since.Before(restored) {
		t.Errorf("a restored backup on another machine: %+v %v", h.Stop, err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*unfinished*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestDamagedBackupIsRefused, and the store stays as it was.
func TestDamagedBackupIsRefused(t *testing.T) {
	p := published(t)
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := sqlite.Backup(t.Context(), string(p), backup); err != nil {
		t.Fatal(err)
	}
	bytes, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(string(p))
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(bytes), `"verb":"publish"`)
	bytes[at+9] ^= 1
	if err := os.WriteFile(backup, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := sqlite.Restore(t.Context(), backup, string(p), time.Now()); !fault.Is(err, fault.Internal) {
		t.Fatalf("restored a damaged backup: %v", err)
	}
	if after, err := os.ReadFile(string(p)); err != nil || string(after) != string(before) {
		t.Errorf("the store was changed: %v", err)
	}
}
