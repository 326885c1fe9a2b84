package source

import (
	"sync"

	"github.com/fsnotify/fsnotify"

	"lehr.dev/loop"
)

// Watcher wakes its owner when a followed folder may have changed. It is used
// by one goroutine.
type Watcher struct {
	*Notices
	notify   *fsnotify.Watcher
	followed map[string]bool
	closed   sync.WaitGroup
}

// NewWatcher returns a watcher that follows nothing yet. Where the system
// gives no watch, the owner polls.
func NewWatcher(runtime loop.Runtime) *Watcher {
	w := &Watcher{Notices: NewNotices(runtime), followed: map[string]bool{}}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.Poll(true)
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
			w.Note(event.Name)
		case _, open := <-w.notify.Errors:
			if !open {
				return
			}
			// Events were lost.
			w.Note("")
		}
		w.Wake()
	}
}

// Follow sets the folders to watch, by absolute path. It reports whether any
// was not followed before: what happened in it until now was not seen, so the
// owner reads once more. A folder that is not there is polled.
func (w *Watcher) Follow(folders []string) (added bool) {
	if w.notify == nil {
		return false
	}
	missing := false
	// The system forgets a folder that was removed or renamed, though another
	// may have its name by now.
	watched := map[string]bool{}
	for _, folder := range w.notify.WatchList() {
		watched[folder] = true
	}
	wanted := make(map[string]bool, len(folders))
	for _, folder := range folders {
		wanted[folder] = true
		if w.followed[folder] && watched[folder] {
			continue
		}
		if err := w.notify.Add(folder); err != nil {
			missing = true
			delete(w.followed, folder)
			continue
		}
		w.followed[folder], added = true, true
		w.Note("")
	}
	for folder := range w.followed {
		if !wanted[folder] {
			// An error says that the folder has gone, and its watch with it.
			_ = w.notify.Remove(folder)
			delete(w.followed, folder)
		}
	}
	w.Poll(missing)
	return added
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
