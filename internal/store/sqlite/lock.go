package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"lehr.dev/internal/ground/fault"
)

// fileLock is the operating system's lock on FILE.lock. It is the lease: who
// holds it serves the store, and it ends with the process.
type fileLock struct {
	file *os.File
	// database is the store itself, locked too: it may have several names,
	// or be given another one while it is served.
	database *os.File
}

// Reserve locks a place for files beside a store that is elsewhere, as the file
// of a store is locked. Closing it frees the place.
func Reserve(path string) (io.Closer, error) {
	if err := checkPlaces(path); err != nil {
		return nil, err
	}
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	return lock, nil
}

// Close implements io.Closer.
func (l *fileLock) Close() error {
	l.release()
	return nil
}

func lockFile(path string) (*fileLock, error) {
	name := path + ".lock"
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, openFailure("locking the store: opening "+name, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer file.Close()
		return nil, fault.New(fault.Conflict, "the store %s is being served by %s", path, holder(name)).
			WithHint("stop that server first, or give this one a store of its own; to stop enforcement, use lehr stop --store %s", path)
	}
	if err == nil {
		err = writeHolder(file)
	}
	if err != nil {
		unlock(file)
		return nil, openFailure("locking "+name, err)
	}
	return &fileLock{file: file}, nil
}

// lockDatabase locks the store itself. It stays open for as long as SQLite has
// the file open: closing it before would end SQLite's own locks.
func (l *fileLock) lockDatabase(path string) (err error) {
	if l.database, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return openFailure("opening the store "+path, err)
	}
	err = syscall.Flock(int(l.database.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fault.New(fault.Conflict, "the store %s is being served by another process under another name of the file", path).
			WithHint("stop that server first, or give this one a store of its own")
	}
	if err != nil {
		return openFailure("locking "+path, err)
	}
	return nil
}

func writeHolder(file *os.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt(fmt.Appendf(nil, "process %d on %s\n", os.Getpid(), host), 0)
	return err
}

func holder(name string) string {
	text, err := os.ReadFile(name)
	if err != nil || len(text) == 0 {
		return "another process"
	}
	return strings.TrimSpace(string(text))
}

// release gives up the lock. The file stays: removing it would let two
// processes lock two files of the same name.
func (l *fileLock) release() {
	if l != nil {
		unlock(l.database)
		unlock(l.file)
	}
}

// unlock ends the lock of a file and closes it; nil is no file. To close it is not enough:
// a process that is just being started has a copy of the descriptor until it executes its
// program, and the lock would last as long.
func unlock(file *os.File) {
	if file == nil {
		return
	}
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	_ = file.Close()
}
