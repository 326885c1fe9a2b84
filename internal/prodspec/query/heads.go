package query

import (
	"context"
	"sync"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// heads tells watchers of new heads. However many there are, one goroutine for
// each partition that is watched asks the store.
type heads struct {
	store     Store
	runtime   loop.Runtime
	lock      sync.Mutex
	followers map[intent.PartitionID]*follower
}

// follower knows the head of one partition, as long as somebody watches.
type follower struct {
	watchers int
	stop     context.CancelFunc

	head intent.IncarnationID
	err  error
	// moved is closed when head or err is another.
	moved chan struct{}
}

// lookAgain is how long a follower waits when the store announces nothing.
const lookAgain = time.Minute

// follow begins to watch a partition; leave ends it.
func (h *heads) follow(partition intent.PartitionID) (f *follower, leave func()) {
	h.lock.Lock()
	defer h.lock.Unlock()
	f = h.followers[partition]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background())
		f = &follower{stop: stop, moved: make(chan struct{})}
		h.followers[partition] = f
		h.runtime.Go("watch "+string(partition), func() { h.run(ctx, partition, f) })
	}
	f.watchers++
	return f, func() {
		h.lock.Lock()
		defer h.lock.Unlock()
		if f.watchers--; f.watchers == 0 {
			f.stop()
			delete(h.followers, partition)
		}
	}
}

// run reads the head whenever something was committed, until nobody watches.
func (h *heads) run(ctx context.Context, partition intent.PartitionID, f *follower) {
	for {
		changed := h.store.Changed(partition)
		current, err := h.store.Partition(ctx, partition)
		if ctx.Err() != nil {
			return
		}
		h.lock.Lock()
		if current.Head != f.head || (err == nil) != (f.err == nil) {
			f.err = err
			if err == nil {
				f.head = current.Head
			}
			close(f.moved)
			f.moved = make(chan struct{})
		}
		h.lock.Unlock()
		if h.runtime.Wait(ctx, lookAgain, changed) != nil {
			return
		}
	}
}

// next waits until the head is another than the one that was seen.
func (h *heads) next(ctx context.Context, f *follower, lastHead intent.IncarnationID) (intent.IncarnationID, error) {
	for {
		h.lock.Lock()
		head, err, moved := f.head, f.err, f.moved
		h.lock.Unlock()
		if err != nil {
			return intent.IncarnationID{}, err
		}
		if !head.IsZero() && head != lastHead {
			return head, nil
		}
		if err := h.runtime.Wait(ctx, -1, moved); err != nil {
			return intent.IncarnationID{}, err
		}
	}
}
