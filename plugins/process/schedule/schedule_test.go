package schedule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/plugins/process/job"
	"lehr.dev/sdk/plugintest"
	"lehr.dev/sdk/serve"
	"lehr.dev/test/building"
)

// The test's own program is the keeper's.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(Keep())
	}
	os.Exit(m.Run())
}

// machine is this machine with one schedule on it.
type machine struct {
	t         *testing.T
	schedules Schedules
	kind      serve.Kind
	addons    []proto.Message
}

func newMachine(t *testing.T) (*machine, *processpb.Schedule) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes")
	}
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, schedules: Schedules{Logs: t.TempDir(), Program: self}}
	m.kind = serve.For(m.schedules, Serving())
	s := &processpb.Schedule{
		Name: fmt.Sprintf("test-%d/%s", os.Getpid(), strings.ToLower(t.Name())), Cron: "0 0 1 1 *", Zone: "Europe/London",
		Binary: "/bin/sh", Args: []string{"-c", "echo {port} $LEHR_RUN"}, Version: "1", StopGrace: durationpb.New(time.Second),
	}
	t.Cleanup(func() { m.killAll(s) })
	return m, s
}

// processes of the schedule: its keepers and its runs.
func (m *machine) processes(s *processpb.Schedule) (keepers, runs []job.Carrier) {
	m.t.Helper()
	keepers, err := job.Carriers("LEHR_JOB", jobName(s.Name))
	if err != nil {
		m.t.Fatal(err)
	}
	if runs, err = job.Carriers(variableSchedule, s.Name); err != nil {
		m.t.Fatal(err)
	}
	return keepers, runs
}

func (m *machine) killAll(s *processpb.Schedule) {
	m.waitFor("all processes to be gone", func() error {
		keepers, runs := m.processes(s)
		for _, c := range slices.Concat(keepers, runs) {
			_ = syscall.Kill(c.PID, syscall.SIGKILL)
		}
		if len(keepers)+len(runs) > 0 {
			return fmt.Errorf("%d keepers and %d runs", len(keepers), len(runs))
		}
		return nil
	})
}

func (m *machine) waitFor(what string, check func() error) {
	m.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("waited in vain for %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (m *machine) asset(s *processpb.Schedule) serve.Intent {
	m.t.Helper()
	pack := func(message proto.Message) serve.Message {
		content, err := proto.Marshal(message)
		if err != nil {
			m.t.Fatal(err)
		}
		return serve.Message{Type: serve.TypeName(message.ProtoReflect().Descriptor().FullName()), Bytes: content}
	}
	asset := intent.Asset{ID: "schedule/a", Payload: pack(s)}
	for _, addon := range m.addons {
		asset.Addons = append(asset.Addons, pack(addon))
	}
	return serve.Intent{Asset: asset}
}

func (m *machine) diff(s *processpb.Schedule) serve.Difference {
	m.t.Helper()
	return m.kind.Diff(m.t.Context(), []serve.Intent{m.asset(s)})[0]
}

// Effect and Cover permit all.
func (m *machine) Effect(ctx context.Context) error            { return ctx.Err() }
func (m *machine) Cover(ctx context.Context, _ string) error   { return ctx.Err() }
func (m *machine) inSync(s *processpb.Schedule) (reason error) { return inSync(m.diff(s)) }

func inSync(d serve.Difference) error {
	if d.Outcome != serve.InSync {
		return fmt.Errorf("outcome %v, %s: %+v", d.Outcome, d.Reason, d.Plan.Changes)
	}
	return nil
}

func (m *machine) mustPush(s *processpb.Schedule) {
	m.t.Helper()
	d := m.diff(s)
	outcome := m.kind.Push(m.t.Context(), serve.Push{
		ID: "push-1", Asset: m.asset(s), Plan: d.Plan.Digest(), Base: d.Base,
		Progress: func(text string) { m.t.Log(text) },
	}, m)
	if outcome.Ending != serve.Pushed {
		m.t.Fatalf("push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if err := m.inSync(s); err != nil {
		m.t.Fatal(err)
	}
}

// changes of the plan, by their paths.
func changes(d serve.Difference) string {
	var list []string
	for _, c := range d.Plan.Changes {
		list = append(list, fmt.Sprintf("%s: %s → %s", c.Path, c.Current, c.Target))
	}
	return strings.Join(list, "\n")
}

func TestKeeperIsKept(t *testing.T) {
	m, s := newMachine(t)
	if d := m.diff(s); d.Outcome != serve.Differs || d.Plan.Action != serve.ActionCreate {
		t.Fatalf("at first: %+v", d)
	}
	m.mustPush(s)
	d := m.diff(s)
	if d.Health.State != serve.Healthy || d.Health.Reason != "no run has ended yet" {
		t.Errorf("health %+v", d.Health)
	}
	// Another time is another keeper; what differs is told.
	changed := proto.CloneOf(s)
	changed.Cron, changed.Args = "0 0 2 1 *", []string{"-c", "{task}"}
	d = m.diff(changed)
	if got, want := changes(d), "args[1]: \"echo {port} $LEHR_RUN\" → \"{task}\"\ncron: \"0 0 1 1 *\" → \"0 0 2 1 *\""; got != want {
		t.Errorf("changes\n%s\nwant\n%s", got, want)
	}
	m.mustPush(changed)
	// A keeper that was killed is missed, and comes back.
	keepers, _ := m.processes(s)
	if len(keepers) != 1 {
		t.Fatalf("%d keepers", len(keepers))
	}
	if err := syscall.Kill(keepers[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	m.waitFor("the keeper to be missed", func() error {
		if d := m.diff(changed); d.Outcome != serve.Differs || d.Health.State != serve.Unhealthy {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	m.mustPush(changed)
}

func TestWhatIsNoScheduleIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*processpb.Schedule)
		says   string
	}{
		"cron":   {func(s *processpb.Schedule) { s.Cron = "0 0 31 2 *" }, "names a day that no month has"},
		"zone":   {func(s *processpb.Schedule) { s.Zone = "Europe/Nowhere" }, "not a time zone"},
		"local":  {func(s *processpb.Schedule) { s.Zone = "Local" }, "not a time zone"},
		"binary": {func(s *processpb.Schedule) { s.Binary = "report" }, "not an absolute path"},
		"name":   {func(s *processpb.Schedule) { s.Name = "../a" }, "not a relative path"},
	} {
		s := &processpb.Schedule{Name: "a", Cron: "0 0 1 1 *", Binary: "/bin/true"}
		c.change(s)
		_, err := (Schedules{Logs: "/logs"}).Resolve(t.Context(), serve.Asset[*processpb.Schedule]{Payload: s})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// steps drives a keeper of this process by a clock of the test.
func steps(t *testing.T, m *machine, s *processpb.Schedule) (*keeper, func(time.Time)) {
	t.Helper()
	s.Cron, s.Zone = "0 * * * *", ""
	resolved, err := m.schedules.Resolve(t.Context(), serve.Asset[*processpb.Schedule]{Payload: s})
	if err != nil {
		t.Fatal(err)
	}
	k, err := newKeeper(resolved, midnight)
	if err != nil {
		t.Fatal(err)
	}
	return k, func(now time.Time) {
		t.Helper()
		if err := k.step(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
}

// until all runs that the keeper started have ended.
func (k *keeper) until(t *testing.T, now time.Time) {
	t.Helper()
	for len(k.children) > 0 {
		select {
		case e := <-k.ends:
			k.end(e, now)
		case <-time.After(30 * time.Second):
			t.Fatal("a run does not end")
		}
	}
}

func TestRuns(t *testing.T) {
	m, s := newMachine(t)
	s.Env = map[string]string{"GIVEN": "x"}
	s.Args = []string{"-c", `env; exit 3`}
	k, step := steps(t, m, s)
	due := midnight.Add(time.Hour)
	step(due)
	step(due.Add(time.Second)) // Once.
	k.until(t, due.Add(2*time.Second))
	if k.remember.Runs != 1 || k.remember.Failed != 1 || k.remember.Last.Result != "ended with exit status 3" {
		t.Fatalf("remembers %+v", k.remember)
	}
	text, err := os.ReadFile(k.remember.Last.Log)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"PWD", "SHLVL", "_", "OLDPWD"}, name) { // The shell's own.
			names = append(names, name)
		}
	}
	if slices.Sort(names); strings.Join(names, " ") != "GIVEN HOME LEHR_RUN LEHR_SCHEDULE PATH" {
		t.Errorf("a run has the variables %v", names)
	}
	// What it remembers outlives it, and is what people see.
	if health := m.schedules.health(s, s, serve.Health{State: serve.Healthy}); health.State != serve.Unhealthy || !strings.Contains(health.Reason, "ended with exit status 3; its log is "+k.remember.Last.Log) {
		t.Errorf("health %+v", health)
	}
	k.schedule.Args[1] = "exit 0"
	step(due.Add(time.Hour))
	k.until(t, due.Add(time.Hour))
	again, err := load(k.path())
	if err != nil || again.Runs != 2 || !again.Last.ok() || !strings.HasPrefix(again.words(), "the run of 2026-03-01T02:00:00Z ended well") {
		t.Errorf("remembers %+v, %v", again, err)
	}
	// A program that is not there is a run that failed.
	k.schedule.Binary = "/nowhere"
	step(due.Add(2 * time.Hour))
	if !strings.Contains(k.remember.Last.Result, "could not be started") || len(k.remember.Running) > 0 {
		t.Errorf("remembers %+v", k.remember)
	}
	// Logs of runs are bounded.
	for i := range mostLogs + 5 {
		step(due.Add(time.Duration(i+3) * time.Hour))
	}
	if logs, err := os.ReadDir(filepath.Join(k.folder, "runs")); err != nil || len(logs) != mostLogs {
		t.Errorf("%d logs, %v", len(logs), err)
	}
}

// A keeper that is killed leaves its run: the next one knows of it, and starts
// no other beside it.
func TestRunsOutliveTheirKeeper(t *testing.T) {
	m, s := newMachine(t)
	s.Args = []string{"-c", "exec sleep 100"}
	_, step := steps(t, m, s)
	due := midnight.Add(time.Hour)
	step(due)
	_, runs := m.processes(s)
	if len(runs) != 1 {
		t.Fatalf("%d runs", len(runs))
	}
	next, step := steps(t, m, s)
	step(due.Add(time.Hour))
	if next.remember.Skipped != 1 || len(next.remember.Running) != 1 {
		t.Errorf("remembers %+v", next.remember)
	}
	if err := syscall.Kill(runs[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	m.waitFor("the run to be gone", func() error {
		if _, runs := m.processes(s); len(runs) > 0 {
			return errors.New("it lives")
		}
		return nil
	})
	step(due.Add(2 * time.Hour))
	if next.remember.Runs != 2 || !strings.Contains(next.remember.Last.Result, "not there to see it") {
		t.Errorf("remembers %+v", next.remember)
	}
}

// Times that passed while nothing kept the schedule are told, and at most one is
// made up for.
func TestMissedTimes(t *testing.T) {
	m, s := newMachine(t)
	s.StartWithin = durationpb.New(30 * time.Minute)
	k, step := steps(t, m, s)
	step(midnight)
	k, step = steps(t, m, s)
	step(midnight.Add(5*time.Hour + 20*time.Minute))
	k.until(t, midnight)
	if k.remember.Runs != 1 || k.remember.Missed != 4 || !k.remember.Last.Due.Equal(midnight.Add(5*time.Hour)) {
		t.Errorf("remembers %+v", k.remember)
	}
	if words := k.remember.words(); !strings.Contains(words, "missed while nothing kept it: 4, the last of 2026-03-01T04:00:00Z") {
		t.Errorf("it says %q", words)
	}
}

func TestDeadlineAndReplacement(t *testing.T) {
	m, s := newMachine(t)
	// What it starts while it is stopped ends, too.
	s.Args = []string{"-c", "trap 'sleep 100 &' TERM; sleep 100 & wait; wait; wait"}
	s.Concurrency, s.StopGrace = processpb.Concurrency_CONCURRENCY_REPLACE, durationpb.New(50*time.Millisecond)
	s.Deadline = durationpb.New(90 * time.Minute)
	k, step := steps(t, m, s)
	due := midnight.Add(time.Hour)
	step(due)
	step(due.Add(time.Hour)) // Which ends the first, and what that started.
	k.end(<-k.ends, due.Add(time.Hour))
	if k.remember.Last.Result != "was stopped for the run of 2026-03-01T02:00:00Z" || len(k.remember.Running) != 1 {
		t.Errorf("remembers %+v", k.remember)
	}
	_, runs := m.processes(s)
	for _, c := range runs {
		if c.Environment[variableRun] != "2026-03-01T02:00:00Z" {
			t.Errorf("process %d of %s lives", c.PID, c.Environment[variableRun])
		}
	}
	k.schedule.Cron = "0 0 1 1 *"
	k.times, _ = timesOf(k.schedule)
	step(due.Add(150*time.Minute - 1))
	if len(k.stopped) > 0 {
		t.Errorf("stopped before its deadline: %v", k.stopped)
	}
	step(due.Add(150 * time.Minute))
	k.until(t, due)
	if k.remember.Last.Result != "was stopped after its deadline of 1h30m0s" {
		t.Errorf("remembers %+v", k.remember)
	}
}

// No run begins that could not be remembered.
func TestWithoutMemoryNothingRuns(t *testing.T) {
	m, s := newMachine(t)
	k, _ := steps(t, m, s)
	if err := os.RemoveAll(k.folder); err != nil {
		t.Fatal(err)
	}
	if err := k.step(t.Context(), midnight.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "cannot be remembered") {
		t.Errorf("step: %v", err)
	}
	if k.remember.Runs != 0 || len(k.children) > 0 || !k.remember.Considered.Equal(midnight) {
		t.Errorf("remembers %+v", k.remember)
	}
}

// A real keeper starts a real run within a minute; a turndown ends both.
func TestRealRunAndTurndown(t *testing.T) {
	m, s := newMachine(t)
	s.Cron, s.Args = "* * * * *", []string{"-c", "exec sleep 200"}
	m.mustPush(s)
	m.waitFor("a run", func() error {
		if _, runs := m.processes(s); len(runs) == 0 {
			return errors.New("none")
		}
		return nil
	})
	if d := m.diff(s); inSync(d) != nil || !strings.Contains(d.Health.Reason, "is under way") {
		t.Errorf("health %+v", d.Health)
	}
	m.addons = []proto.Message{&intentpb.Turndown{Reason: "not needed"}}
	d := m.diff(s)
	if d.Outcome != serve.Differs || d.Plan.Action != serve.ActionDelete {
		t.Fatalf("turndown: %+v", d)
	}
	outcome := m.kind.Push(t.Context(), serve.Push{ID: "push-2", Asset: m.asset(s), Plan: d.Plan.Digest(), Base: d.Base, Progress: func(text string) { t.Log(text) }}, m)
	keepers, runs := m.processes(s)
	if outcome.Ending != serve.Pushed || len(keepers)+len(runs) > 0 {
		t.Errorf("push ended %s: %s; %d keepers and %d runs are left", outcome.Ending, outcome.Reason, len(keepers), len(runs))
	}
	if err := m.inSync(s); err != nil {
		t.Error(err)
	}
}

func TestConforms(t *testing.T) {
	m, first := newMachine(t)
	program := filepath.Join(t.TempDir(), "lehr-process")
	if err := (building.Program{Of: ".."}).At(program); err != nil {
		t.Fatal(err)
	}
	second := proto.CloneOf(first)
	second.Cron, second.Version = "0 0 2 1 *", "2"
	plugintest.Run(t, plugintest.Target{
		Run: []string{program, "--logs=" + m.schedules.Logs}, First: first, Second: second,
		Production: func(context.Context) (string, error) {
			keepers, runs := m.processes(first)
			text := fmt.Sprint(len(keepers), len(runs))
			for _, k := range keepers {
				text += fmt.Sprint(" ", k.PID, k.Environment[variableKeep])
			}
			return text, nil
		},
	})
}
