// Package runkeeper is the process that looks after one run of a task: it holds the task's
// lock, runs the program within its limits, and notes how it ended. The plugin starts it, and
// it outlives the plugin and Lehr. When it is killed, what it runs is killed with it. It
// repeats nothing, and decides of nothing but when to stop. Only package tasks starts it.
package runkeeper

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"lehr.dev/plugins/task/runrecord"
	"lehr.dev/sdk/keeper"
)

// Command is the argument that makes the plugin's program a keeper.
const Command = "keep"

// Self is this very program, also when its file was replaced since.
const Self = keeper.Self

const (
	// BeginWithin is how long after it was started a keeper may begin its run.
	BeginWithin = keeper.BeginWithin
	// lockWithin is how long a keeper waits for the one before it to be gone.
	lockWithin = 3 * time.Second
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
}

// Start starts a keeper from the program, and returns once the run has begun, with a channel
// that is closed when the keeper has ended. An error says that the run did not begin, and
// will not.
func Start(program string, spec Spec) (exit <-chan struct{}, err error) {
	return keeper.Process{
		Program: program, Args: []string{"lehr-task", Command}, Keep: keptVariables, Log: filepath.Join(spec.Folder.Path, logName),
	}.Start(spec)
}

// Stop tells the keeper of a task to stop, which ends its program, and waits until it has. It
// returns at once where none is at work.
func Stop(ctx context.Context, folder runrecord.Folder) error {
	return keeper.Stop(ctx, folder.LockPath())
}

// Keep is the keeper's process.
func Keep(stdin io.Reader, stdout io.Writer) int {
	return keeper.Run[Spec]{Begin: begin, Carry: carry}.Keep(stdin, stdout)
}

// carry runs the program, and notes how it ended.
func carry(ctx context.Context, spec Spec) error {
	end := run(ctx, spec)
	for deadline := time.Now().Add(noteWithin); ; time.Sleep(time.Second) {
		err := spec.Folder.Finish(spec.Number, end)
		if err == nil {
			return nil
		}
		log.Printf("run %d %s, which cannot be noted: %v", spec.Number, end.Ending, err)
		if time.Now().After(deadline) {
			return err
		}
	}
}

// begin takes the lock, which the process keeps, and notes that the run begins.
func begin(ctx context.Context, spec Spec, isLate func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWithin, fmt.Errorf("it was not free within %s", lockWithin))
	defer cancel()
	lock, err := spec.Folder.Lock(ctx)
	if err != nil {
		return err
	}
	held = lock
	if err := keeper.Sign(lock); err != nil {
		return err
	}
	if err := isLate(); err != nil {
		return err
	}
	return spec.Folder.Start(spec.Number)
}

// held keeps the lock from being collected, and so closed, before the process ends.
var held *os.File
