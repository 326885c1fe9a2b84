package source

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lehr.dev/fault"
)

// walk takes one snapshot.
type walk struct {
	directory *Directory
	root      *os.Root
	ctx       context.Context
	now       time.Time
	known     map[string]known
	entries   int
	snapshot  Snapshot
}

// all looks at everything.
func (w *walk) all() (*Snapshot, error) {
	if err := w.folder("."); err != nil {
		return nil, err
	}
	w.directory.known = w.known
	slices.SortFunc(w.snapshot.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	w.snapshot.Revision = Revision(w.snapshot.Files)
	return &w.snapshot, nil
}

// apply looks only at what may have changed. It returns no snapshot when a
// folder or a link came or went: then all is to be looked at.
func (w *walk) apply(last *Snapshot, paths map[string]bool) (*Snapshot, error) {
	var changed []File
	gone := map[string]bool{}
	// In order, so that of several problems the same is told.
	for _, full := range slices.Sorted(maps.Keys(paths)) {
		name, err := filepath.Rel(w.directory.path, full)
		if err != nil || name == ".." || strings.HasPrefix(name, "../") {
			continue
		}
		if name = filepath.ToSlash(name); name == "." || slices.Contains(last.Folders, name) {
			return nil, nil
		}
		info, err := w.root.Lstat(name)
		if err == nil && !info.Mode().IsRegular() {
			return nil, nil
		}
		if !w.directory.patterns.Match(name) {
			continue
		}
		gone[name] = true
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		content, mark, err := w.directory.load(w.root, name)
		if err != nil {
			return nil, err
		}
		delete(w.directory.known, name)
		changed = append(changed, File{Path: name, Digest: Digest(content), Size: mark.size})
	}
	if len(gone) == 0 {
		return last, nil
	}
	next := &Snapshot{Folders: last.Folders, Files: make([]File, 0, len(last.Files)+len(changed))}
	for i := range last.Files {
		if !gone[last.Files[i].Path] {
			next.Files = append(next.Files, last.Files[i])
		}
	}
	for _, file := range changed {
		at, _ := slices.BinarySearchFunc(next.Files, file, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
		next.Files = slices.Insert(next.Files, at, file)
	}
	next.Revision = Revision(next.Files)
	return next, nil
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
		if w.directory.patterns.MayBeBelow(name) {
			return w.folder(name)
		}
		return nil
	}
	if !w.directory.patterns.Match(name) {
		return nil
	}
	return w.file(name, entry)
}

func (w *walk) file(name string, entry fs.DirEntry) error {
	d, full := w.directory, path.Join(w.directory.path, name)
	info, err := entry.Info()
	if err == nil && entry.Type()&fs.ModeSymlink != 0 {
		// Stat follows a link as far as it stays inside the folder.
		info, err = w.root.Stat(name)
	}
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
		seen = known{mark: mark, digest: Digest(content)}
	}
	if w.settled(seen.mark) {
		w.known[name] = seen
	}
	w.snapshot.Files = append(w.snapshot.Files, File{Path: name, Digest: seen.digest, Size: seen.mark.size})
	if most := w.directory.limits.Files; len(w.snapshot.Files) > most {
		return fault.New(fault.Invalid, "the source folder %s has more than %d matching files", d.path, most).
			WithHint("narrow the patterns, or split the partition")
	}
	return nil
}

func (w *walk) settled(m mark) bool {
	return w.now.UnixNano()-max(m.modified, m.status) > int64(trustAge)
}
