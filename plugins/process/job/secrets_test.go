package job

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/secret/resolver"
	"lehr.dev/sdk/serve"
)

// keyed is a machine whose jobs may name one file.
type keyed struct {
	*machine
	folder string
}

const (
	firstPassword  = "first-Passw0rd-of-the-test"
	secondPassword = "second-Passw0rd-of-the-test"
)

// newKeyed returns it with a job whose tasks have that file's content as PASSWORD.
func newKeyed(t *testing.T) (*keyed, *processpb.Job) {
	t.Helper()
	m, job := newMachine(t)
	k := &keyed{machine: m, folder: t.TempDir()}
	k.write("key", "0123456789abcdefghijklmnopqrstuvwxyz")
	k.write("list.yaml", fmt.Sprintf("lehr-secrets: v1\nkey: %s/key\nsecrets:\n- {file: %[1]s/password, partitions: ['*'], plugins: [lehr-process]}\n", k.folder))
	k.rotate(firstPassword)
	job.Replicas = 2
	job.SecretEnv = map[string]*intentpb.SecretRef{"PASSWORD": {Source: &intentpb.SecretRef_File{File: k.path("password")}}}
	return k, job
}

func (k *keyed) path(name string) string { return filepath.Join(k.folder, name) }

func (k *keyed) write(name, content string) {
	k.t.Helper()
	if err := os.WriteFile(k.path(name), []byte(content), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// rotate writes another value, and restarts the plugin: it looks at once.
func (k *keyed) rotate(value string) {
	k.t.Helper()
	k.write("password", value+"\n")
	k.restart()
}

func (k *keyed) restart() {
	k.jobs.Secrets = resolver.New("lehr-process", k.path("list.yaml"))
	k.kind = serve.For(k.jobs, Serving())
}

// mustHold says what each task has in its environment, as the kernel tells it.
func (k *keyed) mustHold(job *processpb.Job, value string) {
	k.t.Helper()
	pids := k.pids(job)
	if len(pids) != int(job.Replicas) {
		k.t.Fatalf("%d tasks run, want %d", len(pids), job.Replicas)
	}
	for number, processes := range pids {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", processes[0]))
		if err != nil {
			k.t.Fatal(err)
		}
		if !strings.Contains("\x00"+string(environ), "\x00PASSWORD="+value+"\x00") {
			k.t.Errorf("task %d has another password than %q", number, value)
		}
	}
}

// mustHide fails when a difference shows a password.
func (k *keyed) mustHide(d serve.Difference) {
	k.t.Helper()
	text := fmt.Sprintf("%+v %s", d, d.Current)
	for _, password := range []string{firstPassword, secondPassword} {
		if strings.Contains(text, password) {
			k.t.Errorf("the difference shows a password: %s", text)
		}
	}
}

// TestARotatedSecretIsADifference, which a push ends; what runs is read of the kernel.
func TestARotatedSecretIsADifference(t *testing.T) {
	k, job := newKeyed(t)
	k.mustHide(k.diff(job))
	k.mustPush(job)
	k.mustHold(job, firstPassword)
	k.restart()
	k.mustBeInSync(job)
	k.mustHide(k.diff(job))

	k.rotate(secondPassword)
	d := k.diff(job)
	k.mustHide(d)
	if changes := k.changes(job); d.Outcome != serve.Differs || len(d.Plan.Changes) != 2 || strings.Count(changes, `.secret_env["PASSWORD"]: "secret (digest `) != 2 ||
		d.Plan.Changes[0].Current == d.Plan.Changes[0].Target || d.Plan.Changes[0].Target != d.Plan.Changes[1].Target {
		t.Errorf("the plan is %s", changes)
	}
	k.mustPush(job)
	k.mustHold(job, secondPassword)
}

// TestAnotherValueThanWasPlannedIsNotPushed: the approval was of one value.
func TestAnotherValueThanWasPlannedIsNotPushed(t *testing.T) {
	k, job := newKeyed(t)
	k.mustPush(job)
	k.rotate(secondPassword)
	planned := k.diff(job)
	before := k.pids(job)
	k.write("password", "third-Passw0rd-of-the-test\n") // The plugin is not restarted.
	outcome := k.kind.Push(t.Context(), serve.Push{Asset: k.asset(job), Plan: planned.Plan.Digest(), Base: planned.Base, Progress: func(string) {}}, k)
	if outcome.Ending != serve.Stale || !strings.Contains(outcome.Reason, "rotated since production was looked at") {
		t.Errorf("the push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	k.mustHold(job, firstPassword)
	if after := k.pids(job); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("tasks were touched: %v, before %v", after, before)
	}
}

// TestASecretThatCannotBeReadTouchesNothing.
func TestASecretThatCannotBeReadTouchesNothing(t *testing.T) {
	k, job := newKeyed(t)
	k.mustPush(job)
	for want, spoil := range map[string]func(){
		"not there":      func() { os.Remove(k.path("password")) },
		"not listed":     func() { k.write("list.yaml", "lehr-secrets: v1\nkey: "+k.path("key")+"\n") },
		"zero byte":      func() { k.write("password", "with\x00zero") },
		"names no key":   func() { k.write("list.yaml", "lehr-secrets: v1\n") },
		"is empty":       func() { k.write("password", "") },
		"no such file":   func() { os.Remove(k.path("key")) },
		"given no list ": func() { k.jobs.Secrets = nil },
	} {
		list, err := os.ReadFile(k.path("list.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		k.restart()
		spoil()
		k.kind = serve.For(k.jobs, Serving())
		if d := k.diff(job); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, want) || !strings.Contains(d.Reason, `secret_env["PASSWORD"]`) {
			t.Errorf("%s: %d, %s", want, d.Outcome, d.Reason)
		}
		if outcome := k.push(t.Context(), job); outcome.Ending != serve.Failed {
			t.Errorf("%s: the push ended %s", want, outcome.Ending)
		}
		k.write("list.yaml", string(list))
		k.write("key", "0123456789abcdefghijklmnopqrstuvwxyz")
		k.write("password", firstPassword+"\n")
	}
	k.restart()
	k.mustBeInSync(job)
	k.mustHold(job, firstPassword)
}

// TestASecretIsNeverShownOfWhatRuns, whatever intent says by then: no longer a secret,
// none at all, or one where there was none.
func TestASecretIsNeverShownOfWhatRuns(t *testing.T) {
	k, job := newKeyed(t)
	k.mustPush(job)
	without := proto.CloneOf(job)
	without.SecretEnv = nil
	plain := proto.CloneOf(without)
	plain.Env["PASSWORD"] = "no-secret-any-more"
	for _, other := range []*processpb.Job{without, plain} {
		for _, resolver := range []*resolver.Resolver{k.jobs.Secrets, nil} {
			d := serve.For(Jobs{Logs: k.jobs.Logs, Secrets: resolver}, Serving()).Diff(t.Context(), []serve.Intent{k.asset(other)})[0]
			k.mustHide(d)
			if d.Outcome != serve.Differs || !strings.Contains(fmt.Sprint(d.Plan), notWanted) {
				t.Errorf("%+v", d)
			}
		}
	}
	k.mustPush(plain)
	k.mustHold(plain, "no-secret-any-more")
	// The same value, as a secret: the task is to be marked, or it would show one day.
	k.rotate("no-secret-any-more")
	if changes := k.changes(job); !strings.Contains(changes, notMarked) {
		t.Errorf("the plan is %s", changes)
	}
	k.mustPush(job)
	k.mustHold(job, "no-secret-any-more")
}

// TestASecretThatChangesDuringARollMakesItStale: every task that is started has the
// value of the plan.
func TestASecretThatChangesDuringARollMakesItStale(t *testing.T) {
	k, job := newKeyed(t)
	k.mustPush(job)
	k.rotate(secondPassword)
	planned := k.diff(job)
	rotated := false
	outcome := k.kind.Push(t.Context(), serve.Push{ID: "p", Asset: k.asset(job), Plan: planned.Plan.Digest(), Base: planned.Base, Progress: func(string) {
		if !rotated { // The roll is under way.
			k.write("password", "third-Passw0rd-of-the-test\n")
			rotated = true
		}
	}}, k)
	if outcome.Ending != serve.Pushed {
		t.Fatalf("the push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	k.mustHold(job, secondPassword)
	k.restart()
	if d := k.diff(job); d.Outcome != serve.Differs {
		t.Errorf("the next look says %d: %v", d.Outcome, errors.New(d.Reason))
	}
}
