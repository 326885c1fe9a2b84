package prodspec

import (
	"bufio"
	"bytes"
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

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/native"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/source/fetch"
)

// TrialCommand is the hidden argument that makes the binary the child of a
// trial. The definition, the partition, the folder of mirrors and how generators
// run follow; what is kept of sources elsewhere is its input.
const TrialCommand = "__try"

// Limits of a trial: memory as a server may have it, and time that no build of
// a server takes.
const (
	trialMemory   = 4 << 30
	trialFiles    = 256
	trialWritten  = 256 << 20
	trialPatience = 5 * time.Minute
)

// InChild returns a trial by this very binary, which ends up in TrialMain, and
// in which generators run as they do here.
func InChild(running generate.Options) Trial {
	return func(ctx context.Context, program Program) ([]intent.SourceRevision, string, error) {
		options := trialOptions{Cache: running.Cache, Milliseconds: running.Limits.Milliseconds, Within: program.Elsewhere.Folders()}
		options.Stores, options.Single = files.Guarded()
		if running.Native != nil {
			if allowed, err := running.Native(program.Partition); err == nil {
				options.Native = &allowed
			}
		}
		encoded, err := json.Marshal(options)
		if err != nil {
			return nil, "", fault.New(fault.Internal, "cannot tell a child how generators run: %w", err)
		}
		// What lies elsewhere the child has as this process has it, and fetches
		// nothing: it has no secret.
		elsewhere, _ := program.Elsewhere.Keep.(*sourceKeeper)
		last, err := elsewhere.all(ctx)
		if err != nil {
			return nil, "", err
		}
		sources, err := json.Marshal(last)
		if err != nil {
			return nil, "", fault.New(fault.Internal, "cannot encode sources: %w", err)
		}
		child := exec.Command("/proc/self/exe", TrialCommand, program.Definition, string(program.Partition), program.Elsewhere.Folder, string(encoded))
		child.Stdin = bytes.NewReader(sources)
		// Renderers are looked for in it.
		child.Env = append(generate.RaceEnvironment(), "PATH="+os.Getenv("PATH"))
		turn, err := running.Turns.Take(ctx, program.Partition)
		if err != nil {
			return nil, "", err
		}
		defer turn.End()
		return try(ctx, child, turn)
	}
}

// trialOptions is how generators run in a trial.
type trialOptions struct {
	Cache string `json:"cache"`
	// Native programs, if they may run at all.
	Native *native.Policy `json:"native,omitempty"`
	// Milliseconds of a run.
	Milliseconds int64 `json:"milliseconds"`
	// Within are the folders that sources may be read from; nil: all.
	Within []string `json:"within"`
	// Stores and Single are files that are nobody's input.
	Stores []string `json:"stores"`
	Single []string `json:"single"`
}

func (o trialOptions) runner() generate.Runner {
	options := generate.DefaultOptions()
	options.Cache = o.Cache
	if o.Milliseconds > 0 {
		options.Limits.Milliseconds = o.Milliseconds
	}
	if o.Native != nil {
		options.Native = func(intent.PartitionID) (native.Policy, error) { return *o.Native, nil }
	}
	return generate.NewProcess(options)
}

// try runs one child to its end.
func try(ctx context.Context, child *exec.Cmd, turn *generate.Turn) (at []intent.SourceRevision, death string, err error) {
	// The child is killed when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var words work.LastWords
	child.Stderr = &words
	if child.Env == nil {
		child.Env = append([]string{}, generate.RaceEnvironment()...)
	}
	child.Dir, child.WaitDelay = "/", time.Second
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdout, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		return nil, "", fault.New(fault.Unavailable, "cannot try the sources in a child: %w", err)
	}
	turn.Begin(child.Process.Pid)
	limited, cancel := context.WithTimeout(ctx, trialPatience)
	defer cancel()
	stop := context.AfterFunc(limited, func() { _ = syscall.Kill(-child.Process.Pid, syscall.SIGKILL) })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if json.Unmarshal(lines.Bytes(), &at) != nil {
			break
		}
	}
	_, _ = io.Copy(io.Discard, stdout)
	waitErr := child.Wait()
	stop()
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case waitErr == nil:
		return at, "", nil
	case len(at) == 0:
		return nil, "", fault.New(fault.Unavailable, "the child in which sources are tried did not come to them (%w): %s", waitErr, words.First())
	case limited.Err() != nil:
		return at, fmt.Sprintf("did not end within %s", trialPatience), nil
	}
	death = fmt.Sprintf("died (%s)", waitErr)
	if first := words.First(); first != "" {
		death += ": " + intent.Shown(first)
	}
	return at, death, nil
}

// TrialMain builds a definition once, and tells on out what it is about to work
// on. It returns the exit code: 0, whatever came of it, for it came to an end.
func TrialMain(arguments []string, w io.Writer) int {
	var options trialOptions
	if len(arguments) != 4 || json.Unmarshal([]byte(arguments[3]), &options) != nil {
		return 1
	}
	last := memoryKeeper{}
	err := generate.LimitSelf(trialMemory, trialFiles, trialWritten)
	if err == nil {
		err = json.NewDecoder(os.Stdin).Decode(&last)
	}
	if err == nil {
		// Where memory is short, it is to be this process that goes.
		err = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "trial:", err)
		return 1
	}
	debug.SetMemoryLimit(trialMemory / 2)
	program := Program{Definition: arguments[0], Partition: intent.PartitionID(arguments[1]), Runner: options.runner()}
	program.Elsewhere = fetch.Options{Folder: arguments[2], Keep: last, Mode: fetch.Offline, Within: func() []string { return options.Within }}
	defer files.Guard(options.Stores, options.Single)()
	// What is wrong with the sources is for the server to find.
	_, _, _, err = build(context.Background(), program, time.Now(), func(_ context.Context, sources []intent.SourceRevision) error {
		return json.NewEncoder(w).Encode(sources)
	})
	if errors.Is(err, syscall.EPIPE) {
		return 1
	}
	return 0
}
