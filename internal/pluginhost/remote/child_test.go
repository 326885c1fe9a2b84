package remote

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// alive reports whether a process runs; one that waits to be reaped does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return state[0] != 'Z' && state[0] != 'X'
}

// downBecause waits until a plugin is down for the reasons.
func downBecause(t *testing.T, child *Child, kind fault.Kind, reasons ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("down because %q", reasons), func() bool {
		_, err := child.Describe()
		if !fault.Is(err, kind) {
			return false
		}
		for _, reason := range reasons {
			if !strings.Contains(err.Error(), reason) {
				return false
			}
		}
		return true
	})
}

func TestWhatKeepsAPluginDown(t *testing.T) {
	t.Parallel()
	locks := t.TempDir()
	for name, c := range map[string]struct {
		options Options
		kind    fault.Kind
		reasons []string
	}{
		"missing in PATH":   {Options{Run: []string{"lehr-no-such-plugin"}}, fault.Unavailable, []string{"lehr-no-such-plugin", "beside lehr", "PATH="}},
		"missing at path":   {Options{Run: []string{"./no/such/plugin"}}, fault.Unavailable, []string{"./no/such/plugin", "install it there"}},
		"not a program":     {Options{Run: []string{notAProgram(t)}}, fault.Unavailable, []string{"starting plugin", "exec format error"}},
		"other protocol":    {Options{Run: self(t, "other-protocol")}, fault.Invalid, []string{"version 99", "version 1", "matching releases"}},
		"exits":             {Options{Run: self(t, "exits")}, fault.Unavailable, []string{"exit status 7", "no licence key"}},
		"never serves":      {Options{Run: self(t, "silent"), StartTimeout: 5 * time.Second} /* It has to start first, and tell why. */, fault.Unavailable, []string{"did not serve", "waiting for a database"}},
		"nothing to run":    {Options{}, fault.Invalid, []string{"no program to run"}},
		"no folder to lock": {Options{Run: self(t, "exits"), LockDir: filepath.Join(locks, "none")}, fault.Unavailable, []string{"opening the lock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			downBecause(t, start(t, c.options), c.kind, c.reasons...)
		})
	}
}

func notAProgram(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, []byte("\x7fnot really"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCrashInDiff(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	ids := jobs(contents, 2)
	crashing := job(0)
	crashing.Version = "read-crash"
	contents.put(ids[0], crashing)
	dir := t.TempDir()
	child := started(t, Options{Run: self(t, "folder", dir), Contents: contents, MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond})
	for range 3 {
		if _, err := child.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: ids}); !fault.Is(err, fault.Unavailable) {
			t.Fatalf("diff by a crashing plugin: %v", err)
		}
		// The asset that does not crash it is served again.
		eventually(t, "the plugin is back", func() bool {
			_, err := child.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: ids[1:]})
			return err == nil
		})
	}
	processes, _ := notes(t, dir, "started")
	if len(processes) != 4 {
		t.Errorf("%d processes were started for 3 crashes", len(processes))
	}
}

func TestCrashSaysWhat(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	crashing := job(0)
	crashing.Version = "read-crash"
	contents.put("job/0", crashing)
	child, _ := folderChild(t, Options{Contents: contents, MinBackoff: time.Hour, MaxBackoff: time.Hour})
	_, _ = child.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: []intent.AssetID{"job/0"}})
	downBecause(t, child, fault.Unavailable, "exit status 3", "disk on fire")
}

func TestHungPluginIsEndedAndRestarted(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	ids := jobs(contents, 2)
	hanging := job(0)
	hanging.Version = "read-hang"
	contents.put(ids[0], hanging)
	dir := t.TempDir()
	child := started(t, Options{
		Run: self(t, "folder", dir), Contents: contents,
		DiffTimeout: 200 * time.Millisecond, HangGrace: 200 * time.Millisecond, MinBackoff: time.Millisecond,
	})
	if _, err := child.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: ids[:1]}); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "did not answer") {
		t.Fatal(err)
	}
	eventually(t, "another process", func() bool {
		processes, _ := notes(t, dir, "started")
		return len(processes) == 2
	})
	eventually(t, "the plugin is back", func() bool {
		_, err := child.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: ids[1:]})
		return err == nil
	})
	if processes, _ := notes(t, dir, "started"); alive(processes[0]) {
		t.Error("the hung process lives")
	}
}

func TestOneHungBatchDoesNotEndAPluginThatAnswers(t *testing.T) {
	t.Parallel()
	contents := newIntents()
	ids := jobs(contents, 2)
	hanging := job(0)
	hanging.Version = "read-hang"
	contents.put(ids[0], hanging)
	dir := t.TempDir()
	child := started(t, Options{Run: self(t, "folder", dir), Contents: contents, DiffTimeout: time.Second, HangGrace: time.Second})
	if _, err := child.Diff(t.Context(), plugin.DiffRequest{Incarnation: head, Assets: ids[:1]}); err == nil {
		t.Fatal("a hung diff succeeded")
	}
	for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); {
		diffed(t, child, ids[1])
	}
	if processes, _ := notes(t, dir, "started"); len(processes) != 1 {
		t.Errorf("%d processes were started", len(processes))
	}
}

func TestCloseEndsTheChild(t *testing.T) {
	t.Parallel()
	child, dir := folderChild(t, Options{})
	child.Close()
	processes, _ := notes(t, dir, "started")
	if len(processes) != 1 || alive(processes[0]) {
		t.Errorf("after Close: %v", processes)
	}
	if _, err := child.Describe(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a closed plugin describes itself: %v", err)
	}
}

func TestChildDiesWithLehrAndItsLockTells(t *testing.T) {
	t.Parallel()
	dir, locks := t.TempDir(), t.TempDir()
	command := self(t, "lehr", dir, locks)
	lehr := exec.Command(command[0], command[1:]...)
	if err := lehr.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the push has effects", func() bool {
		_, effects := notes(t, dir, "effect")
		return len(effects) > 3
	})
	processes, _ := notes(t, dir, "effect")
	if !alive(processes[0]) {
		t.Fatal("the plugin does not run")
	}

	// Another Lehr waits as long as the older process lives.
	waiting := start(t, Options{Name: "folder", Run: self(t, "folder", t.TempDir()), LockDir: locks})
	downBecause(t, waiting, fault.Unavailable, fmt.Sprintf("older process %d", processes[0]))
	select {
	case <-waiting.Alone():
		t.Fatal("said to be alone beside the older process")
	default:
	}

	killed := time.Now()
	if err := lehr.Process.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = lehr.Wait()
	closes(t, "alone", waiting.Alone())
	// The kernel frees the lock when the last thread has ended, a moment before the process counts
	// as dead.
	eventually(t, "the older process to be dead", func() bool { return !alive(processes[0]) })
	_, effects := notes(t, dir, "effect")
	if late := effects[len(effects)-1].Sub(killed); late > 100*time.Millisecond {
		t.Errorf("an effect %s after lehr was killed", late)
	}
	eventually(t, "the new child serves", func() bool {
		_, err := waiting.Describe()
		return err == nil
	})
}

func TestRunByHandItSaysWhatItIs(t *testing.T) {
	t.Parallel()
	command := self(t, "folder", t.TempDir())
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "is a Lehr plugin") || !strings.Contains(string(out), "lehr.process.v1.Job") {
		t.Errorf("%v: %s", err, out)
	}
}

// A path too long for a socket is no reason not to serve.
func TestLongFolders(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	folderChild(t, Options{LockDir: long})
}

// What a plugin starts carries neither its lock nor secrets of Lehr's.
func TestProgramsOfAPluginDoNotHoldItsLock(t *testing.T) {
	t.Setenv("SECRET_OF_LEHR", "hunter2")
	t.Setenv("LEHR_TOKEN", "hunter3") // with which a plugin could approve its own plans
	t.Setenv("LEHR_DATABASE", "postgres://lehr:hunter4@127.0.0.1/lehr")
	contents := newIntents()
	spawning := job(0)
	spawning.Version = "read-spawn"
	contents.put("job/0", spawning)
	locks, dir := t.TempDir(), t.TempDir()
	options := Options{Name: "folder", Run: self(t, "folder", dir), Contents: contents, LockDir: locks}
	child := started(t, options)
	reason := diffed(t, child, "job/0")["job/0"].Reason
	var spawned int
	if _, err := fmt.Sscanf(reason, "started %d", &spawned); err != nil {
		t.Fatal(reason)
	}
	t.Cleanup(func() { _ = unix.Kill(spawned, unix.SIGKILL) })
	if strings.Contains(reason, "hunter") || strings.Contains(reason, "LEHR_PLUGIN") || !strings.Contains(reason, "PATH=") {
		t.Errorf("environment: %s", reason)
	}
	child.Close()
	if !alive(spawned) {
		t.Fatal("the program ended with the plugin, so it proves nothing")
	}
	closes(t, "alone", started(t, options).Alone())
}

// A plugin that keeps files or databases which partitions name refuses the store of the
// Lehr that started it.
func TestAPluginKnowsTheStore(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "lehr.db")
	for _, name := range []string{store, store + ".server.json"} {
		if err := os.WriteFile(name, []byte("token"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	defer files.Guard([]string{store}, nil)()
	contents := newIntents()
	for i, path := range []string{store, store + ".server.json"} {
		reading := job(i)
		reading.Version, reading.Binary = "read-store", path
		contents.put(intent.AssetID(fmt.Sprintf("job/%d", i)), reading)
	}
	child := started(t, Options{Name: "folder", Run: self(t, "folder", t.TempDir()), Contents: contents})
	for id, answer := range diffed(t, child, "job/0", "job/1") {
		if !strings.Contains(answer.Reason, "a file of Lehr's own") {
			t.Errorf("%s: %s", id, answer.Reason)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		failures int
		random   float64
		want     time.Duration
	}{
		{0, 0, 100 * time.Millisecond},
		{0, 1, 50 * time.Millisecond},
		{3, 0, 800 * time.Millisecond},
		{20, 0, 30 * time.Second},
		{200, 0.5, 22500 * time.Millisecond},
	} {
		if got := backoff(c.failures, 100*time.Millisecond, 30*time.Second, c.random); got != c.want {
			t.Errorf("backoff(%d, %v) = %s, want %s", c.failures, c.random, got, c.want)
		}
	}
}
