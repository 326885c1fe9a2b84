package job

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"lehr.dev/sdk/serve"
)

// listener takes hints for the length of a test.
type listener struct {
	mutex sync.Mutex
	heard map[serve.AssetID]int
}

func listenTo(t *testing.T, exits *Exits) *listener {
	t.Helper()
	l := &listener{heard: map[serve.AssetID]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		_ = exits.Watch(ctx, func(_ serve.PartitionID, asset serve.AssetID) {
			l.mutex.Lock()
			defer l.mutex.Unlock()
			l.heard[asset]++
		})
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	waitFor(t, "it to be watched", func() error {
		exits.mutex.Lock()
		defer exits.mutex.Unlock()
		if exits.hint == nil {
			return fmt.Errorf("nobody does")
		}
		return nil
	})
	return l
}

// hears waits for the first hint about an asset.
func (l *listener) hears(t *testing.T, asset serve.AssetID) {
	t.Helper()
	waitFor(t, "a hint about "+string(asset), func() error {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if l.heard[asset] == 0 {
			return fmt.Errorf("hints are %v", l.heard)
		}
		return nil
	})
}

// sleeper starts a process, reaped at the end of the test, and returns it as it is seen.
func sleeper(t *testing.T) process {
	t.Helper()
	command := exec.Command("/bin/sleep", "120")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	stat, err := readStat(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return process{pid: command.Process.Pid, started: stat.started}
}

func (e *Exits) count() int {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return len(e.watched)
}

func sightingOf(processes ...process) sighting {
	return sighting{tasks: map[uint32]*task{0: {processes: processes}}}
}

// The end of each process that was seen is hinted to all whom it belongs to, once, and
// nothing is kept of it.
func TestExitsAreHinted(t *testing.T) {
	exits := NewExits()
	l := listenTo(t, exits)
	one, duplicate, other := sleeper(t), sleeper(t), sleeper(t)
	for range 3 { // Each look sees them again.
		exits.watch("shop", "job/one", sightingOf(one, duplicate))
		exits.watch("yard", "job/same", sightingOf(one))
		exits.watch("shop", "job/other", sightingOf(other))
	}
	if n := exits.count(); n != 3 {
		t.Errorf("%d processes are watched, want 3", n)
	}
	if err := syscall.Kill(one.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.hears(t, "job/one")
	l.hears(t, "job/same")
	l.mutex.Lock()
	if l.heard["job/one"] != 1 || l.heard["job/same"] != 1 || l.heard["job/other"] != 0 {
		t.Errorf("hints are %v", l.heard)
	}
	l.mutex.Unlock()
	waitFor(t, "it to be forgotten", func() error {
		if n := exits.count(); n != 2 {
			return fmt.Errorf("%d are watched", n)
		}
		return nil
	})
}

// A process that ended between the look and the watch, or whose number is another's by
// then, is hinted at once.
func TestExitBeforeTheWatch(t *testing.T) {
	exits := NewExits()
	l := listenTo(t, exits)
	p := sleeper(t)
	p.started-- // As of the one that had the number before.
	exits.watch("shop", "job/one", sightingOf(p))
	l.hears(t, "job/one")
	if n := exits.count(); n != 0 {
		t.Errorf("%d processes are watched", n)
	}
}

// No more descriptors are taken than are allowed.
func TestMostWatchedExits(t *testing.T) {
	exits := NewExits()
	for i := range mostWatched {
		exits.watched[life{pid: -i}] = &watchedLife{}
	}
	exits.watch("shop", "job/one", sightingOf(sleeper(t)))
	if n := exits.count(); n != mostWatched {
		t.Errorf("%d processes are watched", n)
	}
}
