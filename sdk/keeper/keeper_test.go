package keeper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// spec is what the keeper of these tests runs: it waits for a file to be gone, or for a signal.
type spec struct {
	Lock, While, Ended string
	// Late has it find that it is late.
	Late bool
}

var held *os.File

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "keep" {
		os.Exit(Run[spec]{Begin: begin, Carry: carry}.Keep(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func begin(ctx context.Context, s spec, isLate func() error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if held, err = Lock(ctx, s.Lock); err != nil {
		return err
	}
	if s.Late {
		return errors.New("it is late")
	}
	return errors.Join(Sign(held), isLate())
}

func carry(ctx context.Context, s spec) error {
	for ctx.Err() == nil {
		if _, err := os.Stat(s.While); err != nil {
			return os.WriteFile(s.Ended, []byte("by itself"), 0o600)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return os.WriteFile(s.Ended, []byte("by a signal"), 0o600)
}

// A keeper begins once, holds its lock, stands in a session of its own, and ends when it is
// told to; a second one is refused.
func TestAKeeperHoldsItsLock(t *testing.T) {
	folder := t.TempDir()
	s := spec{Lock: filepath.Join(folder, "lock"), While: filepath.Join(folder, "while"), Ended: filepath.Join(folder, "ended")}
	if err := os.WriteFile(s.While, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	process := Process{Program: Self, Args: []string{"lehr-test", "keep"}, Log: filepath.Join(folder, "keeper.log")}
	if isLocked, err := IsLocked(s.Lock); isLocked || err != nil {
		t.Fatalf("before there is one: %v, %v", isLocked, err)
	}
	ended, err := process.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	if isLocked, err := IsLocked(s.Lock); !isLocked || err != nil {
		t.Errorf("while it is at work: %v, %v", isLocked, err)
	}
	own, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	if its, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(holder(s.Lock)), 0, 0); errno != 0 || its == own {
		t.Errorf("its session is %d, that of the test %d (%v)", its, own, errno)
	}
	if _, err := process.Start(s); err == nil || !strings.Contains(err.Error(), "another run is under way") {
		t.Errorf("a second one: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := Stop(ctx, s.Lock); err != nil {
		t.Fatal(err)
	}
	<-ended
	if text, err := os.ReadFile(s.Ended); string(text) != "by a signal" {
		t.Errorf("it ended %s, %v", text, err)
	}
	if err := Signal(s.Lock, syscall.SIGTERM); err != nil {
		t.Errorf("a signal to none: %v", err)
	}
}

// A keeper that does not begin says why, and has begun nothing.
func TestAKeeperThatDoesNotBegin(t *testing.T) {
	folder := t.TempDir()
	s := spec{Lock: filepath.Join(folder, "lock"), Ended: filepath.Join(folder, "ended"), Late: true}
	process := Process{Program: Self, Args: []string{"lehr-test", "keep"}, Log: filepath.Join(folder, "keeper.log")}
	if _, err := process.Start(s); err == nil || !strings.Contains(err.Error(), "it is late") {
		t.Errorf("a keeper that is late: %v", err)
	}
	process.Program = filepath.Join(folder, "nothing")
	if _, err := process.Start(s); err == nil || !strings.Contains(err.Error(), "starting the keeper") {
		t.Errorf("a program that is not there: %v", err)
	}
	process.Program, process.Args = "/bin/true", []string{"true"}
	if _, err := process.Start(s); err == nil || !strings.Contains(err.Error(), "without a word; see keeper.log") {
		t.Errorf("a program that is no keeper: %v", err)
	}
	if _, err := os.Stat(s.Ended); !os.IsNotExist(err) {
		t.Errorf("something ran: %v", err)
	}
}
