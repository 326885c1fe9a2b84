package sources

import (
	"path"
	"slices"

	"lehr.dev/internal/prodspec/source"
)

// watch is to a tree what source.Watcher is to a disk.
type watch struct {
	*source.Notices
	tree *Tree
	// followed belongs to the tree's lock.
	followed map[string]bool
}

// Follow sets the folders to watch. Those that are not there are polled, as is
// everything while reading fails.
func (w *watch) Follow(folders []string) (added bool) {
	w.tree.lock.Lock()
	defer w.tree.lock.Unlock()
	missing := false
	followed := map[string]bool{}
	for _, folder := range folders {
		folder = path.Clean(folder)
		if w.tree.failed(folder) != nil || len(w.tree.opened().below(folder)) == 0 {
			missing = true
			continue
		}
		followed[folder] = true
		if !w.followed[folder] {
			added = true
			w.Note("")
		}
	}
	w.followed = followed
	w.Poll(missing)
	return added
}

// tell notes what changed in the folders that are followed: files, and folders
// below of which something changed.
func (w *watch) tell(changed []string) {
	woken := false
	for _, name := range changed {
		for !w.followed[path.Dir(name)] && path.Dir(name) != name {
			name = path.Dir(name)
		}
		if w.followed[path.Dir(name)] {
			w.Note(name)
			woken = true
		}
	}
	if woken {
		w.Wake()
	}
}

// Close ends the watch.
func (w *watch) Close() error {
	w.tree.lock.Lock()
	defer w.tree.lock.Unlock()
	w.tree.watches = slices.DeleteFunc(w.tree.watches, func(other *watch) bool { return other == w })
	return nil
}
