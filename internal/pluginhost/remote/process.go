package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// maxSocketPath is what the kernel allows.
	maxSocketPath = 107
	// termGrace is how long a child has after SIGTERM.
	termGrace = 1500 * time.Millisecond
	// lockDescriptor is where a child finds its lock: the first extra file.
	lockDescriptor = 3
)

// process is one life of the child.
type process struct {
	pid    int
	socket string
	// temporary: the socket's folder goes with the process. One beside a
	// lock belongs to whoever has the lock next.
	temporary bool
	// stdin stays open as long as Lehr lives; its end tells the child.
	stdin *os.File
	log   *stderrLog
	// terminated is closed when the process and its group were killed and the
	// process was reaped; ended says how.
	terminated chan struct{}
	exitErr    error

	// mutex keeps signals from reaching whoever has the number after it.
	mutex  sync.Mutex
	reaped bool
}

// spawn starts the program. lock may be nil.
func spawn(options Options, path string, lock *os.File) (*process, error) {
	dir, err := socketDir(options)
	if err != nil {
		return nil, err
	}
	p := &process{socket: filepath.Join(dir, "s"), temporary: filepath.Dir(dir) != filepath.Clean(options.LockDir), terminated: make(chan struct{})}
	cmd, childEnds, err := p.command(options, path, lock)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	started := make(chan error, 1)
	go p.live(cmd, childEnds, started)
	if err := <-started; err != nil {
		os.RemoveAll(dir)
		return nil, fault.New(fault.Unavailable, "starting plugin %s: %w", options.Name, err).
			WithHint("see that %s is a program for this machine", path)
	}
	if lock != nil {
		sign(lock, p.pid)
	}
	return p, nil
}

// live starts the command and reaps it, on a thread of its own: the kernel
// sends the parent-death signal when the thread that started the child ends.
func (p *process) live(cmd *exec.Cmd, childEnds []*os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	for _, file := range childEnds {
		file.Close()
	}
	if err != nil {
		p.stdin.Close()
		p.log.close()
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil
	// The group is killed while the leader is not yet reaped, so that its
	// number cannot have gone to another.
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mutex.Lock()
	_ = unix.Kill(-p.pid, unix.SIGKILL)
	p.exitErr = cmd.Wait()
	p.reaped = true
	p.mutex.Unlock()
	if p.exitErr == nil {
		p.exitErr = errors.New("exit status 0")
	}
	p.stdin.Close()
	p.log.close()
	if p.temporary {
		os.RemoveAll(filepath.Dir(p.socket))
	}
	close(p.terminated)
}

// command prepares the command and returns the files that are the child's.
func (p *process) command(options Options, path string, lock *os.File) (*exec.Cmd, []*os.File, error) {
	input, stdin, err := os.Pipe()
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, "starting plugin %s: %w", options.Name, err)
	}
	output, stderr, err := os.Pipe()
	if err != nil {
		input.Close()
		stdin.Close()
		return nil, nil, fault.New(fault.Unavailable, "starting plugin %s: %w", options.Name, err)
	}
	p.stdin = stdin
	p.log = followStderr(output, options.Log.With("plugin", options.Name))
	cmd := &exec.Cmd{
		Path:        path,
		Args:        options.Run,
		Env:         environment(p.socket, lock != nil),
		Stdin:       input,
		Stdout:      stderr,
		Stderr:      stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if lock != nil {
		cmd.ExtraFiles = []*os.File{lock}
	}
	return cmd, []*os.File{input, stderr}, nil
}

// tokenVariable holds the token with which commands reach a server. A plugin
// that had it could approve its own plans (S9).
const tokenVariable = "LEHR_TOKEN"

// databaseVariable says where the store is, which is none of a plugin's business.
const databaseVariable = "LEHR_DATABASE"

// environment hands down nothing that the child does not need (S13).
func environment(socket string, locked bool) []string {
	variables := []string{}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		own := strings.HasPrefix(name, "LEHR_") && name != tokenVariable && name != databaseVariable && name != plugin.LockVariable && name != plugin.SocketVariable && name != plugin.StoresVariable
		if own || name == "PATH" || name == "HOME" || name == "TMPDIR" {
			variables = append(variables, variable)
		}
	}
	variables = append(variables, plugin.SocketVariable+"="+socket)
	if stores, _ := files.Guarded(); len(stores) > 0 {
		if list, err := json.Marshal(stores); err == nil {
			variables = append(variables, plugin.StoresVariable+"="+string(list))
		}
	}
	variables = append(variables, SecretsVariable()...)
	if locked {
		variables = append(variables, fmt.Sprintf("%s=%d", plugin.LockVariable, lockDescriptor))
	}
	return variables
}

// socketDir makes a fresh folder that only this user enters. A child with a
// lock has one beside it, which the next child takes over; so a kill -9 of
// Lehr leaves no litter.
func socketDir(options Options) (string, error) {
	fits := func(dir string) bool { return len(filepath.Join(dir, "s")) <= maxSocketPath }
	if options.LockDir != "" {
		dir := filepath.Join(options.LockDir, options.Name+".run")
		if fits(dir) && os.RemoveAll(dir) == nil && os.Mkdir(dir, 0o700) == nil {
			return dir, nil
		}
	}
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		dir, err := os.MkdirTemp(parent, "lehr-plugin-")
		if err == nil && fits(dir) {
			return dir, nil
		}
		if err == nil {
			os.Remove(dir)
		}
	}
	return "", fault.New(fault.Unavailable, "no folder for a plugin's socket: neither %s nor /tmp can be written with a path of at most %d bytes", os.TempDir(), maxSocketPath).
		WithHint("set TMPDIR to a short path")
}

// signal sends a signal to the process (pid) or to its group (-pid).
func (p *process) signal(pid int, signal syscall.Signal) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.reaped {
		_ = unix.Kill(pid, signal)
	}
}

// kill ends the process at once, and does not wait for it.
func (p *process) kill() { p.signal(-p.pid, unix.SIGKILL) }

// stop ends the process, kindly first, and waits for it.
func (p *process) stop() {
	p.signal(p.pid, unix.SIGTERM)
	select {
	case <-p.terminated:
	case <-time.After(termGrace):
		p.kill()
		<-p.terminated
	}
}

// A process is the peer of a child's session.

func (p *process) done() <-chan struct{} { return p.terminated }

func (p *process) proof() <-chan struct{} { return p.terminated }

func (p *process) ending(plugin string) error {
	return fault.New(fault.Unavailable, "plugin %s ended: %v; %s", plugin, p.exitErr, p.log.last())
}

func (p *process) cut() { p.kill() }

func (p *process) cutting() string { return "it was ended" }
