package job

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"lehr.dev/sdk/serve"
)

func TestKilledTaskIsStartedAgain(t *testing.T) {
	m, job := newMachine(t)
	m.mustPush(job)
	before := m.pids(job)
	syscall.Kill(before[1][0], syscall.SIGKILL)
	waitFor(t, "the difference", func() error {
		if m.diff(job).Outcome == serve.InSync {
			return errors.New("still in sync")
		}
		return nil
	})
	changes := m.changes(job)
	for _, want := range []string{"update", "replicas: 2 → 3", `tasks[1].args[2]:  → "v1"`} {
		if !strings.Contains(changes, want) {
			t.Errorf("the plan does not say %q:\n%s", want, changes)
		}
	}
	if strings.Contains(changes, "tasks[0]") || strings.Contains(changes, "tasks[2]") {
		t.Errorf("the plan names tasks that live:\n%s", changes)
	}
	if reason := m.diff(job).Health.Reason; reason != "task 1 is not running" {
		t.Errorf("health says %q", reason)
	}
	m.mustPush(job)
	after := m.pids(job)
	if after[0][0] != before[0][0] || after[2][0] != before[2][0] {
		t.Errorf("tasks that lived were restarted: before %v, after %v", before, after)
	}
}

// TestReplacedByHandMeanwhile: what the push's plan does not say is not done by it, though it
// differs by now. Whoever holds the job and replaces a task keeps it.
func TestReplacedByHandMeanwhile(t *testing.T) {
	m, job := newMachine(t)
	m.mustPush(job)
	before := m.pids(job)
	syscall.Kill(before[1][0], syscall.SIGKILL)
	waitFor(t, "the difference", func() error {
		if m.diff(job).Outcome == serve.InSync {
			return errors.New("still in sync")
		}
		return nil
	})
	var byHand int
	m.onTold = func(text string) {
		if byHand != 0 || !strings.HasPrefix(text, "starting task 1") {
			return
		}
		syscall.Kill(before[0][0], syscall.SIGKILL)
		waitFor(t, "the port", func() error {
			if ports, err := listeners(); err != nil || len(ports[job.BasePort]) > 0 {
				return errors.Join(err, errors.New("still in use"))
			}
			return nil
		})
		other := intended(job, 0)
		other.Args[2] = "by-hand"
		byHand = m.byHand(job, 0, other.Args...).Process.Pid
	}
	outcome := m.push(t.Context(), job)
	if outcome.Ending != serve.Stale || !strings.Contains(outcome.Reason, "task 0") {
		t.Errorf("the push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if now := m.pids(job); len(now[0]) != 1 || now[0][0] != byHand {
		t.Errorf("by hand is %d, and task 0 is %v", byHand, now[0])
	}
	m.onTold = nil
	m.mustPush(job) // By a plan that says so.
	if m.pids(job)[0][0] == byHand {
		t.Error("the process started by hand still runs")
	}
}

func TestReplacedByHandIsRepaired(t *testing.T) {
	m, job := newMachine(t)
	m.mustPush(job)
	before := m.pids(job)
	for _, alter := range []func(binary *string, environment map[string]string, arguments []string){
		func(_ *string, _ map[string]string, arguments []string) { arguments[2] = "v1-patched" },
		func(_ *string, environment map[string]string, _ []string) { environment["DEBUG"] = "1" },
	} {
		p := m.pids(job)[1][0]
		syscall.Kill(p, syscall.SIGKILL)
		waitFor(t, "the port", func() error {
			if ports, err := listeners(); err != nil || len(ports[job.BasePort+1]) > 0 {
				return errors.Join(err, errors.New("still in use"))
			}
			return nil
		})
		other := proto.CloneOf(job)
		task := intended(job, 1)
		alter(&other.Binary, other.Env, task.Args)
		hand := m.byHand(other, 1, task.Args...)
		waitFor(t, "the difference", func() error {
			if changes := m.changes(job); !strings.Contains(changes, "tasks[1].") || strings.Contains(changes, "tasks[1].binary") {
				return errors.New(changes)
			}
			return nil
		})
		t.Log(m.changes(job))
		if first, second := m.diff(job).Plan.Digest(), m.diff(job).Plan.Digest(); first != second {
			t.Error("the plan of one situation is not stable")
		}
		m.mustPush(job)
		if m.pids(job)[1][0] == hand.Process.Pid {
			t.Error("the process started by hand still runs")
		}
	}
	after := m.pids(job)
	if after[0][0] != before[0][0] || after[2][0] != before[2][0] {
		t.Errorf("tasks that were right were restarted: before %v, after %v", before, after)
	}
}

func TestDuplicateIsStopped(t *testing.T) {
	m, job := newMachine(t)
	m.mustPush(job)
	before := m.pids(job)
	m.byHand(job, 0, "hang", "1", "v1", "0s")
	waitFor(t, "the difference", func() error {
		if changes := m.changes(job); changes != "update\ntasks[0].duplicates: 1 → 0" {
			return errors.New(changes)
		}
		return nil
	})
	m.mustPush(job)
	if diff := cmp.Diff(before, m.pids(job)); diff != "" {
		t.Errorf("the tasks are not the same as before (-want +got):\n%s", diff)
	}
}

func TestPartsOfATaskAreNoDuplicates(t *testing.T) {
	m, job := newMachine(t)
	job.Args[0] = "fork"
	m.mustPush(job)
	m.mustPush(version(job, "v2"))
}

// stopped says what a process does instead, while it is not stopped: each thread stops when it is next
// to run.
func stopped(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			return err
		}
		if _, state, ok := strings.Cut(string(stat), ") "); !ok || state[0] != 'T' {
			return fmt.Errorf("%s: %s", thread, stat)
		}
	}
	return nil
}

func TestHungTaskIsReportedAndStopsTheRoll(t *testing.T) {
	m, job := newMachine(t)
	job.Health.Timeout, job.Update.StopGrace = millis(500), millis(500)
	m.mustPush(job)
	before := m.pids(job)
	syscall.Kill(before[1][0], syscall.SIGSTOP)
	waitFor(t, "the task to be stopped", func() error { return stopped(before[1][0]) })
	d := m.diff(job)
	if d.Outcome != serve.InSync || d.Health.State != serve.Unhealthy || !strings.Contains(d.Health.Reason, "task 1 did not answer") {
		t.Errorf("a hung task is shown as %+v", d.Health)
	}
	more := proto.CloneOf(job)
	more.Replicas = 2 // task 1 runs as intended, but hangs
	more.Update.StartTimeout = millis(500)
	outcome := m.push(t.Context(), more)
	if outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "task 1") {
		t.Errorf("push over a hung task ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if diff := cmp.Diff(before, m.pids(job)); diff != "" {
		t.Errorf("tasks were touched beside a hung one (-want +got):\n%s", diff)
	}
	// A new version replaces the hung task first.
	m.mustPush(version(job, "v2"))
}

func TestLookingChangesNothing(t *testing.T) {
	m, job := newMachine(t)
	m.mustPush(job)
	before := m.pids(job)
	effects := m.effects.Load()
	for _, other := range []string{"v1", "v2", "v3"} {
		m.diff(version(job, other))
	}
	if diff := cmp.Diff(before, m.pids(job)); diff != "" || m.effects.Load() != effects {
		t.Errorf("looking changed production (-before +after):\n%s", diff)
	}
	if first, second := m.diff(job).Base, m.diff(job).Base; first != second || first == "" {
		t.Errorf("base %q, then %q of the same processes", first, second)
	}
}
