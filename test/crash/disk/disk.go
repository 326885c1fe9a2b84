// Package disk stands between SQLite and a folder: it records what a store
// does to its files, makes single operations fail or the process die at one,
// and builds what a disk may hold after the power went at any moment. Only
// tests use it.
package disk

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	lib "modernc.org/sqlite/lib"
)

// Kind of an event.
type Kind int

// What is done to files, and what the test notes beside it.
const (
	Create Kind = iota
	Write
	Truncate
	Sync
	// SyncFolder makes the names durable: what was created and deleted.
	SyncFolder
	Delete
	// Rewrite of a file as it stands, with a sync of it and of the folder,
	// that did not go through SQLite.
	Rewrite
	// Note is the test's own.
	Note
)

func (k Kind) String() string {
	return [...]string{"create", "write", "truncate", "sync", "sync of the folder", "delete", "rewrite", "note"}[k]
}

// Event is one thing done to a file, or noted.
type Event struct {
	Kind Kind
	File string
	// Offset of a write in bytes, or the size after a truncation.
	Offset int64
	Data   []byte
	// Failed: a sync that was answered with an error. What it was to make
	// durable may never be, though a later sync succeeds.
	Failed bool
	// Text of a note.
	Text string
	// Beside: it is of a file that is followed, and none of SQLite's operations.
	Beside bool
}

// Operation reports whether the disk counted the event as one.
func (e Event) Operation() bool { return e.Kind != Note && e.Kind != Rewrite && !e.Beside }

func (e Event) String() string {
	return fmt.Sprintf("%s of %s (%d bytes at %d)", e.Kind, e.File, len(e.Data), e.Offset)
}

// Fault is what becomes of an operation.
type Fault int

// The faults of a disk.
const (
	// None: it is carried out.
	None Fault = iota
	// Kill ends the process at once, before the operation.
	Kill
	// Broken is an error of input and output; nothing is done.
	Broken
	// Full: there is no space for a write or a new file.
	Full
	// Short: half is written before there is no space.
	Short
	// Skip answers that all is well and does nothing: a deliberate defect.
	Skip
)

// Disk is a watched folder.
type Disk struct {
	folder string
	spare  bool

	mutex      sync.Mutex
	files      map[string]bool
	events     []Event
	operations int
	// followed is a file past SQLite, and held what it held last.
	followed string
	held     []byte
	fault    func(operation int, event Event) Fault
}

// Watch records what SQLite does to the files of the folder, from the next
// connection on, until Release.
func Watch(folder string) (*Disk, error) { return watch(folder, false) }

// Spare does the same, and leaves out the syncs themselves, which cost time
// and show nothing unless the power goes.
func Spare(folder string) (*Disk, error) { return watch(folder, true) }

func watch(folder string, spare bool) (*Disk, error) {
	if err := install(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	d := &Disk{folder: filepath.Clean(folder), spare: spare, files: map[string]bool{}}
	for _, e := range entries {
		d.files[e.Name()] = true
	}
	vfs.mutex.Lock()
	defer vfs.mutex.Unlock()
	if vfs.disks[d.folder] != nil {
		return nil, fmt.Errorf("%s is watched already", d.folder)
	}
	vfs.disks[d.folder] = d
	return d, nil
}

// Release ends the watch. Connections made under it stay watched.
func (d *Disk) Release() {
	vfs.mutex.Lock()
	defer vfs.mutex.Unlock()
	delete(vfs.disks, d.folder)
}

// Inject asks for a fault before each operation, which are counted from 1 on;
// nil: none. It is called under the disk's lock.
func (d *Disk) Inject(fault func(operation int, event Event) Fault) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.fault = fault
}

// Note puts a line of the test's own among the events.
func (d *Disk) Note(format string, arguments ...any) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.events = append(d.events, Event{Kind: Note, Text: fmt.Sprintf(format, arguments...)})
}

// Rewritten records that the program wrote a file again and synced it.
func (d *Disk) Rewritten(file string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.files[file] {
		d.events = append(d.events, Event{Kind: Rewrite, File: file})
	}
}

// Follow records, with each operation, what a file holds that the program
// writes past SQLite, and syncs when it is first written.
func (d *Disk) Follow(file string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.followed = file
}

func (d *Disk) follow() {
	content, err := os.ReadFile(filepath.Join(d.folder, d.followed))
	if d.followed == "" || err != nil || bytes.Equal(content, d.held) {
		return
	}
	if !d.files[d.followed] {
		d.files[d.followed] = true
		d.events = append(d.events, Event{Kind: Create, File: d.followed, Beside: true}, Event{Kind: SyncFolder, Beside: true})
	}
	d.events = append(d.events, Event{Kind: Write, File: d.followed, Data: content, Beside: true})
	if len(d.held) == 0 {
		d.events = append(d.events, Event{Kind: Sync, File: d.followed, Beside: true})
	}
	d.held = content
}

// Events are those so far, in their order.
func (d *Disk) Events() []Event {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return append([]Event(nil), d.events...)
}

// Operations is how many there were so far, those included that failed.
func (d *Disk) Operations() int {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.operations
}

// creates reports whether opening the file is what makes it.
func (d *Disk) creates(name string) bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return !d.files[name]
}

func (d *Disk) there(name string) bool { return !d.creates(name) }

// change carries out an operation, unless a fault is to come instead, and
// records what was done. broken is SQLite's code for an error of it.
func (d *Disk) change(e Event, broken int32, do func(short bool) int32) int32 {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.follow()
	d.operations++
	fault := None
	if d.fault != nil {
		fault = d.fault(d.operations, e)
	}
	short := false
	switch {
	case fault == Kill:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // It arrives before anything else happens.
	case fault == Skip:
		return lib.SQLITE_OK
	case fault == Broken:
		if e.Kind == Sync {
			e.Failed = true
			d.events = append(d.events, e)
		}
		return broken
	case e.Kind == Create && (fault == Full || fault == Short):
		return broken // SQLite does not tell why.
	case fault == Full && e.Kind == Write:
		return lib.SQLITE_FULL
	case fault == Short && e.Kind == Write:
		short = true
		e.Data = e.Data[:len(e.Data)/2]
	}
	at := len(d.events)
	d.events = append(d.events, e)
	if code := d.carryOut(e, short, do); code != lib.SQLITE_OK {
		d.events = slices.Delete(d.events, at, at+1)
		return code
	}
	switch e.Kind {
	case Create:
		d.files[e.File] = true
	case Delete:
		delete(d.files, e.File)
	}
	if short {
		return lib.SQLITE_FULL
	}
	return lib.SQLITE_OK
}

// carryOut lets go of the lock where SQLite syncs the folder on the way, which
// is an operation of its own.
func (d *Disk) carryOut(e Event, short bool, do func(short bool) int32) int32 {
	if do == nil {
		return lib.SQLITE_OK
	}
	if e.Kind == Sync || e.Kind == Delete {
		d.mutex.Unlock()
		defer d.mutex.Lock()
	}
	return do(short)
}
