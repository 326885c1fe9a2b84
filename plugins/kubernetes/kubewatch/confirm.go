package kubewatch

import (
	"context"
	"maps"
	"sync"
	"time"
)

const (
	// leastConfirmed assets are to be asked about at once before a list is made for them.
	leastConfirmed = 16
	// listedByRead objects cost about as much in a list as one that is read: a page of 500 as ten reads.
	listedByRead = 50
)

// confirmation has one list at a time confirm what a watch knows.
type confirmation struct {
	mutex sync.Mutex
	// triedAt is when the last list began.
	triedAt time.Time
}

// Confirm finds out whether what a watch knows of a kind and namespace is so as of a time that is later
// than its last list, for so many objects that are asked about at once: one list in place of a read
// for each. Where anything of the kind and namespace was written meanwhile, nothing is confirmed.
func (s *Set) Confirm(ctx context.Context, object Object, since time.Time, count int) {
	key := object.group()
	s.mutex.Lock()
	g := s.watches[key]
	s.mutex.Unlock()
	if g == nil || key.Name != "" || count < leastConfirmed {
		return
	}
	g.confirmation.mutex.Lock()
	defer g.confirmation.mutex.Unlock()
	if !g.watch.isOlder(since, count*listedByRead) || !g.confirmation.triedAt.Before(since) {
		return
	}
	g.confirmation.triedAt = time.Now()
	g.watch.confirm(ctx, g.confirmation.triedAt)
}

// isOlder reports whether a watch lives, knows its items as of an earlier time only, and has no more of
// them than that.
func (w *Watch) isOlder(since time.Time, most int) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.live && w.listedAt.Before(since) && len(w.items) <= most
}

// confirm lists, and notes that the items are as of now if the list has the very same.
func (w *Watch) confirm(ctx context.Context, now time.Time) {
	items, version, err := w.list(ctx)
	if err != nil {
		return
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.live && !isBehind(version, w.version) && w.listedAt.Before(now) && maps.Equal(items, w.items) {
		w.listedAt = now
		if w.toldAt.Before(now) {
			w.toldAt = now
		}
	}
}
