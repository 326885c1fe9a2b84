package sources

import (
	"context"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/source"
)

// folder is to a tree what source.Directory is to a disk.
type folder struct {
	tree     *Tree
	path     string
	patterns source.Patterns
	limits   source.Limits
	// last is the snapshot that changes are applied to; nil after an error.
	last *source.Snapshot
}

func open(tree *Tree, directory string, patterns []string, limits source.Limits) (*folder, error) {
	parsed, err := source.ParsePatterns(directory, patterns)
	if err != nil {
		return nil, err
	}
	return &folder{tree: tree, path: filepath.Clean(directory), patterns: parsed, limits: limits}, nil
}

func (f *folder) Path() string { return f.path }

// Read is all at once: nothing changes while it looks.
func (f *folder) Read(ctx context.Context, _ time.Time, changes source.Changes) (*source.Snapshot, error) {
	last := f.last
	f.last = nil
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.tree.lock.Lock()
	defer f.tree.lock.Unlock()
	if err := f.tree.failed(f.path); err != nil {
		return nil, err
	}
	listed := f.tree.listed()
	names := listed.below(f.path)
	if len(names) == 0 {
		return nil, fault.New(fault.Unavailable, "the source folder %s cannot be read: %w", f.path, fs.ErrNotExist)
	}
	snapshot := f.whole(names, listed)
	if last != nil && !changes.All {
		snapshot = f.partial(last, snapshot, changes.Paths)
	}
	for _, file := range snapshot.Files {
		if err := f.limits.CheckSize(path.Join(f.path, file.Path), file.Size); err != nil {
			return nil, err
		}
	}
	if err := source.Complete(f.path, f.patterns, f.limits, snapshot); err != nil {
		return nil, err
	}
	if last != nil && last.Revision == snapshot.Revision && slices.Equal(last.Folders, snapshot.Folders) {
		snapshot = last
	}
	f.last = snapshot
	return snapshot, nil
}

// whole is what a reader finds that looks everywhere.
func (f *folder) whole(names []string, listed version) *source.Snapshot {
	snapshot := &source.Snapshot{}
	folders := map[string]bool{".": true}
	for _, name := range names {
		for above := path.Dir(name); above != "."; above = path.Dir(above) {
			if f.patterns.MayBeBelow(above) {
				folders[above] = true
			}
		}
		if f.patterns.Match(name) {
			file := listed[path.Join(f.path, name)]
			snapshot.Files = append(snapshot.Files, source.File{Path: name, Digest: file.digest, Size: int64(len(file.content))})
		}
	}
	snapshot.Folders = slices.Sorted(maps.Keys(folders))
	snapshot.Revision = source.Revision(snapshot.Files)
	return snapshot
}

// partial is what a reader finds that looks only where it was told: the rest
// is as it was. When a folder came or went, it looks everywhere.
func (f *folder) partial(last, whole *source.Snapshot, changed map[string]bool) *source.Snapshot {
	if !slices.Equal(last.Folders, whole.Folders) {
		for _, name := range slices.Concat(last.Folders, whole.Folders) {
			if changed[path.Join(f.path, name)] {
				return whole
			}
		}
	}
	told := func(file source.File) bool { return changed[path.Join(f.path, file.Path)] }
	files := slices.DeleteFunc(slices.Clone(last.Files), told)
	for _, file := range whole.Files {
		if told(file) {
			files = append(files, file)
		}
	}
	slices.SortFunc(files, func(a, b source.File) int { return strings.Compare(a.Path, b.Path) })
	return &source.Snapshot{Revision: source.Revision(files), Files: files, Folders: last.Folders}
}

func (f *folder) Content(file source.File) ([]byte, error) {
	f.tree.lock.Lock()
	defer f.tree.lock.Unlock()
	if err := f.tree.failed(f.path); err != nil {
		return nil, err
	}
	full := path.Join(f.path, file.Path)
	now, ok := f.tree.opened()[full]
	if !ok {
		return nil, fault.New(fault.Unavailable, "%s cannot be read: %w", full, fs.ErrNotExist)
	}
	if now.digest != file.Digest {
		return nil, source.Changed(full)
	}
	return []byte(now.content), nil
}
