package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source/artifact"
)

// walk takes one snapshot.
type walk struct {
	directory *Directory
	root      *files.Folder
	ctx       context.Context
	now       time.Time
	entries   int
	// own are files that are nobody's input.
	own      files.Set
	snapshot Snapshot
	// marks of the snapshot's files.
	marks []mark
	parts intent.Parts
	// small is the content of a small file, and reader reads it.
	small  [artifact.MostPointer + 1]byte
	reader bytes.Reader
}

// all looks at everything: what there is first, for most of it need not be read,
// and too much is not.
func (w *walk) all() (*Snapshot, error) {
	d, files := w.directory, &w.snapshot.Files
	if err := w.folder("."); err != nil {
		return nil, err
	}
	if err := Complete(d.path, d.patterns, d.limits, &w.snapshot); err != nil {
		return nil, err
	}
	for i := range *files {
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
		file := &(*files)[i]
		ok := false
		if file.Digest, ok = d.cache.digest(file.Path, w.marks[i]); ok {
			continue
		}
		var err error
		if *file, w.marks[i], err = w.read(file.Path); err != nil {
			return nil, err
		}
		if !w.settled(w.marks[i]) {
			w.marks[i] = mark{}
		}
	}
	d.cache = digestCache{*files, w.marks}
	w.snapshot.Revision = Revision(*files)
	return &w.snapshot, nil
}

// read a file for its digest.
func (w *walk) read(name string) (file File, fileMark mark, err error) {
	fileMark, err = w.directory.load(w.root, name, func(src io.Reader, size int64) (int64, error) {
		w.parts.Begin(fileDomain)
		if size > artifact.MostPointer {
			return w.parts.AddFrom(src, size)
		}
		n, err := io.ReadFull(src, w.small[:size+1]) // One more, if it has grown.
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		text := w.small[:n]
		if artifact.IsPointer(text) {
			return 0, fault.New(fault.Invalid, "%s is a pointer of git-lfs: its content is not there", path.Join(w.directory.path, name)).
				WithHint("run git lfs pull, keep the file in git itself, or narrow the source's patterns")
		}
		w.reader.Reset(text)
		return w.parts.AddFrom(&w.reader, size)
	})
	if err != nil {
		return File{}, mark{}, err
	}
	return File{Path: name, Digest: w.parts.Sum(), Size: fileMark.size}, fileMark, nil
}

// apply looks only at what may have changed. It returns no snapshot when a
// folder or a link came or went: then all is to be looked at.
func (w *walk) apply(last *Snapshot, paths map[string]bool) (*Snapshot, error) {
	var changed []File
	replaced := map[string]bool{}
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
		if err == nil && w.own.Has(info) {
			continue
		}
		if !w.directory.patterns.Match(name) {
			continue
		}
		replaced[name] = true
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		file, _, err := w.read(name)
		if err != nil {
			return nil, err
		}
		changed = append(changed, file)
	}
	if len(replaced) == 0 {
		return last, nil
	}
	return w.directory.patchSnapshot(last, changed, replaced), nil
}

// patchSnapshot is the last snapshot without some files and with others, sorted by path. Of
// those it is not known yet whether they stay as they are.
func (d *Directory) patchSnapshot(last *Snapshot, changed []File, replaced map[string]bool) *Snapshot {
	next := &Snapshot{Folders: last.Folders, Files: make([]File, 0, len(last.Files)+len(changed))}
	marks := make([]mark, 0, cap(next.Files))
	add := func(file File, fileMark mark) { next.Files, marks = append(next.Files, file), append(marks, fileMark) }
	for i, file := range last.Files {
		for len(changed) > 0 && changed[0].Path < file.Path {
			add(changed[0], mark{})
			changed = changed[1:]
		}
		if !replaced[file.Path] {
			add(file, d.cache.marks[i])
		}
	}
	for _, file := range changed {
		add(file, mark{})
	}
	d.cache = digestCache{next.Files, marks}
	next.Revision = Revision(next.Files)
	return next
}

// atOnce is how many entries of a folder are looked at together.
const atOnce = 1000

// folder lists one folder and enters those in which a file may match, in the order
// of paths.
func (w *walk) folder(name string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	wanted, err := w.list(name)
	if err != nil {
		return err
	}
	w.snapshot.Folders = append(w.snapshot.Folders, name)
	slices.SortFunc(wanted, func(a, b fs.DirEntry) int { return strings.Compare(pathOf(a), pathOf(b)) })
	for _, entry := range wanted {
		if entry.IsDir() {
			err = w.folder(entryPath(name, entry))
		} else {
			err = w.file(entryPath(name, entry), entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list what may matter of one folder.
func (w *walk) list(name string) (wanted []fs.DirEntry, err error) {
	full := path.Join(w.directory.path, name)
	listing, err := w.root.Open(name)
	if err != nil {
		return nil, unreadable(full, err)
	}
	defer listing.Close()
	for {
		entries, err := listing.ReadDir(atOnce)
		if errors.Is(err, io.EOF) {
			return wanted, nil
		}
		if err != nil {
			return nil, unreadable(full, err)
		}
		if w.entries += len(entries); w.entries > w.directory.limits.Entries {
			return nil, fault.New(fault.Invalid, "the source folder %s has more than %d entries", w.directory.path, w.directory.limits.Entries).
				WithHint("name a smaller folder")
		}
		wanted = append(wanted, slices.DeleteFunc(entries, func(entry fs.DirEntry) bool { return !w.wants(entryPath(name, entry), entry) })...)
	}
}

// entryPath is the path of an entry of a folder.
func entryPath(folder string, entry fs.DirEntry) string {
	if folder == "." {
		return entry.Name()
	}
	return folder + "/" + entry.Name()
}

// pathOf an entry, so that what is below it comes where it does among all paths.
func pathOf(entry fs.DirEntry) string {
	if entry.IsDir() {
		return entry.Name() + "/"
	}
	return entry.Name()
}

func (w *walk) wants(name string, entry fs.DirEntry) bool {
	if entry.IsDir() {
		return w.directory.patterns.MayBeBelow(name)
	}
	return w.directory.patterns.Match(name)
}

// file lists one file.
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
	if w.own.Has(info) && entry.Type().IsRegular() {
		// A store among the files of a source is none of them. What leads to it in
		// another way is refused when it is opened.
		return nil
	}
	if err := d.acceptable(full, info); err != nil {
		return err
	}
	w.snapshot.Files, w.marks = append(w.snapshot.Files, File{Path: name, Size: info.Size()}), append(w.marks, markOf(info))
	if most := d.limits.Files; len(w.snapshot.Files) > most {
		return fault.New(fault.Invalid, "the source folder %s has more than %d matching files", d.path, most).
			WithHint("narrow the patterns, or split the partition")
	}
	return nil
}

func (w *walk) settled(m mark) bool {
	return w.now.UnixNano()-max(m.modified, m.status) > int64(trustAge)
}
