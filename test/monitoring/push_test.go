package monitoring

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
)

// partition is that of "lehr init", served by the real programs.
type partition struct {
	*testing.T
	folder, programs, policy string
}

func newPartition(t *testing.T, policy string) *partition {
	t.Helper()
	p := &partition{t, t.TempDir(), t.TempDir(), policy}
	for program, from := range map[string]string{"lehr": "./cmd/lehr", "lehr-command": "./plugins/command"} {
		build := exec.Command("go", "build", "-o", filepath.Join(p.programs, program), from)
		build.Dir = "../.."
		if output, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", program, err, output)
		}
	}
	p.must("init", ".")
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
