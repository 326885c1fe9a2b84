package remote

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
)

// lockPoll is how often a lock held by an older process is tried again.
const lockPoll = 20 * time.Millisecond

// takeLock waits until no process of the plugin can be running, and returns
// the locked file. The child inherits it, and it alone keeps it open, so that
// the lock is free exactly when the child is gone. waiting is told of a
// holder.
func takeLock(ctx context.Context, dir, name string, waiting func(error)) (*os.File, error) {
	path := filepath.Join(dir, name+".lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "opening the lock of plugin %s: %w", name, err)
	}
	for notified := false; ; notified = true {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			file.Close()
			return nil, fault.New(fault.Unavailable, "locking %s for plugin %s: %w", path, name, err)
		}
		if !notified {
			waiting(fault.New(fault.Unavailable, "plugin %s waits until its older process%s has ended, which holds %s", name, holder(path), path).
				WithHint("if it does not end by itself, end it; a second lehr on the same store holds it too"))
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

// holder names the process that wrote itself into the lock last.
func holder(path string) string {
	content, err := os.ReadFile(path)
	pid, notNumber := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || notNumber != nil {
		return ""
	}
	return " " + strconv.Itoa(pid)
}

// sign writes which process holds the lock, for people.
func sign(file *os.File, pid int) {
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	}
}
