package resolver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
)

// drainWithin is how long the pipes of a command may stay open after it has ended: what
// left its process group may hold them.
const drainWithin = time.Second

// run runs a command of the operator's list until it has printed the value. It has no
// input, and a process group of its own that ends with it. Of what it prints to stderr
// nothing is told but the length: it may be the secret.
func run(ctx context.Context, e listEntry) ([]byte, error) {
	// The kernel kills the command when this thread ends, so when the plugin does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g := &group{}
	out, stderr := &limited{most: maxSecret + 1, exceeded: g.kill}, &counted{}
	command := &exec.Cmd{
		Path: e.Run[0], Args: e.Run, Dir: "/", Env: commandEnvironment(e.Variables),
		Stdout: out, Stderr: stderr, WaitDelay: drainWithin,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	defer out.wipe()
	if err := command.Start(); err != nil {
		return nil, fault.New(fault.Unavailable, "starting %s: %w", e.Run[0], err).WithHint("see that the operator's list of secrets names a program that the plugin's user may run")
	}
	g.lead(command.Process.Pid)
	err := g.wait(ctx, command)
	switch {
	case ctx.Err() != nil:
		return nil, fault.New(fault.Unavailable, "%s did not end within %v, and was killed", e.Run[0], readWithin).WithHint("run it by hand as the plugin's user, without input")
	case out.full():
		return nil, fault.New(fault.Invalid, "%s prints more than %d bytes", e.Run[0], maxSecret).WithHint("it is to print the value alone")
	case err != nil:
		return nil, fault.New(fault.Unavailable, "%s failed: %s; it printed %d bytes to stderr, which are not shown", e.Run[0], ending(command, err), stderr.bytes).
			WithHint("run it by hand as the plugin's user, without input")
	}
	return slices.Clone(withoutNewline(out.content)), nil
}

// group is the process group of a command.
type group struct {
	mutex sync.Mutex
	// leader is the number of its first process; 0: it is not known yet.
	leader int
	// killed: it was to be killed. reaped: its number may have gone to another.
	killed, reaped bool
}

// lead says which process leads the group. One that was to be killed before that is killed.
func (g *group) lead(leader int) {
	g.mutex.Lock()
	g.leader = leader
	killed := g.killed
	g.mutex.Unlock()
	if killed {
		g.kill()
	}
}

func (g *group) kill() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.killed = true
	if g.leader > 0 && !g.reaped {
		_ = unix.Kill(-g.leader, unix.SIGKILL)
	}
}

// wait waits for the command, and kills what is left of the group when the leader or
// the context has ended.
func (g *group) wait(ctx context.Context, command *exec.Cmd) error {
	stop := context.AfterFunc(ctx, g.kill)
	defer stop()
	for {
		err := unix.Waitid(unix.P_PID, g.leader, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	g.kill() // Before the leader is reaped.
	g.mutex.Lock()
	g.reaped = true
	g.mutex.Unlock()
	return command.Wait()
}

func ending(command *exec.Cmd, err error) string {
	if command.ProcessState != nil && !command.ProcessState.Success() {
		return command.ProcessState.String()
	}
	return err.Error()
}

// commandEnvironment hands down nothing that the command does not need.
func commandEnvironment(variables map[string]string) []string {
	environment := []string{}
	for _, name := range []string{"PATH", "HOME"} {
		if _, ok := variables[name]; !ok && os.Getenv(name) != "" {
			environment = append(environment, name+"="+os.Getenv(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		environment = append(environment, fmt.Sprintf("%s=%s", name, variables[name]))
	}
	return environment
}

// limited keeps so many bytes, and then ends the writing.
type limited struct {
	most     int
	content  []byte
	exceeded func()
}

func (l *limited) Write(p []byte) (int, error) {
	room := l.most - len(l.content)
	l.append(p[:min(len(p), room)])
	if l.full() {
		l.exceeded()
		return min(len(p), room), io.ErrShortWrite
	}
	return len(p), nil
}

// append leaves no copy behind when the content outgrows its place.
func (l *limited) append(p []byte) {
	if len(l.content)+len(p) > cap(l.content) {
		larger := make([]byte, len(l.content), min(2*(len(l.content)+len(p)), l.most))
		copy(larger, l.content)
		clear(l.content)
		l.content = larger
	}
	l.content = append(l.content, p...)
}

func (l *limited) full() bool { return len(l.content) >= l.most }

func (l *limited) wipe() { clear(l.content) }

// counted counts what it drops.
type counted struct{ bytes int64 }

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}
