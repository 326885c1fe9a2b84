package subprocess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
)

// The test binary is also a plugin that is killed, and one that keeps a descriptor open.
func TestMain(m *testing.M) {
	if script := os.Getenv("TEST_PLUGIN"); script != "" {
		var lock *os.File
		if path := os.Getenv("TEST_LOCK"); path != "" {
			lock, _ = os.Open(path)
			_ = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}
		_, err := New(Options{Lock: lock}).Run(context.Background(), shell(script))
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func shell(script string) Command {
	return Command{Argv: []string{"/bin/sh", "-c", script}, Keep: []string{"PATH"}}
}

func run(t *testing.T, command Command) (Result, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes")
	}
	return New(Options{}).Run(t.Context(), command)
}

func TestAProgramGetsWhatItIsGivenAndNothingElse(t *testing.T) {
	t.Setenv("SECRET_OF_THE_PLUGIN", "x")
	t.Setenv("KEPT", "kept")
	folder := t.TempDir()
	// A descriptor that some library forgot to close for children.
	leaked, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leaked)
	command := shell(`pwd; cat; env | cut -d= -f1 | sort | tr '\n' ' '; echo; echo "$KEPT $SET"`)
	command.Directory, command.Input = folder, []byte("$(id) `id`\n")
	command.Keep, command.Set = []string{"PATH", "KEPT", "NOT_THERE"}, map[string]string{"SET": "a=b"}
	result, err := run(t, command)
	if err != nil || result.Exit != 0 {
		t.Fatal(result, err)
	}
	want := folder + "\n$(id) `id`\nKEPT PATH PWD SET \nkept a=b\n"
	if all, ok := result.Stdout.Bytes(); !ok || string(all) != want {
		t.Errorf("%q, want %q", all, want)
	}
	// The fourth is ls's own, of the folder that it lists.
	result, err = run(t, Command{Argv: []string{"/bin/ls", "/proc/self/fd"}, Input: []byte("x")})
	if got := strings.Fields(result.Stdout.Text()); err != nil || !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		t.Errorf("it has the descriptors %v, %v", got, err)
	}
}

func TestHowItEnded(t *testing.T) {
	for script, want := range map[string]Result{
		"exit 7":       {Exit: 7},
		"kill -9 $$":   {Exit: -1, Signal: syscall.SIGKILL},
		"kill -TERM 0": {Exit: -1, Signal: syscall.SIGTERM},
		"exit 200":     {Exit: 200},
		"echo no >&2":  {},
	} {
		result, err := run(t, shell(script))
		if err != nil || result.Exit != want.Exit || result.Signal != want.Signal {
			t.Errorf("%q: %+v, %v", script, result, err)
		}
	}
	result, err := run(t, shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; echo why >&2; exit 1"))
	if err != nil || result.CPU <= 0 || result.CPU > result.Took+time.Second || result.MaxRSS < 1<<20 || result.MaxRSS > 1<<30 {
		t.Errorf("%+v, %v", result, err)
	}
	if got := result.String(); got != "exit code 1, and said: why" {
		t.Error(got)
	}
}

func TestWhatCannotBeStartedSaysWhy(t *testing.T) {
	folder := t.TempDir()
	plain := filepath.Join(folder, "plain")
	garbage := filepath.Join(folder, "garbage")
	if err := errors.Join(os.WriteFile(plain, nil, 0o600), os.WriteFile(garbage, []byte{0, 1, 2, 3}, 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command Command
		kind    fault.Kind
		says    string
	}{
		"none":            {Command{}, fault.Invalid, "no program"},
		"not there":       {Command{Argv: []string{"/nowhere/it"}}, fault.NotFound, "/nowhere/it: no such file"},
		"not in PATH":     {Command{Argv: []string{"no-such-program-at-all"}, Keep: []string{"PATH"}}, fault.NotFound, "not found in $PATH"},
		"not executable":  {Command{Argv: []string{plain}}, fault.Denied, "permission denied"},
		"no program":      {Command{Argv: []string{garbage}}, fault.Invalid, "exec format error"},
		"no limited one":  {Command{Argv: []string{garbage}, Limits: Limits{CPU: time.Second}}, fault.Invalid, "exec format error"},
		"no folder":       {Command{Argv: []string{"/bin/true"}, Directory: "/nowhere"}, fault.NotFound, "no folder /nowhere"},
		"relative":        {Command{Argv: []string{"/bin/true"}, Directory: "here"}, fault.Invalid, "no absolute path"},
		"a NUL byte":      {Command{Argv: []string{"/bin/true", "a\x00b"}}, fault.Invalid, "NUL"},
		"a variable":      {Command{Argv: []string{"/bin/true"}, Set: map[string]string{"A=B": "hush"}}, fault.Invalid, `"A=B"`},
		"a NUL value":     {Command{Argv: []string{"/bin/true"}, Set: map[string]string{"A": "hush\x00"}}, fault.Invalid, `"A"`},
		"negative time":   {Command{Argv: []string{"/bin/true"}, Limits: Limits{Time: -1}}, fault.Invalid, "to run"},
		"negative CPU":    {Command{Argv: []string{"/bin/true"}, Limits: Limits{CPU: -1}}, fault.Invalid, "processor time"},
		"too much output": {Command{Argv: []string{"/bin/true"}, Limits: Limits{Stdout: Kept{Head: 1 << 30}}}, fault.Invalid, "64 MiB"},
	} {
		_, err := run(t, c.command)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v (%v), want %v with %q", name, err, fault.KindOf(err), c.kind, c.says)
		}
	}
}

// timeToBegin is the limit of programs that are to have begun before it strikes, on a busy machine too.
const timeToBegin = 3 * time.Second

func TestLimits(t *testing.T) {
	command := shell("while :; do :; done")
	command.Limits.CPU = time.Millisecond // A whole second is the least.
	result, err := run(t, command)
	if err != nil || result.Signal != syscall.SIGXCPU || !strings.Contains(result.String(), "no processor time left") || result.CPU <= 0 {
		t.Errorf("of one that computes: %+v, %v", result, err)
	}
	command = shell("ulimit -v; ulimit -t")
	command.Limits.AddressSpace, command.Limits.CPU = 512<<20, 90*time.Second
	if result, err = run(t, command); err != nil || result.Stdout.Text() != "524288\n90" {
		t.Errorf("it is bound to %q, %v", result.Stdout.Text(), err)
	}
	command = shell(`head -c 60000000 /dev/zero | tail -c 50000000 | wc -c`)
	command.Limits.AddressSpace = 30 << 20
	if result, err = run(t, command); err != nil || strings.TrimSpace(result.Stdout.Text()) == "50000000" {
		t.Errorf("of one that takes too much memory: %v, %q, %v", result, result.Stdout.Text(), err)
	}
	command = shell("echo begun; sleep 1000")
	command.Limits.Time = timeToBegin
	if result, err = run(t, command); !errors.Is(err, ErrTookTooLong) || result.Exit != -1 || result.Stdout.Text() != "begun" {
		t.Errorf("of one that takes too long: %+v, %v", result, err)
	}
}

func TestWhatIsKeptOfOutput(t *testing.T) {
	command := shell(`seq 1 100000; echo no end >&2`)
	command.Limits.Stdout = Kept{Head: 10, Tail: 8}
	result, err := run(t, command)
	out := result.Stdout
	if err != nil || string(out.Head) != "1\n2\n3\n4\n5\n" || string(out.Tail) != "\n100000\n" || out.Written != 588895 || !out.Truncated() {
		t.Errorf("%q … %q of %d, %v", out.Head, out.Tail, out.Written, err)
	}
	if _, ok := out.Bytes(); ok {
		t.Error("a part is taken for the whole")
	}
	if want := "1\n2\n3\n4\n5\n[… 588877 bytes left out]\n100000"; out.Text() != want {
		t.Errorf("%q, want %q", out.Text(), want)
	}
	if all, ok := result.Stderr.Bytes(); !ok || string(all) != "no end\n" {
		t.Errorf("%q", all)
	}
}

// However it is written, the beginning and the end are kept, and no byte twice.
func TestStreamKeepsBothEnds(t *testing.T) {
	whole := make([]byte, 500)
	for i := range whole {
		whole[i] = byte('a' + i%26)
	}
	for _, kept := range []Kept{{10, 7}, {0, 20}, {20, 0}, {300, 300}, {250, 250}, {499, 0}, {1, 1}} {
		for _, step := range []int{1, 3, 7, 19, 100, 500} {
			s := &stream{kept: kept}
			for rest := whole; len(rest) > 0; rest = rest[min(step, len(rest)):] {
				s.Write(rest[:min(step, len(rest))])
			}
			out := s.output(nil)
			head := whole[:min(kept.Head, len(whole))]
			tail := whole[max(len(head), len(whole)-kept.Tail):]
			if !bytes.Equal(out.Head, head) || !bytes.Equal(out.Tail, tail) || out.Truncated() != (kept.Head+kept.Tail < len(whole)) || out.Written != 500 {
				t.Errorf("%+v by %d: %d and %d bytes of %d", kept, step, len(out.Head), len(out.Tail), out.Written)
			}
		}
	}
}

func TestSecretsAreHiddenAlsoWhereOutputIsCut(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	runner := New(Options{Redact: func(text string) string { return strings.ReplaceAll(text, "hunter2-hunter2", "(secret)") }})
	command := shell(`echo "it is hunter2-hunter2" >&2; for i in 1 2 3 4 5 6 7 8; do echo "pass: hunter2-hunter2"; done; exit 3`)
	for head := 0; head < 60; head += 5 {
		command.Limits.Stdout = Kept{Head: head, Tail: 60 - head}
		result, err := runner.Run(t.Context(), command)
		if err != nil {
			t.Fatal(err)
		}
		if text := result.Stdout.Text(); strings.Contains(text, "hunter") || strings.Contains(text, "ter2") || !strings.Contains(text, "bytes left out") {
			t.Fatalf("%d: %q", head, text)
		}
		if got := result.String(); got != "exit code 3, and said: it is (secret)" {
			t.Fatal(got)
		}
	}
}

func TestQueuesBoundWhatRunsAtATime(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	runner, folder := New(Options{AtOnce: 2}), t.TempDir()
	command := shell(`mkdir in.$$; ls -d in.* | wc -l; sleep 0.1; rmdir in.$$`)
	command.Directory, command.Queue = folder, "workspace"
	var running sync.WaitGroup
	for range 6 {
		running.Go(func() {
			result, err := runner.Run(t.Context(), command)
			if most, _ := strconv.Atoi(strings.TrimSpace(result.Stdout.Text())); err != nil || most < 1 || most > 2 {
				t.Errorf("%d at a time, %v", most, err)
			}
		})
	}
	running.Wait()
	// One that waits ends with its context, and takes no place.
	block := shell("echo $$ >pid.new; mv pid.new pids; sleep 1000")
	block.Directory, block.Queue = t.TempDir(), "other"
	ctx, end := context.WithCancel(t.Context())
	for range 2 {
		running.Go(func() { runner.Run(ctx, block) })
	}
	awaitPIDs(t, block.Directory)
	countRunning := func() int {
		runner.queues.mutex.Lock()
		defer runner.queues.mutex.Unlock()
		return len(runner.queues.byName["other"].slots)
	}
	for countRunning() < 2 {
		time.Sleep(time.Millisecond)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no time"))
	if _, err := runner.Run(gone, block); err == nil || err.Error() != "no time" {
		t.Error(err)
	}
	end()
	running.Wait()
	if len(runner.queues.byName) != 0 {
		t.Errorf("%d queues are left", len(runner.queues.byName))
	}
}

// stubborn writes its own pid and those of children to a file, of which one has left the
// group, and one has lost its parent, too.
const stubborn = `trap "" TERM; sleep 1000 & one=$!; setsid sleep 1000 & two=$!; sh -c 'setsid sleep 1000 & echo $! >three'; echo $$ $one $two $(cat three) >pids.new; mv pids.new pids; wait; sleep 1000`

func TestNothingIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	for name, c := range map[string]struct {
		ending string
		grace  time.Duration
	}{
		"it ends":        {"", 0},
		"it must end":    {"wait; sleep 1000", 200 * time.Millisecond},
		"it has no time": {"wait; sleep 1000", 0},
		// As one that a busy machine does not let run.
		"its guard is stopped": {"kill -STOP $PPID; wait; sleep 1000", 0},
	} {
		t.Run(name, func(t *testing.T) {
			// Several beside each other, for what a guard does may come in another order then.
			for range 6 {
				t.Run("run", func(t *testing.T) {
					t.Parallel()
					testNothingIsLeft(t, c.ending, c.grace)
				})
			}
		})
	}
}

func testNothingIsLeft(t *testing.T, ending string, grace time.Duration) {
	t.Helper()
	command := shell(strings.Replace(stubborn, "wait; sleep 1000", ending, 1))
	command.Directory, command.Limits.Grace = t.TempDir(), grace
	ctx, withdraw := context.WithCancelCause(t.Context())
	defer withdraw(nil)
	ended := make(chan error, 1)
	go func() {
		_, err := New(Options{}).Run(ctx, command)
		ended <- err
	}()
	pids := awaitPIDs(t, command.Directory)
	if ending != "" {
		withdraw(errors.New("the stop is on"))
	}
	if err := <-ended; (err != nil) != (ending != "") || err != nil && !strings.HasSuffix(err.Error(), "the stop is on") {
		t.Error(err)
	}
	awaitGone(t, pids)
}

func TestASecondOfGraceIsGiven(t *testing.T) {
	command := shell(`trap "echo ended well; exit 0" TERM; echo $$ >pids.new; mv pids.new pids; while :; do sleep 0.01; done`)
	command.Directory, command.Limits.Grace = t.TempDir(), 20*time.Second
	if testing.Short() {
		t.Skip("starts real processes")
	}
	ctx, withdraw := context.WithCancel(t.Context())
	defer withdraw()
	go func() {
		awaitPIDs(t, command.Directory)
		withdraw()
	}()
	result, err := New(Options{}).Run(ctx, command)
	if !errors.Is(err, context.Canceled) || result.Stdout.Text() != "ended well" {
		t.Errorf("%v: %+v", err, result)
	}
}

// TestNothingOutlivesThePlugin kills a plugin: its lock is free only when nothing is left.
func TestNothingOutlivesThePlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	folder := t.TempDir()
	lock := filepath.Join(folder, "lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	process := exec.Command(self)
	process.Args = []string{"plugin"}
	process.Env = append(os.Environ(), "TEST_LOCK="+lock, "TEST_PLUGIN=cd "+folder+"; "+stubborn)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	pids := awaitPIDs(t, folder)
	process.Process.Kill()
	process.Wait()
	file, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// Blocks until the guard has ended, as Lehr does.
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("the lock is free, and process %d is left", pid)
		}
	}
}

// TestAFrozenGuardIsKilled: a program may stop its guard, and gains nothing by it.
func TestAFrozenGuardIsKilled(t *testing.T) {
	command := shell(`echo $$ $PPID >pids.new; mv pids.new pids; kill -STOP $PPID; sleep 1000`)
	command.Directory, command.Limits.Time = t.TempDir(), timeToBegin
	if _, err := run(t, command); !errors.Is(err, ErrTookTooLong) {
		t.Error(err)
	}
	awaitGone(t, awaitPIDs(t, command.Directory))
}

// TestAKilledGuardIsNoSuccess: nor does it gain by killing it.
func TestAKilledGuardIsNoSuccess(t *testing.T) {
	command := shell(`echo $$ >pids.new; mv pids.new pids; kill -KILL $PPID; sleep 1000`)
	command.Directory = t.TempDir()
	result, err := run(t, command)
	if !fault.Is(err, fault.Unavailable) || result.Exit != -1 || !strings.Contains(err.Error(), "guard was ended") {
		t.Errorf("%+v, %v", result, err)
	}
	awaitGone(t, awaitPIDs(t, command.Directory))
}

func awaitPIDs(t *testing.T, folder string) (pids []int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		content, err := os.ReadFile(filepath.Join(folder, "pids"))
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(content)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Error(err)
			}
			pids = append(pids, pid)
		}
		t.Cleanup(func() {
			if t.Failed() {
				for _, pid := range pids {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		})
		return pids
	}
	t.Error("the program did not start")
	return nil
}

// alive is false of zombies: who adopts them may be slow to reap.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for deadline := time.Now().Add(30 * time.Second); alive(pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("process %d is left", pid)
				break
			}
		}
	}
}
