package source

import (
	"lehr.dev/internal/ground/loop"
)

// Watcher wakes its owner when a followed folder may have changed. It is used
// by one goroutine.
type Watcher struct {
	*Notices
	hub *Hub
	// own: nobody else uses the hub.
	own bool
	// followed has the path by which the hub knows each folder. It belongs to
	// the hub's mutex.
	followed map[string]string
}

// NewWatcher returns a watcher with a hub of its own.
func NewWatcher(runtime loop.Runtime) *Watcher {
	w := NewHub(nil).Watcher(runtime)
	w.own = true
	return w
}

// Watcher returns one that follows nothing yet. Where the system gives no
// watch, the owner polls.
func (h *Hub) Watcher(runtime loop.Runtime) *Watcher {
	return &Watcher{Notices: NewNotices(runtime), hub: h, followed: map[string]string{}}
}

// Follow sets the folders to watch, by absolute path. It reports whether any
// was not followed before: what happened in it until now was not seen, so the
// owner reads once more. A folder that is not there is polled, and so is one
// for which the system has no watch.
func (w *Watcher) Follow(folders []string) (added bool) {
	w.hub.mutex.Lock()
	defer w.hub.mutex.Unlock()
	missing, listed := false, w.hub.listed()
	wanted := make(map[string]bool, len(folders))
	for _, folder := range folders {
		if wanted[folder] {
			continue
		}
		wanted[folder] = true
		fresh, err := w.hub.follow(w, folder, listed)
		missing = missing || err != nil
		if fresh {
			added = true
			w.keep("")
		}
	}
	w.leave(func(folder string) bool { return !wanted[folder] })
	w.Poll(missing)
	return added
}

// leave folders.
func (w *Watcher) leave(shouldLeave func(folder string) bool) {
	for folder := range w.followed {
		if shouldLeave(folder) {
			w.hub.unfollow(w, folder)
		}
	}
}

// Close ends the watch.
func (w *Watcher) Close() error {
	w.hub.mutex.Lock()
	w.leave(func(string) bool { return true })
	w.hub.mutex.Unlock()
	if w.own {
		return w.hub.Close()
	}
	return nil
}
