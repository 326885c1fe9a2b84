package job

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	processpb "lehr.dev/gen/lehr/process/v1"

	"lehr.dev/internal/ground/files"
)

// The environment variables that make a process a task.
const (
	variableJob     = "LEHR_JOB"
	variableTask    = "LEHR_TASK"
	variableVersion = "LEHR_VERSION"
	variableNames   = "LEHR_ENV"
	variablePush    = "LEHR_PUSH"
)

// identity of a task on this machine.
type identity struct {
	job  string
	task uint32
}

// process is a live process that carries an identity.
type process struct {
	pid    int
	parent int
	// started is in clock ticks since boot: with the pid, it is this process
	// and no other.
	started uint64
	identity
	version string
	// environment that it was started with; of a name given twice the first
	// counts, as it does for getenv.
	environment map[string]string
	executable  string
	argv        []string
	// parts are its descendants of the same identity.
	parts []process
}

// processes returns the live processes of this user that carry an identity,
// except those that are parts of another one. Zombies have no environment
// any more and count as dead.
func processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing the processes of this machine: %w", err)
	}
	found := map[int]process{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, err := readProcess(pid)
		switch {
		case errors.Is(err, errNoTask):
		case err != nil:
			return nil, err
		default:
			found[pid] = p
		}
	}
	return rootsOf(found), nil
}

// rootsOf folds processes into the ancestors that share their identity.
func rootsOf(found map[int]process) []process {
	rootOf := func(p process) int {
		for range found {
			parent, ok := found[p.parent]
			if !ok || parent.identity != p.identity {
				break
			}
			p = parent
		}
		return p.pid
	}
	parts := map[int][]process{}
	var roots []process
	for _, pid := range slices.Sorted(maps.Keys(found)) {
		if root := rootOf(found[pid]); root != pid {
			parts[root] = append(parts[root], found[pid])
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(found)) {
		if p := found[pid]; rootOf(p) == pid {
			p.parts = parts[pid]
			roots = append(roots, p)
		}
	}
	return roots
}

// errNoTask: gone, another user's, or without an identity.
var errNoTask = errors.New("no task")

func readProcess(pid int) (process, error) {
	folder := fmt.Sprintf("/proc/%d", pid)
	info, err := os.Stat(folder)
	if err != nil {
		return process{}, errNoTask
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return process{}, errNoTask
	}
	environ, err := readMemory(pid, "environ")
	if err != nil {
		return process{}, err
	}
	p := process{pid: pid, environment: environment(environ)}
	task, err := strconv.ParseUint(p.environment[variableTask], 10, 32)
	if p.job = p.environment[variableJob]; p.job == "" || err != nil {
		return process{}, errNoTask
	}
	p.task, p.version = uint32(task), p.environment[variableVersion]
	stat, err := readStat(pid)
	if err != nil {
		return process{}, err
	}
	p.parent, p.started = stat.parent, stat.started
	cmdline, err := readMemory(pid, "cmdline")
	if err != nil {
		return process{}, err
	}
	p.argv = strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	if p.executable, err = os.Readlink(folder + "/exe"); err != nil {
		p.executable = p.argv[0]
	}
	p.executable = strings.TrimSuffix(p.executable, " (deleted)")
	return p, nil
}

// readMemory reads environ or cmdline, which are never empty of a task. It
// reads again while an exec is under way: the process lives, its old memory is
// gone and the new one is not laid out yet.
func readMemory(pid int, name string) ([]byte, error) {
	const longestExec = 2 * time.Second
	for begun := time.Now(); time.Since(begun) < longestExec; {
		stat, err := readStat(pid)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil && (errors.Is(err, fs.ErrPermission) || gone(err)) {
			return nil, errNoTask
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s of process %d: %w", name, pid, err)
		}
		switch {
		case len(content) > 0:
			return content, nil
		case stat.execs:
			time.Sleep(time.Millisecond)
		case !stat.fills[name]:
			return nil, errNoTask
		default: // an exec came between the two reads
		}
	}
	return nil, errNoTask
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

func environment(environ []byte) map[string]string {
	variables := map[string]string{}
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		name, value, _ := strings.Cut(string(entry), "=")
		if _, ok := variables[name]; !ok {
			variables[name] = value
		}
	}
	return variables
}

// stat is what /proc/<pid>/stat tells, see proc(5).
type stat struct {
	parent  int
	started uint64
	// execs is set from the moment an exec drops the old memory until the new
	// one is complete. It is false of the kernel's threads and of what is ending.
	execs bool
	// fills tells whether the memory has room for "cmdline" and for "environ".
	fills map[string]bool
}

// Flags of a process: PF_EXITING and PF_KTHREAD in the kernel's sched.h.
const exiting, ofKernel = 0x4, 0x200000

// readStat skips the second field, the command's name, from its last
// parenthesis, for it may hold anything.
func readStat(pid int) (stat, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, errNoTask
	}
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(fields) < 49 || fields[0] == "Z" || fields[0] == "X" {
		return stat{}, errNoTask
	}
	parent, wrongParent := strconv.Atoi(fields[1])
	flags, wrongFlags := strconv.ParseUint(fields[6], 10, 64)
	started, wrongStart := strconv.ParseUint(fields[19], 10, 64)
	if err := errors.Join(wrongParent, wrongFlags, wrongStart); err != nil {
		return stat{}, fmt.Errorf("reading /proc/%d/stat: %w", pid, err)
	}
	mayExec := flags&(exiting|ofKernel) == 0
	startOfCode := fields[23] // ok last by an exec
	return stat{
		parent: parent, started: started,
		execs: mayExec && startOfCode == "0",
		fills: map[string]bool{
			"cmdline": mayExec && fields[45] != fields[46],
			"environ": mayExec && fields[47] != fields[48],
		},
	}, nil
}

// runs tells what the process runs, in the words of the intent where it is
// the same thing: a path that leads to the same file, a script that its
// interpreter runs.
func (p process) runs(job *processpb.Job, secrets secrets) *processpb.Task {
	task := &processpb.Task{Binary: p.executable, Args: p.argv[1:], Version: p.version, Env: map[string]string{}}
	if path, err := filepath.EvalSymlinks(job.Binary); p.executable == job.Binary || err == nil && p.executable == path {
		task.Binary = job.Binary
	} else if at := slices.Index(p.argv[:min(3, len(p.argv))], job.Binary); at > 0 && isScript(job.Binary) {
		task.Binary, task.Args = job.Binary, p.argv[at+1:]
	}
	names := slices.Concat(strings.Split(p.environment[variableNames], ","), slices.Collect(maps.Keys(job.Env)))
	task.SecretEnv = secrets.seen(job, p)
	for _, name := range names {
		_, isSecret := task.SecretEnv[name]
		if value, ok := p.environment[name]; ok && name != "" && !isSecret {
			task.Env[name] = value
		}
	}
	return task
}

func isScript(path string) bool {
	file, err := files.OpenGiven(path) // A pipe is no script, and not to be waited for.
	if err != nil {
		return false
	}
	defer file.Close()
	var mark [2]byte
	n, _ := file.Read(mark[:])
	return string(mark[:n]) == "#!"
}
