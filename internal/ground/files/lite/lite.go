// Package lite opens SQLite databases that somebody names. It judges the file that
// SQLite itself has open, not its name: a file of the process's own (package files) is
// refused however it is reached, and so is a file that took another's place while it
// was being opened. Sources of partitions, external checks, imports and plugins use it.
package lite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	_ "modernc.org/sqlite" // The driver.
	lib "modernc.org/sqlite/lib"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

const (
	vfsName = "lehr-judged"
	// identity names the parameter that says which file is to be open.
	identity = "lehr_is"
)

// Open opens a database by the absolute path of its file, which is never made and
// not written to. Within are the folders below one of which it must lie; nil: it may
// lie anywhere. Denied: it may not be read. The pragmas are for each connection.
func Open(path string, within []string, pragmas ...string) (*sql.DB, error) {
	if err := files.Within(path, within); err != nil {
		return nil, err
	}
	name, err := Name(path, "ro", append(pragmas, "query_only(1)", "trusted_schema(0)")...)
	if err != nil {
		return nil, err
	}
	return sql.Open("sqlite", name)
}

// Name is what the driver is to be given to open the database at an absolute path, in
// SQLite's mode "ro" or "rw", with pragmas for each connection. Denied: it is a file of
// the process's own.
func Name(path, mode string, pragmas ...string) (string, error) {
	if err := install(); err != nil {
		return "", err
	}
	file, fileIdentity, err := look(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	// Its logs are opened by their names.
	for _, more := range []string{"-wal", "-journal", "-shm"} {
		sidecar, _, err := look(path + more)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		sidecar.Close()
	}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=" + mode + "&vfs=" + vfsName + "&" + identity + "=" + fileIdentity
	for _, pragma := range pragmas {
		name += "&_pragma=" + url.QueryEscape(pragma)
	}
	return name, nil
}

// look opens a file to be looked at, and says which it is.
func look(path string) (*os.File, string, error) {
	seen, err := os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", err
	}
	fileIdentity, err := judge(int(seen.Fd()), path)
	if err != nil {
		seen.Close()
		return nil, "", err
	}
	return seen, fileIdentity, nil
}

// judge says which file is open. Invalid: no regular one. Denied: the process's own.
func judge(open int, path string) (string, error) {
	var info unix.Stat_t
	if err := unix.Fstat(open, &info); err != nil {
		return "", err
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", fault.New(fault.Invalid, "%s is not a regular file", path).WithHint("name an SQLite file")
	}
	if err := files.RefuseDescriptor(open, path); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", info.Dev, info.Ino), nil
}

var installation struct {
	once sync.Once
	err  error
}

type openMethod = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32

// at is what lies at an address of SQLite's memory, which knows nothing of Go.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// function is the function at an address, and pointer the other way round: an
// address of code that holds a Go function is one of a word that points to it.
func function[F any](address uintptr) F {
	word := &struct{ address uintptr }{address}
	return *(*F)(unsafe.Pointer(&word.address))
}

func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// install makes a way to files known to SQLite, once in a process: the system's,
// but that what was opened is judged.
func install() error {
	i := &installation
	i.once.Do(func() {
		// The driver sets up SQLite before the first connection.
		db, err := sql.Open("sqlite", ":memory:")
		if err == nil {
			err = db.PingContext(context.Background())
			db.Close()
		}
		if err != nil {
			i.err = fault.New(fault.Internal, "starting SQLite: %w", err)
			return
		}
		tls := libc.NewTLS()
		defer tls.Close()
		name, err := libc.CString(vfsName)
		memory := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
		if err != nil || memory == 0 {
			i.err = fault.New(fault.Unavailable, "starting SQLite: out of memory")
			return
		}
		vfs := at[lib.Tsqlite3_vfs](memory)
		*vfs = *at[lib.Tsqlite3_vfs](lib.Xsqlite3_vfs_find(tls, 0))
		vfs.FpNext, vfs.FzName, vfs.FxOpen = 0, name, pointer(openMethod(openJudged))
		if code := lib.Xsqlite3_vfs_register(tls, memory, 0); code != lib.SQLITE_OK {
			i.err = fault.New(fault.Internal, "starting SQLite: it refuses a file system: code %d", code)
		}
	})
	return i.err
}

// openJudged opens a file, and closes it again unless it is the one that was looked
// at before, or a log that is no file of the process's own. SQLite closes it, for it
// knows of locks that others have on the same file.
func openJudged(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	const judged = lib.SQLITE_OPEN_MAIN_DB | lib.SQLITE_OPEN_WAL | lib.SQLITE_OPEN_MAIN_JOURNAL
	vfs := lib.Xsqlite3_vfs_find(tls, 0)
	code := function[openMethod](at[lib.Tsqlite3_vfs](vfs).FxOpen)(tls, vfs, name, file, flags, outFlags)
	if code != lib.SQLITE_OK || name == 0 || flags&judged == 0 {
		return code
	}
	openIdentity, err := judge(int(at[lib.TunixFile](file).Fh), libc.GoString(name))
	if err == nil && flags&lib.SQLITE_OPEN_MAIN_DB != 0 && openIdentity != wanted(tls, name) {
		err = errors.New("another file took its place")
	}
	if err == nil {
		return code
	}
	methods := at[lib.Tsqlite3_io_methods](at[lib.Tsqlite3_file](file).FpMethods)
	function[func(tls *libc.TLS, file uintptr) int32](methods.FxClose)(tls, file)
	at[lib.Tsqlite3_file](file).FpMethods = 0
	return lib.SQLITE_CANTOPEN
}

// wanted says which file is to be open.
func wanted(tls *libc.TLS, name uintptr) string {
	parameter, err := libc.CString(identity)
	if err != nil {
		return ""
	}
	defer libc.Xfree(tls, parameter)
	value := lib.Xsqlite3_uri_parameter(tls, name, parameter)
	if value == 0 {
		return ""
	}
	return libc.GoString(value)
}
