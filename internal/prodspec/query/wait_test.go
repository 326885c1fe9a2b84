package query_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/query"
	"lehr.dev/internal/store"
)

// patient is a runtime that counts who waits in it without a time.
type patient struct {
	loop.Runtime
	waiting atomic.Int64
}

func (p *patient) Wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	if d < 0 {
		p.waiting.Add(1)
		defer p.waiting.Add(-1)
	}
	return p.Runtime.Wait(ctx, d, wake)
}

// held is a store of which the first look at changes takes until it is let go.
type held struct {
	*world
	began, release chan struct{}
}

func (h *held) Changes(ctx context.Context, from, to intent.IncarnationID, after intent.AssetID, limit int) ([]store.Change, error) {
	if h.changes.Add(1) == 1 {
		close(h.began)
		<-h.release
	}
	return h.All.Changes(ctx, from, to, after, limit)
}

// TestWaitsInItsRuntime: all that a watcher waits for is waited for in the
// runtime, or a simulator could not tell that it waits.
func TestWaitsInItsRuntime(t *testing.T) { synctest.Test(t, waitsInItsRuntime) }

func waitsInItsRuntime(t *testing.T) {
	w := newWorld(t)
	first := w.publish(nil, job(t, "job/a", 1))
	second := w.publish(nil, job(t, "job/a", 2))
	runtime := &patient{Runtime: loop.Real()}
	from := &held{world: w, began: make(chan struct{}), release: make(chan struct{})}
	reader := query.New(from, builtin{}, runtime)
	ctx, cancel := context.WithCancel(t.Context())
	sent, ended := make(chan query.Event, 8), make(chan error, 2)
	watch := func() {
		ended <- reader.Watch(ctx, query.Watching{Partition: "shop", After: first}, func(e query.Event) error {
			sent <- e
			return nil
		})
	}
	go watch()
	<-from.began
	go watch()
	synctest.Wait()
	if waiting := runtime.waiting.Load(); waiting != 1 {
		t.Errorf("%d wait for what the first one reads, want 1", waiting)
	}
	close(from.release)
	for range 2 {
		if e := <-sent; e.Incarnation != second || len(e.Members) != 1 {
			t.Errorf("sent %+v", e)
		}
	}
	synctest.Wait()
	if waiting := runtime.waiting.Load(); waiting != 2 {
		t.Errorf("%d wait for the next head, want 2", waiting)
	}
	cancel()
	for range 2 {
		if err := <-ended; err != context.Canceled {
			t.Errorf("ended with %v", err)
		}
	}
}
