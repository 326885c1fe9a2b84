package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pressly/goose/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/store/relational"
)

const (
	// connections: one writes, the others read. The pool itself has no limit:
	// its readers are counted, see readers.
	connections = 8
	// quickCheckBytes is the size up to which the whole file is checked when
	// it is opened; of larger ones what is read is checked as it is read.
	quickCheckBytes = 16 << 20
	// applicationID marks the file as Lehr's ("lehs"), and olderApplicationID as
	// one whose pages have no checksums ("lehr").
	applicationID      = 0x6c656873
	olderApplicationID = 0x6c656872
)

//go:embed migrations/*.sql
var migrations embed.FS

var schema = relational.Schema{
	Dialect: goose.DialectSQLite3, Migrations: migrations,
	There: "SELECT count(*) FROM sqlite_master WHERE name = 'goose_db_version'",
}

// Open opens the store to serve it, and makes the file if there is none. A
// store that another process serves is a Conflict.
func Open(ctx context.Context, options Options) (*Store, error) {
	return openStore(ctx, options, true)
}

// OpenUnlocked opens an existing store beside the process that serves it, for
// reading it and for the brakes. It never acts for a partition: everything
// that needs a lease is Denied.
func OpenUnlocked(ctx context.Context, options Options) (*Store, error) {
	return openStore(ctx, options, false)
}

func openStore(ctx context.Context, options Options, serving bool) (_ *Store, err error) {
	o := relational.Options{
		Engine: engine{shared: options.DB == nil, clock: options.Clock}, DB: options.DB, Serving: serving, Readers: connections - 1,
		Runtime: options.Runtime, Log: options.Log, Writer: "file", Measure: options.Measure,
	}
	if o.Runtime == nil {
		o.Runtime = loop.Real()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &Store{}
	path := "in memory"
	if o.DB == nil {
		if path, err = resolve(options.Path, serving); err != nil {
			return nil, err
		}
		if s.file, err = openFile(ctx, path, serving); err != nil {
			return nil, err
		}
		if s.file.older && serving {
			o.Log.Warn("the store's pages have no checksums, for an older lehr made it: damage of its disk may go unnoticed; restore a backup of it to give it some", "store", path)
		}
		o.Runtime.Point("store: the log is durable")
		o.DB = s.file.db
	}
	if err := schema.Migrate(ctx, o.Engine, o.DB, path, serving); err != nil {
		_ = s.file.close() // What was wrong before is what matters.
		return nil, err
	}
	if s.file != nil {
		if o.Witness, err = relational.OpenWitness(path+".witness", serving); err != nil {
			_ = s.file.close()
			return nil, err
		}
	}
	s.Store = relational.New(o)
	s.db = o.DB
	if s.file != nil && serving {
		if err := s.Examine(ctx); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

// openFile locks the file if it is to be served, and connects to it.
func openFile(ctx context.Context, path string, serving bool) (_ *file, err error) {
	f := &file{}
	defer func() {
		if err != nil {
			_ = f.close()
		}
	}()
	if serving {
		if f.lock, err = lockFile(path); err != nil {
			return nil, err
		}
	}
	flags := os.O_RDWR
	if serving {
		flags |= os.O_CREATE
	}
	if err := checkFile(path, flags); err != nil {
		return nil, err
	}
	if serving {
		if err := f.lock.lockDatabase(path); err != nil {
			return nil, err
		}
	}
	// Not made here: a connection that finds the file gone, for it was moved,
	// would make an empty one and spoil the journal that both then share.
	f.db, err = Connect(path, "busy_timeout(5000)", "journal_mode(WAL)", "cache_size(-16384)", "journal_size_limit(67108864)")
	if err == nil {
		f.db.SetMaxIdleConns(connections)
		f.older, err = checkContent(ctx, f.db, path, serving)
	}
	if err == nil && serving {
		err = rewriteLog(ctx, f.db, path)
	}
	return f, failure("opening the store "+path, err)
}

// resolve finds the one name of the file, so that two names share its lock.
func resolve(path string, create bool) (string, error) {
	if path == "" {
		return "", fault.New(fault.Invalid, "opening the store: no file is named")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", openFailure("opening the store "+path, err)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(absolute))
	if err != nil {
		return "", openFailure("opening the store "+path+": its folder", err)
	}
	resolved := filepath.Join(folder, filepath.Base(absolute))
	target, err := filepath.EvalSymlinks(resolved)
	switch {
	case err == nil:
		return target, checkPlaces(target)
	case errors.Is(err, fs.ErrNotExist) && create:
		return resolved, checkPlaces(resolved)
	default:
		return "", openFailure("opening the store "+path, err)
	}
}

// checkPlaces refuses pipes and the like in the place of the store, and of the files
// beside it, before any lock is taken: to open one would take for ever.
func checkPlaces(path string) error {
	for _, more := range []string{"", "-wal", "-shm", "-journal", ".lock", ".witness"} {
		if err := files.CheckPlace(path + more); err != nil {
			return fault.New(fault.Invalid, "opening the store %s: %w", path, err).WithHint("name another file with --store, or move what is there away")
		}
	}
	return nil
}

// checkFile makes the file if the flags say so, and refuses what is no database.
func checkFile(path string, flags int) error {
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return openFailure("opening the store "+path, err)
	}
	defer file.Close()
	const magic = "SQLite format 3\x00"
	header, err := io.ReadAll(io.LimitReader(file, int64(len(magic))))
	if err != nil {
		return openFailure("reading the store "+path, err)
	}
	if len(header) > 0 && !bytes.Equal(header, []byte(magic)) {
		return fault.New(fault.Invalid, "%s is not a store: it is not a SQLite database", path).
			WithHint("name another file; this one was not changed")
	}
	return nil
}

// checkContent refuses another program's database and a damaged one, and tells
// whether an older Lehr made it.
func checkContent(ctx context.Context, db *sql.DB, path string, serving bool) (older bool, err error) {
	var application, tables, pages, pageBytes int64
	for pragma, value := range map[string]*int64{"application_id": &application, "page_count": &pages, "page_size": &pageBytes} {
		if err := db.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(value); err != nil {
			return false, err
		}
	}
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return false, err
	}
	switch {
	case application == applicationID:
	case application == olderApplicationID:
		older = true
	case tables == 0 && serving:
		if _, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
			return false, err
		}
	default:
		return false, fault.New(fault.Invalid, "%s is a SQLite database, but not a store of lehr", path).
			WithHint("name another file; this one was not changed")
	}
	if pages*pageBytes > quickCheckBytes {
		return older, nil
	}
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return false, err
	}
	if verdict != "ok" {
		return false, fault.New(fault.Internal, "the store %s is damaged: %s", path, verdict).WithHint("restore it from a backup")
	}
	return older, nil
}

// openFailure says why a file could not be opened; nil when it was.
func openFailure(attempt string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "%s: %w", attempt, err).WithHint("create the folder, or name another file")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.New(fault.Denied, "%s: %w", attempt, err).WithHint("lehr must be able to write the file and its folder")
	case errors.Is(err, syscall.EISDIR):
		return fault.New(fault.Invalid, "%s: %w", attempt, err).WithHint("name a file, not a folder")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return full(attempt, err)
	case errors.Is(err, syscall.EIO):
		return failing(attempt, err)
	default:
		return fault.New(fault.Internal, "%s: %w", attempt, err)
	}
}
