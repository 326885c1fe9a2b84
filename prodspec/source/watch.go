package source

import (
	"context"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"lehr.dev/loop"
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

// Watcher wakes its owner when a followed folder may have changed. It is used
// by one goroutine.
type Watcher struct {
	runtime  loop.Runtime
	notify   *fsnotify.Watcher
	followed map[string]bool
	// missing: a folder could not be watched, or no watch is to be had.
	missing bool
	wake    chan struct{}
	closed  sync.WaitGroup
	polled  time.Time

	lock sync.Mutex
	// changes since they were last taken.
	changes Changes
}

// NewWatcher returns a watcher that follows nothing yet. Where the system
// gives no watch, the owner polls.
func NewWatcher(runtime loop.Runtime) *Watcher {
	w := &Watcher{runtime: runtime, followed: map[string]bool{}, wake: make(chan struct{}, 1), changes: Changes{All: true}}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.missing = true
		return w
	}
	w.notify = notify
	w.closed.Add(1)
	runtime.Go("source watch", w.forward)
	return w
}

// forward turns events into one pending wake.
func (w *Watcher) forward() {
	defer w.closed.Done()
	for {
		select {
		case event, open := <-w.notify.Events:
			if !open {
				return
			}
			if event.Op == fsnotify.Chmod {
				// Reading a file may touch its times on some systems; a change
				// of permissions alone is found by the next poll.
				continue
			}
			w.note(event.Name)
		case _, open := <-w.notify.Errors:
			if !open {
				return
			}
			// Events were lost.
			w.note("")
		}
		w.Wake()
	}
}

// mostPaths beyond which all is looked at.
const mostPaths = 10_000

func (w *Watcher) note(path string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if path == "" || len(w.changes.Paths) >= mostPaths {
		w.changes = Changes{All: true}
	}
	if w.changes.All {
		return
	}
	if w.changes.Paths == nil {
		w.changes.Paths = map[string]bool{}
	}
	w.changes.Paths[path] = true
}

// Changes takes what may have changed since the last call. It is all when
// watching does not suffice, or has not been checked for a while.
func (w *Watcher) Changes() Changes {
	w.lock.Lock()
	defer w.lock.Unlock()
	taken, now := w.changes, w.runtime.Now()
	w.changes = Changes{}
	if taken.All || w.missing || now.Sub(w.polled) >= SafetyInterval {
		w.polled = now
		return Changes{All: true}
	}
	return taken
}

// Wake makes the next Wait return at once.
func (w *Watcher) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Follow sets the folders to watch, by absolute path. It reports whether any
// was not followed before: what happened in it until now was not seen, so the
// owner reads once more. A folder that is not there is polled.
func (w *Watcher) Follow(folders []string) (added bool) {
	wanted := make(map[string]bool, len(folders))
	if w.missing = w.notify == nil; w.missing {
		return false
	}
	// The system forgets a folder that was removed or renamed, though another
	// may have its name by now.
	watched := map[string]bool{}
	for _, folder := range w.notify.WatchList() {
		watched[folder] = true
	}
	for _, folder := range folders {
		wanted[folder] = true
		if w.followed[folder] && watched[folder] {
			continue
		}
		if err := w.notify.Add(folder); err != nil {
			w.missing = true
			delete(w.followed, folder)
			continue
		}
		w.followed[folder], added = true, true
		w.note("")
	}
	for folder := range w.followed {
		if !wanted[folder] {
			// An error says that the folder has gone, and its watch with it.
			_ = w.notify.Remove(folder)
			delete(w.followed, folder)
		}
	}
	return added
}

// Wait returns when something may have changed and has settled, or when it is
// time to poll, or when the context ends.
func (w *Watcher) Wait(ctx context.Context) error {
	interval := SafetyInterval
	if w.missing {
		interval = PollInterval
	}
	if err := w.runtime.Wait(ctx, interval, w.wake); err != nil {
		return err
	}
	return w.settle(ctx)
}

// settle waits until no change came for a moment.
func (w *Watcher) settle(ctx context.Context) error {
	started := w.runtime.Now()
	for {
		before := w.runtime.Now()
		if err := w.runtime.Wait(ctx, Settle, w.wake); err != nil {
			return err
		}
		now := w.runtime.Now()
		if now.Sub(before) >= Settle || now.Sub(started) >= settleAtMost {
			return nil
		}
	}
}

// Close ends the watch and waits for its goroutine.
func (w *Watcher) Close() error {
	if w.notify == nil {
		return nil
	}
	err := w.notify.Close()
	w.closed.Wait()
	return err
}
