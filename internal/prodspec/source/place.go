package source

import (
	"context"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
)

// Place is where sources are kept: the disk, or a simulator's memory. What
// Directory and Watcher promise holds for its folders and watches.
type Place interface {
	// Open names files in a folder; it does no I/O.
	Open(directory string, patterns []string, limits Limits) (Folder, error)
	// Watch returns a watch that follows nothing yet.
	Watch(runtime loop.Runtime) Watch
}

// Folder is a folder with patterns. It is used by one goroutine.
type Folder interface {
	// Path is the folder.
	Path() string
	// Read takes a snapshot. It is the last one when nothing changed.
	Read(ctx context.Context, now time.Time, changes Changes) (*Snapshot, error)
	// Content reads a file as a snapshot has it, or is Unavailable.
	Content(file File) ([]byte, error)
}

// Lasting is a folder that keeps what was read last while it cannot be read.
type Lasting interface {
	Folder
	// Failing says since when and why; zero: it was read.
	Failing() intent.Failing
	// Hint wakes whoever looks at the source, if anybody does.
	Hint()
	// Close ends what looks at the source.
	Close()
}

// Confined is a place of which a part can be had.
type Confined interface {
	// Within is the place without what does not lie below some folders, wherever
	// links lead.
	Within(folders []string) Place
}

// Watch wakes its owner when a followed folder may have changed. It is used by
// one goroutine; only Wake may be called by others.
type Watch interface {
	// Changes takes what may have changed since the last call.
	Changes() Changes
	// Tell sets who hears at once of each path that may have changed, empty for
	// any, from another goroutine.
	Tell(func(path string))
	// Wake makes the next Wait return at once.
	Wake()
	// Follow sets the folders to watch. It reports whether any is new: then
	// the owner reads once more.
	Follow(folders []string) (added bool)
	// Wait returns when something may have changed, or it is time to look.
	Wait(ctx context.Context) error
	// Close ends the watch and what it runs.
	Close() error
}

// Disk is the place of real folders.
type Disk struct {
	// Hub of all watches; nil: each has one of its own.
	Hub *Hub
	// allowedFolders are the folders below one of which all must lie; nil: anywhere.
	allowedFolders []string
}

// Within implements Confined.
func (d Disk) Within(folders []string) Place {
	d.allowedFolders = folders
	return d
}

// Open implements Place.
func (place Disk) Open(directory string, patterns []string, limits Limits) (Folder, error) {
	d, err := Open(directory, patterns, limits)
	if err != nil {
		return nil, err
	}
	d.Within(place.allowedFolders)
	return d, nil
}

// Watch implements Place.
func (d Disk) Watch(runtime loop.Runtime) Watch {
	if d.Hub == nil {
		return NewWatcher(runtime)
	}
	return d.Hub.Watcher(runtime)
}
