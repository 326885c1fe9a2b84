// Package testbed starts the real component that a plugin looks after, for a test, and hurts
// it: it is killed, frozen, and what is said to it on the way is delayed, cut, garbled or
// refused. A fake says what its author thinks; the component says what is so. Everything
// ends with the test, however that ends. Only tests use it.
package testbed

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Options of a component.
type Options struct {
	// Argv is the program and its arguments. In them, and in Env, these stand for:
	// {address} 127.0.0.1 and the port that is its own, {port} that port, {dir} its folder,
	// {socket} the path of a socket in that.
	Argv []string
	// Env is beside the test's own variables, as NAME=VALUE.
	Env []string
	// Ready asks the component whether it serves; nil: it does when it takes connections at
	// its address.
	Ready func(ctx context.Context, c *Component) error
	// StartWithin is how long it may take to be ready; default 30 s.
	StartWithin time.Duration
	// Credential is the user it runs as, who is then given its folder; nil: the test's.
	Credential *syscall.Credential
}

// Component is a program that runs for a test, or did. It is used from the test's goroutine.
type Component struct {
	t       testing.TB
	options Options
	address string
	dir     string
	log     *tail
	process *os.Process
	ended   chan struct{}
	// state is there when ended is closed.
	state *os.ProcessState
}

// Start starts a component and waits until it is ready; the test fails if it is not. It has
// a folder of its own, and a port of 127.0.0.1. When the test fails its output is logged.
func Start(t testing.TB, options Options) *Component {
	t.Helper()
	if options.StartWithin == 0 {
		options.StartWithin = 30 * time.Second
	}
	if options.Ready == nil {
		options.Ready = listens
	}
	c := &Component{t: t, options: options, address: FreeAddress(t), dir: t.TempDir(), log: &tail{}}
	if who := options.Credential; who != nil {
		if err := os.Chown(c.dir, int(who.Uid), int(who.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		c.Kill()
		if t.Failed() {
			t.Logf("what %s wrote last:\n%s", options.Argv[0], c.log)
		}
	})
	c.Restart()
	return c
}

// Address is where it listens, as 127.0.0.1:PORT, running or not; Socket the path of its
// socket; Dir its folder; Log the end of what it wrote.
func (c *Component) Address() string { return c.address }
func (c *Component) Socket() string  { return filepath.Join(c.dir, "socket") }
func (c *Component) Dir() string     { return c.dir }
func (c *Component) Log() string     { return c.log.String() }

// PID is the number of its process; 0 when it does not run.
func (c *Component) PID() int {
	if c.process == nil {
		return 0
	}
	return c.process.Pid
}

// Restart starts it anew, at its address and in its folder, after it was killed or ended,
// and waits until it is ready.
func (c *Component) Restart() {
	c.t.Helper()
	c.Kill()
	_, port, _ := net.SplitHostPort(c.address)
	fill := strings.NewReplacer("{address}", c.address, "{port}", port, "{dir}", c.dir, "{socket}", c.Socket())
	var argv []string
	for _, word := range c.options.Argv {
		argv = append(argv, fill.Replace(word))
	}
	command := exec.Command(argv[0], argv[1:]...)
	command.Dir, command.Env = c.dir, os.Environ()
	for _, variable := range c.options.Env {
		command.Env = append(command.Env, fill.Replace(variable))
	}
	command.Stdout, command.Stderr = c.log, c.log
	// What it started may hold its output open.
	command.WaitDelay = time.Second
	// A group of its own, to be killed with what it started; and a test that is killed
	// leaves it behind no more.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: c.options.Credential}
	exit, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // The thread's end would be the component's.
		defer close(exit)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
			c.state = command.ProcessState
		}
	}()
	if err := <-started; err != nil {
		c.t.Fatalf("starting %s: %v", argv[0], err)
	}
	c.process, c.ended = command.Process, exit
	ctx, cancel := context.WithTimeout(c.t.Context(), c.options.StartWithin)
	defer cancel()
	for {
		err := c.options.Ready(ctx, c)
		if err == nil {
			return
		}
		select {
		case <-exit:
			c.t.Fatalf("%s ended before it was ready (%v):\n%s", argv[0], err, c.log)
		case <-ctx.Done():
			c.t.Fatalf("%s is not ready after %v: %v\n%s", argv[0], c.options.StartWithin, err, c.log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func listens(ctx context.Context, c *Component) error {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address)
	if err == nil {
		connection.Close()
	}
	return err
}

// Kill ends it and all of its group without a word, and waits for that. It may be frozen, or
// have ended before.
func (c *Component) Kill() {
	if c.process == nil {
		return
	}
	_ = syscall.Kill(-c.process.Pid, syscall.SIGKILL)
	<-c.ended
	c.process = nil
}

// Signal sends its process a signal.
func (c *Component) Signal(signal syscall.Signal) {
	c.t.Helper()
	if c.process == nil {
		c.t.Fatalf("%s does not run", c.options.Argv[0])
	}
	if err := syscall.Kill(c.process.Pid, signal); err != nil {
		c.t.Fatalf("signalling %s: %v", c.options.Argv[0], err)
	}
}

// Ended is closed when its process has ended, be it killed or not.
func (c *Component) Ended() <-chan struct{} { return c.ended }

// Await waits until its process has ended, and returns how.
func (c *Component) Await() *os.ProcessState {
	<-c.ended
	return c.state
}

// Freeze stops its whole group where it is, and waits until it stands still: it takes
// connections, as the kernel does that, and answers nothing. Thaw lets it go on.
func (c *Component) Freeze() {
	c.t.Helper()
	if c.process == nil {
		c.t.Fatalf("%s does not run", c.options.Argv[0])
	}
	if err := syscall.Kill(-c.process.Pid, syscall.SIGSTOP); err != nil {
		c.t.Fatalf("freezing %s: %v", c.options.Argv[0], err)
	}
	for deadline := time.Now().Add(20 * time.Second); !c.isStill(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s does not stand still", c.options.Argv[0])
		}
	}
}

// isStill reports whether all of its threads are stopped.
func (c *Component) isStill() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.process.Pid))
	moves := func(thread string) bool {
		stat, err := os.ReadFile(thread)
		if err != nil {
			return false // It has ended.
		}
		state := stat[bytes.LastIndexByte(stat, ')')+1:]
		return !bytes.HasPrefix(state, []byte(" T"))
	}
	return len(threads) > 0 && !slices.ContainsFunc(threads, moves)
}

// Thaw lets it go on after Freeze.
func (c *Component) Thaw() {
	if c.process != nil {
		_ = syscall.Kill(-c.process.Pid, syscall.SIGCONT)
	}
}

// tail keeps the last of what is written.
type tail struct {
	mutex sync.Mutex
	kept  []byte
}

const mostLog = 64 << 10

func (l *tail) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.kept = append(l.kept, p...)
	if excess := len(l.kept) - mostLog; excess > 0 {
		l.kept = append(l.kept[:0], l.kept[excess:]...)
	}
	return len(p), nil
}

func (l *tail) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return strings.ToValidUTF8(string(l.kept), "?")
}
