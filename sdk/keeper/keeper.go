// Package keeper has a plugin's program start itself as the keeper of a run: a process in a
// session of its own, which outlives the push, the plugin and Lehr. The keeper holds the run's
// lock (a file) as long as it lives, so everybody sees whether one is at work. The package runs
// no program, keeps no records, and repeats nothing. Plugins call it.
package keeper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Self is this very program, also when its file was replaced since.
const Self = "/proc/self/exe"

// BeginWithin is how long after it was started a keeper may begin its run: one that is slower
// begins none, whether or not anybody is left to hear it. A plugin whose effects are runs
// declares that and a second as its longest effect.
const BeginWithin = 5 * time.Second

// heardWithin is how long the plugin waits to hear that the run began.
const heardWithin = BeginWithin + time.Second

// Process says how a keeper is started.
type Process struct {
	// Program is Self, or what tests run. Args are as the system's list of processes shows
	// them: the name of the plugin, and the argument by which its main knows a keeper.
	Program string
	Args    []string
	// Keep names the variables of the plugin that the keeper has.
	Keep []string
	// Log is the file to which the keeper's standard error is appended.
	Log string
	// Files are open in the keeper, from descriptor 3 on.
	Files []*os.File
}

// order is what a keeper reads from its standard input.
type order struct {
	// BeginBy is when it may begin at the latest, by a clock that counts from the start of the
	// machine.
	BeginBy time.Duration   `json:"begin_by"`
	Spec    json.RawMessage `json:"spec"`
}

// answer is the one line that a keeper writes to its standard output.
type answer struct {
	Started bool   `json:"started"`
	Problem string `json:"problem,omitempty"`
}

// Start starts a keeper with what it is to run, which is passed as JSON through a pipe, and
// returns once the run has begun, with a channel that is closed when the keeper has ended. An
// error says that the run did not begin, and will not.
func (p Process) Start(spec any) (exit <-chan struct{}, err error) {
	text, err := json.Marshal(spec)
	if err == nil {
		text, err = json.Marshal(order{BeginBy: sinceBoot() + BeginWithin, Spec: text})
	}
	if err != nil {
		return nil, err
	}
	stderr, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of a keeper: %w", err)
	}
	defer stderr.Close()
	process := exec.Command(p.Program)
	process.Args, process.Env, process.Dir, process.Stderr, process.ExtraFiles = p.Args, p.environment(), "/", stderr, p.Files
	// A session of its own: no signal to the plugin's group reaches it.
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("starting the keeper of a run: %w", err)
	}
	reply := p.hear(process, stdin, stdout, text)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = process.Wait()
	}()
	if reply.Started {
		return done, nil
	}
	// It may be slow, and must not begin once the run counts as one that did not.
	_ = process.Process.Kill()
	<-done
	return nil, errors.New(reply.Problem)
}

// hear hands a keeper what it is to run, and waits for its answer.
func (p Process) hear(process *exec.Cmd, stdin io.WriteCloser, stdout io.Reader, text []byte) answer {
	go func() {
		_, _ = stdin.Write(text)
		_ = stdin.Close()
	}()
	answers := make(chan answer, 1)
	go func() {
		reply := answer{Problem: "its keeper ended without a word; see " + filepath.Base(p.Log) + " beside its records"}
		line, err := bufio.NewReader(io.LimitReader(stdout, 64<<10)).ReadBytes('\n')
		if err == nil {
			_ = json.Unmarshal(line, &reply)
		}
		answers <- reply
	}()
	timer := time.NewTimer(heardWithin)
	defer timer.Stop()
	select {
	case reply := <-answers:
		return reply
	case <-timer.C:
		_ = process.Process.Kill()
		if reply := <-answers; reply.Started {
			return reply // It began just before it was killed: that is a run that was cut off.
		}
		return answer{Problem: fmt.Sprintf("its keeper did not begin within %s", heardWithin)}
	}
}

func (p Process) environment() []string {
	list := []string{}
	for _, name := range p.Keep {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// Run is what the process of a keeper does.
type Run[S any] struct {
	// Begin takes the lock, notes that the run begins, and calls isLate just before that: a
	// keeper that is late begins nothing.
	Begin func(ctx context.Context, spec S, isLate func() error) error
	// Carry runs what is to run, and notes how it ended. ctx ends with SIGTERM or SIGINT.
	Carry func(ctx context.Context, spec S) error
}

// Keep is the process of a keeper. It returns its exit code.
func (r Run[S]) Keep(stdin io.Reader, stdout io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log.SetFlags(log.LstdFlags | log.LUTC)
	var read order
	var spec S
	err := json.NewDecoder(stdin).Decode(&read)
	if err == nil {
		err = json.Unmarshal(read.Spec, &spec)
	}
	if err == nil {
		err = r.Begin(ctx, spec, func() error {
			if sinceBoot() > read.BeginBy {
				return fmt.Errorf("the run did not begin within %s, and does not any more", BeginWithin)
			}
			return nil
		})
	}
	if err != nil {
		log.Print(err)
		_ = json.NewEncoder(stdout).Encode(answer{Problem: err.Error()})
		return 1
	}
	// Whether anybody hears it or not: the run has begun.
	signal.Ignore(syscall.SIGPIPE)
	_ = json.NewEncoder(stdout).Encode(answer{Started: true})
	if closer, ok := stdout.(io.Closer); ok {
		_ = closer.Close()
	}
	if err := r.Carry(ctx, spec); err != nil {
		log.Print(err)
		return 1
	}
	return 0
}

// sinceBoot is a clock that nobody sets, and that counts the time in which the machine was
// suspended.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("reading CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(now.Nano())
}
