package runrecord

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// LockName is the file that the keeper of a run holds locked as long as it lives, and in which its
// process id is, so that no
// two are at work and everybody sees whether one is.
const LockName = "lock"

// Lock takes the task's lock and waits for it as long as ctx lets it. It ends with the process,
// however that ends; no program that the process starts has it.
func (f Folder) Lock(ctx context.Context) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(f.Path, LockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of a task: %w", err)
	}
	for {
		err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		switch {
		case err == nil:
			return file, nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			file.Close()
			return nil, fmt.Errorf("taking the lock of a task: %w", err)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("taking the lock of a task: another run is under way: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// isLocked reports whether a keeper is at work, without taking the lock from it.
func (f Folder) isLocked() (bool, error) {
	file, err := os.OpenFile(filepath.Join(f.Path, LockName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("opening the lock of a task: %w", err)
	}
	defer file.Close()
	holder := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &holder); err != nil {
		return false, fmt.Errorf("asking who holds the lock of a task: %w", err)
	}
	return holder.Type != unix.F_UNLCK, nil
}
