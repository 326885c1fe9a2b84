// Package runkeeper is the process that looks after one run of a task: it holds the task's
// lock, runs the program within its limits, and notes how it ended. The plugin starts it, and
// it outlives the plugin and Lehr. When it is killed, what it runs is killed with it. It
// repeats nothing, and decides of nothing but when to stop. Only package tasks starts it.
package runkeeper

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
	"lehr.dev/plugins/task/runrecord"
)

// Command is the argument that makes the plugin's program a keeper.
const Command = "keep"

// Self is this very program, also when its file was replaced since.
const Self = "/proc/self/exe"

const (
	// BeginWithin is how long after it was started a keeper may begin its run: one that is
	// slower begins none, whether or not anybody is left to hear it.
	BeginWithin = 5 * time.Second
	// lockWithin is how long a keeper waits for the one before it to be gone.
	lockWithin = 3 * time.Second
	// heardWithin is how long the plugin waits to hear that the run began.
	heardWithin = BeginWithin + time.Second
	// noteWithin is how long a keeper tries to note how the run ended, for instance while
	// the disk is full.
	noteWithin = 10 * time.Minute
	logName    = "keeper.log"
)

// Spec is what a keeper is to run.
type Spec struct {
	Folder runrecord.Folder
	Number uint64
	// Command, Input, Directory and Set (variables) are as in subprocess.Command.
	Command   []string
	Input     string
	Directory string
	Set       map[string]string
	// Timeout is of each run of the program, Grace from SIGTERM to SIGKILL.
	Timeout, Grace time.Duration
	// Items, of which AtOnce run at a time; none: the program runs once. Batch names their
	// list. Left is how many others are not done, and not to be run.
	Items  []string
	AtOnce int
	Batch  string
	Left   int
	// BeginBy is when it may begin at the latest, by a clock that counts from the start of the
	// machine. Start sets it.
	BeginBy time.Duration
}

// answer is the one line that a keeper writes to its standard output.
type answer struct {
	Started bool   `json:"started"`
	Problem string `json:"problem,omitempty"`
}

// Start starts a keeper from the program, and returns once the run has begun, with a channel
// that is closed when the keeper has ended. An error says that the run did not begin, and
// will not.
func Start(program string, spec Spec) (ended <-chan struct{}, err error) {
	spec.BeginBy = sinceBoot() + BeginWithin
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	stderr, err := os.OpenFile(filepath.Join(spec.Folder.Path, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of a keeper: %w", err)
	}
	defer stderr.Close()
	keeper := exec.Command(program)
	keeper.Args = []string{"lehr-task", Command} // As the system's list of processes shows it.
	keeper.Env, keeper.Dir, keeper.Stderr = environment(), "/", stderr
	// A session of its own: no signal to the plugin's group reaches it.
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := keeper.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := keeper.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := keeper.Start(); err != nil {
		return nil, fmt.Errorf("starting the keeper of a run: %w", err)
	}
	said := hear(keeper, stdin, stdout, text)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = keeper.Wait()
	}()
	if said.Started {
		return done, nil
	}
	// It may be slow, and must not begin once the run counts as one that did not.
	_ = keeper.Process.Kill()
	<-done
	return nil, errors.New(said.Problem)
}

// hear hands a keeper what it is to run, and waits for its answer.
func hear(keeper *exec.Cmd, stdin io.WriteCloser, stdout io.Reader, spec []byte) answer {
	go func() {
		_, _ = stdin.Write(spec)
		_ = stdin.Close()
	}()
	heard := make(chan answer, 1)
	go func() {
		said := answer{Problem: "its keeper ended without a word; see " + logName + " beside the task's records"}
		line, err := bufio.NewReader(io.LimitReader(stdout, 64<<10)).ReadBytes('\n')
		if err == nil {
			_ = json.Unmarshal(line, &said)
		}
		heard <- said
	}()
	timer := time.NewTimer(heardWithin)
	defer timer.Stop()
	select {
	case said := <-heard:
		return said
	case <-timer.C:
		_ = keeper.Process.Kill()
		if said := <-heard; said.Started {
			return said // It began just before it was killed: that is a run that was cut off.
		}
		return answer{Problem: fmt.Sprintf("its keeper did not begin within %s", heardWithin)}
	}
}

// environment of a keeper: what its program gets, and nothing else of the plugin.
func environment() (list []string) {
	for _, name := range keptVariables {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// Keep is the keeper's process.
func Keep(stdin io.Reader, stdout io.WriteCloser) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log.SetFlags(log.LstdFlags | log.LUTC)
	var spec Spec
	err := json.NewDecoder(stdin).Decode(&spec)
	if err == nil {
		err = begin(ctx, spec)
	}
	if err != nil {
		log.Print(err)
		_ = json.NewEncoder(stdout).Encode(answer{Problem: err.Error()})
		return 1
	}
	// Whether anybody hears it or not: the run has begun.
	signal.Ignore(syscall.SIGPIPE)
	_ = json.NewEncoder(stdout).Encode(answer{Started: true})
	_ = stdout.Close()
	end := run(ctx, spec)
	for deadline := time.Now().Add(noteWithin); ; time.Sleep(time.Second) {
		err := spec.Folder.Finish(spec.Number, end)
		if err == nil {
			return 0
		}
		log.Printf("run %d %s, which cannot be noted: %v", spec.Number, end.Ending, err)
		if time.Now().After(deadline) {
			return 1
		}
	}
}

// begin takes the lock, which the process keeps, and notes that the run begins.
func begin(ctx context.Context, spec Spec) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWithin, fmt.Errorf("it was not free within %s", lockWithin))
	defer cancel()
	lock, err := spec.Folder.Lock(ctx)
	if err != nil {
		return err
	}
	held = lock
	if _, err := lock.WriteAt(fmt.Appendf(nil, "%-20d\n", os.Getpid()), 0); err != nil {
		return fmt.Errorf("naming the keeper in the lock: %w", err)
	}
	if sinceBoot() > spec.BeginBy {
		return fmt.Errorf("run %d did not begin within %s, and does not any more", spec.Number, BeginWithin)
	}
	return spec.Folder.Start(spec.Number)
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

// held keeps the lock from being collected, and so closed, before the process ends.
var held *os.File
