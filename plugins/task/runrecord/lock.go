package runrecord

import (
	"context"
	"os"
	"path/filepath"

	"lehr.dev/sdk/keeper"
)

// LockName is the file that the keeper of a run holds locked as long as it lives, and in which
// its process id is, so that no two are at work and everybody sees whether one is.
const LockName = "lock"

// LockPath is where the lock of the task is.
func (f Folder) LockPath() string { return filepath.Join(f.Path, LockName) }

// Lock takes the task's lock and waits for it as long as ctx lets it.
func (f Folder) Lock(ctx context.Context) (*os.File, error) { return keeper.Lock(ctx, f.LockPath()) }

// isLocked reports whether a keeper is at work, without taking the lock from it.
func (f Folder) isLocked() (bool, error) { return keeper.IsLocked(f.LockPath()) }
