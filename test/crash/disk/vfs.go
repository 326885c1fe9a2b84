package disk

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// vfs is SQLite's own way to the file system with a watch before it. Its
// memory belongs to SQLite, which knows nothing of Go.
var vfs struct {
	once sync.Once
	err  error
	// unix is SQLite's own, and openDirectory how it begins to sync a folder.
	unix          *lib.Tsqlite3_vfs
	unixAddress   uintptr
	openDirectory uintptr

	mutex sync.Mutex
	disks map[string]*Disk
	files map[uintptr]openFile
	// methods of watched files, by those that they stand before.
	methods map[uintptr]uintptr
}

type openFile struct {
	disk *Disk
	name string
	own  *lib.Tsqlite3_io_methods
}

// at is what lies at an address of SQLite's memory.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// function is the function at an address, and pointer the other way round: an
// address of code that holds a Go function is one of a word that points to it.
func function[F any](address uintptr) F {
	word := &struct{ address uintptr }{address}
	return *(*F)(unsafe.Pointer(&word.address))
}

func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

type (
	fileMethod     = func(*libc.TLS, uintptr) int32
	writeMethod    = func(*libc.TLS, uintptr, uintptr, int32, int64) int32
	truncateMethod = func(*libc.TLS, uintptr, int64) int32
	syncMethod     = func(*libc.TLS, uintptr, int32) int32
	openMethod     = func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32
	deleteMethod   = func(*libc.TLS, uintptr, uintptr, int32) int32
	folderMethod   = func(*libc.TLS, uintptr, uintptr) int32
	getCall        = func(*libc.TLS, uintptr, uintptr) uintptr
	setCall        = func(*libc.TLS, uintptr, uintptr, uintptr) int32
)

// install makes the watch the way that every later connection of the process
// takes. It never goes away again; files of unwatched folders pass it by.
func install() error {
	vfs.once.Do(func() { vfs.err = installOnce() })
	return vfs.err
}

func installOnce() error {
	// The driver sets up SQLite before the first connection.
	db, err := sql.Open("sqlite", ":memory:")
	if err == nil {
		err = db.PingContext(context.Background())
		db.Close()
	}
	if err != nil {
		return fmt.Errorf("starting SQLite: %w", err)
	}
	vfs.disks, vfs.files, vfs.methods = map[string]*Disk{}, map[uintptr]openFile{}, map[uintptr]uintptr{}
	tls := libc.NewTLS()
	defer tls.Close()
	vfs.unixAddress = lib.Xsqlite3_vfs_find(tls, 0)
	vfs.unix = at[lib.Tsqlite3_vfs](vfs.unixAddress)
	watched := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(*vfs.unix)))
	name, err := libc.CString("lehr-watched")
	if err != nil || watched == 0 {
		return fmt.Errorf("out of memory: %v", err)
	}
	w := at[lib.Tsqlite3_vfs](watched)
	*w = *vfs.unix
	w.FpNext, w.FzName = 0, name
	w.FxOpen, w.FxDelete = pointer(openMethod(xOpen)), pointer(deleteMethod(xDelete))
	call, err := libc.CString("openDirectory")
	if err != nil {
		return err
	}
	vfs.openDirectory = function[getCall](vfs.unix.FxGetSystemCall)(tls, vfs.unixAddress, call)
	if vfs.openDirectory == 0 || function[setCall](vfs.unix.FxSetSystemCall)(tls, vfs.unixAddress, call, pointer(folderMethod(xOpenDirectory))) != lib.SQLITE_OK {
		return fmt.Errorf("SQLite does not let its syncs of folders be watched")
	}
	if code := lib.Xsqlite3_vfs_register(tls, watched, 1); code != lib.SQLITE_OK {
		return fmt.Errorf("SQLite does not take the watch: %d", code)
	}
	return nil
}

// watching is the disk that a path lies on, if it is watched.
func watching(path string) *Disk {
	vfs.mutex.Lock()
	defer vfs.mutex.Unlock()
	return vfs.disks[filepath.Dir(path)]
}

func opened(file uintptr) openFile {
	vfs.mutex.Lock()
	defer vfs.mutex.Unlock()
	return vfs.files[file]
}

func xOpen(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	open := function[openMethod](vfs.unix.FxOpen)
	if name == 0 {
		return open(tls, vfs.unixAddress, name, file, flags, outFlags)
	}
	path := libc.GoString(name)
	d := watching(path)
	if d == nil {
		return open(tls, vfs.unixAddress, name, file, flags, outFlags)
	}
	base := filepath.Base(path)
	if d.creates(base) {
		if code := d.change(Event{Kind: Create, File: base}, lib.SQLITE_CANTOPEN, nil); code != lib.SQLITE_OK {
			at[lib.Tsqlite3_file](file).FpMethods = 0
			return code
		}
	}
	code := open(tls, vfs.unixAddress, name, file, flags, outFlags)
	if code != lib.SQLITE_OK {
		return code
	}
	vfs.mutex.Lock()
	defer vfs.mutex.Unlock()
	own := at[lib.Tsqlite3_file](file).FpMethods
	if vfs.methods[own] == 0 {
		copied := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
		m := at[lib.Tsqlite3_io_methods](copied)
		*m = *at[lib.Tsqlite3_io_methods](own)
		m.FxClose, m.FxWrite = pointer(fileMethod(xClose)), pointer(writeMethod(xWrite))
		m.FxTruncate, m.FxSync = pointer(truncateMethod(xTruncate)), pointer(syncMethod(xSync))
		vfs.methods[own] = copied
	}
	vfs.files[file] = openFile{disk: d, name: base, own: at[lib.Tsqlite3_io_methods](own)}
	at[lib.Tsqlite3_file](file).FpMethods = vfs.methods[own]
	return lib.SQLITE_OK
}

func xClose(tls *libc.TLS, file uintptr) int32 {
	vfs.mutex.Lock()
	own := vfs.files[file].own
	delete(vfs.files, file)
	vfs.mutex.Unlock()
	return function[fileMethod](own.FxClose)(tls, file)
}

func xWrite(tls *libc.TLS, file, data uintptr, amount int32, offset int64) int32 {
	f := opened(file)
	write := function[writeMethod](f.own.FxWrite)
	bytes := append([]byte(nil), unsafe.Slice(at[byte](data), amount)...)
	return f.disk.change(Event{Kind: Write, File: f.name, Offset: offset, Data: bytes}, lib.SQLITE_IOERR_WRITE, func(short bool) int32 {
		if short {
			amount /= 2
		}
		return write(tls, file, data, amount, offset)
	})
}

func xTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	f := opened(file)
	return f.disk.change(Event{Kind: Truncate, File: f.name, Offset: size}, lib.SQLITE_IOERR_TRUNCATE, func(bool) int32 {
		return function[truncateMethod](f.own.FxTruncate)(tls, file, size)
	})
}

func xSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	f := opened(file)
	return f.disk.change(Event{Kind: Sync, File: f.name}, lib.SQLITE_IOERR_FSYNC, func(bool) int32 {
		if f.disk.spare {
			return lib.SQLITE_OK
		}
		return function[syncMethod](f.own.FxSync)(tls, file, flags)
	})
}

func xDelete(tls *libc.TLS, _, name uintptr, syncFolder int32) int32 {
	remove := func(bool) int32 {
		return function[deleteMethod](vfs.unix.FxDelete)(tls, vfs.unixAddress, name, syncFolder)
	}
	path := libc.GoString(name)
	d := watching(path)
	if d == nil || !d.there(filepath.Base(path)) {
		return remove(false)
	}
	return d.change(Event{Kind: Delete, File: filepath.Base(path)}, lib.SQLITE_IOERR_DELETE, remove)
}

// xOpenDirectory is what SQLite calls for nothing but to sync the folder of a
// file. An error of it is not heard, as SQLite hears none.
func xOpenDirectory(tls *libc.TLS, name, descriptor uintptr) int32 {
	if d := watching(libc.GoString(name)); d != nil {
		d.change(Event{Kind: SyncFolder}, lib.SQLITE_OK, nil)
	}
	return function[folderMethod](vfs.openDirectory)(tls, name, descriptor)
}
