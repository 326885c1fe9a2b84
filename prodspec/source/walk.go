package source

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"lehr.dev/fault"
	"lehr.dev/intent"
)

// walk takes one snapshot.
type walk struct {
	directory *Directory
	root      *os.Root
	ctx       context.Context
	now       time.Time
	known     map[string]known
	matched   []bool
	entries   int
	bytes     int64
	snapshot  Snapshot
}

// folder lists one folder and enters those in which a file may match.
func (w *walk) folder(name string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	full := path.Join(w.directory.path, name)
	listing, err := w.root.Open(name)
	if err != nil {
		return unreadable(full, err)
	}
	entries, err := listing.ReadDir(-1)
	listing.Close()
	if err != nil {
		return unreadable(full, err)
	}
	w.snapshot.Folders = append(w.snapshot.Folders, name)
	if w.entries += len(entries); w.entries > w.directory.limits.Entries {
		return fault.New(fault.Invalid, "the source folder %s has more than %d entries", w.directory.path, w.directory.limits.Entries).
			WithHint("name a smaller folder")
	}
	for _, entry := range entries {
		if err := w.entry(path.Join(name, entry.Name()), entry); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(name string, entry fs.DirEntry) error {
	if entry.IsDir() {
		if slices.ContainsFunc(w.directory.patterns, func(p pattern) bool { return p.mayBeBelow(name) }) {
			return w.folder(name)
		}
		return nil
	}
	hit := false
	for i, p := range w.directory.patterns {
		if p.matches(name) {
			w.matched[i], hit = true, true
		}
	}
	if !hit {
		return nil
	}
	return w.file(name, entry)
}

func (w *walk) file(name string, entry fs.DirEntry) error {
	d, full := w.directory, path.Join(w.directory.path, name)
	// Stat follows a link as far as it stays inside the folder.
	info, err := w.root.Stat(name)
	if err != nil {
		return unreadable(full, err)
	}
	if info.IsDir() && entry.Type()&fs.ModeSymlink != 0 {
		return nil
	}
	if err := d.acceptable(full, info); err != nil {
		return err
	}
	seen, found := d.known[name]
	if found && seen.mark != markOf(info) {
		found = false
	}
	if !found {
		content, mark, err := d.load(w.root, name)
		if err != nil {
			return err
		}
		seen = known{mark: mark, digest: digest(content)}
	}
	if w.settled(seen.mark) {
		w.known[name] = seen
	}
	return w.add(name, seen.digest, seen.mark.size)
}

func (w *walk) add(name string, digest intent.Digest, size int64) error {
	limits := w.directory.limits
	w.bytes += size
	w.snapshot.Files = append(w.snapshot.Files, File{Path: name, Digest: digest, Size: size})
	if len(w.snapshot.Files) > limits.Files || w.bytes > limits.TotalBytes {
		return fault.New(fault.Invalid, "the source folder %s has more than %d matching files or %d bytes", w.directory.path, limits.Files, limits.TotalBytes).
			WithHint("narrow the patterns, or split the partition")
	}
	return nil
}

func (w *walk) settled(m mark) bool {
	return w.now.Sub(m.modified) > trustAge && w.now.Sub(m.status) > trustAge
}
