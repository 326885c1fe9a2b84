package native

import (
	"bufio"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/prodspec/generate/allowance"
	"lehr.dev/internal/prodspec/generate/protocol"
	"lehr.dev/internal/prodspec/generate/work"
)

// process is one program while it runs.
type process struct {
	options Options
	command *exec.Cmd
	output  *boundedOutput
	words   *work.LastWords
	// killed says why it was killed here; late: it might end another time.
	killed atomic.Pointer[string]
	late   atomic.Bool
	// folder holds the room of a program without a sandbox; empty: none.
	folder string
}

// nobody owns programs that a server of root starts.
const nobody = 65534

const (
	sandboxFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	// startTimeout is how long a stage may take until it becomes the program. It is by the
	// clock, so that it is long enough for a machine that is busy with others.
	startTimeout = 30 * time.Second
)

// start has a stage of this binary make the room and become the program.
func (p *process) start(job *work.Job, entries room, sandbox bool) error {
	spec := stage{
		Sandbox: sandbox, Root: "/", Program: programPath(job), Visible: p.options.Policy.Visible,
		Arguments: append([]string{path.Base(job.Program)}, job.Arguments...),
		Memory:    uint64(p.options.MemoryBytes), Seconds: 2*uint64(p.options.Timeout/time.Second) + 1,
	}
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if sandbox {
		namespaces(attributes)
		for _, e := range entries {
			spec.Entries = append(spec.Entries, stageEntry{e.path, e.content, e.program})
		}
	} else {
		// What it starts and leaves becomes this process's, and is found there.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return err
		}
		if err := p.furnish(entries); err != nil {
			return err
		}
		spec.Root = p.folder
	}
	first, err := protocol.Job(job, filepath.Join(spec.Root, assetFolder, protocol.AssetList))
	if err != nil {
		return err
	}
	var own *os.File
	if job.Renderer != "" {
		// It is executed as it is opened here, wherever it lies: it need not be
		// copied into the room, nor be found there by another user.
		if own, err = files.OpenGiven(job.Renderer); err != nil {
			return err
		}
		defer own.Close()
		spec.Program, spec.Arguments[0] = "", path.Base(job.Renderer)
	}
	setupIn, setupOut, err := os.Pipe()
	if err != nil {
		return err
	}
	defer setupOut.Close()
	statusIn, statusOut, err := os.Pipe()
	if err != nil {
		setupIn.Close()
		return err
	}
	defer statusIn.Close()
	p.command = exec.Command("/proc/self/exe", os.Args[1:]...)
	p.command.Env = append(os.Environ(), stageVariable+"=1")
	p.command.Dir = "/"
	p.command.Stdin, p.command.Stdout, p.command.Stderr = strings.NewReader(string(first)), p.output, p.words
	p.command.ExtraFiles = []*os.File{setupIn, statusOut}
	if own != nil {
		p.command.ExtraFiles = append(p.command.ExtraFiles, own)
	}
	p.command.WaitDelay = time.Second
	p.command.SysProcAttr = attributes
	err = p.command.Start()
	setupIn.Close()
	statusOut.Close()
	if err != nil {
		return err
	}
	timer := time.AfterFunc(startTimeout, func() { _ = p.command.Process.Kill() })
	err = gob.NewEncoder(setupOut).Encode(spec)
	setupOut.Close()
	// The stage closes its end when it becomes the program.
	status, readErr := io.ReadAll(bufio.NewReader(statusIn))
	inTime := timer.Stop()
	if inTime && string(status) == string(stageReady) {
		return nil
	}
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
	if !inTime {
		// What it would have become may have begun: it is no end of the program's own.
		return fmt.Errorf("its first stage took longer than %s", startTimeout)
	}
	if len(status) > 0 {
		return fmt.Errorf("%s", status)
	}
	if err == nil {
		err = readErr
	}
	return fmt.Errorf("its first stage ended: %v %s", err, p.words.First())
}

// namespaces are the program's own. A server of root gives it another user, so
// that nothing is the program's, and what it forks can be counted.
func namespaces(attributes *syscall.SysProcAttr) {
	attributes.Cloneflags = sandboxFlags
	user, group := os.Geteuid(), os.Getegid()
	attributes.Credential = &syscall.Credential{NoSetGroups: true}
	if user == 0 {
		user, group = nobody, nobody
		attributes.GidMappingsEnableSetgroups = true
		attributes.Credential.NoSetGroups = false
	}
	attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: user, Size: 1}}
	attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: group, Size: 1}}
}

// furnish makes a room in a folder of its own, for a program without a sandbox.
func (p *process) furnish(entries room) (err error) {
	if p.folder, err = os.MkdirTemp("", "lehr-generator-"); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(p.folder, workFolder), 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		mode := os.FileMode(0o444)
		if e.program {
			mode = 0o555
		}
		name := filepath.Join(p.folder, filepath.FromSlash(e.path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, e.content, mode); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) clear() {
	if p.folder != "" {
		_ = os.RemoveAll(p.folder)
	}
}

// kill ends the program and all that it started, and says why.
func (p *process) kill(format string, arguments ...any) {
	reason := fmt.Sprintf(format, arguments...)
	p.killed.CompareAndSwap(nil, &reason)
	// The first process of a namespace takes all of it along.
	_ = p.command.Process.Kill()
	if p.folder != "" {
		killBelow()
	}
}

// memoryPause is how long a program may hold too much: to look costs a reading of
// all processes, and one alone is stopped by its own limit.
const memoryPause = 100 * time.Millisecond

// watchMemory ends a program that holds too much, with all that it started.
func (p *process) watchMemory(ctx context.Context) {
	ticker := time.NewTicker(memoryPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var used int64
		for _, pid := range Below(os.Getpid()) {
			used += resident(pid)
		}
		if used > p.options.MemoryBytes {
			p.kill("needed more than %d MB of memory", p.options.MemoryBytes>>20)
			return
		}
	}
}

// watchTime ends a program that takes longer than it may. What this process reads of it counts,
// for a program may write without end.
func (p *process) watchTime(ctx context.Context) {
	self := os.Getpid()
	// The program has just begun, so it has no core time yet.
	allowed := allowance.New(p.options.Timeout, time.Now(), allowance.Had(self))
	for wait := allowed.FirstLook(); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		var reason string
		if reason, wait = allowed.Look(time.Now(), allowance.Of(append(Below(self), self)...)); reason != "" {
			p.late.Store(true)
			p.kill("took longer than %s and was killed: %s", p.options.Timeout, reason)
			return
		}
	}
}

func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages int64
	_, _ = fmt.Sscan(string(text), &size, &pages)
	return pages * int64(os.Getpagesize())
}

// Below lists the processes that a process started, and those that these did.
func Below(root int) []int {
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, folder := range folders {
		pid, err := strconv.Atoi(folder.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + folder.Name() + "/stat")
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold anything.
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		var state string
		var parent int
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil && state != "Z" {
			children[parent] = append(children[parent], pid)
		}
	}
	var pids []int
	for next := children[root]; len(next) > 0; {
		pid := next[0]
		next = append(next[1:], children[pid]...)
		pids = append(pids, pid)
	}
	return pids
}

// killBelow kills all that this process started, until nothing is left; what is
// killed may be starting more.
func killBelow() { KillBelow(os.Getpid()) }

// reap takes note of the ends of orphans that became this process's.
func reap() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}

// KillBelow kills what a process started, but not itself.
func KillBelow(root int) {
	for range 100 {
		pids := Below(root)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
