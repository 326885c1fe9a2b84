package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/relational"
)

// Backup writes a copy of the store at one moment into a new file, beside the
// server or without one, and returns what it verified in the copy. A file that
// is there is never written over; an unfinished copy has another name.
func Backup(ctx context.Context, path, target string) (verified store.Verified, err error) {
	attempt := "backing up the store to " + target
	if target, err = absent(attempt, target); err != nil {
		return verified, err
	}
	source, err := OpenUnlocked(ctx, Options{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return verified, err
	}
	defer source.Close()
	unfinished, err := unfinishedName(target)
	if err != nil {
		return verified, openFailure(attempt, err)
	}
	defer remove(unfinished)
	if _, err := source.db.ExecContext(ctx, "VACUUM INTO ?", unfinished); err != nil {
		return verified, failure(attempt, err)
	}
	if verified, err = finish(ctx, attempt, unfinished); err != nil {
		return verified, err
	}
	// A link, unlike a name given anew, fails when the name is taken.
	if err := os.Link(unfinished, target); err != nil {
		return verified, openFailure(attempt, err)
	}
	return verified, openFailure(attempt, syncFolder(filepath.Dir(target)))
}

// absent is the full name of a file that must not be there.
func absent(attempt, path string) (string, error) {
	path, err := resolve(path, true)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.Conflict, "%s: it is there already", attempt).WithHint("name a new file: nothing is written over")
	}
	return path, nil
}

// unfinishedName makes an empty file beside the one that it is to become.
func unfinishedName(target string) (string, error) {
	file, err := os.CreateTemp(filepath.Dir(target), filepath.Base(target)+".unfinished-*")
	if err != nil {
		return "", err
	}
	return file.Name(), file.Close()
}

// remove takes an unfinished copy away, or its name, once it has another.
func remove(unfinished string) {
	for _, more := range []string{"", "-wal", "-shm", "-journal"} {
		os.Remove(unfinished + more) // It may not be there.
	}
}

// finish marks a copy as one, verifies it and makes it durable.
func finish(ctx context.Context, attempt, copied string) (verified store.Verified, err error) {
	db, err := Connect(copied)
	if err != nil {
		return verified, failure(attempt, err)
	}
	defer db.Close()
	older, err := checkContent(ctx, db, copied, false)
	if err != nil {
		return verified, failure(attempt, err)
	}
	if older { // The copy has room for checksums.
		if _, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
			return verified, failure(attempt, err)
		}
	}
	if err := schema.Migrate(ctx, engine{}, db, copied, true); err != nil {
		return verified, err
	}
	if err := relational.MarkRestored(ctx, engine{}, db, time.Now()); err != nil {
		return verified, failure(attempt, err)
	}
	if verified, err = verifyCopy(ctx, db); err != nil {
		return verified, err
	}
	if err := db.Close(); err != nil {
		return verified, failure(attempt, err)
	}
	file, err := os.OpenFile(copied, os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(file.Sync(), file.Close())
	}
	if err != nil {
		return verified, openFailure(attempt, err)
	}
	return verified, nil
}

// verifyCopy reads the whole of a database that nobody else has.
func verifyCopy(ctx context.Context, db *sql.DB) (store.Verified, error) {
	o := relational.Options{
		Engine: engine{}, DB: db, Readers: 1, Runtime: loop.Real(), Log: slog.New(slog.DiscardHandler), Writer: "file",
	}
	s := &Store{db: db, Store: relational.New(o)}
	defer s.Store.Close()
	return s.Verify(ctx)
}

// Restore puts a backup in the store's place, once it is verified. The store
// that was there keeps its files under the name that is returned; none: "". It
// is a Conflict while a server has the store.
func Restore(ctx context.Context, backup, path string, now time.Time) (aside string, verified store.Verified, err error) {
	attempt := fmt.Sprintf("restoring the backup %s to %s", backup, path)
	if path, err = resolve(path, true); err != nil {
		return "", verified, err
	}
	lock, err := lockFile(path)
	if err != nil {
		return "", verified, err
	}
	defer lock.release()
	exists := true
	switch err := lock.lockDatabase(path); {
	case fault.Is(err, fault.NotFound):
		exists = false
	case err != nil:
		return "", verified, err
	}
	unfinished, err := unfinishedName(path)
	if err != nil {
		return "", verified, openFailure(attempt, err)
	}
	defer remove(unfinished)
	if err := copyBackup(ctx, attempt, backup, unfinished); err != nil {
		return "", verified, err
	}
	if verified, err = finish(ctx, attempt, unfinished); err != nil {
		return "", verified, err
	}
	name := path + ".before-" + now.UTC().Format("20060102T150405.000")
	if err := setAside(ctx, attempt, path, name, exists); err != nil {
		return "", verified, err
	}
	// At each moment the name is the old store's or the restored one's.
	if !exists {
		return "", verified, openFailure(attempt, errors.Join(os.Link(unfinished, path), syncFolder(filepath.Dir(path))))
	}
	return name, verified, openFailure(attempt, errors.Join(os.Rename(unfinished, path), syncFolder(filepath.Dir(path))))
}

// setAside gives the old store another name beside its own, once it is whole
// without its log: beside the restored store that would be taken for its log.
// The log of a store that is damaged, or gone, only gets another name.
func setAside(ctx context.Context, attempt, path, aside string, exists bool) error {
	if _, err := os.Lstat(aside); !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Conflict, "%s: %s is there already", attempt, aside).WithHint("try again")
	}
	if exists {
		if err := foldLog(ctx, path); inUse(err) {
			return failure(attempt, err)
		}
	}
	for _, more := range []string{"-wal", "-journal", "-shm"} {
		if err := os.Rename(path+more, aside+more); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return openFailure(attempt, err)
		}
	}
	if exists {
		if err := os.Link(path, aside); err != nil {
			return openFailure(attempt, err)
		}
	}
	return openFailure(attempt, syncFolder(filepath.Dir(path)))
}

// foldLog moves the log into the file and deletes it, which works only while
// nobody else has the store open.
func foldLog(ctx context.Context, path string) error {
	db, err := Connect(path, "busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "PRAGMA journal_mode = DELETE")
	return err
}

// copyBackup makes a store of a backup, page by page. The backup must be a
// whole file: one with a log beside it is not a backup but a store.
func copyBackup(ctx context.Context, attempt, source, target string) error {
	source, err := resolve(source, false)
	if err != nil {
		return err
	}
	if err := checkFile(source, os.O_RDONLY); err != nil {
		return err
	}
	if log, err := os.Stat(source + "-wal"); err == nil && log.Size() > 0 {
		return fault.New(fault.Invalid, "%s: it is no backup but a store, whose newest commits are in %s-wal", attempt, source).
			WithHint("make a backup of it: lehr backup FILE --store %s", source)
	}
	db, err := connect(source, "mode=ro&immutable=1") // It may lie where nothing can be written.
	if err != nil {
		return failure(attempt, err)
	}
	defer db.Close()
	if _, err := checkContent(ctx, db, source, false); err != nil {
		return failure(attempt, err)
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", target)
	return failure(attempt, err)
}
