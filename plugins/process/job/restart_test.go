package job

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/sdk/serve"
)

type always struct{}

func (always) Effect(ctx context.Context) error { return ctx.Err() }

// runRoller is a plugin process of its own that rolls one job out, says when
// it is done, and then waits to be killed.
func runRoller() int {
	go endWith(os.Getenv("TEST_ROLLER"))
	var job processpb.Job
	if err := protojson.Unmarshal([]byte(os.Args[1]), &job); err != nil {
		fmt.Println(err)
		return 1
	}
	jobs := Jobs{Logs: os.Args[2]}
	asset := serve.Asset[*processpb.Job]{Payload: &job}
	target, err := jobs.Resolve(context.Background(), asset)
	if err == nil {
		change := serve.Change[*processpb.Job]{Asset: asset, Target: target, Progress: func(text string) { fmt.Println(text) }}
		err = jobs.Apply(context.Background(), change, always{})
	}
	fmt.Println("ended:", err)
	select {}
}

// roller starts such a process, waits until it says what is awaited, and
// kills it as hard as can be.
func (m *machine) rollAndKill(job *processpb.Job, await string) {
	m.t.Helper()
	text, err := protojson.Marshal(job)
	if err != nil {
		m.t.Fatal(err)
	}
	command := exec.Command(job.Binary, string(text), m.jobs.Logs)
	command.Env = append(os.Environ(), fmt.Sprintf("TEST_ROLLER=%d", os.Getpid()))
	output, err := command.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		m.t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() && !strings.Contains(lines.Text(), await) {
		m.t.Log("roller:", lines.Text())
		if strings.HasPrefix(lines.Text(), "ended:") {
			// The one before was killed later than it said: what is awaited
			// was done then, and never comes.
			break
		}
	}
	if err := command.Process.Kill(); err != nil {
		m.t.Fatal(err)
	}
	command.Wait()
}

func TestTasksOutliveThePluginAndAreAdopted(t *testing.T) {
	m, job := newMachine(t)
	m.rollAndKill(job, "ended: <nil>")
	m.mustBeInSync(job)
	before := m.pids(job)
	m.mustPush(job)
	if diff := cmp.Diff(before, m.pids(job)); diff != "" || len(before) != 3 {
		t.Errorf("tasks were not adopted as they ran (-before +after):\n%s", diff)
	}
}

func TestPluginKilledInTheMiddleOfARoll(t *testing.T) {
	m, job := newMachine(t)
	m.mustPush(job)
	next := version(job, "v2")
	stop := m.load(job)
	for _, moment := range []string{"stopping", "starting task 0", "stopping process", "waiting for task 1"} {
		m.rollAndKill(next, moment)
	}
	m.mustPush(next)
	stop()
	for number, pids := range m.pids(next) {
		if len(pids) != 1 {
			t.Errorf("task %d runs %d times", number, len(pids))
		}
	}
}
