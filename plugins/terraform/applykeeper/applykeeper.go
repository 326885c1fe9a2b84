// Package applykeeper is the process that applies one saved plan: it holds the module's lock on
// this machine, runs Terraform, and notes how that ended. It outlives the plugin and Lehr, as an
// apply that is killed in the middle may lose the state of what it made. It never kills
// Terraform: it interrupts it, once, when the push may go on no longer. A state that Terraform
// could not write it writes as soon as it can. Only package modules starts it.
package applykeeper

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/plugins/terraform/tfplan"
	"lehr.dev/plugins/terraform/workfolder"
	"lehr.dev/sdk/keeper"
)

// Command is the argument that makes the plugin's program a keeper.
const Command = "apply"

const (
	// EndsWithin is how long after its interruption an apply may hold the plugin's lock, and
	// so delay all that the plugin serves. One that lasts longer delays its own module.
	EndsWithin = 5 * time.Second
	// lockWithin is how long a keeper waits for the one before it to be gone.
	lockWithin = 3 * time.Second
	// stateWithin is how long a keeper tries to write a state that Terraform could not.
	stateWithin = 10 * time.Minute
	// noteWithin is how long a keeper tries to note how the apply ended.
	noteWithin = 10 * time.Minute
)

// Spec is what a keeper is to apply.
type Spec struct {
	Asset workfolder.Asset
	Push  string
	// Binary runs in Directory with Environment, which has secrets: none of it is ever
	// written. Plan is the file of the saved plan, which is removed in the end; empty: the
	// state that lies in Left is to be written, and nothing applied.
	Binary, Directory, Plan, Left string
	Environment                   []string
	Parallelism                   int
	// Secrets are what must not stay in what the keeper notes: programs of a module print them.
	Secrets []Secret
	// StateDigest is of the state that the plan, or what was left in Left, was made of; empty:
	// it is not known.
	StateDigest string
	// Limit is how long it may last until it is interrupted.
	Limit time.Duration
	// HasLock: the keeper has the plugin's lock. Start sets it.
	HasLock bool
}

// Start starts a keeper of the program, which is interrupted when alive is closed at its other
// end: alive is of a pipe, to read. lock is the plugin's, or nil. It returns once the apply has
// begun, with a channel that is closed when the keeper has ended. An error says that nothing
// began, and nothing will.
func Start(program string, spec Spec, alive, lock *os.File) (ended <-chan struct{}, err error) {
	files := []*os.File{alive}
	if lock != nil {
		files = append(files, lock)
	}
	spec.HasLock = lock != nil
	return keeper.Process{
		Program: program, Args: []string{"lehr-terraform", Command}, Keep: []string{"PATH", "HOME", "TMPDIR"},
		Log: filepath.Join(spec.Asset.Path, logName), Files: files,
	}.Start(spec)
}

// Keep is the keeper's process.
func Keep(stdin io.Reader, stdout io.Writer) int {
	unix.Umask(0o077)
	k := &process{}
	return keeper.Run[Spec]{Begin: k.begin, Carry: k.carry}.Keep(stdin, stdout)
}

// Descriptors of the files that Start hands down.
const (
	aliveDescriptor = 3
	lockDescriptor  = 4
)

// process is a keeper at work.
type process struct {
	// lock is the module's on this machine. Terraform has it, too: so nobody takes the apply
	// for one that is over while Terraform runs, even without its keeper.
	lock  *os.File
	apply Apply
}

// begin takes the lock, and notes that the apply begins.
func (k *process) begin(ctx context.Context, spec Spec, isLate func() error) (err error) {
	// What Terraform starts must not have them.
	unix.CloseOnExec(aliveDescriptor)
	if spec.HasLock {
		unix.CloseOnExec(lockDescriptor)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockWithin, fmt.Errorf("it was not free within %s", lockWithin))
	defer cancel()
	if k.lock, err = keeper.Lock(ctx, spec.Asset.LockPath()); err != nil {
		return err
	}
	if err := keeper.Sign(k.lock); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(spec.Asset.Path, progressName)); err != nil && !os.IsNotExist(err) {
		return err
	}
	k.apply = Apply{Push: spec.Push, Began: time.Now(), StateDigest: spec.StateDigest}
	if err := isLate(); err != nil {
		return err
	}
	return k.apply.save(spec.Asset)
}

// carry applies the plan, and notes how that ended.
func (k *process) carry(ctx context.Context, spec Spec) error {
	end := &End{}
	if spec.Plan != "" {
		end = k.run(ctx, spec)
		_ = os.Remove(spec.Plan)
	}
	k.writeState(spec, end)
	end.Ended = time.Now()
	end.redact(spec)
	k.apply.End = end
	for deadline := time.Now().Add(noteWithin); ; time.Sleep(time.Second) {
		err := k.apply.save(spec.Asset)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		log.Printf("the apply of push %s ended (applied: %v, %s), which cannot be noted: %v", spec.Push, end.IsApplied, end.Reason, err)
	}
}

// run runs Terraform to its end.
func (k *process) run(ctx context.Context, spec Spec) *End {
	progress, err := os.OpenFile(filepath.Join(spec.Asset.Path, progressName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return &End{Reason: err.Error()}
	}
	defer progress.Close()
	arguments := []string{"apply", "-json", "-input=false", "-lock-timeout=0s"}
	if spec.Parallelism > 0 {
		arguments = append(arguments, fmt.Sprintf("-parallelism=%d", spec.Parallelism))
	}
	terraform := exec.Command(spec.Binary, append(arguments, spec.Plan)...)
	terraform.Dir, terraform.Env = spec.Directory, spec.Environment
	// A file, and no pipe: a keeper that is killed must not end Terraform.
	terraform.Stdout, terraform.Stderr = progress, progress
	terraform.ExtraFiles = []*os.File{k.lock}
	terraform.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := terraform.Start(); err != nil {
		return &End{Reason: "Terraform did not start: " + err.Error()}
	}
	k.apply.Process = terraform.Process.Pid
	_ = k.apply.save(spec.Asset) // For people.
	stopWatching := k.watch(ctx, spec, terraform.Process)
	err = terraform.Wait()
	isInterrupted := stopWatching()
	// Providers that outlived it: they would keep the lock.
	_ = unix.Kill(-terraform.Process.Pid, unix.SIGKILL)
	return endOf(spec, err, isInterrupted)
}

func endOf(spec Spec, err error, isInterrupted bool) *End {
	end := &End{IsApplied: err == nil, IsInterrupted: isInterrupted}
	if err == nil {
		return end
	}
	found := tfplan.Errors(Events(spec.Asset))
	end.IsStale = tfplan.IsStale(found)
	lock, isLocked := tfplan.LockOf(found)
	end.IsLocked = isLocked
	switch {
	case isLocked:
		end.Reason = lock.String()
	case len(found) > 0:
		end.Reason = tfplan.Words(found)
	default:
		end.Reason = "terraform apply ended with " + err.Error()
	}
	return end
}

// watch interrupts Terraform once when the push may go on no longer: when the keeper is told
// to stop, when the plugin is gone, or after the limit. The function that it returns ends the
// watching, and reports whether Terraform was interrupted.
func (k *process) watch(ctx context.Context, spec Spec, terraform *os.Process) (stop func() bool) {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		alive := os.NewFile(aliveDescriptor, "alive")
		_, _ = io.Copy(io.Discard, alive)
	}()
	over := make(chan struct{})
	var watching sync.WaitGroup
	isInterrupted := false
	watching.Go(func() {
		limit := time.NewTimer(spec.Limit)
		defer limit.Stop()
		select {
		case <-over:
			return
		case <-ctx.Done():
		case <-gone:
		case <-limit.C:
		}
		isInterrupted = true
		_ = terraform.Signal(os.Interrupt)
		select {
		case <-over:
		case <-time.After(EndsWithin):
			if spec.HasLock {
				_ = unix.Close(lockDescriptor) // What lasts longer delays its own module only.
			}
		}
	})
	return func() bool {
		close(over)
		watching.Wait()
		return isInterrupted
	}
}
