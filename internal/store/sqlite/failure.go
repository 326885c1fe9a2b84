package sqlite

import (
	"context"
	"errors"
	"syscall"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"lehr.dev/internal/ground/fault"
)

// failure turns what SQLite or the system says into a fault that tells what
// was attempted and what a person can do. Faults pass as they are.
func failure(attempt string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Unavailable, "%s: gave up: %w", attempt, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return full(attempt, err)
	case errors.Is(err, syscall.EIO):
		return failing(attempt, err)
	}
	engine, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return fault.New(fault.Internal, "%s: %w", attempt, err)
	}
	if engine.Code() == lib.SQLITE_IOERR_DATA {
		return damaged(attempt, err)
	}
	switch engine.Code() & 0xff {
	case lib.SQLITE_FULL:
		return full(attempt, err)
	case lib.SQLITE_IOERR:
		return failing(attempt, err)
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return fault.New(fault.Unavailable, "%s: another process is writing to the store: %w", attempt, err).WithHint("try again")
	case lib.SQLITE_INTERRUPT:
		return fault.New(fault.Unavailable, "%s: interrupted: %w", attempt, err)
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return fault.New(fault.Denied, "%s: the store cannot be written: %w", attempt, err).
			WithHint("check the permissions of the file, of its folder and of the file system")
	case lib.SQLITE_CANTOPEN:
		return fault.New(fault.Unavailable, "%s: the store cannot be opened: %w", attempt, err).
			WithHint("check that its folder exists and may be written, and that its disk has space left and works")
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return damaged(attempt, err)
	case lib.SQLITE_TOOBIG:
		return fault.New(fault.Invalid, "%s: too large: %w", attempt, err)
	default:
		return fault.New(fault.Internal, "%s: %w", attempt, err)
	}
}

// inUse: another connection is in the way.
func inUse(err error) bool {
	engine, ok := errors.AsType[*driver.Error](err)
	return ok && engine.Code()&0xff == lib.SQLITE_BUSY
}

func damaged(attempt string, err error) error {
	return fault.New(fault.Internal, "%s: the store is damaged: %w", attempt, err).
		WithHint("its disk may be failing: stop, and restore a backup: lehr restore FILE")
}

func failing(attempt string, err error) error {
	return fault.New(fault.Unavailable, "%s: the store cannot be read or written: %w", attempt, err).
		WithHint("check the disk: is it full, or failing? writes are taken again once it works, and nothing accepted is lost")
}

func full(attempt string, err error) error {
	return fault.New(fault.Unavailable, "%s: the store's disk is full: %w", attempt, err).
		WithHint("free space on it; writes are taken again without a restart, and nothing accepted is lost")
}
