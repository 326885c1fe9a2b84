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
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
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
	// Hosts that it was read from beside that of the source's address, such as those of charts
	// that a chart depends on, sorted.
	Hosts []string
}

// Directory is a folder with patterns. It is used by one goroutine.
type Directory struct {
	path     string
	patterns Patterns
	limits   Limits
	// digestCache is what was read last.
	cache digestCache
	// last is the snapshot that changes are applied to; nil after an error.
	last *Snapshot
	// allowedFolders are the folders below one of which it must lie; nil: anywhere.
	allowedFolders []string
}

// Within has a folder refused that does not lie below one of some, wherever links
// lead; nil: it may lie anywhere.
func (d *Directory) Within(folders []string) { d.allowedFolders = folders }

// root opens the folder.
func (d *Directory) root() (*files.Folder, error) {
	root, err := files.OpenFolder(d.path, d.allowedFolders)
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the source folder %s cannot be read: %w", d.path, reason(err)).
			WithHint("mount or create the folder, or remove the source; nothing changes until it is there")
	}
	return root, nil
}

// Changes say where something may have changed since the snapshot before.
type Changes struct {
	// All: anywhere.
	All bool
	// Paths, absolute, of files or folders.
	Paths map[string]bool
}

// digestCache are files as they were read last, sorted by path, with everything that
// stat told of each: one that is the same still need not be read. Of a mark of
// zero that cannot be said.
type digestCache struct {
	files []File
	marks []mark
}

func (k digestCache) digest(path string, now mark) (intent.Digest, bool) {
	at, ok := slices.BinarySearchFunc(k.files, File{Path: path}, byPath)
	if !ok || k.marks[at] != now {
		return intent.Digest{}, false
	}
	return k.files[at].Digest, true
}

func byPath(a, b File) int { return strings.Compare(a.Path, b.Path) }

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
	return &Directory{path: directory, patterns: parsed, limits: limits}, nil
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
	root, err := d.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	w := &walk{directory: d, root: root, ctx: ctx, now: now, own: files.Own()}
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
	var parts intent.Parts
	parts.Begin("lehr.source.v1")
	for i := range files {
		parts.AddText(files[i].Path)
		parts.Add(files[i].Digest[:])
	}
	return parts.Sum()
}

// Content reads a file of a snapshot. Unavailable when it is no longer what
// the snapshot says; take a new snapshot then.
func (d *Directory) Content(file File) ([]byte, error) {
	root, err := d.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var content []byte
	_, err = d.load(root, file.Path, func(src io.Reader, size int64) (read int64, err error) {
		content = make([]byte, size)
		n, err := io.ReadFull(src, content)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = nil // It became shorter.
		}
		return int64(n), err
	})
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

// load has a regular file taken whole, again while it changes meanwhile: take is
// told how many bytes it has, and returns how many it read.
func (d *Directory) load(root *files.Folder, name string, take func(src io.Reader, size int64) (int64, error)) (mark, error) {
	for range attempts {
		markBefore, markAfter, read, err := d.loadOnce(root, name, take)
		if err != nil {
			return mark{}, err
		}
		if markBefore == markAfter && read == markAfter.size {
			return markAfter, nil
		}
	}
	return mark{}, fault.New(fault.Unavailable, "%s changes while it is being read", path.Join(d.path, name)).
		WithHint("it is read again when it stays the same")
}

func (d *Directory) loadOnce(root *files.Folder, name string, take func(src io.Reader, size int64) (int64, error)) (markBefore, markAfter mark, read int64, err error) {
	full := path.Join(d.path, name)
	file, err := root.OpenIn(name, full)
	if err != nil {
		return markBefore, markAfter, 0, unreadable(full, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return markBefore, markAfter, 0, unreadable(full, err)
	}
	if err := d.acceptable(full, info); err != nil {
		return markBefore, markAfter, 0, err
	}
	if read, err = take(file, info.Size()); err != nil {
		return markBefore, markAfter, 0, unreadable(full, err)
	}
	now, err := file.Stat()
	if err != nil {
		return markBefore, markAfter, 0, unreadable(full, err)
	}
	return markOf(info), markOf(now), read, nil
}

func (d *Directory) acceptable(full string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return notRegular(full, info.Mode())
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

func notRegular(full string, mode fs.FileMode) error {
	return fault.New(fault.Invalid, "%s is a %s, not a regular file", full, files.Kind(mode)).
		WithHint("remove it, or narrow the source's patterns")
}

func unreadable(full string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
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

const fileDomain = "lehr.file.v1"

// Digest of a file's content.
func Digest(content []byte) intent.Digest { return intent.Sum(fileDomain, content) }
