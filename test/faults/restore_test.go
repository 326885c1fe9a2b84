package faults

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/test/pgserver"
)

// epochs are the lowest and the highest of the pushes in the journal, and their
// ids.
func (w *world) epochs() (low, high uint64, ids map[string]bool) {
	w.Helper()
	told := w.command("get", "pushes", "-o", "json")
	var list []struct {
		Push  string
		Epoch json.Number
	}
	if err := json.Unmarshal([]byte(told), &list); err != nil {
		w.Fatal(err, told)
	}
	ids = map[string]bool{}
	for _, push := range list {
		epoch, err := push.Epoch.Int64()
		if err != nil {
			w.Fatal(err, told)
		}
		if low == 0 || uint64(epoch) < low {
			low = uint64(epoch)
		}
		high = max(high, uint64(epoch))
		ids[push.Push] = true
	}
	return low, high, ids
}

// command runs the program as a person who expects it to work.
func (w *world) command(arguments ...string) string {
	w.Helper()
	told, err := w.lehr(arguments...)
	if err != nil {
		w.Fatal(err)
	}
	return told
}

// refuses pushes until the store is adopted, and tells why, wherever one looks.
func (w *world) waitsForAdoption(wanted values, cause string) {
	w.Helper()
	w.untouched("why says that the store lost something", wanted, func() string {
		return unmatched(w.why("resource/a"), cause, "lehr store adopt")
	})
	if told := unmatched(w.command("get", "stops"), cause, "lehr store adopt"); told != "" {
		w.Error(told)
	}
	if _, err := w.lehr("resume", "--reason", "a try"); err == nil || !strings.Contains(err.Error(), "lehr store adopt") {
		w.Errorf("lehr resume on a store that lost something: %v", err)
	}
}

// A backup is made while the server pushes, and restored after more was done:
// nothing is pushed until a person adopts it, and no push id or epoch that the
// plugin saw comes again.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "restored"})
	w.want(values{"a": 1})
	w.serve()
	w.converges(values{"a": 1})
	backup := filepath.Join(t.TempDir(), "backup.db")
	w.command("backup", backup)
	w.want(values{"a": 2, "b": 1})
	w.converges(values{"a": 2, "b": 1})
	_, shown, ids := w.epochs()
	if _, err := w.lehr("restore", backup); err == nil || !strings.Contains(err.Error(), "being served") {
		t.Errorf("a restore under the server: %v", err)
	}
	w.kill()
	if told := unmatched(w.command("restore", backup), `kept as .*\.before-`, "lehr store adopt"); told != "" {
		t.Error(told)
	}
	w.want(values{"a": 3, "b": 1})
	w.serve()
	w.waitsForAdoption(values{"a": 2, "b": 1}, `lost the last \d+ commits`)
	if told := unmatched(w.logged(), "nothing is pushed until the store is adopted"); told != "" {
		t.Error(told)
	}
	if told := unmatched(w.command("store", "adopt", "--reason", "the disk is new"), "goes on at restored@", "known to be lost"); told != "" {
		t.Error(told)
	}
	w.converges(values{"a": 3, "b": 1})
	_, high, after := w.epochs()
	if high <= shown {
		t.Errorf("pushed under epoch %d; up to %d were shown before", high, shown)
	}
	fresh := 0
	for id := range after {
		if !ids[id] {
			fresh++
		}
	}
	if fresh == 0 {
		t.Errorf("the push after the adoption has an id from before: %v", after)
	}
	if told := unmatched(w.command("get", "audit", "--global"), "suspect", "adopt"); told != "" {
		t.Error(told)
	}
	w.command("store", "verify")
}

// A copy of the file takes the place of a newer one while the server is down,
// as a snapshot of its disk does.
func TestSnapshotPutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, partition{name: "snapshot"})
	w.want(values{"a": 1})
	w.serve()
	w.converges(values{"a": 1})
	w.end()
	kept := map[string][]byte{}
	for _, file := range []string{w.store, w.store + ".witness"} {
		bytes, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kept[file] = bytes
	}
	w.want(values{"a": 2})
	w.serve()
	w.converges(values{"a": 2})
	w.end()
	putBack := func(file string) {
		if err := os.WriteFile(file, kept[file], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	putBack(w.store)
	w.want(values{"a": 3})
	w.serve()
	w.waitsForAdoption(values{"a": 2}, `lost the last \d+ commits`)
	w.command("store", "adopt", "--reason", "the snapshot is what there is")
	w.converges(values{"a": 3})
	w.end()
	// With its witness put back too, nothing on this machine knows more: it goes
	// on, as docs/operate/operating.md says.
	putBack(w.store)
	putBack(w.store + ".witness")
	w.want(values{"a": 4})
	w.serve()
	w.converges(values{"a": 4})
}

// The database fails over to a standby that lacks commits, under two replicas:
// neither pushes until the store is adopted.
func TestFailoverThatLosesCommits(t *testing.T) {
	t.Parallel()
	primary := pgserver.New(t)
	primary.Start()
	address := primary.Database()
	standby := primary.Standby()
	standby.Start()
	either := primary.Either(address, standby)
	first := newWorld(t, partition{name: "failover"})
	second := first.replica("second")
	first.want(values{"a": 1})
	for _, w := range []*world{first, second} {
		w.serve("--database", either)
	}
	first.converges(values{"a": 1})
	primary.CatchUp(standby)
	standby.Sever()
	first.want(values{"a": 2})
	first.converges(values{"a": 2})
	primary.Crash()
	first.want(values{"a": 3})
	standby.Promote()
	for _, w := range []*world{first, second} {
		w.waitsForAdoption(values{"a": 2}, `lost the last \d+ commits|not everybody who wrote`)
	}
	first.adopts(values{"a": 3}, 2, "--database", either, "--reason", "the primary's disk is gone")
}

// adopts adopts a store that some replicas write to until production is as wanted. A replica that had not compared
// before may miss commits of its own afterwards, and stops the store once more: a person is to know of these, too.
func (w *world) adopts(wanted values, replicas int, flags ...string) {
	w.Helper()
	for range replicas {
		w.command(append([]string{"store", "adopt"}, flags...)...)
		w.await("production is as wanted, or a replica misses commits of its own", func() string {
			if w.holds(wanted)() == "" {
				return ""
			}
			return unmatched(w.command("get", "stops"), `lost the last \d+ commits`, "lehr store adopt")
		})
		if w.holds(wanted)() == "" {
			return
		}
	}
	w.converges(wanted)
}
