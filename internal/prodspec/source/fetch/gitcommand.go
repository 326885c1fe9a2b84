package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
)

// invocation of git.
type invocation struct {
	arguments []string
	// protocol that may be used; empty: none.
	protocol string
	// environment and configuration beside what every invocation has.
	environment, configuration []string
	secrets                    []string
	// most bytes that it may say; 0: few.
	most int64
	// growing: the mirror's size is watched meanwhile.
	growing bool
	// bare: there is no mirror yet.
	bare bool
	// input that it reads.
	input []byte
	// address of the repository, as git is told it. Of one on this machine it is
	// that of seen, which is called otherwise by people.
	address, called string
	opened          *os.File
}

// named has the repository's name for people in what git said.
func (i *invocation) named(output string) string {
	if i.opened == nil {
		return output
	}
	return strings.ReplaceAll(output, i.address, i.called)
}

// close ends the use of the address.
func (i *invocation) close() {
	if i.opened != nil {
		i.opened.Close()
	}
}

func (i *invocation) configure(key, value string) {
	i.configuration = append(i.configuration, key, value)
}

// settings of every invocation: nothing is run, asked, followed or looked up.
var settings = []string{
	"core.hooksPath", "/dev/null", "core.fsmonitor", "false", "core.askPass", "", "credential.helper", "",
	"protocol.allow", "never", "http.followRedirects", "false", "http.lowSpeedLimit", "1000", "http.lowSpeedTime", "30",
	"fetch.unpackLimit", "1", "fetch.recurseSubmodules", "false", "submodule.recurse", "false", "gc.auto", "0", "maintenance.auto", "false",
	"core.bigFileThreshold", "10m", "pack.threads", "1", "pack.windowMemory", "64m", "log.showSignature", "false", "safe.directory", "*",
}

// global is the settings that programs which git runs are to have too: it hands
// its own environment to none of them.
const global = "[safe]\n\tdirectory = *\n[core]\n\thooksPath = /dev/null\n"

// failure is git's own.
type failure struct {
	code   int
	stderr string
}

func (f *failure) Error() string { return f.stderr }

func exitCode(err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return -1
}

// Limits of the memory and the files of git and what it runs.
const (
	gitMemory = 2 << 30
	fewBytes  = 1 << 20
)

// command makes git's. Nothing of this process's environment is its.
func (m *mirror) command(i invocation) (*exec.Cmd, error) {
	if err := m.hold.take(); err != nil {
		return nil, err
	}
	home := filepath.Join(filepath.Dir(m.folder), "home")
	file := filepath.Join(home, "gitconfig")
	if _, err := os.Stat(file); err != nil {
		if err := os.MkdirAll(home, 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, []byte(global), 0o600); err != nil {
			return nil, err
		}
	}
	var arguments []string
	if !i.bare {
		arguments = append(arguments, "--git-dir="+m.folder)
	}
	command := exec.Command("git", append(arguments, i.arguments...)...)
	command.Dir = home
	command.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + file, "GIT_TERMINAL_PROMPT=0",
		"GIT_ATTR_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LFS_SKIP_SMUDGE=1", "GIT_ALLOW_PROTOCOL=" + i.protocol,
	}, i.environment...)
	configuration := append(append([]string{}, settings...), i.configuration...)
	for at := 0; at < len(configuration); at += 2 {
		command.Env = append(command.Env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", at/2, configuration[at]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", at/2, configuration[at+1]))
	}
	command.Env = append(command.Env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(configuration)/2))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.WaitDelay = time.Second
	return command, nil
}

// git runs git to its end, or until the context ends or a limit is met.
func (m *mirror) git(ctx context.Context, i invocation) ([]byte, error) {
	command, err := m.command(i)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "git cannot be run for %s: %w", m, err)
	}
	// It is killed when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if i.most == 0 {
		i.most = fewBytes
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout := &bounded{most: i.most, onExceeded: func() { cancel(tooLarge("what git says of "+m.String(), i.most)) }}
	stderr := &bounded{most: 8 << 10}
	command.Stdout, command.Stderr = stdout, stderr
	if i.input != nil {
		command.Stdin = bytes.NewReader(i.input)
	}
	if err := command.Start(); err != nil {
		return nil, fault.New(fault.Unavailable, "git cannot be run: %w", err).WithHint("install git where the server runs")
	}
	_ = unix.Prlimit(command.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(m.most), Max: uint64(m.most)}, nil)
	_ = unix.Prlimit(command.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: gitMemory, Max: gitMemory}, nil)
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) })
	defer stop()
	var watching sync.WaitGroup
	done := make(chan struct{})
	if i.growing {
		watching.Go(func() { m.watch(done, func() { cancel(tooLarge("the repository "+m.String(), m.most)) }) })
	}
	err = command.Wait()
	close(done)
	watching.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err == nil {
		return stdout.Bytes(), nil
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, &failure{exit.ExitCode(), i.named(stderr.String())}
	}
	return nil, err
}

// watch calls over when the mirror is too large, until ended is closed.
func (m *mirror) watch(done <-chan struct{}, onExceeded func()) {
	const look = 500 * time.Millisecond
	for {
		select {
		case <-done:
			return
		case <-time.After(look):
		}
		size := int64(0)
		_ = filepath.WalkDir(m.folder, func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				if info, err := entry.Info(); err == nil {
					size += info.Size()
				}
			}
			return nil
		})
		if size > m.most {
			onExceeded()
			return
		}
	}
}

// bounded takes no more than most bytes. It does not embed its buffer, whose ReadFrom would pass
// over Write and its limit.
type bounded struct {
	buffer     bytes.Buffer
	most       int64
	onExceeded func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - int64(b.buffer.Len()); int64(len(p)) > room {
		b.buffer.Write(p[:max(room, 0)])
		if b.onExceeded != nil {
			b.onExceeded()
		}
		return len(p), nil
	}
	return b.buffer.Write(p)
}

func (b *bounded) Bytes() []byte  { return b.buffer.Bytes() }
func (b *bounded) String() string { return b.buffer.String() }

// words by which git's failures are known, in the order in which they count. What
// git says itself tells of times and bytes, which are others each time.
var words = []struct{ says, means, hint string }{
	{"File too large", "has more than is read", "name a smaller repository"},
	{"couldn't find remote ref", "is not there any more", "restore the branch or the tag, or mend lehr.yaml"},
	{"not our ref", "is not there any more", "restore the commit, or mend lehr.yaml"},
	{"Host key verification failed", "is another host than known_hosts says, or one that it does not know", "put the host's key into the file of known_hosts, if it is right"},
	{"Permission denied", "does not let us in", "give a key that it knows: key: {file: PATH}"},
	{"Authentication failed", "does not let us in", "give a token that it knows: token: {env: VARIABLE}"},
	{"could not read Username", "does not let us in without a token", "give one: token: {env: VARIABLE}"},
	{"could not read Password", "does not let us in without a token", "give one: token: {env: VARIABLE}"},
	{"error: 403", "does not let us in", "give a token that may read it: token: {env: VARIABLE}"},
	{"redirect", "leads elsewhere", "write the address that it leads to"},
	{"does not appear to be a git repository", "is no repository", "mend its address"},
	{"not found", "is no repository, or does not let us see it", "mend its address, or give a token"},
	{"transport '", "is reached in a way that is not allowed", "write a URL of https or ssh, or a path"},
	{"Connection refused", "does not answer: connection refused", ""},
	{"Failed to connect", "does not answer", ""},
	{"Operation too slow", "is too slow", ""},
	{"timed out", "does not answer in time", ""},
	{"RPC failed", "broke off while it was read", ""},
	{"early EOF", "broke off while it was read", ""},
	{"Could not read from remote repository", "does not answer", ""},
}

// explained makes git's failure an error for people.
func (m *mirror) explained(err error, secrets []string) error {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		return err
	}
	reference := m.reference()
	for _, word := range words {
		if strings.Contains(f.stderr, word.says) {
			hint := "it is tried again; what was read last stays in use"
			if word.hint != "" {
				hint = word.hint + "; what was read last stays in use"
			}
			if word.means == "is not there any more" {
				return fault.New(fault.Unavailable, "%s of %s %s", reference, m, word.means).WithHint("%s", hint)
			}
			return fault.New(fault.Unavailable, "%s %s", m, word.means).WithHint("%s", hint)
		}
	}
	firstLine, _, _ := strings.Cut(strings.TrimSpace(f.stderr), "\n")
	return unreadable(fmt.Sprintf("%s of %s", reference, m), errors.New("git says: "+brief(scrub(firstLine, secrets...), 300)))
}

// catFile reads objects by a git that goes on running. It holds no secret, and
// ends when this process does.
type catFile struct {
	mirror *mirror
	lock   sync.Mutex
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

func (c *catFile) read(ctx context.Context, object string, most int64) ([]byte, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	content, err := c.ask(ctx, object, most)
	if err == nil || fault.Is(err, fault.Invalid) || ctx.Err() != nil {
		return content, err
	}
	// It may have died, or looked before a pack was put together.
	c.end()
	return c.ask(ctx, object, most)
}

func (c *catFile) start() error {
	command, err := c.mirror.command(invocation{arguments: []string{"cat-file", "--batch"}})
	if err != nil {
		return err
	}
	if c.stdin, err = command.StdinPipe(); err != nil {
		return err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	c.cmd, c.stdout = command, bufio.NewReader(stdout)
	return nil
}

func (c *catFile) ask(ctx context.Context, object string, most int64) ([]byte, error) {
	if c.cmd == nil {
		if err := c.start(); err != nil {
			return nil, unreadable("the mirror of "+c.mirror.String(), err)
		}
	}
	process := c.cmd.Process
	stop := context.AfterFunc(ctx, func() { _ = process.Kill() })
	defer stop()
	if _, err := io.WriteString(c.stdin, object+"\n"); err != nil {
		return nil, unreadable("the mirror of "+c.mirror.String(), err)
	}
	line, err := c.stdout.ReadString('\n')
	if err != nil {
		return nil, unreadable("the mirror of "+c.mirror.String(), err)
	}
	fields := strings.Fields(line)
	if len(fields) != 3 || fields[1] != "blob" {
		return nil, unreadable(fmt.Sprintf("an object of %s", c.mirror), fmt.Errorf("git says %.100q", strings.TrimSpace(line)))
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || size > most {
		c.end()
		return nil, tooLarge("a file of "+c.mirror.String(), most)
	}
	content := make([]byte, size+1)
	if _, err := io.ReadFull(c.stdout, content); err != nil {
		return nil, unreadable("the mirror of "+c.mirror.String(), err)
	}
	return content[:size], nil
}

func (c *catFile) stop() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.end()
}

func (c *catFile) end() {
	if c.cmd == nil {
		return
	}
	_ = c.stdin.Close()
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	c.cmd = nil
}
