package monitoring

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/test/building"
)

// partition is served by the real programs.
type partition struct {
	*testing.T
	folder, programs, policy string
}

func newPartition(t *testing.T, policy string) *partition {
	t.Helper()
	p := &partition{t, t.TempDir(), t.TempDir(), policy}
	for program, from := range map[string]string{"lehr": "./cmd/lehr", "lehr-command": "./plugins/command", "lehr-process": "./plugins/process"} {
		if err := (building.Program{Of: filepath.Join("../..", from)}).At(filepath.Join(p.programs, program)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// command of lehr, in the partition's folder.
func (p *partition) command(arguments ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(p.programs, "lehr"), arguments...)
	command.Dir = p.folder
	command.Env = append(os.Environ(), "LEHR_EXTERNAL_CHECKS="+p.policy)
	return command
}

// says is what a command writes, however it ends.
func (p *partition) says(arguments ...string) string {
	output, _ := p.command(arguments...).CombinedOutput()
	return string(output)
}

func (p *partition) must(arguments ...string) {
	p.Helper()
	if output, err := p.command(arguments...).CombinedOutput(); err != nil {
		p.Fatalf("lehr %v: %v\n%s", arguments, err, output)
	}
}

// edit replaces a text in a file.
func (p *partition) edit(name, old, by string) {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.folder, name))
	if err != nil || !bytes.Contains(text, []byte(old)) {
		p.Fatalf("%s has no %q: %v", name, old, err)
	}
	write(p.T, p.folder, map[string]string{name: strings.Replace(string(text), old, by, 1)})
}

// serve runs a server until the test ends.
func (p *partition) serve() {
	p.Helper()
	server := p.command("serve", "-p", "lehr.yaml")
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
		if p.Failed() {
			p.Logf("the server said:\n%s", said.String())
		}
	})
}

// produces waits until production says something.
func (p *partition) produces(text string) {
	p.Helper()
	eventually(p.T, func() string {
		if !p.there(text) {
			return fmt.Sprintf("production does not say %q; %s", text, p.says("why", "greeting/english"))
		}
		return ""
	})
}

func (p *partition) there(text string) bool {
	found, _ := os.ReadFile(filepath.Join(p.folder, "production/english.txt"))
	return strings.Contains(string(found), text)
}

// tells waits until a command says all of some texts.
func (p *partition) tells(texts []string, arguments ...string) {
	p.Helper()
	eventually(p.T, func() string {
		said := p.says(arguments...)
		for _, text := range texts {
			if !strings.Contains(said, text) {
				return fmt.Sprintf("lehr %v does not say %q: %s", arguments, text, said)
			}
		}
		return ""
	})
}

// TestAPushWaitsUntilAnAlertIsResolved: from a metric that goes bad, over the
// alert that it fires, to the push of a real plugin, and back.
func TestAPushWaitsUntilAnAlertIsResolved(t *testing.T) {
	t.Parallel()
	watched := newTarget(t, "error_ratio 0.01\n")
	manager := newAlertmanager(t)
	prometheus := newPrometheus(t, watched, manager, "")
	p := newPartition(t, policyFile(t, fmt.Sprintf("monitoring: [{name: main, kind: prometheus, url: %q, partitions: [hello]}]\n", prometheus.url())))
	p.must("init", "-p", "hello", ".")
	p.edit("lehr.yaml", "mode: observe", "mode: enforce")
	p.edit("lehr.yaml", "\nplugins:", fmt.Sprintf(`
checks:
  errors: {prometheus: main, query: error_ratio, below: 0.05, keep: 5s}
  pages: {alertmanager: %q, alerts: 'severity="page"', keep: 5s}
  overrides: {allow: [alerts, errors]}

plugins:`, manager.url()))
	p.must("lint")
	p.serve()
	p.produces("Hello, world")

	// It is compared under a hold until both checks were asked anew.
	p.must("hold", "greeting/english", "--reason", "reading")
	watched.says("error_ratio 0.5\n")
	fires := &intentpb.Check{Name: "pages", Kind: &intentpb.Check_Alerts{Alerts: &intentpb.Alerts{Alertmanager: manager.url(), Matchers: []string{`severity="page"`}}}}
	until(t, p.policy, fires, intent.Wait, "alert HighErrors is active since ")
	p.edit("service.yaml", "Hello, world", "Hello, moon")
	// A plan asks them too.
	reasons := []string{"check pages: alert HighErrors is active since ", "check errors: error_ratio is 0.5 for {", "and must be below 0.05"}
	p.tells(append([]string{"waits (alert)", "waits (metric)"}, reasons...), "plan")
	p.tells(reasons, "describe", "report", "greeting/english")
	p.must("unhold", "greeting/english", "--reason", "read")
	p.tells(append([]string{"greeting/english waits (metric)"}, reasons...), "why", "greeting/english")
	if !p.there("Hello, world") {
		t.Fatal("it was pushed while an alert was active")
	}
	watched.says("error_ratio 0.01\n")
	p.produces("Hello, moon")

	// Without an answer nothing is pushed, unless a person says so.
	p.must("hold", "greeting/english", "--reason", "reading")
	manager.end()
	p.edit("service.yaml", "Hello, moon", "Hello, mars")
	broken := []string{"check pages cannot answer: alertmanager " + manager.url(), "connection refused"}
	p.tells(broken, "describe", "report", "greeting/english")
	p.must("unhold", "greeting/english", "--reason", "read")
	p.tells(append([]string{"greeting/english waits (check-broken)"}, broken...), "why", "greeting/english")
	if !p.there("Hello, moon") {
		t.Fatal("it was pushed while Alertmanager was down")
	}
	p.must("override", "greeting/english", "--check", "pages", "--reason", "Alertmanager is mended meanwhile")
	p.produces("Hello, mars")
}

// jobOf has as many tasks as a file says.
const jobOf = `def generate(ctx):
    service = yaml("service.yaml")
    return [asset("web", lehr.process.v1.Job(name = service["name"], binary = "/bin/sleep", args = ["1000"], replicas = service["replicas"]))]
`

// TestARealJobStaysAboveItsRecentPeak: as many processes as were needed lately go
// on running; more are started whatever monitoring says.
func TestARealJobStaysAboveItsRecentPeak(t *testing.T) {
	t.Parallel()
	watched := newTarget(t, "qps 20\n")
	prometheus := newPrometheus(t, watched, nil, "")
	p := newPartition(t, policyFile(t, ""))
	name := "peak/" + prometheus.port
	write(t, p.folder, map[string]string{
		"service.yaml": "name: " + name + "\nreplicas: 2\n", "web.star": jobOf,
		"lehr.yaml": fmt.Sprintf(`lehr: v1
partition: hello
mode: enforce
sources: {service: {dir: ., files: [service.yaml]}}
generate:
  web: {starlark: web.star, from: [service]}
  sizes: {derive: Capacity, where: type == "Job", dimensions: {qps: double(payload.replicas) * 10.0}}
plugins: {Job: {run: lehr-process}}
checks:
  peak: {prometheus: %q, query: "max_over_time(qps[1h])", headroom: 1.4, dimension: qps, keep: 5s}
`, prometheus.url()),
	})
	t.Cleanup(func() {
		for _, id := range running(t, name) {
			_ = syscall.Kill(id, syscall.SIGKILL)
		}
	})
	runs := func(tasks int) {
		t.Helper()
		eventually(t, func() string {
			if found := len(running(t, name)); found != tasks {
				return fmt.Sprintf("%d tasks run, want %d; %s", found, tasks, p.says("why", "web"))
			}
			return ""
		})
	}
	prometheus.end()
	p.serve()
	runs(2)
	p.edit("service.yaml", "replicas: 2", "replicas: 4")
	runs(4)
	p.edit("service.yaml", "replicas: 4", "replicas: 2")
	p.tells([]string{"web waits (check-broken)", "check peak cannot answer: prometheus ", "connection refused"}, "why", "web")
	prometheus.start()
	p.tells([]string{"web waits (peak): check peak: it serves 40 and would serve 20, less than the recent peak 20 × 1.4 = 28 (max_over_time(qps[1h]))"}, "why", "web")
	if found := len(running(t, name)); found != 4 {
		t.Fatalf("%d tasks run", found)
	}
	p.edit("service.yaml", "replicas: 2", "replicas: 3")
	runs(3)
}

// running are the processes of a job.
func running(t *testing.T, name string) (ids []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		text, _ := os.ReadFile(path)
		if slices.Contains(strings.Split(string(text), "\x00"), "LEHR_JOB="+name) {
			if id, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}
