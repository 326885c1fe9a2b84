package sqlite_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/internal/store/storetest"
)

// crashing is a runtime whose goroutines end at a named point, as a crash of
// the process would end them.
type crashing struct {
	loop.Runtime
	point string
	armed atomic.Bool
	dead  chan struct{}
}

func (c *crashing) Point(name string) {
	if name == c.point && c.armed.CompareAndSwap(true, false) {
		close(c.dead)
		runtime.Goexit()
	}
}

func (c *crashing) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	ended, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.dead:
			cancel()
		case <-ended.Done():
		}
	}()
	return c.Runtime.Wait(ended, d, wake)
}

// TestCrashedStoreOverOneDatabase: a Store dies and another takes over the
// database, which outlives both. What was committed is there, what was not
// has left nothing behind.
func TestCrashedStoreOverOneDatabase(t *testing.T) {
	for _, c := range []struct {
		point string
		there bool
	}{{"store: before a commit", false}, {"store: after a commit", true}} {
		t.Run(c.point, func(t *testing.T) {
			db, err := sqlite.Memory()
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			crash := &crashing{Runtime: loop.Real(), point: c.point, dead: make(chan struct{})}
			first, err := sqlite.Open(t.Context(), sqlite.Options{DB: db, Runtime: crash})
			if err != nil {
				t.Fatal(err)
			}
			old := storetest.Register(t, first)
			crash.armed.Store(true)
			write := make(chan error, 1)
			go func() {
				write <- first.SetHold(context.Background(), "shop", intent.Hold{Asset: "a", Owner: storetest.Tester})
			}()
			if err := <-write; err == nil {
				t.Fatal("a write was acknowledged by a crashed store")
			}
			second, err := sqlite.Open(t.Context(), sqlite.Options{DB: db})
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			holds, err := second.Holds(t.Context(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			if there := len(holds) == 1; there != c.there {
				t.Errorf("after a crash %s the hold is there: %t", c.point, there)
			}
			if lease := storetest.Register(t, second); lease.Epoch <= old.Epoch {
				t.Errorf("epoch %d follows %d", lease.Epoch, old.Epoch)
			}
			if err := second.VerifyAudit(t.Context(), "shop"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWithdrawnWrite: a caller whose context ends before its turn has written
// nothing, and is told so.
func TestWithdrawnWrite(t *testing.T) {
	s := openFile(t, t.TempDir()+"/lehr.db")
	storetest.Register(t, s)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.SetHold(ended, "shop", intent.Hold{Asset: "a", Owner: storetest.Tester}); err == nil {
		t.Fatal("a write with an ended context was acknowledged")
	}
	holds, err := s.Holds(t.Context(), "shop")
	if err != nil || len(holds) != 0 {
		t.Errorf("holds are %v, %v", holds, err)
	}
}
