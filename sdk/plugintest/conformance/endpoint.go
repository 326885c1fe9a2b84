package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
)

const (
	// endsWithin is how long a plugin may outlive the end of its input: until
	// then it may still have effects. A busy machine needs most of it.
	endsWithin = 500 * time.Millisecond
	// startsWithin is how long it may take to serve.
	startsWithin = 10 * time.Second
	// maxMessage is the largest message of either side.
	maxMessage = 4 << 20
)

// endpoint is a plugin that is reached: a process of the suite's own, or one
// that somebody else runs.
type endpoint struct {
	conn   *grpc.ClientConn
	client pluginpb.PluginServiceClient
	// description is what it said when it was reached.
	description *pluginpb.DescribeResponse

	// command is nil for one of somebody else's.
	command *exec.Cmd
	stdin   io.WriteCloser
	dir     string
	words   *tail
	exited  chan struct{}
	// reaping is held while the process is signalled or reaped.
	reaping sync.Mutex
}

// dialler connects with a plugin.
type dialler func(ctx context.Context) (net.Conn, error)

func unixSocket(path string) dialler {
	return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", path) }
}

// reach starts the target's program, or dials its socket or its nth server, and
// waits until it describes itself.
func reach(ctx context.Context, target Target, nth int, leaks *leaks) (*endpoint, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startsWithin, fmt.Errorf("it did not serve within %s", startsWithin))
	defer cancel()
	e := &endpoint{exited: make(chan struct{}), words: &tail{leaks: leaks}}
	dial, err := e.way(ctx, target, nth)
	if err != nil {
		return nil, err
	}
	e.conn, err = grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	)
	if err == nil {
		e.client = pluginpb.NewPluginServiceClient(e.conn)
		err = e.describe(ctx)
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// way says how the plugin is reached, when it is there.
func (e *endpoint) way(ctx context.Context, target Target, nth int) (dialler, error) {
	switch {
	case len(target.Run) > 0:
		socket, err := e.start(target.Run)
		return unixSocket(socket), err
	case len(target.Dial) > nth:
		// What is wrong with a certificate is told best by the first try.
		conn, err := target.Dial[nth].Dial(ctx)
		if err == nil {
			err = conn.Close()
		}
		return target.Dial[nth].Dial, err
	default:
		_, err := os.Stat(target.Socket)
		return unixSocket(target.Socket), err
	}
}

func (e *endpoint) describe(ctx context.Context) error {
	for {
		var err error
		e.description, err = e.client.Describe(ctx, &pluginpb.DescribeRequest{Protocol: plugin.Protocol})
		if err == nil {
			return nil
		}
		e.conn.ResetConnectBackoff()
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w%s", context.Cause(ctx), err, e.last())
		case <-e.exited:
			return fmt.Errorf("it ended while starting: %s%s", e.command.ProcessState, e.last())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// start starts the program as Lehr does, in a process group of its own.
func (e *endpoint) start(run []string) (socket string, err error) {
	path, err := remote.LookUp(run[0])
	if err != nil {
		return "", err
	}
	if e.dir, err = os.MkdirTemp("", "lehr-conformance-"); err != nil {
		return "", err
	}
	socket = filepath.Join(e.dir, "s")
	e.command = &exec.Cmd{
		Path: path, Args: run, Env: environment(socket), Stdout: e.words, Stderr: e.words,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		WaitDelay:   endsWithin,
	}
	if e.stdin, err = e.command.StdinPipe(); err == nil {
		err = e.command.Start()
	}
	if err != nil {
		os.RemoveAll(e.dir)
		return "", err
	}
	go e.reap()
	return socket, nil
}

// environment is what Lehr hands down.
func environment(socket string) []string {
	variables := append(remote.SecretsVariable(), plugin.SocketVariable+"="+socket)
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch {
		case name == "LEHR_TOKEN" || name == plugin.LockVariable || name == plugin.SocketVariable:
		case strings.HasPrefix(name, "LEHR_"), name == "PATH", name == "HOME", name == "TMPDIR":
			variables = append(variables, variable)
		}
	}
	return variables
}

// reap waits for the process. What is left of its group is killed before the
// leader is reaped, so that its number cannot have gone to another.
func (e *endpoint) reap() {
	pid := e.command.Process.Pid
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	e.reaping.Lock()
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	_ = e.command.Wait()
	close(e.exited)
	e.reaping.Unlock()
}

// kill ends the process group at once, and waits for it.
func (e *endpoint) kill() {
	e.reaping.Lock()
	select {
	case <-e.exited:
	default:
		_ = syscall.Kill(-e.command.Process.Pid, syscall.SIGKILL)
	}
	e.reaping.Unlock()
	<-e.exited
}

// isOurs reports whether the suite may start and end it.
func (e *endpoint) isOurs() bool { return e.command != nil }

func (e *endpoint) close() {
	if e.conn != nil {
		e.conn.Close()
	}
	if !e.isOurs() {
		return
	}
	e.stdin.Close()
	select {
	case <-e.exited:
	case <-time.After(endsWithin):
	}
	e.kill()
	os.RemoveAll(e.dir)
}

// last is what the program wrote last, for an error.
func (e *endpoint) last() string {
	if words := e.words.String(); words != "" {
		return "; it wrote last: " + words
	}
	return ""
}

// tail keeps the end of what is written to it, and looks for leaks in all of it.
type tail struct {
	// leaks may be nil.
	leaks *leaks
	mutex sync.Mutex
	text  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 2000
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text = append(t.text, p...)
	t.leaks.lookAt("what it writes", t.text)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return strings.ToValidUTF8(string(bytes.TrimSpace(t.text)), "?")
}
