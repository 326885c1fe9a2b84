package sqlite_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
)

// ahead is a runtime whose wall clock is ahead for a while.
type ahead struct {
	loop.Runtime
	by atomic.Int64
}

func (a *ahead) Now() time.Time { return time.Now().Round(0).Add(time.Duration(a.by.Load())) }

// TestClockSetBackHidesNoOtherProcess: what another process commits is noticed
// after a clock that was a year ahead was set right, too.
func TestClockSetBackHidesNoOtherProcess(t *testing.T) {
	clock := &ahead{Runtime: loop.Real()}
	clock.by.Store(int64(365 * 24 * time.Hour))
	path := filepath.Join(t.TempDir(), "lehr.db")
	server, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Runtime: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	storetest.Register(t, server)
	beside, err := sqlite.OpenUnlocked(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	for i, reason := range []string{"while it is ahead", "after it was set right"} {
		of := []intent.PartitionID{"shop", ""}[i]
		changed := server.Changed("")
		if err := beside.SetStop(t.Context(), intent.Stop{Partition: of, Owner: storetest.Tester, Reason: reason}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Fatalf("a stop by another process was not noticed: %s", reason)
		}
		clock.by.Store(0)
	}
}
