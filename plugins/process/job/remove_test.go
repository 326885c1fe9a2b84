package job

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/serve"
)

func (m *machine) turnDown() {
	m.addons = []proto.Message{&intentpb.Turndown{Reason: "moved to the other cluster"}}
}

func TestTurndownDrainsAllTasks(t *testing.T) {
	m, job := newMachine(t)
	m.mustPush(job)
	m.byHand(job, 1, "hang", "1", "v1", "0s")
	// A task that intent does not know goes as well.
	m.byHand(job, 9, "hang", "1", "v1", "0s")
	waitFor(t, "all processes", func() error {
		if pids := m.pids(job); len(pids[1]) != 2 || len(pids[9]) != 1 {
			return fmt.Errorf("%v", pids)
		}
		return nil
	})
	m.turnDown()
	d := m.diff(job)
	if d.Plan.Action != serve.ActionDelete || !strings.Contains(m.changes(job), "replicas: 4 → ") {
		t.Fatalf("the plan is %s", m.changes(job))
	}
	for _, change := range d.Plan.Changes {
		if !change.Destructive {
			t.Errorf("%s is removed, and not destructive", change.Path)
		}
	}
	if d.Impacts[0].Current != 4 || d.Impacts[0].Target != 0 {
		t.Errorf("impacts %+v", d.Impacts)
	}
	stop := m.load(job)
	m.told = nil
	m.mustTurnDown(job)
	stop() // no request failed: the tasks drained
	if got := strings.Join(m.told, "\n"); strings.Index(got, "task 9") > strings.Index(got, "task 2") || strings.Index(got, "task 1,") > strings.Index(got, "task 0,") {
		t.Errorf("the highest number does not go first:\n%s", got)
	}
	m.mustTurnDown(job)
	m.addons = nil
	m.mustPush(job)
}

// mustTurnDown pushes, and looks that nothing is left.
func (m *machine) mustTurnDown(job *processpb.Job) {
	m.t.Helper()
	if outcome := m.push(m.t.Context(), job); outcome.Ending != serve.Pushed {
		m.t.Fatalf("the turndown ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if d := m.diff(job); d.Outcome != serve.InSync || len(d.Current) > 0 || d.Health.State != "" {
		m.t.Fatalf("after the turndown: %+v", d)
	}
	if pids := m.pids(job); len(pids) > 0 {
		m.t.Fatalf("tasks %v are left", pids)
	}
}

// Draining takes as long as the slowest task, not as all of them together,
// and one that does not end is killed.
func TestTurndownOfStubbornTasks(t *testing.T) {
	m, job := newMachine(t)
	job.Args[0], job.Update.StopGrace = "stubborn", millis(1500)
	m.mustPush(job)
	m.turnDown()
	began := time.Now()
	m.mustTurnDown(job)
	if took := time.Since(began); took < 1500*time.Millisecond || took > 4*time.Second {
		t.Errorf("three tasks that ignore SIGTERM took %v with a grace of 1.5 s", took)
	}
}

func TestTurndownIsIdleWithoutTasks(t *testing.T) {
	m, job := newMachine(t)
	for _, replicas := range []uint32{0, 3} {
		job.Replicas = replicas
		m.turnDown()
		m.mustTurnDown(job)
	}
	if m.effects.Load() != 0 {
		t.Errorf("%d effects where nothing is", m.effects.Load())
	}
}

// Without a permit no task is stopped; with one for a part, a part is, and
// the next push does the rest.
func TestTurndownInterruptedGoesOn(t *testing.T) {
	m, job := newMachine(t)
	m.mustPush(job)
	m.turnDown()
	for allowed := range int64(3) {
		m.effects.Store(0)
		m.allowed.Store(allowed % 2)
		outcome := m.push(t.Context(), job)
		if outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "permit was withdrawn") {
			t.Errorf("without a permit it ended %s: %s", outcome.Ending, outcome.Reason)
		}
	}
	if pids := m.pids(job); len(pids) != 2 || pids[2] != nil {
		t.Errorf("with a permit for one effect the tasks are %v, want all but that of the highest number", pids)
	}
	m.allowed.Store(-1)
	m.mustTurnDown(job)
}

// Something that starts tasks again is not fought for ever.
func TestTurndownOfTasksThatComeBack(t *testing.T) {
	m, job := newMachine(t)
	job.Replicas = 1
	m.mustPush(job)
	m.turnDown()
	d := m.diff(job)
	var starts atomic.Int64
	// As a supervisor does: a new one whenever one is told to end.
	again := func(string) {
		if starts.Add(1) < 10 {
			m.byHand(job, 0, "hang", "1", "v1", "0s")
		}
	}
	outcome := m.kind.Push(t.Context(), serve.Push{
		ID: "push-1", Asset: m.asset(job), Plan: d.Plan.Digest(), Base: d.Base, Progress: again,
	}, m)
	if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, "come back") {
		t.Errorf("it ended %s: %s", outcome.Ending, outcome.Reason)
	}
}
