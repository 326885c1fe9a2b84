package job

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/serve"
)

func millis(n int64) *durationpb.Duration {
	return durationpb.New(time.Duration(n) * time.Millisecond)
}

// Whatever is wrong with a new version, the error says it, and at most one
// task is touched for it.
func TestBadVersionStopsAtTheFirstTask(t *testing.T) {
	readable := filepath.Join(t.TempDir(), "readable")
	if err := os.WriteFile(readable, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		spoil func(*processpb.Job)
		want  []string
		// untouched: not even the first task is stopped for it.
		untouched bool
	}{
		"missing":  {func(j *processpb.Job) { j.Binary = "/nowhere/frontend" }, []string{"there is no /nowhere/frontend", "task 0"}, true},
		"no right": {func(j *processpb.Job) { j.Binary = readable }, []string{"make " + readable + " executable"}, true},
		"crash":    {func(j *processpb.Job) { j.Args[0] = "crash" }, []string{"exit status 3", "cannot find my configuration", "0.log"}, false},
		"hang":     {func(j *processpb.Job) { j.Args[0] = "hang" }, []string{"not healthy after 400ms", "does not listen on its port"}, false},
		"other":    {func(j *processpb.Job) { j.Args[2] = "v3" }, []string{`says that it is version "v3", but was started as "v2"`}, false},
	} {
		limit := millis(60_000) // Each ends by itself, or is seen to be wrong.
		if name == "hang" {
			limit = millis(400)
		}
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			m, job := newMachine(t)
			m.mustPush(job)
			before := m.pids(job)
			next := version(job, "v2")
			next.Update.StartTimeout = limit
			test.spoil(next)
			for range 2 {
				outcome := m.push(t.Context(), next)
				if outcome.Ending != serve.Failed {
					t.Fatalf("push ended %s: %s", outcome.Ending, outcome.Reason)
				}
				for _, want := range test.want {
					if !strings.Contains(outcome.Reason, want) {
						t.Errorf("the error does not say %q: %s", want, outcome.Reason)
					}
				}
			}
			if !test.untouched {
				delete(before, 0)
			}
			if diff := cmp.Diff(before, m.pids(job)); diff != "" {
				t.Errorf("tasks (-want +got):\n%s", diff)
			}
			m.mustPush(job)
		})
	}
}

func TestPortBusy(t *testing.T) {
	m, job := newMachine(t)
	stranger, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", job.BasePort+1))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	outcome := m.push(t.Context(), job)
	for _, want := range []string{"task 1", fmt.Sprintf("port %d", job.BasePort+1), fmt.Sprintf("process %d (", os.Getpid()), "stop that process"} {
		if outcome.Ending != serve.Failed || !outcome.Retryable || !strings.Contains(outcome.Reason, want) {
			t.Errorf("push ended %s, and does not say %q: %s", outcome.Ending, want, outcome.Reason)
		}
	}
	stranger.Close()
	m.mustPush(job)
}

// TestExitingProcessesAreSeen: a port of one that is being taken apart is about to be free.
func TestExitingProcessesAreSeen(t *testing.T) {
	if isExiting(os.Getpid()) {
		t.Error("this process counts as exiting")
	}
	child := exec.Command("/bin/sh", "-c", "read line")
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if isExiting(child.Process.Pid) {
		t.Error("a process that runs counts as exiting")
	}
	input.Close()
	waitFor(t, "a process that nobody waited for", func() error {
		if !isExiting(child.Process.Pid) {
			return errors.New("it does not count as exiting")
		}
		return nil
	})
	_ = child.Wait()
	if !isExiting(child.Process.Pid) {
		t.Error("a process that is gone does not count as exiting")
	}
}

// A pid that came to mean another process is never signalled.
func TestOnlyTheVeryProcessIsSignalled(t *testing.T) {
	m, job := newMachine(t)
	job.Replicas = 1
	m.mustPush(job)
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.job != job.Name {
			continue
		}
		reused, renamed := p, p
		reused.started--
		renamed.task++
		for _, other := range []process{reused, renamed} {
			if err := stop(t.Context(), other, time.Second, m.Effect); err != nil {
				t.Error(err)
			}
		}
		if syscall.Kill(p.pid, 0) != nil {
			t.Error("a process that is not the one that was seen was signalled")
		}
	}
	m.mustBeInSync(job)
}

// A script runs under its interpreter's name, and the server that it starts
// is a part of its task, which drains as any other.
func TestScriptIsRecognisedAndItsServerDrains(t *testing.T) {
	m, job := newMachine(t)
	script := filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(script, []byte("#!/bin/sh -e\n\"$@\" &\nwait\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	job.Args = append([]string{job.Binary}, job.Args...)
	job.Binary = script
	m.mustPush(job)
	next := proto.CloneOf(job)
	next.Version, next.Args[3] = "v2", "v2"
	stop := m.load(job)
	m.mustPush(next)
	if stop() == 0 {
		t.Error("no request was answered")
	}
}
