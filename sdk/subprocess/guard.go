package subprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// GuardName is the name (argv[0]) by which a program starts itself to be the guard of
	// another, as the system's list of processes shows it, and limiterName that by which a guard starts itself to take on limits.
	GuardName   = "lehr-subprocess-guard"
	limiterName = "lehr-subprocess-limiter"
	// guardAlive is the descriptor whose end tells a guard that the program must end,
	// guardReport is where it tells how that ended, guardLock the plugin's lock, if any.
	guardAlive  = 3
	guardReport = 4
	guardLock   = 5
	// limiterFailure is where a limiter tells why it could not run the program.
	limiterFailure = 3
	// killWithin is how long one looks for what the program started; killPasses is how often
	// at least: on a machine that is too busy to look twice in that time, too, nothing is left.
	killWithin = KillMargin / 2
	killPasses = 5
)

// A guard must be one before main: a program that forgot to ask would start itself for ever.
func init() {
	if len(os.Args) < 3 {
		return
	}
	switch os.Args[0] {
	case GuardName:
		os.Exit(guard(os.Args[1], os.Args[2:]))
	case limiterName:
		os.Exit(takeLimits(os.Args[1], os.Args[2:]))
	}
}

// guard runs a program as the leader of its process group, reports how it ended, and kills
// whatever it started: when it has ended, and when the plugin wants it to or is gone, so
// that no push outlives it. The program does not outlive the guard either.
func guard(limits string, argv []string) int {
	// The kernel sends the parent-death signal when this thread ends.
	runtime.LockOSThread()
	// SIGTERM is meant for the program, which gets it as one of the group.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
	keepDescriptors()
	// What leaves the group, or loses its parent, becomes a child of the guard.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(guardAlive, "plugin"))
		// It reaps nobody: who waits for the program below must find it.
		killDescendants(os.Getpid())
		_ = unix.Kill(0, unix.SIGKILL)
	}()
	outcome := carry(limits, argv)
	killChildren()
	if err := json.NewEncoder(os.NewFile(guardReport, "report")).Encode(outcome); err != nil {
		return 1
	}
	return 0
}

// carry runs the program to its end.
func carry(limits string, argv []string) report {
	// Found here, so that a limiter has little to fail at.
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return failed(err)
	}
	command := &exec.Cmd{
		Path: path, Args: argv, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	start := command.Start
	if limits != noLimits {
		start = func() error { return startLimited(command, limits) }
	}
	if err := start(); err != nil {
		return failed(err)
	}
	_ = command.Wait() // The state tells.
	state := command.ProcessState
	outcome := report{Exit: state.ExitCode(), CPU: state.UserTime() + state.SystemTime()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		outcome.Signal = int(status.Signal())
	}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		outcome.MaxRSS = usage.Maxrss << 10 // Linux counts KiB.
	}
	return outcome
}

func failed(err error) report {
	outcome := report{Exit: -1, Failure: err.Error()}
	if code, ok := errors.AsType[syscall.Errno](err); ok {
		outcome.Errno = code
	} else if errors.Is(err, exec.ErrNotFound) {
		outcome.Errno = syscall.ENOENT
	}
	return outcome
}

// keepDescriptors sees to it that the program inherits none but the first three: neither
// the lock, nor what some library of the plugin left open.
func keepDescriptors() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		for descriptor := guardAlive; descriptor <= guardLock; descriptor++ {
			unix.CloseOnExec(descriptor)
		}
	}
	for _, entry := range entries {
		if descriptor, err := strconv.Atoi(entry.Name()); err == nil && descriptor > 2 {
			unix.CloseOnExec(descriptor)
		}
	}
}

// killChildren kills the children of this process, and those of them, who become its own
// as it is a subreaper, until there are none or the time is over. Others than those of its
// own user it cannot.
func killChildren() {
	untilKilled(func() (more bool) {
		if !reap() {
			return false
		}
		killChildrenOf(os.Getpid())
		return true
	})
}

// killDescendants kills a guard's children, and those of them, who become its own, and reaps
// none. The plugin does so for a guard that does not get to it. The guard must not have been
// killed before: what it started could no longer be told from others.
func killDescendants(guard int) {
	untilKilled(func() (more bool) {
		// A list is not of one moment: a child may be read before its parent ends, and the
		// parent after. Who was missed is in the second.
		return killChildrenOf(guard) || killChildrenOf(guard)
	})
}

// untilKilled repeats a pass of killing until it meets nobody, or the time is over.
func untilKilled(pass func() (more bool)) {
	deadline := time.Now().Add(killWithin)
	for count := 0; count < killPasses || time.Now().Before(deadline); count++ {
		if !pass() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// killChildrenOf reports whether a process has children that have not ended.
func killChildrenOf(parent int) (more bool) {
	for _, child := range childrenOf(parent) {
		_ = unix.Kill(child, unix.SIGKILL)
		more = true
	}
	return more
}

// reap takes note of children that have ended, and reports whether there are others.
func reap() (more bool) {
	for {
		reaped, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false
		case reaped == 0:
			return true
		}
	}
}

// childrenOf lists the processes of a parent that have not ended.
func childrenOf(parent int) (list []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// The name in parentheses may hold anything; state and parent follow it.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(strings.Fields(string(text))[0]); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// noLimits is how a guard is told that there are none that the kernel keeps.
const noLimits = "0:0"

// limitsWord tells a guard the limits that the kernel keeps: seconds and bytes.
func limitsWord(l Limits) string {
	seconds := (l.CPU + time.Second - 1) / time.Second
	return fmt.Sprintf("%d:%d", seconds, l.AddressSpace)
}

// startLimited has a limiter become the program: no limit may bind the guard, and none may
// come after the program has begun.
func startLimited(command *exec.Cmd, limits string) error {
	failure, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer failure.Close()
	command.Args = append([]string{limiterName, limits, command.Path}, command.Args...)
	command.Path, command.ExtraFiles = self, []*os.File{theirs}
	err = command.Start()
	theirs.Close()
	if err != nil {
		return err
	}
	// It ends without a word when the program has begun.
	words, _ := io.ReadAll(io.LimitReader(failure, 64))
	code, err := strconv.Atoi(string(words))
	if err != nil {
		return nil
	}
	_ = command.Wait()
	return &os.PathError{Op: "exec", Path: command.Args[2], Err: syscall.Errno(code)}
}

// takeLimits binds this process, and becomes the program. It returns only if it could not.
func takeLimits(limits string, words []string) int {
	unix.CloseOnExec(limiterFailure)
	err := bind(limits)
	if err == nil {
		err = syscall.Exec(words[0], words[1:], os.Environ())
	}
	code, _ := errors.AsType[syscall.Errno](err)
	_, _ = syscall.Write(limiterFailure, []byte(strconv.Itoa(int(code))))
	return 127
}

func bind(limits string) error {
	var seconds, space uint64
	if _, err := fmt.Sscanf(limits, "%d:%d", &seconds, &space); err != nil {
		return syscall.EINVAL
	}
	if seconds > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds + 1}); err != nil {
			return err
		}
	}
	if space > 0 {
		return unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: space, Max: space})
	}
	return nil
}
