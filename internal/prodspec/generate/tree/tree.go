// Package tree is the file system that a run of a program sees in memory: the
// declared files, and other generators' assets. Nothing leads out of it, contents
// are fetched when a file is opened, and what is opened or listed is noted, for
// that is what the run may be cached by. Packages wasm and render use it.
package tree

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/protocol"
	"lehr.dev/internal/prodspec/generate/work"
)

// AssetList is the path of the list of other generators' assets. Its folder is
// not listed.
const (
	assetFolder = ".lehr/assets"
	AssetList   = assetFolder + "/" + protocol.AssetList
)

// Tree is an fs.FS.
type Tree struct {
	set   *schema.Set
	job   *work.Job
	open  work.Opener
	reads work.Reads
	files map[string]work.Input
	// folders and what is in them, sorted.
	folders map[string][]string
}

// New returns the tree of a job. What is read is noted in reads; it is an error
// when two inputs would have one path.
func New(schemas *schema.Set, job *work.Job, open work.Opener, reads work.Reads) (*Tree, error) {
	t := &Tree{set: schemas, job: job, open: open, reads: reads, files: map[string]work.Input{}, folders: map[string][]string{".": nil}}
	for _, input := range job.Files {
		name := protocol.FilePath(input.Name)
		if previous, ok := t.files[name]; ok {
			return nil, fmt.Errorf("%s and %s would both be the file %s", previous.Name, input.Name, name)
		}
		if name == ".lehr" || strings.HasPrefix(name, ".lehr/") {
			return nil, fmt.Errorf("%s lies in .lehr, which is Lehr's own", input.Name)
		}
		t.files[name] = input
		t.enter(name)
	}
	for name, names := range t.folders {
		if previous, ok := t.files[name]; ok {
			return nil, fmt.Errorf("%s is a file, and the folder of other inputs", previous.Name)
		}
		slices.Sort(names)
	}
	return t, nil
}

// enter adds a name to its folder, and that to its own.
func (t *Tree) enter(name string) {
	folder := path.Dir(name)
	_, ok := t.folders[folder]
	t.folders[folder] = append(t.folders[folder], path.Base(name))
	if !ok {
		t.enter(folder)
	}
}

// Open implements fs.FS.
func (t *Tree) Open(name string) (fs.File, error) {
	if names, ok := t.folders[name]; ok {
		if name != "." {
			// That there is such a folder follows from the list.
			t.listed()
		}
		return &folder{tree: t, path: name, names: names}, nil
	}
	if input, ok := t.files[name]; ok {
		t.reads.Note(work.ReadFile, input.Name, input.Digest)
		content, err := t.open(work.ReadFile, input)
		return newFile(name, content, err)
	}
	if path.Dir(name) == assetFolder {
		return t.asset(name)
	}
	t.listed()
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (t *Tree) asset(name string) (fs.File, error) {
	t.reads.Note(work.ReadAssets, "", work.Listing(t.job.Assets))
	if path.Base(name) == protocol.AssetList {
		content, err := protocol.List(t.job.Assets)
		return newFile(name, content, err)
	}
	at, ok := protocol.AssetIndex(path.Base(name), t.job)
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	input := t.job.Assets[at]
	t.reads.Note(work.ReadAsset, input.Name, input.Digest)
	content, err := t.open(work.ReadAsset, input)
	if err == nil {
		content, err = protocol.Asset(t.set, content)
	}
	return newFile(name, content, err)
}

func (t *Tree) listed() { t.reads.Note(work.ReadFiles, "", work.Listing(t.job.Files)) }

// info of a file or folder: read only, made at no time.
type info struct {
	name string
	size int64
	mode fs.FileMode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Unix(0, 0) }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

// file is one open file.
type file struct {
	*io.SectionReader
	info info
}

func newFile(name string, content []byte, err error) (fs.File, error) {
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot open %s: %w", name, err)
	}
	text := string(content)
	return &file{io.NewSectionReader(strings.NewReader(text), 0, int64(len(text))), info{path.Base(name), int64(len(text)), 0o444}}, nil
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

// folder is one open folder.
type folder struct {
	tree  *Tree
	path  string
	names []string
	next  int
}

func (f *folder) Stat() (fs.FileInfo, error) {
	return info{path.Base(f.path), 0, fs.ModeDir | 0o555}, nil
}
func (f *folder) Close() error { return nil }

func (f *folder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.path, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile. Sizes are not told: they would be reads.
func (f *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	f.tree.listed()
	rest := f.names[f.next:]
	if n > 0 {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		rest = rest[:min(n, len(rest))]
	}
	f.next += len(rest)
	entries := make([]fs.DirEntry, len(rest))
	for i, name := range rest {
		mode := fs.FileMode(0o444)
		if _, ok := f.tree.folders[path.Join(f.path, name)]; ok {
			mode = fs.ModeDir | 0o555
		}
		entries[i] = fs.FileInfoToDirEntry(info{name, 0, mode})
	}
	return entries, nil
}
