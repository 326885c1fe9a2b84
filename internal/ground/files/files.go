// Package files opens the files and folders that somebody names: tenants in
// definitions, operators in lists, people on command lines. What is opened is a
// regular file, so that a pipe, a socket or a device is refused and never waited
// for; and it is none of the process's own (own.go), by whatever name, link or
// mount it is reached. A file is looked at before it is opened for reading, and
// what was looked at is what is opened. It holds no file open for its callers.
package files

import (
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
)

// Open opens a regular file for reading that is none of the process's own.
// Denied: it is one of these. Invalid: it is a pipe, a folder or the like.
// Another error is the system's.
func Open(path string) (*os.File, error) {
	handle, err := os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	return readable(int(handle.Fd()), path, true)
}

// OpenGiven is Open for what a person or the operator names, who may name the
// process's own files: keys, policies and lists.
func OpenGiven(path string) (*os.File, error) {
	handle, err := os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	return readable(int(handle.Fd()), path, false)
}

// Read reads a file that OpenGiven opens, of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	file, err := OpenGiven(path)
	if err != nil {
		return nil, err
	}
	return limited(file, path, most)
}

// limited reads an open file to its end, and closes it.
func limited(file *os.File, path string, most int64) ([]byte, error) {
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(content)) > most {
		err = fault.New(fault.Invalid, "%s has more than %d bytes", path, most).WithHint("name another file")
	}
	return content, err
}

// ReadForeign reads a file that Open opens, of at most so many bytes.
func ReadForeign(path string, most int64) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	return limited(file, path, most)
}

// CheckDatabase refuses the address of a PostgreSQL database that names a file which Open
// does not open: its library opens them by name, and waits for a pipe.
func CheckDatabase(address *url.URL) error {
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey", "passfile", "servicefile"} {
		path := address.Query().Get(name)
		if path == "" || path == "system" { // The system's own certificates.
			continue
		}
		file, err := Open(path)
		if err != nil {
			return fault.New(fault.Invalid, "%s of the database's address: %w", name, err).WithHint("name a regular file that can be read")
		}
		file.Close()
	}
	return nil
}

// CheckPlace is Invalid when there is something at a path that is no regular file, where
// one is kept or made: who opened a pipe would wait for ever for somebody at its end.
func CheckPlace(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return nil // Who opens it says why it cannot be.
	}
	return NotRegular(path, info.Mode())
}

// KeyPair reads a certificate and its key, as tls.LoadX509KeyPair does.
func KeyPair(certificate, key string) (tls.Certificate, error) {
	first, err := Read(certificate, MostGiven)
	if err != nil {
		return tls.Certificate{}, err
	}
	second, err := Read(key, MostGiven)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(first, second)
}

// MostGiven bytes have the files that people and operators name, where nothing
// else is said.
const MostGiven = 16 << 20

// readable opens a file for reading that was opened to be looked at. A file that is
// the process's own is not even opened: to close it would end the locks that
// SQLite holds on it for this process.
func readable(fd int, path string, foreign bool) (*os.File, error) {
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, NotRegular(path, modeOf(info.Mode))
	}
	if foreign {
		if err := refuseOwn(fd, path, &info); err != nil {
			return nil, err
		}
	}
	file, err := os.Open(descriptor(fd))
	if err != nil {
		return nil, bare(path, err)
	}
	return file, nil
}

// descriptor is the path at which the system has what is open, whatever became of
// its name.
func descriptor(open int) string { return "/proc/self/fd/" + strconv.Itoa(open) }

// bare has the name that people know in an error of the system's.
func bare(path string, err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: pathError.Op, Path: path, Err: pathError.Err}
	}
	return err
}

func modeOf(mode uint32) fs.FileMode {
	return map[uint32]fs.FileMode{
		unix.S_IFDIR: fs.ModeDir, unix.S_IFIFO: fs.ModeNamedPipe, unix.S_IFSOCK: fs.ModeSocket,
		unix.S_IFCHR: fs.ModeDevice, unix.S_IFBLK: fs.ModeDevice, unix.S_IFLNK: fs.ModeSymlink,
	}[mode&unix.S_IFMT]
}

// NotRegular says of what is no regular file what it is.
func NotRegular(path string, mode fs.FileMode) error {
	return fault.New(fault.Invalid, "%s is a %s, not a regular file", path, Kind(mode)).WithHint("name a file")
}

// Kind of what is no regular file, in words.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	default:
		return "special file"
	}
}

// Folder is one that stays the one it was when it was opened.
type Folder struct {
	*os.Root
	// Path is where it is, without links.
	Path string
	// handle is the folder, opened to be looked at.
	handle *os.File
}

// Close closes it.
func (f *Folder) Close() error { return errors.Join(f.handle.Close(), f.Root.Close()) }

// OpenFolder opens a folder. Within are those below which it must lie; nil: it may
// lie anywhere. Denied: it lies below none of them, or below what is the
// process's own.
func OpenFolder(path string, allowed []string) (*Folder, error) {
	handle, err := os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	real, err := lies(handle, path, allowed)
	if err != nil {
		handle.Close()
		return nil, err
	}
	root, err := os.OpenRoot(descriptor(int(handle.Fd())))
	if err != nil {
		handle.Close()
		return nil, bare(path, err)
	}
	return &Folder{Root: root, Path: real, handle: handle}, nil
}

// lies is where what is open lies, unless it may not lie there.
func lies(handle *os.File, path string, allowed []string) (string, error) {
	real, err := os.Readlink(descriptor(int(handle.Fd())))
	if err != nil {
		return "", err
	}
	if err := Refuse(handle, path); err != nil {
		return "", err
	}
	if allowed != nil && !isBelow(real, allowed) {
		return "", fault.New(fault.Denied, "%s is not below the folder of the definition, nor below one that this server lists for the partition", path).
			WithHint("move it beside the definition, or have whoever runs the server add the folder to folders, in the file of --sources")
	}
	return real, nil
}

// Within is Denied unless what a path leads to lies below one of some folders.
func Within(path string, allowed []string) error {
	handle, _, err := Look(path, allowed)
	if err == nil {
		handle.Close()
	}
	return err
}

// Look opens what a path leads to to be looked at, if it may lie there (OpenFolder), and
// says by which name other programs of the same user find it, wherever it is moved,
// for as long as it is open here.
func Look(path string, allowed []string) (handle *os.File, name string, err error) {
	handle, err = os.OpenFile(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", err
	}
	if _, err := lies(handle, path, allowed); err != nil {
		handle.Close()
		return nil, "", err
	}
	return handle, "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(int(handle.Fd())), nil
}

// isBelow reports whether a path lies in one of some folders, each without links.
func isBelow(real string, folders []string) bool {
	for _, folder := range folders {
		resolved, err := resolve(folder)
		if err == nil && (real == resolved || strings.HasPrefix(real, strings.TrimSuffix(resolved, "/")+"/")) {
			return true
		}
	}
	return false
}

// resolve is the path of a folder without links, as the system has it.
func resolve(folder string) (string, error) {
	handle, err := os.OpenFile(folder, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", err
	}
	defer handle.Close()
	return os.Readlink(descriptor(int(handle.Fd())))
}

// OpenIn opens a regular file below the folder for reading, as Open does; full is
// its name for people. No link leads out of the folder.
func (f *Folder) OpenIn(name, full string) (*os.File, error) {
	fd, err := f.look(name)
	if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM) {
		return openStepwise(f.Root, name, full)
	}
	if errors.Is(err, syscall.EXDEV) {
		err = errors.New("path escapes from parent")
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	return readable(fd, full, true)
}

// look opens a file below the folder to be looked at.
func (f *Folder) look(name string) (descriptor int, err error) {
	for {
		descriptor, err = unix.Openat2(int(f.handle.Fd()), name, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
		})
		if !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) { // Something was renamed meanwhile.
			return descriptor, err
		}
	}
}

// openStepwise does so where the system does not know how to stay below a folder:
// what is the process's own is not opened, unless it takes the place of another
// file at that moment; then it is not read.
func openStepwise(root *os.Root, name, full string) (*os.File, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, NotRegular(full, info.Mode())
	}
	if Own().Has(info) {
		return nil, denied(full)
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := readable(int(file.Fd()), full, true)
	file.Close()
	return opened, err
}
