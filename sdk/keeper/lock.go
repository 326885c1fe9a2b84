package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Lock takes the lock that is a file, which it makes where there is none, and waits for it as
// long as ctx lets it. It ends with the process, however that ends; no program that the process
// starts has it.
func Lock(ctx context.Context, path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of a run: %w", err)
	}
	for {
		err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
		switch {
		case err == nil:
			return file, nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			file.Close()
			return nil, fmt.Errorf("taking the lock of a run: %w", err)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("taking the lock of a run: another run is under way: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// IsLocked reports whether a process holds the lock, without taking it from it.
func IsLocked(path string) (bool, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("opening the lock of a run: %w", err)
	}
	defer file.Close()
	holder := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &holder); err != nil {
		return false, fmt.Errorf("asking who holds the lock of a run: %w", err)
	}
	return holder.Type != unix.F_UNLCK, nil
}

// Sign writes into a lock which process holds it.
func Sign(lock *os.File) error {
	if _, err := lock.WriteAt(fmt.Appendf(nil, "%-20d\n", os.Getpid()), 0); err != nil {
		return fmt.Errorf("naming the keeper in the lock of a run: %w", err)
	}
	return nil
}

// Stop sends SIGTERM to the keeper that holds the lock, and waits until it has ended. It
// returns at once where none is at work.
func Stop(ctx context.Context, path string) error {
	signalled := 0
	for {
		isLocked, err := IsLocked(path)
		if err != nil || !isLocked {
			return err
		}
		if pid := holder(path); pid != signalled {
			if err := Signal(path, unix.SIGTERM); err != nil {
				return err
			}
			signalled = pid
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the keeper of a run to end: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Signal sends a signal to the keeper that holds the lock and has signed it; to none where
// there is no such.
func Signal(path string, signal unix.Signal) error {
	pid := holder(path)
	if pid == 0 {
		return nil
	}
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("finding the keeper of a run: %w", err)
	}
	defer unix.Close(process)
	// Another process may have the number by now: while the lock is held, its keeper has it.
	if isLocked, err := IsLocked(path); err != nil || !isLocked || holder(path) != pid {
		return err
	}
	if err := unix.PidfdSendSignal(process, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("sending %s to the keeper of a run: %w", unix.SignalName(signal), err)
	}
	return nil
}

// holder is the process that signed the lock; 0: none has yet.
func holder(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}
