package tasks

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	taskpb "lehr.dev/gen/lehr/task/v1"
	"lehr.dev/plugins/task/runrecord"
	"lehr.dev/sdk/serve"
)

func unmarshal(content []byte, task *taskpb.Task) error { return proto.Unmarshal(content, task) }

func every(task *taskpb.Task, d time.Duration) {
	task.Freshness = &taskpb.Task_Every{Every: durationpb.New(d)}
}

func daily(task *taskpb.Task, at, zone string) {
	task.Freshness = &taskpb.Task_Daily{Daily: &taskpb.Daily{At: at, Zone: zone}}
}

// keeper is the process that holds the task's lock.
func (m *machine) keeper() int {
	m.t.Helper()
	text, err := os.ReadFile(m.look().folder.Path + "/" + runrecord.LockName)
	if err != nil {
		m.t.Fatal(err)
	}
	var pid int
	if err := json.Unmarshal([]byte(strings.TrimSpace(string(text))), &pid); err != nil || pid < 2 {
		m.t.Fatalf("the lock names no keeper: %q", text)
	}
	return pid
}

// killKeeper kills the keeper, as the end of the machine would, and waits until its program is
// gone with it.
func (m *machine) killKeeper(program int) {
	m.t.Helper()
	if err := syscall.Kill(m.keeper(), syscall.SIGKILL); err != nil {
		m.t.Fatal(err)
	}
	m.until("the keeper and its program to be gone", func() bool {
		return !m.look().state.IsLive && syscall.Kill(program, 0) == syscall.ESRCH
	})
}

// endless has the program write its process id, and go on for ever.
func (m *machine) endless() (pid func() int) {
	file := m.t.TempDir() + "/pid"
	m.task.Env["THEN"] = "echo $$ >" + file + "; echo $$ >" + file + ".done; exec sleep 1000"
	return func() (pid int) {
		m.t.Helper()
		m.until("the program's number", func() bool { _, err := os.Stat(file + ".done"); return err == nil })
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal([]byte(strings.TrimSpace(string(text))), &pid)
		}
		if err != nil {
			m.t.Fatal(err)
		}
		return pid
	}
}

// A push that loses its permit, or ends, leaves the run to its keeper.
func TestRunGoesOnWithoutItsPush(t *testing.T) {
	m := newMachine(t)
	end := t.TempDir() + "/end"
	m.task.Env["THEN"] = "until [ -e " + end + " ]; do sleep 0.02; done; echo migrated"
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		m.until("the program to be at work", func() bool { return len(m.ran()) > 0 })
		cancel()
	}()
	if outcome := m.push(ctx); outcome.Ending != serve.Stopped || !strings.Contains(outcome.Reason, "run 1 goes on") {
		t.Fatalf("push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	d := m.is(serve.Pending, "run 1 is under way")
	if d.PendingSince.IsZero() || d.PendingEnd == "" {
		t.Errorf("%+v", d)
	}
	// Another process of the plugin, without the memo.
	m.memos = nil
	m.tasks = New(m.tasks.Options)
	m.is(serve.Pending)
	hints := make(chan serve.AssetID, 10)
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_ = m.tasks.Watch(watching, func(_ serve.PartitionID, asset serve.AssetID) { hints <- asset })
	}()
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case asset := <-hints:
		if asset != "task/a" {
			t.Errorf("hinted %s", asset)
		}
	case <-time.After(time.Minute):
		t.Fatal("the end of the run was not hinted")
	}
	if d := m.is(serve.InSync); !strings.Contains(d.Health.Reason, "and wrote: migrated") {
		t.Errorf("health %+v", d.Health)
	}
	m.ranTimes(1)
}

func TestCutOffIsRepeatedOnlyWhereItMayBe(t *testing.T) {
	m := newMachine(t)
	pid := m.endless()
	m.begin()
	m.killKeeper(pid())
	d := m.is(serve.Unknown, "run 1 was cut off", "does not say that it is repeatable", "set rerun with a reason")
	if d.Health.State != serve.Unhealthy {
		t.Errorf("health %+v", d.Health)
	}
	m.ahead = time.Hour
	m.is(serve.Unknown)
	m.task.Repeatable = true
	m.is(serve.Differs, "run 2, attempt 2")
	m.task.Repeatable = false
	m.task.Rerun = &taskpb.Rerun{Id: "1", Reason: "it left nothing behind", OnlyUnfinished: true}
	m.is(serve.Differs)
	m.begin()
	m.killKeeper(pid())
	m.is(serve.Unknown, "run 2 was cut off") // One rerun, one run.
	m.ranTimes(2)
}

func TestTimeoutAndWhatWasStarted(t *testing.T) {
	m := newMachine(t)
	file := t.TempDir() + "/left"
	m.task.Env["THEN"] = "setsid sh -c 'trap \"\" TERM; echo $$ >" + file + "; sleep 1000' & while [ ! -s " + file + " ]; do sleep 0.02; done; sleep 1000"
	m.task.Timeout, m.task.GracePeriod = durationpb.New(2*time.Second), durationpb.New(100*time.Millisecond)
	outcome := m.push(t.Context())
	if outcome.Ending != serve.Failed || outcome.Retryable || !strings.Contains(outcome.Reason, "run 1 was cut off") || !strings.Contains(outcome.Reason, "timeout of 2s") {
		t.Errorf("push ended %+v", outcome)
	}
	m.is(serve.Unknown, "timeout of 2s", "repeatable")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var left int
	if err := json.Unmarshal([]byte(strings.TrimSpace(string(text))), &left); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(left, 0); err != syscall.ESRCH {
		t.Errorf("process %d, which the run started, lives: %v", left, err)
	}
}

func TestGigabyteOfOutput(t *testing.T) {
	m := newMachine(t)
	m.task.Env["THEN"] = "echo first; head -c 1073741824 /dev/zero; echo last"
	m.mustPush()
	m.is(serve.InSync)
	l := m.look()
	end := l.state.Run.End
	if !strings.HasPrefix(end.Stdout, "first\n") || !strings.HasSuffix(end.Stdout, "last") || !strings.Contains(end.Stdout, "bytes left out") {
		t.Errorf("%d bytes were kept: %.20q", len(end.Stdout), end.Stdout)
	}
	var size int64
	entries, err := os.ReadDir(l.folder.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 1<<20 || len(m.memos) != 1 || len(m.memos[0].Bytes) > 16<<10 {
		t.Errorf("the records have %d bytes, and there are %d memos", size, len(m.memos))
	}
}

func TestRecordsThatAreLost(t *testing.T) {
	m := newMachine(t)
	m.mustPush()
	kept := slices.Clone(m.memos)
	m.memos = nil
	m.is(serve.InSync) // The machine knows.
	m.memos = kept
	m.loseRecords()
	m.is(serve.InSync) // Lehr knows.
	m.task.Input = "another"
	m.mustPush()
	if run := m.look().state.Run; run.Number != 2 || len(run.AllDone()) < 2 {
		t.Errorf("after the records were lost: %+v", run)
	}

	// Of a run that goes on, only the machine knows how it ends.
	m.task.Input = "a third"
	pid := m.endless()
	m.begin()
	begun := slices.Clone(m.memos)
	m.memos = nil
	m.is(serve.Pending)
	m.killKeeper(pid())
	m.memos = begun
	m.loseRecords()
	m.task.Repeatable = true
	d := m.is(serve.Unknown, "run 3 was about to begin", "is lost", "nobody knows whether it ran", "set rerun with a reason")
	if d.Health.State != serve.Unhealthy {
		t.Errorf("health %+v", d.Health)
	}
	m.task.Rerun = &taskpb.Rerun{Id: "1", Reason: "it did not run"}
	m.task.Env["THEN"] = "exit 0"
	m.mustPush()
	m.is(serve.InSync)
	m.memos = []serve.Memo{{Key: "task:here/shop/a/task", Bytes: []byte("something else")}}
	m.is(serve.Unknown, "is none that lehr-task wrote")
	m.memos = nil
}

func (m *machine) loseRecords() {
	m.t.Helper()
	if err := m.look().folder.Remove(); err != nil {
		m.t.Fatal(err)
	}
}

// After a failover, what ended is known everywhere, and what did not only where it ran.
func TestAnotherHost(t *testing.T) {
	m := newMachine(t)
	first := m.tasks
	second := New(Options{Folder: t.TempDir(), Program: first.Program, Host: "there", Await: time.Minute, Now: first.Now})
	m.mustPush()
	m.tasks = second
	m.is(serve.InSync)
	m.tasks, m.task.Input, m.task.Repeatable = first, "another", true
	pid := m.endless()
	m.begin()
	m.tasks = second
	d := m.is(serve.Pending, "run 2 began on host here", "this is host there", "set rerun")
	if d.ResourceKey != "task:there/shop/a/task" {
		t.Errorf("key %s", d.ResourceKey)
	}
	m.turnDown()
	m.is(serve.Pending, "on host here")
	m.addons = nil
	m.task.Rerun = &taskpb.Rerun{Id: "1", Reason: "here will not come back"}
	m.is(serve.Differs, "run 3")
	m.task.Rerun = nil
	m.tasks = first
	m.killKeeper(pid())
}

func TestTurndownStopsTheRun(t *testing.T) {
	m := newMachine(t)
	pid := m.endless()
	m.begin()
	program := pid() // It has begun: what is stopped before tells no number.
	m.turnDown()
	d := m.is(serve.Differs, "the records of its runs, 1 in all, and one that is under way")
	if d.Plan.Action != serve.ActionDelete || !d.Plan.Destructive() {
		t.Errorf("%+v", d.Plan)
	}
	m.mustPush()
	if d := m.is(serve.InSync); len(d.Current) > 0 || len(m.memos) > 0 {
		t.Errorf("%d bytes are there, and %d memos", len(d.Current), len(m.memos))
	}
	if err := syscall.Kill(program, 0); err != syscall.ESRCH {
		t.Errorf("the program lives: %v", err)
	}
	m.addons = nil
	m.is(serve.Differs, "it has not run yet")
}
