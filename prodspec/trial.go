package prodspec

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/prodspec/generate"
)

// TrialCommand is the hidden argument that makes the binary the child of a
// trial. The definition and the partition follow.
const TrialCommand = "__try"

// Limits of a trial: memory as a server may have it, and time that no build of
// a server takes.
const (
	trialMemory   = 4 << 30
	trialFiles    = 256
	trialPatience = 5 * time.Minute
)

// InChild returns a trial by a command that ends up in TrialMain; none: this
// very binary.
func InChild(command ...string) Trial {
	if len(command) == 0 {
		command = []string{"/proc/self/exe", TrialCommand}
	}
	return func(ctx context.Context, program Program) ([]intent.SourceRevision, string, error) {
		child := exec.Command(command[0], append(command[1:len(command):len(command)], program.Definition, string(program.Partition))...)
		return try(ctx, child)
	}
}

// try runs one child to its end.
func try(ctx context.Context, child *exec.Cmd) (at []intent.SourceRevision, death string, err error) {
	// The child is killed when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var words generate.LastWords
	child.Stderr = &words
	if child.Env == nil {
		child.Env = []string{}
	}
	child.Dir, child.WaitDelay = "/", time.Second
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		return nil, "", fault.New(fault.Unavailable, "cannot try the sources in a child: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, trialPatience)
	defer cancel()
	stop := context.AfterFunc(within, func() { _ = syscall.Kill(-child.Process.Pid, syscall.SIGKILL) })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if json.Unmarshal(lines.Bytes(), &at) != nil {
			break
		}
	}
	_, _ = io.Copy(io.Discard, out)
	ended := child.Wait()
	stop()
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case ended == nil:
		return at, "", nil
	case len(at) == 0:
		return nil, "", fault.New(fault.Unavailable, "the child in which sources are tried did not come to them (%w): %s", ended, words.First())
	case within.Err() != nil:
		return at, fmt.Sprintf("did not end within %s", trialPatience), nil
	}
	death = fmt.Sprintf("died (%s)", ended)
	if first := words.First(); first != "" {
		death += ": " + intent.Shown(first)
	}
	return at, death, nil
}

// TrialMain builds a definition once, and tells on out what it is about to work
// on. It returns the exit code: 0, whatever came of it, for it came to an end.
func TrialMain(arguments []string, out io.Writer) int {
	if len(arguments) != 2 {
		return 1
	}
	err := generate.LimitSelf(trialMemory, trialFiles)
	if err == nil {
		// Where memory is short, it is to be this process that goes.
		err = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "trial:", err)
		return 1
	}
	debug.SetMemoryLimit(trialMemory / 2)
	program := Program{Definition: arguments[0], Partition: intent.PartitionID(arguments[1]), Runner: generate.NewProcess(generate.DefaultOptions())}
	// What is wrong with the sources is for the server to find.
	_, _, _, err = build(context.Background(), program, time.Now(), func(_ context.Context, sources []intent.SourceRevision) error {
		return json.NewEncoder(out).Encode(sources)
	})
	if errors.Is(err, syscall.EPIPE) {
		return 1
	}
	return 0
}
