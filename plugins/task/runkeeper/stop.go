package runkeeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/plugins/task/runrecord"
)

// Stop tells the keeper of a task to stop, which ends its program, and waits until it has. It
// returns at once where none is at work.
func Stop(ctx context.Context, folder runrecord.Folder) error {
	told := 0
	for {
		found, err := folder.Load()
		if err != nil || !found.IsLive {
			return err
		}
		if pid := keeperOf(folder); pid != told {
			if err := tell(folder, pid); err != nil {
				return err
			}
			told = pid
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the keeper of a run to end: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// keeperOf is the process that the lock names; 0: it names none yet.
func keeperOf(folder runrecord.Folder) int {
	text, err := os.ReadFile(filepath.Join(folder.Path, runrecord.LockName))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || pid <= 1 {
		return 0
	}
	return pid
}

// tell sends SIGTERM to the process that holds the lock, and to no other that has its number
// by now: while the lock is held, its keeper has it.
func tell(folder runrecord.Folder, pid int) error {
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
	if found, err := folder.Load(); err != nil || !found.IsLive || keeperOf(folder) != pid {
		return err
	}
	if err := unix.PidfdSendSignal(process, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("stopping the keeper of a run: %w", err)
	}
	return nil
}
