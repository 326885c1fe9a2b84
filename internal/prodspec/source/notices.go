package source

import (
	"context"
	"sync"
	"time"

	"lehr.dev/internal/ground/loop"
)

// PollInterval is how often folders are looked at where watching is not to be
// had, and SafetyInterval where it is: a watch can be lost without a word.
const (
	PollInterval   = 2 * time.Second
	SafetyInterval = 15 * time.Second
	// Settle is how long after a change a reader waits for the next one, so
	// that files saved together are read together.
	Settle = 40 * time.Millisecond
	// settleAtMost bounds the wait under a steady stream of changes.
	settleAtMost = 200 * time.Millisecond
)

// Notices are what a watch has to tell its owner. Note and Wake may be called
// by anyone, the rest by the owner.
type Notices struct {
	runtime loop.Runtime
	wake    chan struct{}
	polled  time.Time
	// missing: what is told does not suffice. safety is how often all is
	// looked at where it does.
	missing bool
	safety  time.Duration

	lock sync.Mutex
	// changes since they were last taken.
	changes Changes
	// listener of each path at once; nil: nobody is.
	listener func(path string)
}

// NewNotices returns notices of which the first says that all may have changed.
func NewNotices(runtime loop.Runtime) *Notices {
	return &Notices{runtime: runtime, wake: make(chan struct{}, 1), changes: Changes{All: true}, safety: SafetyInterval}
}

// mostPaths beyond which all is looked at.
const mostPaths = 10_000

// Tell sets who is told at once of each path that is noted, by whoever notes
// it; it must not block.
func (n *Notices) Tell(listener func(path string)) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.listener = listener
}

// Note keeps a path that may have changed; empty: any may have.
func (n *Notices) Note(path string) {
	if listener := n.keep(path); listener != nil {
		listener(path)
	}
}

// keep a path, and tell nobody; it returns who is to be told.
func (n *Notices) keep(path string) (listener func(path string)) {
	n.lock.Lock()
	defer n.lock.Unlock()
	listener = n.listener
	if path == "" || len(n.changes.Paths) >= mostPaths {
		n.changes = Changes{All: true}
	}
	if n.changes.All {
		return listener
	}
	if n.changes.Paths == nil {
		n.changes.Paths = map[string]bool{}
	}
	n.changes.Paths[path] = true
	return listener
}

// Changes takes what may have changed since the last call. It is all when
// watching does not suffice, or has not been checked for a while.
func (n *Notices) Changes() Changes {
	n.lock.Lock()
	defer n.lock.Unlock()
	changes, now := n.changes, n.runtime.Now()
	n.changes = Changes{}
	// A clock that was set back says nothing of how long ago that was.
	if age := now.Sub(n.polled); changes.All || n.missing || age < 0 || age >= n.safety {
		n.polled = now
		return Changes{All: true}
	}
	return changes
}

// Wake makes the next Wait return at once.
func (n *Notices) Wake() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Poll sets whether the owner is to look by itself, often.
func (n *Notices) Poll(often bool) { n.missing = often }

// Rely sets how often all is looked at though nothing was told; at first that
// is SafetyInterval.
func (n *Notices) Rely(interval time.Duration) { n.safety = interval }

// Wait returns when something may have changed and has settled, or when it is
// time to poll, or when the context ends.
func (n *Notices) Wait(ctx context.Context) error {
	interval := n.safety
	if n.missing {
		interval = PollInterval
	}
	if err := n.runtime.Wait(ctx, interval, n.wake); err != nil {
		return err
	}
	return n.settle(ctx)
}

// settle waits until no change came for a moment.
func (n *Notices) settle(ctx context.Context) error {
	started := n.runtime.Now()
	for {
		waitStart := n.runtime.Now()
		if err := n.runtime.Wait(ctx, Settle, n.wake); err != nil {
			return err
		}
		now := n.runtime.Now()
		if now.Sub(waitStart) >= Settle || now.Sub(started) >= settleAtMost {
			return nil
		}
	}
}
