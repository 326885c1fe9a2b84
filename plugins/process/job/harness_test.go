package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/serve"
	"lehr.dev/test/freeport"
)

// machine is this machine with one job on it.
type machine struct {
	t    *testing.T
	jobs Jobs
	kind serve.Kind
	// told is what pushes said of their progress.
	told []string
	// onTold, if any, is called with each of them.
	onTold func(text string)
	// addons of the job's asset.
	addons []proto.Message
	// effects that were permitted; allowed of them at most, if not negative.
	effects atomic.Int64
	allowed atomic.Int64
}

func newMachine(t *testing.T) (*machine, *processpb.Job) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes")
	}
	jobs := Jobs{Logs: t.TempDir(), Exits: NewExits()}
	m := &machine{t: t, jobs: jobs, kind: serve.For(jobs, Serving())}
	m.allowed.Store(-1)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	job := &processpb.Job{
		Name: fmt.Sprintf("test-%d/%s", os.Getpid(), strings.ToLower(t.Name())), Replicas: 3,
		Binary: executable, Args: []string{"serve", "{port}", "v1", drain.String()},
		Env: map[string]string{"TEST_TASK": fmt.Sprint(os.Getpid())}, Version: "v1",
		BasePort: uint32(freeport.Row(t, 4)), Health: &processpb.HealthCheck{Path: "/healthz"},
		Update: &processpb.Update{StopGrace: durationpb.New(5 * time.Second), StartTimeout: durationpb.New(10 * time.Second)},
	}
	t.Cleanup(func() { killAll(t, job.Name) })
	return m, job
}

// version is the job at another version.
func version(job *processpb.Job, name string) *processpb.Job {
	job = proto.CloneOf(job)
	job.Version, job.Args[2] = name, name
	return job
}

func killAll(t *testing.T, job string) {
	waitFor(t, "all tasks to be gone", func() error {
		all, err := processes()
		if err != nil {
			return err
		}
		var left error
		for _, p := range all {
			if p.job == job {
				left = fmt.Errorf("process %d is left", p.pid)
				syscall.Kill(p.pid, syscall.SIGKILL)
			}
		}
		return left
	})
}

func waitFor(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("waited in vain for %s: %v", what, err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (m *machine) asset(job *processpb.Job) serve.Intent {
	m.t.Helper()
	pack := func(message proto.Message) serve.Message {
		content, err := proto.Marshal(message)
		if err != nil {
			m.t.Fatal(err)
		}
		return serve.Message{Type: serve.TypeName(message.ProtoReflect().Descriptor().FullName()), Bytes: content}
	}
	asset := intent.Asset{ID: "frontend/a", Payload: pack(job)}
	for _, addon := range m.addons {
		asset.Addons = append(asset.Addons, pack(addon))
	}
	return serve.Intent{Asset: asset}
}

func (m *machine) diff(job *processpb.Job) serve.Difference {
	m.t.Helper()
	return m.kind.Diff(m.t.Context(), []serve.Intent{m.asset(job)})[0]
}

// changes renders the plan.
func (m *machine) changes(job *processpb.Job) string {
	m.t.Helper()
	difference := m.diff(job)
	if difference.Outcome == serve.Unknown {
		m.t.Fatalf("the difference is unknown: %s", difference.Reason)
	}
	lines := []string{string(difference.Plan.Action)}
	for _, c := range difference.Plan.Changes {
		lines = append(lines, fmt.Sprintf("%s: %s → %s", c.Path, c.Current, c.Target))
	}
	return strings.Join(lines, "\n")
}

// Effect counts effects and, beyond those allowed, refuses.
func (m *machine) Effect(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if count := m.effects.Add(1); m.allowed.Load() >= 0 && count > m.allowed.Load() {
		return errors.New("the permit was withdrawn")
	}
	return nil
}

func (m *machine) Cover(context.Context, string) error { return nil }

// push carries out the plan that a diff shows now.
func (m *machine) push(ctx context.Context, job *processpb.Job) serve.Outcome {
	difference := m.diff(job)
	return m.kind.Push(ctx, serve.Push{
		ID: "push-1", Asset: m.asset(job), Plan: difference.Plan.Digest(), Base: difference.Base,
		Progress: func(text string) {
			m.t.Log(text)
			m.told = append(m.told, text)
			if m.onTold != nil {
				m.onTold(text)
			}
		},
	}, m)
}

func (m *machine) mustPush(job *processpb.Job) {
	m.t.Helper()
	if outcome := m.push(m.t.Context(), job); outcome.Ending != serve.Pushed {
		m.t.Fatalf("push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	m.mustBeInSync(job)
}

func (m *machine) mustBeInSync(job *processpb.Job) {
	m.t.Helper()
	if d := m.diff(job); d.Outcome != serve.InSync || d.Health.State != serve.Healthy {
		m.t.Fatalf("not in sync and healthy:\n%s\nhealth %+v, reason %q", m.changes(job), d.Health, d.Reason)
	}
}

// pids of a job's tasks, as the kernel tells them.
func (m *machine) pids(job *processpb.Job) map[uint32][]int {
	m.t.Helper()
	all, err := processes()
	if err != nil {
		m.t.Fatal(err)
	}
	pids := map[uint32][]int{}
	for _, p := range all {
		if p.job == job.Name {
			pids[p.task] = append(pids[p.task], p.pid)
		}
	}
	return pids
}

// byHand starts a process under a task's identity, as a person might.
func (m *machine) byHand(job *processpb.Job, task uint32, arguments ...string) *exec.Cmd {
	m.t.Helper()
	command := exec.Command(job.Binary, arguments...)
	command.Env = taskEnvironment(job, intended(job, task), task, "by-hand")
	if err := command.Start(); err != nil {
		m.t.Fatal(err)
	}
	go command.Wait()
	return command
}

// drain is how long a task serves on after SIGTERM.
const drain = 300 * time.Millisecond

// load asks healthy tasks for work until stop is called, which returns how
// often it was answered, and fails the test for each request that was not;
// but not when this machine is so slow that the task had drained meanwhile.
func (m *machine) load(job *processpb.Job) (stop func() int) {
	done := make(chan struct{})
	var answered atomic.Int64
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for number := uint32(0); ; number = (number + 1) % job.Replicas {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
				url, asked := fmt.Sprintf("http://127.0.0.1:%d", job.BasePort+number), time.Now()
				if status, _, err := get(url + "/healthz"); err != nil || status != http.StatusOK {
					continue
				}
				status, _, err := get(url + "/work")
				switch {
				case err == nil && status == http.StatusOK:
					answered.Add(1)
				case time.Since(asked) < drain/2:
					m.t.Errorf("a request failed: %d, %v", status, err)
				}
			}
		})
	}
	return func() int {
		close(done)
		workers.Wait()
		return int(answered.Load())
	}
}

func get(url string) (status int, body string, err error) {
	response, err := prober.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}
