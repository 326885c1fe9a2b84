package tasks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	taskpb "lehr.dev/gen/lehr/task/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/plugins/task/runkeeper"
	"lehr.dev/plugins/task/runrecord"
	"lehr.dev/sdk/allowlist"
	"lehr.dev/sdk/serve"
)

func TestOnceForAContent(t *testing.T) {
	m := newMachine(t)
	d := m.is(serve.Differs, "it has not run yet", "command:  → /bin/sh -c")
	if d.Plan.Action != serve.ActionCreate || d.ResourceKey != "task:here/shop/a/task" {
		t.Errorf("%+v", d)
	}
	m.mustPush()
	if d = m.is(serve.InSync); d.Health.State != serve.Healthy || !strings.Contains(d.Health.Reason, "run 1 ended well") {
		t.Errorf("health %+v", d.Health)
	}
	if outcome := m.tasks.Push(t.Context(), serve.Push{ID: "again", Asset: m.asset()}, m); outcome.Ending != serve.Pushed {
		t.Errorf("a push of what is in sync ended %s: %s", outcome.Ending, outcome.Reason)
	}
	m.ranTimes(1)
	m.task.Input = "another"
	m.is(serve.Differs, "its content has not run", "run: run 1 → run 2")
	m.mustPush()
	m.task.Input = ""
	m.is(serve.InSync) // It has happened.
	m.task.RunOnReturn = true
	m.is(serve.Differs, "run: run 2 → run 3")
	m.ranTimes(2)
	// How it may run is no content.
	m.task.RunOnReturn, m.task.Timeout, m.task.RetryableExitCodes = false, durationpb.New(time.Hour), []int32{1}
	m.is(serve.InSync)
}

func TestOnceForAVersion(t *testing.T) {
	m := newMachine(t)
	m.task.Version = "1"
	m.mustPush()
	m.task.Input = "another"
	m.is(serve.InSync)
	m.task.Version = "2"
	d := m.is(serve.Differs, "version: 1 → 2")
	current := &taskpb.Task{}
	if err := unmarshal(d.Current, current); err != nil || current.Version != "1" || d.Health.ObservedVersion != "1" {
		t.Errorf("current version %q, health %+v, %v", current.Version, d.Health, err)
	}
	m.mustPush()
	m.is(serve.InSync)
	m.ranTimes(2)
}

// Nothing has begun when Lehr is asked to keep that it begins, and nothing begins when it
// does not.
func TestBegunIsKeptBeforeItBegins(t *testing.T) {
	m := newMachine(t)
	saved := 0
	m.onSave = func(serve.Memo) error {
		if saved++; saved == 1 {
			m.ranTimes(0)
			return serve.Retryable(errors.New("the store takes no writes"))
		}
		return nil
	}
	if outcome := m.push(t.Context()); outcome.Ending != serve.Failed || !outcome.Retryable {
		t.Fatalf("push ended %+v", outcome)
	}
	m.ranTimes(0)
	// The number is gone, and nothing else is.
	m.is(serve.Differs, "run: run 1 → run 2", "it has not run yet")
	m.mustPush()
	m.ranTimes(1)
	if saved != 3 {
		t.Errorf("%d memos were set, want one that was refused, a beginning and an end", saved)
	}
}

// A push that is stopped, or killed, once its beginning was kept has begun nothing.
func TestStoppedBeforeItBegins(t *testing.T) {
	m := newMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	m.onSave = func(serve.Memo) error { cancel(); return nil }
	if outcome := m.push(ctx); outcome.Ending != serve.Stopped {
		t.Fatalf("push ended %+v", outcome)
	}
	m.onSave = func(serve.Memo) error { return nil }
	if len(m.memos) != 1 {
		t.Fatalf("%d memos are kept", len(m.memos))
	}
	m.ranTimes(0)
	m.is(serve.Differs, "run: run 1 → run 2", "it has not run yet")
	m.mustPush()
	m.is(serve.InSync)
	m.ranTimes(1)
}

// Of two keepers that are started at once, by processes that do not know of each other, no
// two work, and none begins that comes too late.
func TestKeepersExcludeEachOther(t *testing.T) {
	m := newMachine(t)
	pid := m.endless()
	d := m.diff()
	m.begin()
	folder := m.look().folder
	run := runrecord.Run{Number: 2, ID: "other", Host: "here"}
	if err := folder.Reserve(&run); !errors.Is(err, runrecord.ErrTaken) {
		t.Errorf("beside a run that is under way another is reserved: %v", err)
	}
	m.memos = nil
	m.is(serve.Pending, "is under way")
	if outcome := m.pushOf(t.Context(), d); outcome.Ending != serve.Stale {
		t.Errorf("push ended %+v", outcome)
	}
	if _, err := runkeeper.Start(runkeeper.Self, runkeeper.Spec{Folder: folder, Number: 1, Command: []string{"/bin/true"}}); err == nil || !strings.Contains(err.Error(), "another run is under way") {
		t.Errorf("a second keeper: %v", err)
	}
	m.killKeeper(pid())
	m.is(serve.Unknown, "run 1 was cut off") // What was reserved beside it hides nothing.
	if _, err := runkeeper.Start(runkeeper.Self, runkeeper.Spec{Folder: folder, Number: 1, Command: []string{"/bin/true"}}); err == nil {
		t.Error("a run begins twice")
	}
	m.ranTimes(1)
	if err := folder.Remove(); err != nil {
		t.Fatal(err)
	}
	for number := range uint64(2) {
		if err := folder.Reserve(&runrecord.Run{Number: number + 1, ID: "a", Host: "here"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := runkeeper.Start(runkeeper.Self, runkeeper.Spec{Folder: folder, Number: 1, Command: []string{"/bin/true"}}); err == nil || !strings.Contains(err.Error(), "is not the newest") {
		t.Errorf("a keeper of an older run: %v", err)
	}
	m.ranTimes(1)
}

// A second push of the same plan, from a process that does not know of the first.
func TestLatePushBeginsNothing(t *testing.T) {
	m := newMachine(t)
	d := m.diff()
	m.mustPush()
	m.memos = nil
	for range 2 {
		if outcome := m.pushOf(t.Context(), d); outcome.Reason != "already in sync" {
			t.Errorf("push ended %s: %s", outcome.Ending, outcome.Reason)
		}
	}
	m.task.RunOnReturn, m.task.Input = true, "another"
	d = m.diff()
	m.mustPush()
	m.task.Input = "a third"
	m.mustPush()
	m.task.Input = "another"
	if outcome := m.pushOf(t.Context(), d); outcome.Ending != serve.Stale {
		t.Errorf("push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	m.ranTimes(3)
}

func TestFailedAndForced(t *testing.T) {
	m := newMachine(t)
	m.task.Env["THEN"] = "echo no such table >&2; exit 3"
	outcome := m.push(t.Context())
	if outcome.Ending != serve.Failed || outcome.Retryable {
		t.Fatalf("push ended %+v", outcome)
	}
	for _, word := range []string{"run 1 ended with exit code 3", "no such table", "3 is not among its retryable_exit_codes", "set rerun with a reason"} {
		if !strings.Contains(outcome.Reason, word) {
			t.Errorf("it does not say %q: %s", word, outcome.Reason)
		}
	}
	d := m.is(serve.Unknown, "run 1 ended with exit code 3", "no such table", "set rerun with a reason")
	if d.Health.State != serve.Unhealthy {
		t.Errorf("health %+v", d.Health)
	}
	m.ahead = 1000 * time.Hour
	m.is(serve.Unknown)
	m.ahead = 0
	m.ranTimes(1)

	m.task.Rerun = &taskpb.Rerun{Id: "OPS-1", Reason: "the table is there now"}
	m.is(serve.Differs, "rerun OPS-1: the table is there now", "run.reason")
	m.task.Version = "" // The same content.
	m.push(t.Context())
	m.is(serve.Unknown)
	m.ranTimes(2)
	m.task.Env["THEN"] = "exit 0"
	m.mustPush()
	m.is(serve.InSync)
	m.task.Rerun = nil
	m.is(serve.InSync) // What was made to happen has happened.
	m.task.Rerun = &taskpb.Rerun{Id: "OPS-2", Reason: "only if it did not", OnlyUnfinished: true}
	m.is(serve.InSync)
	m.task.Rerun = &taskpb.Rerun{Id: "OPS-3", Reason: "once more"}
	m.mustPush()
	m.is(serve.InSync)
	m.ranTimes(4)
}

func TestRetryableExitCodes(t *testing.T) {
	m := newMachine(t)
	m.task.Env["THEN"], m.task.RetryableExitCodes = "exit 75", []int32{75, 137}
	if outcome := m.push(t.Context()); outcome.Ending != serve.Failed || !outcome.Retryable {
		t.Fatalf("push ended %+v", outcome)
	}
	d := m.is(serve.Pending, "run 1 ended with exit code 75", "it is run again at")
	if d.Health.State != serve.Unhealthy || d.PendingSince.IsZero() {
		t.Errorf("%+v", d)
	}
	m.ahead = 10 * time.Second
	m.is(serve.Differs, "run 2, attempt 2")
	// A program that somebody kills ended by itself: that is no cut-off.
	m.task.Env["THEN"] = "kill -9 $$"
	if outcome := m.push(t.Context()); !outcome.Retryable || !strings.Contains(outcome.Reason, "exit code 137") {
		t.Errorf("push ended %+v", outcome)
	}
	m.ranTimes(2)
}

func TestProgramThatIsNotThere(t *testing.T) {
	m := newMachine(t)
	ready := filepath.Join(t.TempDir(), "program")
	m.task.Command = []string{ready}
	outcome := m.push(t.Context())
	if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, "run 1 could not be started") {
		t.Fatalf("push ended %+v", outcome)
	}
	m.is(serve.Pending, "could not be started")
	if err := os.WriteFile(ready, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.ahead = 10 * time.Second
	m.mustPush()
	m.is(serve.InSync)
}

func TestOnlyListedProgramsRun(t *testing.T) {
	m := newMachine(t)
	path := filepath.Join(t.TempDir(), "programs.yaml")
	list := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list("task-programs: v1\nprograms: [{name: /bin/sh, partitions: [bank]}]\n")
	var err error
	if m.tasks.Programs, err = allowlist.Open[Program](path, ProgramList); err != nil {
		t.Fatal(err)
	}
	if d := m.diff(); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, `partition shop may use no program "/bin/sh"`) {
		t.Errorf("%v %s", d.Outcome, d.Reason)
	}
	list("task-programs: v1\nprograms: [{name: /bin/sh, partitions: [shop]}]\n")
	m.mustPush()
	list("task-programs: v1\nprograms: [{name: /bin/sh, partition: [shop]}]\n")
	if d := m.diff(); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, path) {
		t.Errorf("%v %s", d.Outcome, d.Reason)
	}
	list("task-programs: v1\nprograms: [{name: /bin/sh, partitions: [shop]}]\n")
	m.ranTimes(1)
}

func TestWhatIsNoTaskIsRefused(t *testing.T) {
	for says, change := range map[string]func(*taskpb.Task){
		"does not begin with the absolute path":        func(task *taskpb.Task) { task.Command = []string{"migrate"} },
		"directory \"here\" is not":                    func(task *taskpb.Task) { task.Directory = "here" },
		"is not a time zone":                           func(task *taskpb.Task) { daily(task, "02:30", "Europe/Nowhere") },
		"is not a time of the day":                     func(task *taskpb.Task) { daily(task, "2:30 am", "") },
		"write from 1s to 366 days":                    func(task *taskpb.Task) { every(task, time.Millisecond) },
		"which are worked off once, and every or dail": func(task *taskpb.Task) { every(task, time.Hour); task.Items = []string{"a"} },
	} {
		m := newMachine(t)
		intact := m.task
		m.task = &taskpb.Task{Command: []string{"/bin/true"}}
		change(m.task)
		if d := m.diff(); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, says) {
			t.Errorf("%v %s, want %q", d.Outcome, d.Reason, says)
		}
		m.task = intact
	}
}

// An asset that is renamed and keeps its task's name does not run again, though its memos are
// of the other id.
func TestRenamedTask(t *testing.T) {
	m := newMachine(t)
	m.mustPush()
	m.memos = nil
	asset := m.asset()
	asset.ID = intent.AssetID("task/renamed")
	if d := m.tasks.Diff(t.Context(), []serve.Intent{asset})[0]; d.Outcome != serve.InSync {
		t.Errorf("%v %s", d.Outcome, d.Reason)
	}
	asset.Incarnation.Partition = "bank" // Another's tasks are others.
	if d := m.tasks.Diff(t.Context(), []serve.Intent{asset})[0]; d.Outcome != serve.Differs {
		t.Errorf("%v %s", d.Outcome, d.Reason)
	}
}
