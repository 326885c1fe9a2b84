package fetch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source"
)

// Unused is how long a mirror of a partition that there still is stays though nobody
// uses it: its source may be another replica's to read, or a document that is seldom
// edited. What is swept is fetched anew when it is needed.
const Unused = 7 * 24 * time.Hour

// mirrorName is the length of a mirror's name. Beside it lies a file with lockSuffix:
// whoever uses the mirror has it locked, shared, and whoever removes it, alone. The
// kernel frees the locks of a process that ends.
const (
	mirrorName = 32
	lockSuffix = ".lock"
)

// hold is what keeps a mirror from being swept.
type hold struct {
	path string
	lock sync.Mutex
	file *os.File
}

// take has the mirror until drop, in whatever process others would remove it.
func (h *hold) take() error {
	h.lock.Lock()
	defer h.lock.Unlock()
	for h.file == nil {
		if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
			return err
		}
		file, err := locked(h.path, unix.LOCK_SH)
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was swept just now.
		}
		if err != nil {
			return err
		}
		h.file = file
		used(h.path)
	}
	return nil
}

// drop lets it go. When that was is remembered.
func (h *hold) drop() {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.file != nil {
		used(h.path)
		h.file.Close()
		h.file = nil
	}
}

// used notes that it is used now. Where that fails, it may be fetched anew.
func used(path string) { now := time.Now(); _ = os.Chtimes(path, now, now) }

// locked opens a file, made if it is not there, and locks it; ErrNotExist: meanwhile
// another was put in its place, or none.
func locked(path string, operation int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(file.Fd()), operation)
	}
	var mine, current os.FileInfo
	if err == nil {
		mine, err = file.Stat()
	}
	if err == nil {
		current, err = os.Stat(path)
	}
	if err == nil && !os.SameFile(mine, current) {
		err = fs.ErrNotExist
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// sweep removes a mirror that nobody uses, nor did since, and reports whether it did.
// What is left of one is removed the next time.
func sweep(folder string, start time.Time) bool {
	lock := folder + lockSuffix
	last, err := os.Stat(lock)
	if errors.Is(err, fs.ErrNotExist) { // It is of an older version.
		last, err = os.Stat(folder)
	}
	if err != nil {
		return false
	}
	file, err := locked(lock, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		used(lock) // Whoever uses it may be killed, and not say so.
	}
	if err != nil {
		return false
	}
	defer file.Close()
	if last.ModTime().After(start) || os.RemoveAll(folder) != nil {
		return false
	}
	return os.Remove(lock) == nil
}

// mirrors lists those in a folder of a partition's, and locks without one: where only
// tags are listed, nothing is fetched.
func mirrors(folder string) (list []string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		name, isLock := strings.CutSuffix(entry.Name(), lockSuffix)
		if len(name) == mirrorName && isLock != entry.IsDir() {
			list = append(list, filepath.Join(folder, name))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Sweep removes the mirrors of a partition that none of its folders uses, nor anybody
// else.
func (o Options) Sweep(folders []source.Lasting) {
	if o.Folder == "" || o.Partition == "" {
		return
	}
	wanted := map[string]bool{}
	for _, lasting := range folders {
		if folder, ok := lasting.(*Folder); ok {
			switch f := folder.fetcher.(type) {
			case *tree:
				if m, ok := f.repository.(*mirror); ok {
					wanted[m.folder] = true
				}
			case *versions:
				if f.repository != nil {
					wanted[f.repository.folder] = true
				}
			}
		}
	}
	for _, folder := range mirrors(filepath.Join(o.Folder, string(o.Partition))) {
		if !wanted[folder] {
			sweep(folder, time.Now())
		}
	}
}

// mostSwept bounds what one call of SweepUnused removes.
const mostSwept = 100

// SweepUnused removes mirrors under a folder, also such as other processes left: those
// of partitions that are not registered, and those that were not used for long. It
// leaves what anybody uses, and returns how many went. The context ends it early.
func SweepUnused(ctx context.Context, root string, registered func(intent.PartitionID) bool, now time.Time) (removed int, err error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fault.New(fault.Unavailable, "looking for mirrors that nobody uses in %s: %w", root, err).WithHint("see that the server may read and write there")
	}
	for _, entry := range entries {
		partition := intent.PartitionID(entry.Name())
		if _, err := intent.ParsePartitionID(entry.Name()); err != nil || !entry.IsDir() {
			continue
		}
		start := now
		if registered(partition) {
			start = now.Add(-Unused)
		}
		own := filepath.Join(root, entry.Name())
		for _, folder := range mirrors(own) {
			if ctx.Err() != nil || removed == mostSwept {
				return removed, ctx.Err()
			}
			if sweep(folder, start) {
				removed++
			}
		}
		if !registered(partition) && len(mirrors(own)) == 0 {
			_ = os.RemoveAll(filepath.Join(own, "home"))
			_ = os.RemoveAll(filepath.Join(own, contentFolder))
			// With a lock of a mirror that is being made in it, it stays.
			if err := os.Remove(own); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
				return removed, fault.New(fault.Unavailable, "removing what was mirrored for partition %s: %w", partition, err).WithHint("see that the server may write in %s", root)
			}
		}
	}
	return removed, nil
}
