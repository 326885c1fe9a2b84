package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	commandpb "lehr.dev/gen/lehr/command/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/serve"
)

// The test binary is also a plugin that is killed.
func TestMain(m *testing.M) {
	if script := os.Getenv("TEST_PLUGIN"); script != "" {
		_, err := plugin.run(context.Background(), invocation{command: &commandpb.Command{Directory: "/"}, argv: []string{"/bin/sh", "-c", script}})
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

var plugin = New(5*time.Second, nil)

// script is an argument vector; what is written to a file in its folder
// stays.
func script(text string) []string { return []string{"/bin/sh", "-c", text, "sh"} }

func asset(t *testing.T, command *commandpb.Command) serve.Intent {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes")
	}
	content, err := proto.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	return serve.Intent{
		Asset:       intent.Asset{ID: "db/schema", Payload: serve.Message{Type: "lehr.command.v1.Command", Bytes: content}},
		Incarnation: serve.IncarnationID{Partition: "shop", Sequence: 7},
	}
}

func diff(t *testing.T, command *commandpb.Command) serve.Difference {
	t.Helper()
	return plugin.Diff(t.Context(), []serve.Intent{asset(t, command)})[0]
}

type permit struct{ refused error }

func (p permit) Effect(ctx context.Context) error        { return errors.Join(p.refused, ctx.Err()) }
func (p permit) Cover(context.Context, string) error     { return p.refused }
func admitted(d serve.Difference) (serve.Digest, string) { return d.Plan.Digest(), d.Base }

func push(ctx context.Context, t *testing.T, command *commandpb.Command) serve.Outcome {
	t.Helper()
	plan, base := admitted(diff(t, command))
	return plugin.Push(ctx, serve.Push{ID: "push-9", Asset: asset(t, command), Plan: plan, Base: base, Progress: func(string) {}}, permit{})
}

func TestPushMakesItInSync(t *testing.T) {
	folder := t.TempDir()
	command := &commandpb.Command{
		// In sync when the file holds the input.
		Diff:      script(`cat >want; cmp -s want have && exit 0; echo "have: $(cat have 2>&1)"; echo "want: $(cat want)"; exit 2`),
		Push:      script(`cat >have; cat "$LEHR_DIFF" >diff; echo "$LEHR_DIFF $LEHR_ASSET $LEHR_PUSH $COLOUR" >told; env | cut -d= -f1 | sort >names`),
		Input:     "blue; $(touch /tmp/never)\n",
		Directory: folder, Env: map[string]string{"COLOUR": "blue"},
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	d := diff(t, command)
	if d.Outcome != serve.Differs || len(d.Plan.Changes) != 2 || !strings.HasPrefix(d.Plan.Changes[1].Target, "want: blue;") {
		t.Fatalf("the difference is %+v", d)
	}
	if d.ResourceKey != "command:shop/db/schema" || d.Plan.Destructive() {
		t.Errorf("key %s, destructive %t", d.ResourceKey, d.Plan.Destructive())
	}
	t.Setenv("SECRET_OF_THE_SERVER", "x")
	if outcome := push(t.Context(), t, command); outcome.Ending != serve.Pushed {
		t.Fatalf("push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if got := read("diff"); !strings.Contains(got, "want: blue;") {
		t.Errorf("the push was given the difference %q", got)
	}
	told := strings.Fields(read("told"))
	if diff := cmp.Diff([]string{"db/schema", "push-9", "blue"}, told[1:]); diff != "" {
		t.Errorf("the push was told (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(told[0]); !os.IsNotExist(err) {
		t.Errorf("the file of the difference is left: %v", err)
	}
	if names := read("names"); strings.Contains(names, "SECRET") {
		t.Errorf("the push saw the plugin's environment:\n%s", names)
	}
	if d := diff(t, command); d.Outcome != serve.InSync {
		t.Errorf("after the push the difference is %+v", d)
	}
}

func TestUnknownSaysWhy(t *testing.T) {
	long := durationpb.New(time.Minute)
	for name, test := range map[string]struct {
		command *commandpb.Command
		want    string
	}{
		"failure":   {&commandpb.Command{Diff: script("echo cannot reach the database >&2; exit 1")}, "exit code 1, and said: cannot reach the database"},
		"output":    {&commandpb.Command{Diff: script("echo disk on fire; exit 1")}, "exit code 1 and said nothing on standard error, and wrote: disk on fire: 0 says"},
		"killed":    {&commandpb.Command{Diff: script("kill -9 $$")}, "ended by killed"},
		"missing":   {&commandpb.Command{Diff: []string{"/nowhere/diff"}}, "/nowhere/diff: no such file"},
		"no folder": {&commandpb.Command{Diff: script("exit 0"), Directory: "/nowhere"}, "/nowhere"},
		"relative":  {&commandpb.Command{Diff: script("exit 0"), Directory: "here"}, "absolute"},
		"too much":  {&commandpb.Command{Diff: script("yes | head -c 100000; exit 2")}, "more than 65536 bytes"},
		"too long":  {&commandpb.Command{Diff: script("sleep 100"), Timeout: durationpb.New(100 * time.Millisecond)}, "longer than its timeout of 100ms"},
		"grace":     {&commandpb.Command{Diff: script("exit 0"), GracePeriod: long}, "--grace=1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			test.command.Push = script("exit 0")
			if d := diff(t, test.command); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, test.want) {
				t.Errorf("outcome %d, reason %q, want %q", d.Outcome, d.Reason, test.want)
			}
		})
	}
}

func TestArgumentsAreNotForAShell(t *testing.T) {
	folder := t.TempDir()
	command := &commandpb.Command{
		Diff: []string{"printf", "%s\n", "$HOME `id` ; touch " + folder + "/made"}, Push: script("exit 0"),
	}
	diff(t, command)
	if _, err := os.Stat(folder + "/made"); !os.IsNotExist(err) {
		t.Error("a shell has read an argument")
	}
}

func TestPlanCoversAllOfTheOutput(t *testing.T) {
	plans := map[serve.Digest]bool{}
	for _, last := range []string{"one", "two"} {
		d := diff(t, &commandpb.Command{Diff: script("seq 200; echo " + last + "; exit 2"), Push: script(""), Destructive: true})
		plans[d.Plan.Digest()] = true
		if len(d.Plan.Changes) != shownLines+1 || !d.Plan.Destructive() {
			t.Errorf("%d changes, destructive %t", len(d.Plan.Changes), d.Plan.Destructive())
		}
	}
	if len(plans) != 2 {
		t.Error("two outputs have one plan")
	}
}

func TestSilenceIsToldAsSuch(t *testing.T) {
	d := diff(t, &commandpb.Command{Diff: script("exit 2"), Push: script("")})
	if len(d.Plan.Changes) != 1 || !strings.Contains(d.Plan.Changes[0].Target, "printed nothing") {
		t.Errorf("changes %+v", d.Plan.Changes)
	}
}

func TestPushFails(t *testing.T) {
	command := &commandpb.Command{Diff: script("exit 2"), Push: script("echo locked >&2; exit $(cat code)"), Directory: t.TempDir(), RetryableExitCodes: []int32{75}}
	for code, retryable := range map[int]bool{75: true, 1: false} {
		os.WriteFile(filepath.Join(command.Directory, "code"), []byte(strconv.Itoa(code)), 0o600)
		outcome := push(t.Context(), t, command)
		if outcome.Ending != serve.Failed || outcome.Retryable != retryable || !strings.Contains(outcome.Reason, "locked") {
			t.Errorf("exit code %d: %+v", code, outcome)
		}
	}
}

func TestStalePlanIsNotPushed(t *testing.T) {
	folder := t.TempDir()
	command := &commandpb.Command{Diff: script("date +%N >>times; wc -l times; exit 2"), Push: script("touch pushed"), Directory: folder}
	outcome := push(t.Context(), t, command)
	if outcome.Ending != serve.Stale {
		t.Errorf("push of a plan that moved ended %s", outcome.Ending)
	}
	if _, err := os.Stat(filepath.Join(folder, "pushed")); !os.IsNotExist(err) {
		t.Error("it was pushed all the same")
	}
}

// TestAPushTellsWhatItsCommandWrites, on both streams, while it runs.
func TestAPushTellsWhatItsCommandWrites(t *testing.T) {
	command := &commandpb.Command{Diff: script("exit 2"), Push: script("echo one; while ! test -e go; do sleep 0.02; done; echo two >&2"), Directory: t.TempDir()}
	plan, base := admitted(diff(t, command))
	told := make(chan string, 9)
	push := serve.Push{Asset: asset(t, command), Plan: plan, Base: base, Progress: func(lines string) { told <- lines }}
	ended := make(chan serve.Outcome, 1)
	go func() { ended <- plugin.Push(t.Context(), push, permit{}) }()
	if lines := <-told; lines != "one" {
		t.Errorf("first it tells %q", lines)
	}
	if err := os.WriteFile(filepath.Join(command.Directory, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if outcome := <-ended; outcome.Ending != serve.Pushed {
		t.Errorf("it ended %+v", outcome)
	}
	if lines := <-told; lines != "two" {
		t.Errorf("at last it tells %q", lines)
	}
}

func TestNoPermitNoPush(t *testing.T) {
	command := &commandpb.Command{Diff: script("exit 2"), Push: script("touch pushed"), Directory: t.TempDir()}
	plan, base := admitted(diff(t, command))
	outcome := plugin.Push(t.Context(), serve.Push{Asset: asset(t, command), Plan: plan, Base: base}, permit{errors.New("stopped")})
	if _, err := os.Stat(filepath.Join(command.Directory, "pushed")); outcome.Ending != serve.Stopped || !os.IsNotExist(err) {
		t.Errorf("without a permit the push ended %s, file: %v", outcome.Ending, err)
	}
}

// stubborn writes its own pid and that of a child to a file, and ignores
// SIGTERM unless told to be polite.
const stubborn = `trap "$1" TERM; sleep 1000 & echo $$ $! >pids.new; mv pids.new pids; wait; wait; sleep 1000`

func TestPermitEndsDuringAPush(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	for name, test := range map[string]struct {
		trap  string
		least time.Duration
	}{
		"polite":   {"exit 0", 0},
		"stubborn": {"", 400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			command := &commandpb.Command{
				Diff: script("exit 2"), Push: append(script(stubborn), test.trap),
				Directory: t.TempDir(), GracePeriod: durationpb.New(400 * time.Millisecond),
			}
			ctx, withdraw := context.WithCancelCause(t.Context())
			ended := make(chan serve.Outcome, 1)
			go func() { ended <- push(ctx, t, command) }()
			pids := awaitPIDs(t, command.Directory)
			began := time.Now()
			withdraw(errors.New("the stop is on"))
			outcome := <-ended
			if took := time.Since(began); took < test.least || took > 5*time.Second {
				t.Errorf("ended after %v, want at least %v", took, test.least)
			}
			if outcome.Ending != serve.Stopped || outcome.Reason != "the stop is on" {
				t.Errorf("ended %+v", outcome)
			}
			awaitGone(t, pids)
		})
	}
}

func TestNothingOutlivesThePlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	folder := t.TempDir()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), "TEST_PLUGIN=cd "+folder+"; "+stubborn)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	pids := awaitPIDs(t, folder)
	process.Process.Kill()
	process.Wait()
	awaitGone(t, pids)
}

func awaitPIDs(t *testing.T, folder string) (pids []int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		content, err := os.ReadFile(filepath.Join(folder, "pids"))
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(content)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
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
	t.Fatal("the command did not start")
	return nil
}

// awaitGone accepts zombies: who adopts them may be slow to reap.
func awaitGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		deadline := time.Now().Add(5 * time.Second)
		for {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("process %d is left", pid)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}
