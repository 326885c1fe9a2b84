package subprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
)

// ErrTookTooLong is wrapped by the error of a program that was ended by its limit of time.
var ErrTookTooLong = errors.New("took longer than its limit of time and was stopped")

// self is this very program, also when its file was replaced since.
const self = "/proc/self/exe"

// report is what a guard tells of the program when it has ended, as JSON.
type report struct {
	// Failure is why the program could not be started; empty: it was.
	Failure string        `json:"failure,omitempty"`
	Errno   syscall.Errno `json:"errno,omitempty"`
	Exit    int           `json:"exit"`
	Signal  int           `json:"signal"`
	CPU     time.Duration `json:"cpu"`
	MaxRSS  int64         `json:"maxRSS"`
}

func (r *Runner) run(ctx context.Context, command Command, environment []string) (Result, error) {
	if info, err := os.Stat(command.Directory); err != nil || !info.IsDir() {
		return Result{}, fault.New(fault.NotFound, "running %s: there is no folder %s to run in", command.Argv[0], command.Directory)
	}
	plugin, err := newPipes()
	if err != nil {
		return Result{}, fault.New(fault.Unavailable, "running %s: %w", command.Argv[0], err)
	}
	defer plugin.close()
	stdout, stderr := &stream{kept: command.Limits.Stdout}, &stream{kept: command.Limits.Stderr}
	guard := &exec.Cmd{
		Path: self, Args: append([]string{GuardName, limitsWord(command.Limits)}, command.Argv...),
		Env: environment, Dir: command.Directory,
		Stdin: bytes.NewReader(command.Input), Stdout: stdout, Stderr: stderr,
		ExtraFiles:  plugin.handedDown(r.lock),
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		// What was given the output by other means than by being started may hold it open.
		WaitDelay: time.Second,
	}
	if command.Tell != nil {
		told := newTeller(command.Tell)
		defer told.end()
		guard.Stdout, guard.Stderr = io.MultiWriter(stdout, told.stream()), io.MultiWriter(stderr, told.stream())
	}
	startedAt := time.Now()
	err = guard.Start()
	plugin.closeTheirs()
	if err != nil {
		return Result{}, fault.New(fault.Unavailable, "running %s: starting its guard: %w", command.Argv[0], err)
	}
	reports := make(chan report, 1)
	go func() { reports <- readReport(plugin.report) }()
	stopped := supervise(ctx, guard.Process.Pid, command.Limits, plugin.alive)
	waiting := guard.Wait()
	outcome := <-reports
	result := Result{
		Exit: outcome.Exit, Signal: syscall.Signal(outcome.Signal), CPU: outcome.CPU, MaxRSS: outcome.MaxRSS, Took: time.Since(startedAt),
		Stdout: stdout.output(r.redact), Stderr: stderr.output(r.redact),
	}
	switch {
	case stopped != nil:
		result.Exit = -1
		return result, fmt.Errorf("%s: %w", command.Argv[0], stopped)
	case outcome.Failure != "":
		return result, notStarted(command, outcome)
	case guard.ProcessState.ExitCode() != 0:
		return result, fault.New(fault.Unavailable, "%s: its guard was ended by %v", command.Argv[0], guard.ProcessState)
	case waiting != nil && !errors.Is(waiting, exec.ErrWaitDelay):
		return result, fault.New(fault.Unavailable, "%s: %w", command.Argv[0], waiting)
	}
	return result, nil
}

func notStarted(command Command, outcome report) error {
	kind, hint := fault.Unavailable, "see that it can be run by hand, as the plugin's user"
	switch outcome.Errno {
	case syscall.ENOENT:
		kind, hint = fault.NotFound, "install it, or name it by its whole path"
	case syscall.EACCES, syscall.EPERM:
		kind = fault.Denied
	case syscall.ENOEXEC, syscall.E2BIG, syscall.ENOTDIR:
		kind = fault.Invalid
	}
	return fault.New(kind, "cannot run %s: %s", command.Argv[0], outcome.Failure).WithHint("%s", hint)
}

// readReport returns what a guard told; of one that told nothing the exit status is -1.
func readReport(from io.Reader) report {
	outcome := report{Exit: -1}
	if json.NewDecoder(io.LimitReader(from, 64<<10)).Decode(&outcome) != nil {
		return report{Exit: -1}
	}
	return outcome
}

// pipes between a plugin and a guard.
type pipes struct {
	// alive is held open as long as the program may run; its end is the order to end it.
	alive, aliveTheirs *os.File
	// report is read to its end.
	report, reportTheirs *os.File
}

func newPipes() (p *pipes, err error) {
	p = &pipes{}
	if p.aliveTheirs, p.alive, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.report, p.reportTheirs, err = os.Pipe(); err != nil {
		p.aliveTheirs.Close()
		p.alive.Close()
		return nil, err
	}
	return p, nil
}

// handedDown are a guard's extra files, in the order of guardAlive, guardReport and guardLock.
func (p *pipes) handedDown(lock *os.File) []*os.File {
	list := []*os.File{p.aliveTheirs, p.reportTheirs}
	if lock != nil {
		list = append(list, lock)
	}
	return list
}

func (p *pipes) closeTheirs() {
	p.aliveTheirs.Close()
	p.reportTheirs.Close()
}

func (p *pipes) close() {
	p.closeTheirs()
	p.alive.Close()
	p.report.Close()
}

// supervise waits until the leader of a process group has ended, makes it end when it must,
// and kills what is left of its group. The leader is not reaped before that, so that its
// number keeps meaning this group.
func supervise(ctx context.Context, leader int, limits Limits, alive *os.File) (stopped error) {
	exit := make(chan struct{})
	go func() {
		for {
			var info unix.Siginfo
			err := unix.Waitid(unix.P_PID, leader, &info, unix.WEXITED|unix.WNOWAIT, nil)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		close(exit)
	}()
	limit := time.NewTimer(limits.Time)
	defer limit.Stop()
	select {
	case <-exit:
	case <-ctx.Done():
		stopped = context.Cause(ctx)
	case <-limit.C:
		stopped = fmt.Errorf("%w: it has %v", ErrTookTooLong, limits.Time)
	}
	if stopped != nil {
		if limits.Grace > 0 {
			_ = unix.Kill(-leader, unix.SIGTERM)
			wait(exit, limits.Grace)
		}
		// The guard kills more than its group. For one that does not get to it, as on a
		// machine that is too busy, the plugin does, before it kills the guard.
		alive.Close()
		if !wait(exit, KillMargin/2) {
			killDescendants(leader)
		}
	}
	_ = unix.Kill(-leader, unix.SIGKILL)
	<-exit
	return stopped
}

// wait reports whether the process ended within the time.
func wait(exit <-chan struct{}, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-exit:
		return true
	case <-timer.C:
		return false
	}
}
