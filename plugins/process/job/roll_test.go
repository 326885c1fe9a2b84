package job

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/serve"
)

func TestCreateThenRollOneAtATime(t *testing.T) {
	m, job := newMachine(t)
	if d := m.diff(job); d.Plan.Action != serve.ActionCreate || d.Health.State != serve.Unhealthy {
		t.Fatalf("nothing runs, but the difference is %+v", d)
	}
	m.mustPush(job)
	_, environment, err := get(fmt.Sprintf("http://127.0.0.1:%d/work", job.BasePort+2))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"LEHR_JOB=" + job.Name, "LEHR_TASK=2", "LEHR_VERSION=v1", "LEHR_PUSH=push-1", "PATH="} {
		if !strings.Contains(environment, want) {
			t.Errorf("task 2 has no %s in its environment: %s", want, environment)
		}
	}

	next := version(job, "v2")
	if !strings.Contains(m.changes(next), `tasks[1].args[2]: "v1" → "v2"`) {
		t.Errorf("the plan does not name the task's argument:\n%s", m.changes(next))
	}
	before := m.pids(job)
	watched := make(chan int, 1)
	rolled := make(chan struct{})
	go func() { watched <- fewestServing(job, rolled) }()
	stop := m.load(job)
	m.mustPush(next)
	close(rolled)
	if answered := stop(); answered == 0 {
		t.Error("no request was answered during the roll")
	}
	// All three, where a busy machine let nobody look while one of them was replaced.
	if fewest := <-watched; fewest < 2 {
		t.Errorf("the fewest tasks that served at once were %d, want 2: they are replaced one at a time", fewest)
	}
	for number, pids := range m.pids(next) {
		if len(pids) != 1 || pids[0] == before[number][0] {
			t.Errorf("task %d was not replaced: %v, before %v", number, pids, before[number])
		}
	}
	if d := m.diff(next); d.Health.ObservedVersion != "v2" {
		t.Errorf("observed version %q, want v2", d.Health.ObservedVersion)
	}
}

func fewestServing(job *processpb.Job, until chan struct{}) int {
	fewest := int(job.Replicas)
	for {
		select {
		case <-until:
			return fewest
		case <-time.After(5 * time.Millisecond):
		}
		serving, began := 0, time.Now()
		for number := range job.Replicas {
			if status, _, err := get(fmt.Sprintf("http://127.0.0.1:%d/healthz", job.BasePort+number)); err == nil && status == http.StatusOK {
				serving++
			}
		}
		// Nothing is known when the tasks were not asked at about one time.
		if time.Since(began) < 100*time.Millisecond {
			fewest = min(fewest, serving)
		}
	}
}

func TestPushInterruptedGoesOn(t *testing.T) {
	m, job := newMachine(t)
	m.mustPush(job)
	next := version(job, "v2")
	for allowed := int64(1); ; allowed++ {
		m.effects.Store(0)
		m.allowed.Store(allowed)
		outcome := m.push(t.Context(), next)
		if m.effects.Load() > allowed+1 {
			t.Fatalf("went on after the permit was withdrawn: %d effects, %d were allowed", m.effects.Load(), allowed)
		}
		if outcome.Ending == serve.Pushed {
			break
		}
		if allowed == 10 {
			t.Fatalf("still not done after ten attempts: %s: %s", outcome.Ending, outcome.Reason)
		}
	}
	m.mustBeInSync(next)
}

func TestCancelledPushStopsWaiting(t *testing.T) {
	m, job := newMachine(t)
	job.Replicas, job.Args[0] = 1, "hang"
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan serve.Outcome, 1)
	go func() { ended <- m.push(ctx, job) }()
	waitFor(t, "the first task", func() error {
		if len(m.pids(job)) == 0 {
			return fmt.Errorf("none yet")
		}
		return nil
	})
	cancel()
	select {
	case outcome := <-ended:
		if outcome.Ending != serve.Stopped {
			t.Errorf("a cancelled push ended %s: %s", outcome.Ending, outcome.Reason)
		}
	case <-time.After(3 * time.Second):
		t.Fatal("a cancelled push went on waiting")
	}
	if pids := m.pids(job); len(pids) != 1 {
		t.Errorf("tasks %v run, want the one that was started", pids)
	}
}

func TestFewerReplicas(t *testing.T) {
	m, job := newMachine(t)
	m.mustPush(job)
	before := m.pids(job)
	fewer := proto.CloneOf(job)
	fewer.Replicas = 1
	if d := m.diff(fewer); d.Plan.Destructive() {
		t.Errorf("lowering replicas is destructive: %+v", d.Plan)
	}
	m.mustPush(fewer)
	if diff := cmp.Diff(map[uint32][]int{0: before[0]}, m.pids(fewer)); diff != "" {
		t.Errorf("tasks after lowering replicas (-want +got):\n%s", diff)
	}
	none := proto.CloneOf(job)
	none.Replicas = 0
	if d := m.diff(none); !d.Plan.Destructive() {
		t.Errorf("stopping all tasks is not destructive: %+v", d.Plan)
	}
	m.mustPush(none)
	if pids := m.pids(none); len(pids) != 0 {
		t.Errorf("tasks %v are left", pids)
	}
}

func TestPortsMoveOverEachOther(t *testing.T) {
	m, job := newMachine(t)
	m.mustPush(job)
	moved := proto.CloneOf(job)
	moved.BasePort++
	m.mustPush(moved)
	back := proto.CloneOf(job)
	back.Replicas = 2
	m.mustPush(back)
}

func TestStubbornTaskIsKilled(t *testing.T) {
	m, job := newMachine(t)
	job.Replicas, job.Args[0] = 1, "stubborn"
	job.Update.StopGrace = durationpb.New(300 * time.Millisecond)
	m.mustPush(job)
	began := time.Now()
	next := version(job, "v2")
	next.Args[0] = "serve"
	m.mustPush(next)
	if took := time.Since(began); took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("replacing a task that ignores SIGTERM took %v with a grace of 300 ms", took)
	}
}
