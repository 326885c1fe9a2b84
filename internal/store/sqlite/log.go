package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// rewriteLog makes durable whatever an earlier process left in the log, before
// anybody sees it (S14). A killed process may have left commits there that it
// had not synced; and what a sync failed on is taken for written by the system,
// so that later syncs pass it by, and with it go all commits that follow it in
// the log when the power goes. So the log is written again as it stands. That
// changes nothing in it: an interruption does no harm.
func rewriteLog(ctx context.Context, db *sql.DB, path string) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// No process writes to the log meanwhile.
	if _, err := conn.ExecContext(ctx, engine{}.Begin()); err != nil {
		return err
	}
	defer func() {
		_, undo := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		err = errors.Join(err, undo)
	}()
	log, err := os.OpenFile(path+"-wal", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer log.Close()
	buffer := make([]byte, 1<<20)
	for offset := int64(0); ; {
		count, err := log.ReadAt(buffer, offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if count == 0 {
			break
		}
		if _, err := log.WriteAt(buffer[:count], offset); err != nil {
			return err
		}
		offset += int64(count)
	}
	return errors.Join(log.Sync(), syncFolder(filepath.Dir(path)))
}

// syncFolder makes durable which files are in the folder.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); !errors.Is(err, syscall.EINVAL) { // Some file systems have no such thing.
		return err
	}
	return nil
}

// MakeFolder makes a folder for a store, with all above it that are missing,
// readable by their user only. They are durable when it returns.
func MakeFolder(folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	var missing []string
	for parent := folder; ; parent = filepath.Dir(parent) {
		if _, err := os.Stat(parent); err == nil || !errors.Is(err, fs.ErrNotExist) {
			break // What is wrong with it, making the rest tells.
		}
		missing = append(missing, parent)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for _, created := range missing {
		if err := syncFolder(filepath.Dir(created)); err != nil {
			return err
		}
	}
	return nil
}
