package job

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/serve"
	"lehr.dev/test/freeport"
)

// newElastic is a job of two tasks by intent whose replicas an autoscaler owns.
func newElastic(t *testing.T) (*machine, *processpb.Job) {
	t.Helper()
	m, job := newMachine(t)
	job.Replicas, job.BasePort = 2, uint32(freeport.Row(t, 6))
	// A task that answers late on a busy machine does not serve, and is replaced without proof.
	job.Health.Timeout = durationpb.New(5 * time.Second)
	m.leave("replicas")
	return m, job
}

func (m *machine) leave(paths ...string) {
	unmanaged := &intentpb.Unmanaged{}
	for _, path := range paths {
		unmanaged.Fields = append(unmanaged.Fields, &intentpb.UnmanagedField{Path: path, Reason: "the autoscaler's"})
	}
	m.addons = []proto.Message{unmanaged}
}

// scaleUp does what an autoscaler does: it starts a task as the others run.
func (m *machine) scaleUp(job *processpb.Job, number uint32) {
	m.t.Helper()
	m.byHand(job, number, intended(job, number).Args...)
	waitFor(m.t, "the task to serve", func() error {
		if d := m.diff(job); d.Health.State != serve.Healthy || len(m.pids(job)[number]) != 1 {
			return errors.New(d.Health.Reason)
		}
		return nil
	})
}

// scaleDown takes a task away.
func (m *machine) scaleDown(job *processpb.Job, number uint32) {
	m.t.Helper()
	for _, pid := range m.pids(job)[number] {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	waitFor(m.t, "the task to end", func() error {
		if pids := m.pids(job); len(pids[number]) > 0 {
			return fmt.Errorf("%v", pids)
		}
		// The leader is gone; what the process had is given back with its last thread.
		listener, err := net.Listen("tcp", fmt.Sprintf(":%d", job.BasePort+number))
		if err == nil {
			err = listener.Close()
		}
		return err
	})
}

func (m *machine) numbers(job *processpb.Job) []uint32 {
	return slices.Sorted(maps.Keys(m.pids(job)))
}

func unmanagedText(d serve.Difference) string {
	var lines []string
	for _, change := range d.Unmanaged {
		lines = append(lines, fmt.Sprintf("%s: %s → %s (%s)", change.Path, change.Current, change.Target, change.Reason))
	}
	return strings.Join(lines, "\n")
}

func TestAutoscaledTasksAreNotFought(t *testing.T) {
	m, job := newElastic(t)
	m.mustPush(job)
	if got := m.numbers(job); !slices.Equal(got, []uint32{0, 1}) {
		t.Fatalf("from nothing the tasks %v were created", got)
	}
	m.scaleUp(job, 2)
	m.scaleUp(job, 4)
	before := m.pids(job)
	m.mustBeInSync(job)
	d := m.diff(job)
	for _, want := range []string{"replicas: 4 → 2 (the autoscaler's)", `tasks[4].version: "v1" →  (the autoscaler's)`} {
		if !strings.Contains(unmanagedText(d), want) {
			t.Errorf("what is left to production does not say %q:\n%s", want, unmanagedText(d))
		}
	}
	if d.Impacts[0].Current != 4 || d.Impacts[0].Target != 4 {
		t.Errorf("impacts %+v, want as many tasks as production has", d.Impacts)
	}
	m.mustPush(job)
	if diff := cmp.Diff(before, m.pids(job)); diff != "" {
		t.Errorf("a push without a difference touched tasks (-want +got):\n%s", diff)
	}

	// A task that is gone may have been taken away.
	m.scaleDown(job, 0)
	m.scaleDown(job, 1)
	m.scaleDown(job, 2)
	m.mustBeInSync(job)
	if d := m.diff(job); !strings.Contains(unmanagedText(d), "replicas: 1 → 2") || d.Health.State != serve.Healthy {
		t.Errorf("health %+v, left to production:\n%s", d.Health, unmanagedText(d))
	}
	// No task at all is not production's wish.
	m.scaleDown(job, 4)
	if d := m.diff(job); d.Plan.Action != serve.ActionCreate || d.Impacts[0].Target != 2 {
		t.Errorf("without any task: %s, impacts %+v", m.changes(job), d.Impacts)
	}
	m.mustPush(job)
	if got := m.numbers(job); !slices.Equal(got, []uint32{0, 1}) {
		t.Errorf("created again: %v", got)
	}
}

func TestAutoscaledTasksAreKeptAsIntended(t *testing.T) {
	m, job := newElastic(t)
	m.mustPush(job)
	m.scaleUp(job, 3)

	// A new version rolls over all that are there, and no others are left.
	next := version(job, "v2")
	if changes := m.changes(next); !strings.Contains(changes, `tasks[3].args[2]: "v1" → "v2"`) || strings.Contains(changes, "replicas") {
		t.Errorf("the plan of a new version:\n%s", changes)
	}
	stop := m.load(job)
	m.mustPush(next)
	stop()
	if got := m.numbers(job); !slices.Equal(got, []uint32{0, 1, 3}) {
		t.Errorf("after a new version the tasks are %v, want those before", got)
	}

	// One task with other arguments is repaired, without a spare one.
	m.scaleDown(job, 3)
	other := proto.CloneOf(next)
	other.Args[2] = "patched"
	m.byHand(other, 3, intended(other, 3).Args...)
	waitFor(t, "the difference", func() error {
		if changes := m.changes(next); !strings.Contains(changes, `tasks[3].args[2]: "patched" → "v2"`) {
			return errors.New(changes)
		}
		return nil
	})
	before := m.pids(job)
	m.told = nil
	m.mustPush(next)
	if told := strings.Join(m.told, "\n"); strings.Contains(told, "task 2") {
		t.Errorf("a repair started a spare task:\n%s", told)
	}
	after := m.pids(job)
	if diff := cmp.Diff(map[uint32][]int{0: before[0], 1: before[1], 3: after[3]}, after); diff != "" || after[3][0] == before[3][0] {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
}

// A version that does not start costs no task, however often it is tried:
// nobody would start the ones that were stopped for it again.
func TestBadVersionTakesNoAutoscaledTask(t *testing.T) {
	for name, spoil := range map[string]func(*processpb.Job){
		"crash": func(j *processpb.Job) { j.Args[0] = "crash" },
		"hang":  func(j *processpb.Job) { j.Args[0] = "hang" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, job := newElastic(t)
			m.mustPush(job)
			before := m.pids(job)
			next := version(job, "v2")
			next.Update.StartTimeout = millis(400)
			spoil(next)
			for range 3 {
				if outcome := m.push(t.Context(), next); outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "task 2") {
					t.Fatalf("push ended %s: %s", outcome.Ending, outcome.Reason)
				}
			}
			if diff := cmp.Diff(before, m.pids(job)); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
			m.mustPush(job)
		})
	}
}

// An autoscaler at work during a roll is not fought either.
func TestAutoscalerDuringARoll(t *testing.T) {
	m, job := newElastic(t)
	m.mustPush(job)
	m.scaleUp(job, 2)
	m.scaleUp(job, 3)
	next := version(job, "v2")
	d := m.diff(next)
	scaled := false
	outcome := m.kind.Push(t.Context(), serve.Push{
		ID: "push-1", Asset: m.asset(next), Plan: d.Plan.Digest(), Base: d.Base,
		Progress: func(text string) {
			t.Log(text)
			if !scaled && strings.Contains(text, "stopping process") {
				scaled = true
				m.scaleDown(job, 3)
			}
		},
	}, m)
	if outcome.Ending != serve.Pushed || !scaled {
		t.Fatalf("the roll ended %s: %s", outcome.Ending, outcome.Reason)
	}
	m.mustBeInSync(next)
	if got := m.numbers(job); !slices.Equal(got, []uint32{0, 1, 2}) {
		t.Errorf("tasks %v, want those that the autoscaler left", got)
	}
}

func TestOnlyReplicasCanBeLeftToProduction(t *testing.T) {
	m, job := newElastic(t)
	m.leave("replicas", "args")
	d := m.diff(job)
	if d.Outcome != serve.Unknown || !strings.Contains(d.Reason, `the field "args"`) || !strings.Contains(d.Reason, `only "replicas"`) {
		t.Errorf("%+v", d)
	}
}

// Turned down, all of them go.
func TestAutoscaledJobIsTurnedDown(t *testing.T) {
	m, job := newElastic(t)
	m.mustPush(job)
	m.scaleUp(job, 4)
	m.addons = append(m.addons, &intentpb.Turndown{Reason: "moved"})
	m.mustTurnDown(job)
}
