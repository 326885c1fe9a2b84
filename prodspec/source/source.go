// Package source reads the folders from which a partition's intent is
// generated, and tells when they may have changed. A snapshot is the complete
// list of matching files with their digests, or an error: what cannot be read
// is never taken for empty (S5, S6). Nothing outside the folder is reached:
// links that lead out, and anything but regular files, are refused. Nothing is
// ever written. The pipeline in package prodspec calls it.
package source

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"lehr.dev/fault"
	"lehr.dev/intent"
)

// Limits bound what one source may hold.
type Limits struct {
	// Files matching the patterns.
	Files int
	// Entries looked at, whether they match or not.
	Entries int
	// FileBytes is the size of one file, TotalBytes of all.
	FileBytes, TotalBytes int64
}

// DefaultLimits: 200 000 files of at most 10 MB, 256 MB together, in folders
// of at most 1 000 000 entries.
func DefaultLimits() Limits {
	return Limits{Files: 200_000, Entries: 1_000_000, FileBytes: 10_000_000, TotalBytes: 256_000_000}
}

// File is one file of a snapshot.
type File struct {
	// Path is relative to the source's folder, with slashes.
	Path   string
	Digest intent.Digest
	Size   int64
}

// Snapshot is what a source holds at one time.
type Snapshot struct {
	// Revision covers the sorted paths and digests.
	Revision intent.Digest
	// Files in the order of their paths.
	Files []File
	// Folders that were listed, relative to the source's, to be watched.
	Folders []string
	// Name is how people know this state, as the commit; empty: by Revision.
	Name   string
	Commit intent.Commit
	// Warning is what is strange about it, though it can be used; empty: nothing.
	Warning string
}

// Directory is a folder with patterns. It is used by one goroutine.
type Directory struct {
	path     string
	patterns Patterns
	limits   Limits
	// known remembers digests of files that did not change since they were
	// read, by everything that stat tells about them.
	known map[string]known
	// last is the snapshot that changes are applied to; nil after an error.
	last *Snapshot
}

// Changes say where something may have changed since the snapshot before.
type Changes struct {
	// All: anywhere.
	All bool
	// Paths, absolute, of files or folders.
	Paths map[string]bool
}

type known struct {
	mark   mark
	digest intent.Digest
}

// mark is what changes when a file's content does.
type mark struct {
	size  int64
	inode uint64
	// In nanoseconds since 1970.
	modified, status int64
}

// trustAge is how long a file must have been left alone before its mark alone
// is believed: clocks of file systems tick in milliseconds, and two writes
// within a tick leave the same mark.
const trustAge = 2 * time.Second

// Open names a folder by its absolute path and the files in it by patterns:
// slash-separated, with *, ? and [] within a segment and ** for any number of
// segments. A wildcard does not match a leading dot. It does no I/O.
func Open(directory string, patterns []string, limits Limits) (*Directory, error) {
	parsed, err := ParsePatterns(directory, patterns)
	if err != nil {
		return nil, err
	}
	return &Directory{path: directory, patterns: parsed, limits: limits, known: map[string]known{}}, nil
}

// Path is the folder.
func (d *Directory) Path() string { return d.path }

// Read takes a snapshot; now is the wall clock's. Where it is known what may
// have changed, only that is looked at. Unavailable: the folder or a file
// cannot be read, or a pattern matches nothing; nothing may be concluded from
// that. Invalid: a limit is exceeded, or something is not a regular file.
func (d *Directory) Read(ctx context.Context, now time.Time, changes Changes) (*Snapshot, error) {
	last := d.last
	d.last = nil
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the source folder %s cannot be read: %w", d.path, reason(err)).
			WithHint("mount or create the folder, or remove the source; nothing changes until it is there")
	}
	defer root.Close()
	w := &walk{directory: d, root: root, ctx: ctx, now: now, known: map[string]known{}}
	var snapshot *Snapshot
	if last != nil && !changes.All {
		snapshot, err = w.apply(last, changes.Paths)
	}
	if err == nil && snapshot == nil {
		snapshot, err = w.all()
	}
	if err != nil {
		return nil, err
	}
	if err := Complete(d.path, d.patterns, d.limits, snapshot); err != nil {
		return nil, err
	}
	d.last = snapshot
	return snapshot, nil
}

// Complete holds a folder's snapshot to the limits, and each pattern to a match.
func Complete(folder string, patterns Patterns, limits Limits, snapshot *Snapshot) error {
	for _, p := range patterns {
		if !slices.ContainsFunc(snapshot.Files, func(f File) bool { return p.matches(f.Path) }) {
			return fault.New(fault.Unavailable, "no file in %s matches %q", folder, p.text).
				WithHint("an empty source is never taken for intent: restore the files, or remove the pattern; nothing changes until then")
		}
	}
	total := int64(0)
	for i := range snapshot.Files {
		total += snapshot.Files[i].Size
	}
	if len(snapshot.Files) > limits.Files || total > limits.TotalBytes {
		return fault.New(fault.Invalid, "the source folder %s has %d matching files of %d bytes, at most %d of %d are read", folder, len(snapshot.Files), total, limits.Files, limits.TotalBytes).
			WithHint("narrow the patterns, or split the partition")
	}
	return nil
}

// Revision is the digest over sorted files.
func Revision(files []File) intent.Digest {
	parts := make([][]byte, 0, 2*len(files))
	for i := range files {
		parts = append(parts, []byte(files[i].Path), files[i].Digest[:])
	}
	return intent.Sum("lehr.source.v1", parts...)
}

// Content reads a file of a snapshot. Unavailable when it is no longer what
// the snapshot says; take a new snapshot then.
func (d *Directory) Content(file File) ([]byte, error) {
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the source folder %s cannot be read: %w", d.path, reason(err))
	}
	defer root.Close()
	content, _, err := d.load(root, file.Path)
	if err != nil {
		return nil, err
	}
	if Digest(content) != file.Digest {
		return nil, Changed(path.Join(d.path, file.Path))
	}
	return content, nil
}

// Changed is the error of a file that is not what its snapshot says.
func Changed(full string) error {
	return fault.New(fault.Unavailable, "%s changed while the partition was being built", full)
}

// attempts to read a file that somebody is writing.
const attempts = 5

// load reads a regular file whole, again while it changes under the reader.
func (d *Directory) load(root *os.Root, name string) ([]byte, mark, error) {
	for range attempts {
		content, before, after, err := d.loadOnce(root, name)
		if err != nil {
			return nil, mark{}, err
		}
		if before == after && int64(len(content)) == after.size {
			return content, after, nil
		}
	}
	return nil, mark{}, fault.New(fault.Unavailable, "%s changes while it is being read", path.Join(d.path, name)).
		WithHint("it is read again when it stays the same")
}

func (d *Directory) loadOnce(root *os.Root, name string) (content []byte, before, after mark, err error) {
	full := path.Join(d.path, name)
	// A pipe put in the file's place must not block the reader.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, before, after, unreadable(full, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, before, after, unreadable(full, err)
	}
	if err := d.acceptable(full, info); err != nil {
		return nil, before, after, err
	}
	content, err = io.ReadAll(io.LimitReader(file, d.limits.FileBytes+1))
	if err != nil {
		return nil, before, after, unreadable(full, err)
	}
	now, err := file.Stat()
	if err != nil {
		return nil, before, after, unreadable(full, err)
	}
	return content, markOf(info), markOf(now), nil
}

func (d *Directory) acceptable(full string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fault.New(fault.Invalid, "%s is a %s, not a regular file", full, kindOf(info.Mode())).
			WithHint("remove it, or narrow the source's patterns")
	}
	return d.limits.CheckSize(full, info.Size())
}

// CheckSize refuses a file that is too large.
func (l Limits) CheckSize(full string, size int64) error {
	if size > l.FileBytes {
		return fault.New(fault.Invalid, "%s has %d bytes, at most %d are read", full, size, l.FileBytes).
			WithHint("split it, or narrow the source's patterns")
	}
	return nil
}

func unreadable(full string, err error) error {
	if strings.Contains(err.Error(), "path escapes") {
		return fault.New(fault.Invalid, "%s is a link that leads out of its source folder", full).
			WithHint("replace the link by the file it names")
	}
	return fault.New(fault.Unavailable, "%s cannot be read: %w", full, reason(err)).
		WithHint("mend the file or its permissions; nothing changes until then")
}

// reason is the error without the path, which the message has already.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

func markOf(info fs.FileInfo) mark {
	m := mark{size: info.Size(), modified: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		m.inode, m.status = stat.Ino, stat.Ctim.Nano()
	}
	return m
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	default:
		return "special file"
	}
}

// Digest of a file's content.
func Digest(content []byte) intent.Digest { return intent.Sum("lehr.file.v1", content) }
