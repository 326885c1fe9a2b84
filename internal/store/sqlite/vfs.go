package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"net/url"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"lehr.dev/internal/ground/fault"
)

// vfsName is the name of SQLite's way to a store's files on which each page has a
// checksum, and is refused when it is not as it was written (SQLITE_IOERR_DATA).
// It seals the pages as they go to the log, so they are also read from there,
// and moved into the file, with their checksums. What opens a store in another
// way may read it, and never write to it.
//
// A file of an older Lehr has no room for checksums, and is read and written
// without them.
const vfsName = "lehr"

// Connect opens a store's file in that way, past all else that a Store does. The
// pragmas are for each connection.
func Connect(path string, pragmas ...string) (*sql.DB, error) {
	return connect(path, "mode=rw", pragmas...)
}

func connect(path, mode string, pragmas ...string) (*sql.DB, error) {
	if err := install(); err != nil {
		return nil, err
	}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + mode + "&vfs=" + vfsName
	for _, p := range append(pragmas, "synchronous(FULL)", "temp_store(MEMORY)") {
		name += "&_pragma=" + p
	}
	return sql.Open("sqlite", name)
}

// sealing is one file's part of SQLite's memory, behind the system's.
type sealing struct {
	// own are the methods of the system's file.
	own uintptr
	// enabled: it has checksums. log: it is the log.
	enabled, log bool
	// header was written last to the log, at headerAt.
	headerAt int64
	header   [frameHeaderBytes]byte
}

var installation struct {
	once sync.Once
	err  error
	// fileBytes of the system's part of a file.
	fileBytes uintptr
	mutex     sync.Mutex
	// methods by those of the system's files that they stand before.
	methods map[uintptr]uintptr
}

// at is what lies at an address of SQLite's memory, which knows nothing of Go.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// content is not inlined: the compiler (Go 1.26) fails where it sees through the
// address of what is copied.
//
//go:noinline
func content(address uintptr, size int32) []byte { return unsafe.Slice(at[byte](address), size) }

// function is the function at an address, and pointer the other way round: an
// address of code that holds a Go function is one of a word that points to it.
func function[F any](address uintptr) F {
	word := &struct{ address uintptr }{address}
	return *(*F)(unsafe.Pointer(&word.address))
}

func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

type (
	openMethod   = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	deleteMethod = func(tls *libc.TLS, vfs, name uintptr, syncFolder int32) int32
	fileMethod   = func(tls *libc.TLS, file uintptr) int32
	sizeMethod   = func(tls *libc.TLS, file, size uintptr) int32
	moveMethod   = func(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32
)

// install makes the way known to SQLite, once in a process.
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
			i.err = failure("starting SQLite", err)
			return
		}
		tls := libc.NewTLS()
		defer tls.Close()
		system := at[lib.Tsqlite3_vfs](lib.Xsqlite3_vfs_find(tls, 0))
		i.methods, i.fileBytes = map[uintptr]uintptr{}, uintptr(system.FszOsFile+7)&^7
		name, err := libc.CString(vfsName)
		memory := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(*system)))
		if err != nil || memory == 0 {
			i.err = fault.New(fault.Unavailable, "starting SQLite: out of memory")
			return
		}
		vfs := at[lib.Tsqlite3_vfs](memory)
		*vfs = *system
		vfs.FpNext, vfs.FzName, vfs.FszOsFile = 0, name, int32(i.fileBytes+unsafe.Sizeof(sealing{}))
		vfs.FxOpen, vfs.FxDelete = pointer(openMethod(openSealed)), pointer(deleteMethod(deleteSealed))
		if code := lib.Xsqlite3_vfs_register(tls, memory, 0); code != lib.SQLITE_OK {
			i.err = fault.New(fault.Internal, "starting SQLite: it refuses a file system: code %d", code)
		}
	})
	return i.err
}

func sealingOf(file uintptr) *sealing { return at[sealing](file + installation.fileBytes) }

func (s *sealing) methods() *lib.Tsqlite3_io_methods { return at[lib.Tsqlite3_io_methods](s.own) }

func (s *sealing) read(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	return function[moveMethod](s.methods().FxRead)(tls, file, data, size, offset)
}

func (s *sealing) write(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	return function[moveMethod](s.methods().FxWrite)(tls, file, data, size, offset)
}

// openSealed stands before the methods of databases and of their logs. What
// SQLite writes elsewhere is not read after a commit.
func openSealed(tls *libc.TLS, _, name, file uintptr, flags int32, outFlags uintptr) int32 {
	vfs := lib.Xsqlite3_vfs_find(tls, 0)
	code := function[openMethod](at[lib.Tsqlite3_vfs](vfs).FxOpen)(tls, vfs, name, file, flags, outFlags)
	if code != lib.SQLITE_OK || name == 0 || flags&(lib.SQLITE_OPEN_MAIN_DB|lib.SQLITE_OPEN_WAL) == 0 {
		return code
	}
	s := sealingOf(file)
	*s = sealing{own: at[lib.Tsqlite3_file](file).FpMethods, log: flags&lib.SQLITE_OPEN_WAL != 0, headerAt: -1}
	if s.log {
		s.enabled = sealingOf(lib.Xsqlite3_database_file_object(tls, name)).enabled
	} else if s.enabled, code = s.roomy(tls, file); code != lib.SQLITE_OK {
		function[fileMethod](s.methods().FxClose)(tls, file)
		at[lib.Tsqlite3_file](file).FpMethods = 0
		return code
	}
	if s.enabled {
		at[lib.Tsqlite3_file](file).FpMethods = sealedMethods(tls, s.own)
	}
	return lib.SQLITE_OK
}

// sealedMethods stand before those of the system.
func sealedMethods(tls *libc.TLS, own uintptr) uintptr {
	i := &installation
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.methods[own] == 0 {
		allocated := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
		m := at[lib.Tsqlite3_io_methods](allocated)
		*m = *at[lib.Tsqlite3_io_methods](own)
		m.FiVersion = min(m.FiVersion, 2) // without the methods that map files into memory
		m.FxRead, m.FxWrite = pointer(moveMethod(readSealed)), pointer(moveMethod(writeSealed))
		m.FxDeviceCharacteristics = pointer(fileMethod(characteristics))
		i.methods[own] = allocated
	}
	return i.methods[own]
}

// The first bytes of a database, of which SQLite reads so many to begin with.
const (
	headerBytes     = 100
	pageSizeAt      = 16
	reservedAt      = 20
	applicationIDAt = 68
)

// roomy reports whether a database has room for checksums: a new one will, and
// of another two places tell, so that a flip in one of them hides nothing.
func (s *sealing) roomy(tls *libc.TLS, file uintptr) (bool, int32) {
	if empty, code := s.empty(tls, file); empty || code != lib.SQLITE_OK {
		return empty, code
	}
	memory := tls.Alloc(headerBytes)
	defer tls.Free(headerBytes)
	code := s.read(tls, file, memory, headerBytes, 0)
	if code == lib.SQLITE_IOERR_SHORT_READ {
		return true, lib.SQLITE_OK
	}
	if code != lib.SQLITE_OK {
		return false, code
	}
	header := content(memory, headerBytes)
	return header[reservedAt] == reserved || binary.BigEndian.Uint32(header[applicationIDAt:]) == applicationID, lib.SQLITE_OK
}

func (s *sealing) empty(tls *libc.TLS, file uintptr) (bool, int32) {
	memory := tls.Alloc(8)
	defer tls.Free(8)
	code := function[sizeMethod](s.methods().FxFileSize)(tls, file, memory)
	return *at[int64](memory) == 0, code
}

// readSealed reads, and refuses a page that is not as it was written. Of a new
// database it says that there will be room on its pages.
func readSealed(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	s := sealingOf(file)
	code := s.read(tls, file, data, size, offset)
	switch {
	case code == lib.SQLITE_IOERR_SHORT_READ && size == headerBytes && offset == 0 && !s.log:
		header := content(data, size)
		if bytes.Equal(header, make([]byte, headerBytes)) {
			binary.BigEndian.PutUint16(header[pageSizeAt:], pageBytes)
			header[reservedAt] = reserved
		}
	case code == lib.SQLITE_OK && size == pageBytes:
		page := content(data, size)
		if !sealed(page) || !s.log && sealedNumber(page) != pageNumber(offset) {
			return lib.SQLITE_IOERR_DATA
		}
	}
	return code
}

func pageNumber(offset int64) uint32 { return uint32(offset/pageBytes) + 1 }

func writeSealed(tls *libc.TLS, file, data uintptr, size int32, offset int64) int32 {
	s := sealingOf(file)
	switch {
	case size == pageBytes && s.log:
		return s.writeFrame(tls, file, data, offset)
	case size == pageBytes:
		seal(content(data, size), pageNumber(offset))
	case size == frameHeaderBytes && s.log:
		s.headerAt, s.header = offset, [frameHeaderBytes]byte(content(data, size))
	}
	return s.write(tls, file, data, size, offset)
}

// writeFrame writes a page to the log, and its header again: SQLite made the
// header's checksum before the page had its own.
func (s *sealing) writeFrame(tls *libc.TLS, file, data uintptr, offset int64) int32 {
	start := offset - frameHeaderBytes
	memory := tls.Alloc(frameBytes)
	defer tls.Free(frameBytes)
	frame, page := content(memory, frameBytes), content(data, pageBytes)
	if s.headerAt != start {
		// A page that this transaction wrote before: SQLite makes the checksums
		// from there on anew, from the log, when it commits.
		if code := s.read(tls, file, memory, frameHeaderBytes, start); code != lib.SQLITE_OK {
			return code
		}
		seal(page, binary.BigEndian.Uint32(frame))
		return s.write(tls, file, data, pageBytes, offset)
	}
	seal(page, binary.BigEndian.Uint32(s.header[:]))
	copy(frame, s.header[:])
	copy(frame[frameHeaderBytes:], page)
	// Until it has made them anew, it writes none.
	if !bytes.Equal(frame[frameSaltAt:frameHeaderBytes], make([]byte, frameHeaderBytes-frameSaltAt)) {
		if code := s.chain(tls, file, frame, start); code != lib.SQLITE_OK {
			return code
		}
	}
	s.headerAt = -1
	return s.write(tls, file, memory, frameBytes, start)
}

// chain makes a frame's checksum, by what is before it in the log.
func (s *sealing) chain(tls *libc.TLS, file uintptr, frame []byte, start int64) int32 {
	memory := tls.Alloc(16)
	defer tls.Free(16)
	if code := s.read(tls, file, memory, 4, 0); code != lib.SQLITE_OK {
		return code
	}
	order := frameOrder(binary.BigEndian.Uint32(content(memory, 4)))
	checksumOffset := start - frameBytes + frameChecksumAt
	if start == logHeaderBytes {
		checksumOffset = logChecksumAt
	}
	if code := s.read(tls, file, memory, 8, checksumOffset); code != lib.SQLITE_OK {
		return code
	}
	reseal(frame, order, content(memory, 8))
	return lib.SQLITE_OK
}

// characteristics are those of the system, without reads of parts of a page,
// whose checksum nobody could compute.
func characteristics(tls *libc.TLS, file uintptr) int32 {
	return function[fileMethod](sealingOf(file).methods().FxDeviceCharacteristics)(tls, file) &^ lib.SQLITE_IOCAP_SUBPAGE_READ
}

func deleteSealed(tls *libc.TLS, _, name uintptr, syncFolder int32) int32 {
	vfs := lib.Xsqlite3_vfs_find(tls, 0)
	return function[deleteMethod](at[lib.Tsqlite3_vfs](vfs).FxDelete)(tls, vfs, name, syncFolder)
}
