package source

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// Hub follows folders for all watchers of a process: the system gives a user
// few instances of what tells of changes (128 on Linux), and many folders to
// each. It may be used by many goroutines.
type Hub struct {
	log    *slog.Logger
	notify *fsnotify.Watcher
	closed sync.WaitGroup
	// pending are names that were told of and not passed on yet; "": events were
	// lost. To be heard, no other lock is needed: the system's watches are locked
	// while they tell.
	hearing sync.Mutex
	pending []string
	hears   chan struct{}

	mutex sync.Mutex
	// folders by the path under which the system watches each, and those paths
	// by what the folder is: it has one watch, whatever leads to it.
	folders map[string]*watched
	paths   map[identity]string
	// warned that folders are polled because watches ran out.
	warned bool
}

// watched is a folder that the system watches.
type watched struct {
	identity identity
	// followers, and by which paths each follows the folder.
	followers map[*Watcher][]string
}

// identity of a folder, whatever it is called.
type identity struct{ device, inode uint64 }

// NewHub returns a hub that follows nothing yet. Where the system gives no
// watches, folders are polled, and the log is told once.
func NewHub(log *slog.Logger) *Hub {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h := &Hub{log: log, hears: make(chan struct{}, 1), folders: map[string]*watched{}, paths: map[identity]string{}}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		h.polls(err)
		return h
	}
	h.notify = notify
	h.closed.Go(h.hear)
	h.closed.Go(h.forward)
	return h
}

// polls says, once, that some folders are polled.
func (h *Hub) polls(cause error) {
	if h.warned {
		return
	}
	h.warned = true
	h.log.Warn("the system tells of changes in no more folders: those are looked at every "+PollInterval.String()+" instead",
		"reason", cause, "hint", "raise the sysctls fs.inotify.max_user_watches and fs.inotify.max_user_instances")
}

// mostHeard beyond which all is looked at.
const mostHeard = 100_000

// hear keeps what is told of until it is passed on.
func (h *Hub) hear() {
	defer close(h.hears)
	keep := func(name string) {
		h.hearing.Lock()
		defer h.hearing.Unlock()
		if h.pending = append(h.pending, name); len(h.pending) > mostHeard {
			h.pending = []string{""}
		}
		select {
		case h.hears <- struct{}{}:
		default:
		}
	}
	for {
		select {
		case event, open := <-h.notify.Events:
			if !open {
				return
			}
			if event.Op == fsnotify.Chmod {
				// Reading a file may touch its times on some systems; a change
				// of permissions alone is found by the next poll.
				continue
			}
			keep(event.Name)
		case _, open := <-h.notify.Errors:
			if !open {
				return
			}
			keep("") // Events were lost.
		}
	}
}

// forward tells followers of what was heard.
func (h *Hub) forward() {
	for range h.hears {
		h.hearing.Lock()
		pending := h.pending
		h.pending = nil
		h.hearing.Unlock()
		for _, name := range pending {
			if name == "" {
				h.tellAll()
				continue
			}
			h.tell(filepath.Dir(name), filepath.Base(name))
			h.tell(name, "")
		}
	}
}

// tell the followers of a folder of something in it, or of itself.
func (h *Hub) tell(folder, name string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	entry := h.folders[folder]
	if entry == nil {
		return
	}
	for follower, paths := range entry.followers {
		for _, path := range paths {
			follower.Note(filepath.Join(path, name))
		}
		follower.Wake()
	}
}

func (h *Hub) tellAll() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, folder := range h.folders {
		for follower := range folder.followers {
			follower.Note("")
			follower.Wake()
		}
	}
}

// listed are the paths that the system watches. It forgets a folder that was
// removed or renamed, though another may have its name by now.
func (h *Hub) listed() map[string]bool {
	listed := map[string]bool{}
	if h.notify != nil {
		for _, path := range h.notify.WatchList() {
			listed[path] = true
		}
	}
	return listed
}

// follow has a watcher told of a folder. It reports whether it was not before;
// an error, that the folder cannot be watched.
func (h *Hub) follow(w *Watcher, folder string, listed map[string]bool) (added bool, err error) {
	id, err := identify(folder)
	if err != nil {
		h.unfollow(w, folder)
		return false, err
	}
	path := h.paths[id]
	if path != "" && !listed[path] {
		h.drop(path)
		path = ""
	}
	if path == "" {
		if err := h.add(folder, id); err != nil {
			h.unfollow(w, folder)
			return false, err
		}
		listed[folder] = true
		path = folder
	}
	if entry := h.folders[path]; !slices.Contains(entry.followers[w], folder) {
		h.unfollow(w, folder) // Another folder had the name.
		entry.followers[w] = append(entry.followers[w], folder)
		w.followed[folder] = path
		return true, nil
	}
	return false, nil
}

func identify(folder string) (identity, error) {
	info, err := os.Stat(folder)
	if err != nil {
		return identity{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return identity{}, &os.PathError{Op: "watch", Path: folder, Err: syscall.ENOTDIR}
	}
	return identity{uint64(stat.Dev), stat.Ino}, nil
}

// add has the system watch a folder.
func (h *Hub) add(folder string, id identity) error {
	if h.notify == nil {
		return syscall.EMFILE
	}
	if h.folders[folder] != nil { // It was another one.
		h.drop(folder)
	}
	if err := h.notify.Add(folder); err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) {
			h.polls(err)
		}
		return err
	}
	// What it was until now is of no interest: it is read once more.
	now, err := identify(folder)
	if err != nil || now != id {
		_ = h.notify.Remove(folder)
		return &os.PathError{Op: "watch", Path: folder, Err: syscall.ENOENT}
	}
	h.folders[folder], h.paths[id] = &watched{identity: id, followers: map[*Watcher][]string{}}, folder
	return nil
}

// drop forgets a folder. Who followed it looks again.
func (h *Hub) drop(path string) {
	entry := h.folders[path]
	delete(h.folders, path)
	if h.paths[entry.identity] == path {
		delete(h.paths, entry.identity)
	}
	// An error says that the folder has gone, and its watch with it.
	_ = h.notify.Remove(path)
	for follower := range entry.followers {
		follower.keep("")
		follower.Wake()
	}
}

// unfollow has a watcher told no more of what it called so.
func (h *Hub) unfollow(w *Watcher, folder string) {
	path := w.followed[folder]
	delete(w.followed, folder)
	entry := h.folders[path]
	if entry == nil || !slices.Contains(entry.followers[w], folder) {
		return // That folder has gone, and another has its path.
	}
	entry.followers[w] = slices.DeleteFunc(entry.followers[w], func(other string) bool { return other == folder })
	if len(entry.followers[w]) == 0 {
		delete(entry.followers, w)
	}
	if len(entry.followers) == 0 {
		h.drop(path)
	}
}

// Close ends all watches, and waits until nobody is told any more.
func (h *Hub) Close() error {
	if h.notify == nil {
		return nil
	}
	err := h.notify.Close()
	h.closed.Wait()
	return err
}
