package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	commandpb "lehr.dev/gen/lehr/command/v1"
)

const (
	// GuardWord is the argument by which lehr-command starts itself to run
	// one command.
	GuardWord = "run-guarded"
	// guardPipe is the descriptor whose end tells a guard that the plugin is
	// gone, guardLock the plugin's lock, if it has one.
	guardPipe = 3
	guardLock = 4
	// notRun is the exit code for a command that could not be started.
	notRun = 127

	maxOutput = 64 << 10
	tailBytes = 2000
)

// invocation is one run of one of a resource's commands.
type invocation struct {
	command           *commandpb.Command
	argv, environment []string
	grace             time.Duration
}

// result is how a command ended.
type result struct {
	exit       int
	output     []byte
	overflowed bool
	// words are the end of what it wrote to standard error.
	words string
}

func (r result) String() string {
	if r.words == "" {
		return fmt.Sprintf("exit code %d and said nothing on standard error", r.exit)
	}
	return fmt.Sprintf("exit code %d, and said: %s", r.exit, r.words)
}

// written is how a diff command ended: many say on standard output why they failed, which
// would be shown as the difference.
func (r result) written() string {
	output := bytes.TrimSpace(r.output)
	if r.words != "" || len(output) == 0 {
		return r.String()
	}
	return fmt.Sprintf("%s, and wrote: %s", r, strings.ToValidUTF8(string(output[max(0, len(output)-tailBytes):]), ""))
}

// run runs a command under a guard, and returns an error when it could not be
// run to its end: ctx ended, or it took too long.
func (c Commands) run(ctx context.Context, i invocation) (result, error) {
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	var output limited
	var words tail
	alive, aliveHere, err := os.Pipe()
	if err != nil {
		return result{}, err
	}
	defer aliveHere.Close()
	guard := &exec.Cmd{
		Path: c.Program, Args: append([]string{c.Program, GuardWord}, i.argv...),
		Env: i.environment, Dir: i.command.Directory,
		Stdin: strings.NewReader(i.command.Input), Stdout: &output, Stderr: &words,
		ExtraFiles:  c.handedDown(alive),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		// What left the group may hold the output open.
		WaitDelay: time.Second,
	}
	err = guard.Start()
	alive.Close()
	if err != nil {
		return result{}, fmt.Errorf("%w (does the folder %s exist?)", err, i.command.Directory)
	}
	stopped := supervise(ctx, guard.Process.Pid, timeout(i.command), i.grace)
	err = guard.Wait()
	if stopped != nil {
		return result{}, fmt.Errorf("%s: %w", i.argv[0], stopped)
	}
	if exited, ok := errors.AsType[*exec.ExitError](err); !ok && err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return result{}, err
	} else if ok && exited.ExitCode() < 0 {
		return result{}, fmt.Errorf("%s: its guard was ended by %v", i.argv[0], exited.ProcessState)
	}
	return result{exit: guard.ProcessState.ExitCode(), output: output.kept.Bytes(), overflowed: output.overflowed, words: words.String()}, nil
}

// handedDown are a guard's extra files. It holds the lock as long as it lives,
// so that no other plugin pushes before it has ended its command (S3).
func (c Commands) handedDown(alive *os.File) []*os.File {
	if c.Lock == nil {
		return []*os.File{alive}
	}
	return []*os.File{alive, c.Lock}
}

// supervise waits until the leader of a process group has ended, makes it end
// when it must, and kills what is left of its group. The leader is not reaped
// before that, so that its number keeps meaning this group.
func supervise(ctx context.Context, leader int, timeout, grace time.Duration) (stopped error) {
	ended := make(chan struct{})
	go func() {
		for {
			var info unix.Siginfo
			err := unix.Waitid(unix.P_PID, leader, &info, unix.WEXITED|unix.WNOWAIT, nil)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		close(ended)
	}()
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	select {
	case <-ended:
	case <-ctx.Done():
		stopped = context.Cause(ctx)
	case <-limit.C:
		stopped = fmt.Errorf("took longer than its timeout of %v and was stopped", timeout)
	}
	if stopped != nil {
		_ = unix.Kill(-leader, unix.SIGTERM)
		patience := time.NewTimer(grace)
		defer patience.Stop()
		select {
		case <-ended:
		case <-patience.C:
		}
	}
	_ = unix.Kill(-leader, unix.SIGKILL)
	<-ended
	return stopped
}

// Guard runs a command as the leader of its process group, and kills the
// group when the plugin is gone, so that no push outlives it; the command
// itself does not outlive the guard either. It returns the command's exit
// code.
func Guard(argv []string) int {
	// The kernel sends the parent-death signal when this thread ends.
	runtime.LockOSThread()
	// SIGTERM is meant for the command, which gets it as one of the group.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
	unix.CloseOnExec(guardPipe)
	unix.CloseOnExec(guardLock)
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(guardPipe, "plugin"))
		_ = unix.Kill(0, unix.SIGKILL)
	}()
	command := exec.Command(argv[0], argv[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := command.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		fmt.Fprintf(os.Stderr, "cannot run %s: %v\n", argv[0], err)
		return notRun
	}
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		fmt.Fprintf(os.Stderr, "ended by %v\n", status.Signal())
		return 128 + int(status.Signal())
	}
	return command.ProcessState.ExitCode()
}

// limited keeps the first bytes written to it.
type limited struct {
	kept       bytes.Buffer
	overflowed bool
}

func (l *limited) Write(p []byte) (int, error) {
	room := maxOutput - l.kept.Len()
	l.overflowed = l.overflowed || len(p) > room
	l.kept.Write(p[:min(len(p), room)])
	return len(p), nil
}

// tail keeps the last bytes written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if excess := len(t.kept) - tailBytes; excess > 0 {
		t.kept = append(t.kept[:0], t.kept[excess:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	return strings.ToValidUTF8(strings.TrimSpace(string(t.kept)), "?")
}
