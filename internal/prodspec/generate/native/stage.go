package native

import (
	"encoding/gob"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stageVariable in the environment makes a child of package generate a stage:
// what stands between the child and the program.
const stageVariable = "LEHR_GENERATE_STAGE"

// stage makes the room and becomes the program.
type stage struct {
	// Sandbox: this process is the first of its namespaces. Else the room is a
	// folder that has been made.
	Sandbox bool
	Root    string
	Entries []stageEntry
	Visible []string
	// Program in the room; empty: the open file programFile.
	Program   string
	Arguments []string
	// Memory in bytes, and Seconds of processor time, of each process.
	Memory, Seconds uint64
}

type stageEntry struct {
	Path    string
	Content []byte
	Program bool
}

// The files of a stage: where it is told what to do, and where it tells what
// went wrong.
const (
	setupFile  = 3
	statusFile = 4
	// programFile is open where the program is not in the room.
	programFile = 5
)

// stageReady is the first byte that a stage tells: from here on the program is
// to blame.
const stageReady = '!'

// Most processes and threads, files, and bytes in /tmp.
const (
	mostProcesses = 128
	mostFiles     = 256
	mostTemporary = 64 << 20
)

// IsStage reports whether this process is one, and Stage must be called.
func IsStage() bool { return os.Getenv(stageVariable) != "" }

// Stage becomes the program, or returns an exit code.
func Stage() int {
	// What is given up here is given up by a thread, and it is this one that
	// becomes the program.
	runtime.LockOSThread()
	status := os.NewFile(statusFile, "status")
	unix.CloseOnExec(setupFile)
	unix.CloseOnExec(statusFile)
	var s stage
	err := gob.NewDecoder(os.NewFile(setupFile, "setup")).Decode(&s)
	if err == nil {
		err = s.enter()
	}
	if err == nil {
		err = s.limit()
	}
	if err != nil {
		fmt.Fprint(status, err)
		return 1
	}
	fmt.Fprint(status, string(stageReady))
	root := s.Root
	if s.Sandbox {
		root = "/"
	}
	if err = os.Chdir(filepath.Join(root, workFolder)); err == nil {
		if s.Program == "" {
			err = executeOpen(programFile, s.Arguments)
		} else {
			err = syscall.Exec(filepath.Join(root, s.Program), s.Arguments, nil)
		}
	}
	fmt.Fprintf(os.Stderr, "%s cannot be run: %v%s\n", s.Arguments[0], err, s.guess(err))
	return 127
}

// executeOpen becomes the program of an open file, with an empty environment.
func executeOpen(file uintptr, arguments []string) error {
	unix.CloseOnExec(int(file))
	texts, err := syscall.SlicePtrFromStrings(arguments)
	if err != nil {
		return err
	}
	environment, path := []*byte{nil}, []byte{0}
	_, _, errno := unix.RawSyscall6(unix.SYS_EXECVEAT, file, uintptr(unsafe.Pointer(&path[0])),
		uintptr(unsafe.Pointer(&texts[0])), uintptr(unsafe.Pointer(&environment[0])), unix.AT_EMPTY_PATH, 0)
	return errno
}

// guess what a person would not: the error names the program, not what lacks.
func (s *stage) guess(err error) string {
	switch err {
	case syscall.ENOENT:
		return " (what it is run by is not there: link it statically, or have whoever runs the server make folders visible)"
	case syscall.EACCES:
		return " (it runs as nobody where the server is root: chmod a+rx)"
	case syscall.ENOEXEC:
		return " (it is no program of this machine, nor a script that begins with #!)"
	}
	return ""
}

// limit is for the program and each of its processes.
func (s *stage) limit() error {
	for _, l := range []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_DATA, s.Memory + raceRoom}, {unix.RLIMIT_CPU, s.Seconds}, {unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_FSIZE, mostTemporary}, {unix.RLIMIT_NOFILE, mostFiles}, {unix.RLIMIT_NPROC, mostProcesses},
	} {
		if l.resource == unix.RLIMIT_NPROC && !s.Sandbox {
			// Outside, all that the server's user runs is counted.
			continue
		}
		var now unix.Rlimit
		if unix.Getrlimit(l.resource, &now) == nil {
			l.most = min(l.most, now.Max)
		}
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("limiting the program (resource %d to %d): %w", l.resource, l.most, err)
		}
	}
	for capability := range uintptr(64) {
		// Beyond the last there is none; outside a sandbox there may be none to
		// give up.
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// enter makes the room, and leaves everything else behind.
func (s *stage) enter() error {
	if !s.Sandbox {
		return nil
	}
	const place = "/tmp"
	// Namespaces within this one could give back what is given up. Old kernels
	// have no such bound.
	_ = os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("having mounts of one's own: %w", err)
	}
	if err := temporary(place, 256<<20); err != nil {
		return err
	}
	for _, folder := range []string{workFolder, "tmp", "dev", "left"} {
		if err := os.Mkdir(filepath.Join(place, folder), 0o755); err != nil {
			return err
		}
	}
	for _, e := range s.Entries {
		mode := os.FileMode(0o444)
		if e.Program {
			mode = 0o555
		}
		name := filepath.Join(place, e.Path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, e.Content, mode); err != nil {
			return err
		}
	}
	null := filepath.Join(place, "dev/null")
	if err := os.WriteFile(null, nil, 0o666); err != nil {
		return err
	}
	if err := unix.Mount("/dev/null", null, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("having /dev/null: %w", err)
	}
	for _, folder := range s.Visible {
		if err := show(place, folder); err != nil {
			return fmt.Errorf("making %s visible: %w", folder, err)
		}
	}
	return leave(place)
}

// leave makes the place the root, read only but for /tmp.
func leave(place string) error {
	if err := unix.PivotRoot(place, filepath.Join(place, "left")); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Unmount("/left", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	if err := os.Remove("/left"); err != nil {
		return err
	}
	if err := temporary("/tmp", mostTemporary); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("making the root read only: %w", err)
	}
	return unix.Sethostname([]byte("generator"))
}

func temporary(at string, bytes int) error {
	if err := unix.Mount("lehr", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=755", bytes)); err != nil {
		return fmt.Errorf("mounting memory: %w", err)
	}
	return nil
}

// show has a folder of the machine in the room, read only. A link, as /bin
// often is, stays one.
func show(place, folder string) error {
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	at := filepath.Join(place, folder)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(folder)
		if err == nil {
			err = os.Symlink(target, at)
		}
		return err
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(folder, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.MountSetattr(-1, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
}
