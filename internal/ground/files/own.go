package files

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
)

// own are the files of this process that are nobody's input: the store, what lies
// beside it under its name, keys and lists of the operator's, and sockets. They are
// known to the whole process, as locks of files are, which any part of it would
// end that closed one of these files: so no part can forget to ask.
var own = struct {
	mutex sync.Mutex
	// stores and their number of users, by path; of each all files that its name
	// begins, too. single files, by path.
	stores, single map[string]int
	// listed is what lay beside each store when its folder was listed last.
	listed map[string]listing
}{stores: map[string]int{}, single: map[string]int{}, listed: map[string]listing{}}

// listing of the files beside a store, which holds for as long as its folder is as
// it was: what comes, goes or is renamed changes that.
type listing struct {
	folder   identity
	modified time.Time
	files    []identity
}

// trustAge is how long a folder must have been left alone before its time alone is
// believed, for clocks of file systems tick.
const trustAge = 2 * time.Second

// Guard makes files nobody's input until release is called: a store with all that
// lies beside it under its name, as STORE-wal and STORE.server.json, and single files.
// They need not be there yet. Empty names are none.
func Guard(stores, single []string) (release func()) {
	add := func(counts map[string]int, paths []string, delta int) {
		own.mutex.Lock()
		defer own.mutex.Unlock()
		for _, path := range paths {
			if counts[path] += delta; counts[path] == 0 {
				delete(counts, path)
				delete(own.listed, path)
			}
		}
	}
	stores, single = absolute(stores), absolute(single)
	add(own.stores, stores, 1)
	add(own.single, single, 1)
	walked.mutex.Lock()
	walked.files = nil
	walked.mutex.Unlock()
	return sync.OnceFunc(func() {
		add(own.stores, stores, -1)
		add(own.single, single, -1)
	})
}

func absolute(paths []string) (list []string) {
	for _, path := range paths {
		if path == "" {
			continue
		}
		if whole, err := filepath.Abs(path); err == nil {
			list = append(list, whole)
		}
	}
	return list
}

// Guarded are the names that Guard was given, for a child that is to refuse the same.
func Guarded() (stores, single []string) {
	own.mutex.Lock()
	defer own.mutex.Unlock()
	return slices.Sorted(maps.Keys(own.stores)), slices.Sorted(maps.Keys(own.single))
}

type identity struct{ device, inode uint64 }

func identify(info fs.FileInfo) (identity, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, false
	}
	return identity{uint64(stat.Dev), stat.Ino}, true
}

// Set of files that are the process's own, as they were at one time.
type Set struct {
	files map[identity]bool
	// prefixes of their paths, without links in their folders.
	prefixes []string
}

// Own are the files that Guard was given, as they are now.
func Own() Set {
	stores, single := Guarded()
	s := Set{files: map[identity]bool{}}
	add := func(path string) {
		if info, err := os.Stat(path); err == nil {
			if id, ok := identify(info); ok {
				s.files[id] = true
			}
		}
	}
	for _, path := range single {
		add(path)
	}
	for _, path := range stores {
		folder, base := filepath.Split(path)
		if resolved, err := resolve(folder); err == nil {
			s.prefixes = append(s.prefixes, filepath.Join(resolved, base))
		}
		for _, id := range besides(folder, base) {
			s.files[id] = true
		}
	}
	return s
}

// besides are the files beside a store, and the store.
func besides(folder, base string) (identities []identity) {
	info, err := os.Stat(folder)
	if err != nil {
		return nil
	}
	folderIdentity, _ := identify(info)
	own.mutex.Lock()
	last, ok := own.listed[filepath.Join(folder, base)]
	own.mutex.Unlock()
	if ok && last.folder == folderIdentity && last.modified.Equal(info.ModTime()) {
		return last.files
	}
	start := time.Now()
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		if !belongsTo(entry.Name(), base) {
			continue
		}
		if info, err := os.Stat(filepath.Join(folder, entry.Name())); err == nil {
			if id, ok := identify(info); ok {
				identities = append(identities, id)
			}
		}
	}
	if start.Sub(info.ModTime()) > trustAge {
		own.mutex.Lock()
		own.listed[filepath.Join(folder, base)] = listing{folderIdentity, info.ModTime(), identities}
		own.mutex.Unlock()
	}
	return identities
}

// walked are the files in the folders beside all stores, when these were walked last.
var walked struct {
	mutex sync.Mutex
	at    time.Time
	files map[identity]bool
}

// walkAge is how old a walk may be: sources may have many files of several names. What is
// made in such a folder, and linked to from elsewhere, within that time may be missed.
const walkAge = time.Second

// insides are the files in the folders beside all stores.
func insides() map[identity]bool {
	walked.mutex.Lock()
	defer walked.mutex.Unlock()
	start := time.Now()
	if age := start.Sub(walked.at); walked.files != nil && age >= 0 && age < walkAge {
		return walked.files
	}
	found := map[identity]bool{}
	stores, _ := Guarded()
	for _, path := range stores {
		folder, base := filepath.Split(path)
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if !entry.IsDir() || !belongsTo(entry.Name(), base) {
				continue
			}
			// What goes away meanwhile has no other name that leads to it from here.
			_ = filepath.WalkDir(filepath.Join(folder, entry.Name()), func(_ string, below fs.DirEntry, err error) error {
				if err != nil || !below.Type().IsRegular() {
					return nil
				}
				if info, err := below.Info(); err == nil {
					if id, ok := identify(info); ok {
						found[id] = true
					}
				}
				return nil
			})
		}
	}
	walked.at, walked.files = time.Now(), found
	return found
}

// belongsTo reports whether a file is the store or one that its name begins.
func belongsTo(name, store string) bool {
	rest, ok := strings.CutPrefix(name, store)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '-')
}

// Has reports whether a file is among them, by device and inode.
func (s Set) Has(info fs.FileInfo) bool {
	id, ok := identify(info)
	return ok && s.files[id]
}

// covers reports whether a path without links is a store's, is beside it under its
// name, or lies in a folder that is.
func (s Set) covers(real string) bool {
	return slices.ContainsFunc(s.prefixes, func(prefix string) bool {
		rest, ok := strings.CutPrefix(real, prefix)
		return ok && (rest == "" || strings.ContainsRune(".-/", rune(rest[0])))
	})
}

// Refuse is Denied when an open file or folder is the process's own.
func Refuse(open *os.File, path string) error { return RefuseDescriptor(int(open.Fd()), path) }

// RefuseDescriptor is Refuse of what others opened.
func RefuseDescriptor(open int, path string) error {
	var info unix.Stat_t
	if err := unix.Fstat(open, &info); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return refuseOwn(open, path, &info)
}

func refuseOwn(open int, path string, info *unix.Stat_t) error {
	own := Own()
	if own.files[identity{uint64(info.Dev), info.Ino}] {
		return denied(path)
	}
	if len(own.prefixes) == 0 {
		return nil
	}
	// It has another name, which may lie in a folder beside a store.
	if info.Nlink > 1 && info.Mode&unix.S_IFMT == unix.S_IFREG && insides()[identity{uint64(info.Dev), info.Ino}] {
		return denied(path)
	}
	if info.Nlink == 0 {
		// It was among them, perhaps, until a moment ago.
		return fault.New(fault.Unavailable, "%s was replaced while it was being opened", path).WithHint("it is read again when it stays the same")
	}
	real, err := os.Readlink(descriptor(open))
	if err != nil {
		return err
	}
	if own.covers(real) {
		return denied(path)
	}
	return nil
}

func denied(path string) error {
	return fault.New(fault.Denied, "%s is a file of Lehr's own: its store, what lies beside it, a key or a list of the operator's; it is nobody's input", path).
		WithHint("name another file, or keep the store elsewhere with --store")
}

// Holds is Denied when a folder, or what it leads to, holds a file of the process's
// own: a program that may see all of the folder would see it.
func Holds(folder string) error {
	info, err := os.Stat(folder)
	if err != nil {
		return nil // It shows nothing.
	}
	folderIdentity, ok := identify(info)
	if !ok {
		return nil
	}
	stores, single := Guarded()
	for _, path := range slices.Concat(stores, single) {
		real, err := resolve(filepath.Dir(path))
		if err != nil {
			continue
		}
		for ancestor := real; ; ancestor = filepath.Dir(ancestor) {
			if info, err := os.Stat(ancestor); err == nil {
				if id, _ := identify(info); id == folderIdentity {
					return fault.New(fault.Denied, "%s holds %s, which is a file of Lehr's own and nobody's input", folder, path).
						WithHint("show programs another folder, or keep the store elsewhere with --store")
				}
			}
			if ancestor == "/" {
				break
			}
		}
	}
	return nil
}
