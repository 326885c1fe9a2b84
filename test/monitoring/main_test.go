// Package monitoring holds checks against real Prometheus and Alertmanager, as
// processes of Debian's packages, and has a real server wait for them. Nothing
// imports it.
package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/annealing/monitoring"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/test/freeport"
)

// patience bounds every wait; no test waits for it when all is well.
const patience = 4 * time.Minute

// eventually waits for what says what is still missing.
func eventually(t *testing.T, missing func() string) {
	t.Helper()
	why := ""
	for began := time.Now(); time.Since(began) < patience; time.Sleep(50 * time.Millisecond) {
		if why = missing(); why == "" {
			return
		}
	}
	t.Fatalf("within %s: %s", patience, why)
}

// need is where a program is; without it the test is skipped, but not in CI.
func need(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real monitoring")
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	message := fmt.Sprintf("there is no %s to test with (apt-get install %s)", name, name)
	if os.Getenv("CI") != "" {
		t.Fatal(message)
	}
	t.Skip("SKIPPED: " + message)
	return ""
}

// process is a server on a port of this machine, which may end and come back.
type process struct {
	t       *testing.T
	program string
	// arguments with the port in them.
	arguments func(port string) []string
	port      string
	command   *exec.Cmd
	said      bytes.Buffer
}

func begin(t *testing.T, program string, arguments func(port string) []string) *process {
	p := &process{t: t, program: need(t, program), arguments: arguments}
	t.Cleanup(func() {
		p.end()
		if t.Failed() {
			t.Logf("%s said at last:\n%s", program, p.said.Bytes()[max(0, p.said.Len()-2000):])
		}
	})
	p.start()
	return p
}

// start begins it, at the port that it had or at a free one. Another may take
// that before: then it is tried again.
func (p *process) start() {
	p.t.Helper()
	const tries = 5
	for range tries {
		port := p.port
		if port == "" {
			port = strconv.Itoa(freeport.Row(p.t, 1))
		}
		p.command = exec.Command(p.program, p.arguments(port)...)
		p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		p.command.Stdout, p.command.Stderr = &p.said, &p.said
		if err := p.command.Start(); err != nil {
			p.t.Fatal(err)
		}
		if p.ready(port) {
			p.port = port
			return
		}
		p.end()
	}
	p.t.Fatalf("%s does not start:\n%s", p.program, p.said.String())
}

func (p *process) ready(port string) bool {
	for began := time.Now(); time.Since(began) < patience/2; time.Sleep(20 * time.Millisecond) {
		if response, err := http.Get("http://127.0.0.1:" + port + "/-/ready"); err == nil {
			response.Body.Close()
			// One that asks for a password is there too.
			if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusUnauthorized {
				return true
			}
		}
		if p.command.Process.Signal(syscall.Signal(0)) != nil {
			return false
		}
	}
	return false
}

func (p *process) url() string { return "http://127.0.0.1:" + p.port }

func (p *process) end() {
	if p.command.ProcessState == nil {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
	}
}

// target is what Prometheus watches: a page of metrics that a test writes.
type target struct {
	*httptest.Server
	mutex sync.Mutex
	page  string
	gone  bool
}

func newTarget(t *testing.T, page string) *target {
	s := &target{page: page}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.gone {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, s.page)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *target) says(page string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.page, s.gone = page, false
}

func (s *target) goes() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.gone = true
}

// rules fire alerts at once.
const rules = `groups:
- name: web
  rules:
  - {alert: HighErrors, expr: error_ratio > 0.1, labels: {severity: page}}
`

// newPrometheus watches a target each second; alerts go to an Alertmanager, if
// there is one. Access says more of how it is asked, in its words.
func newPrometheus(t *testing.T, watched *target, alertmanager *process, access string) *process {
	folder := t.TempDir()
	config := "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n" +
		"scrape_configs: [{job_name: web, static_configs: [{targets: [\"" + watched.Listener.Addr().String() + "\"]}]}]\n"
	if alertmanager != nil {
		config += "alerting: {alertmanagers: [{static_configs: [{targets: [\"127.0.0.1:" + alertmanager.port + "\"]}]}]}\n"
	}
	write(t, folder, map[string]string{"prometheus.yml": config, "rules.yml": rules, "access.yml": access})
	return begin(t, "prometheus", func(port string) []string {
		return []string{
			"--config.file=" + filepath.Join(folder, "prometheus.yml"), "--web.config.file=" + filepath.Join(folder, "access.yml"),
			"--storage.tsdb.path=" + filepath.Join(folder, "data"), "--web.listen-address=127.0.0.1:" + port, "--log.level=warn",
		}
	})
}

func newAlertmanager(t *testing.T) *process {
	folder := t.TempDir()
	write(t, folder, map[string]string{"alertmanager.yml": `route: {receiver: nobody}
receivers: [{name: nobody}]
inhibit_rules: [{source_matchers: ['alertname="Down"'], target_matchers: ['alertname="Slow"'], equal: [service]}]
`})
	return begin(t, "prometheus-alertmanager", func(port string) []string {
		return []string{
			"--config.file=" + filepath.Join(folder, "alertmanager.yml"), "--storage.path=" + filepath.Join(folder, "data"),
			"--web.listen-address=127.0.0.1:" + port, "--cluster.listen-address=", "--log.level=warn",
		}
	})
}

func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// post sends JSON.
func post(t *testing.T, url string, value any) {
	t.Helper()
	body, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if said, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s", url, response.Status, said)
	}
}

// checked asks what a check asks, and what it makes of the answer.
func checked(t *testing.T, policy string, c *intentpb.Check, served ...check.Amount) intent.Verdict {
	t.Helper()
	made := check.Configure(c, rule.New(schema.Builtin()))
	if made.Question == nil {
		t.Fatalf("%v asks nothing", c)
	}
	asked := time.Now()
	answer, err := monitoring.New("shop", policy).Ask(t.Context(), *made.Question)
	answer.At, answer.Failed = asked, err
	if err != nil {
		answer.At = time.Time{}
	}
	facts := check.Facts{
		Now: time.Now(), Asset: "web", Mode: check.Enforce, Checks: []check.Required{{Configured: made}},
		Answers: map[check.Question]check.Answer{*made.Question: answer},
	}
	var own check.Own
	if len(served) > 0 {
		own.Serves = served[0]
	}
	facts.Own = map[*check.Configured]check.Own{made: own}
	verdicts := check.Decide(facts).Verdicts
	return verdicts[len(verdicts)-1]
}

// until waits for a verdict that says something.
func until(t *testing.T, policy string, c *intentpb.Check, answer intent.Answer, says string, served ...check.Amount) {
	t.Helper()
	eventually(t, func() string {
		if v := checked(t, policy, c, served...); v.Answer != answer || !strings.Contains(v.Waiting.Reason, says) {
			return fmt.Sprintf("the check %s says %d %s, want %d %q", c.Name, v.Answer, v.Waiting.Reason, answer, says)
		}
		return ""
	})
}

// policyFile lets this machine be asked.
func policyFile(t *testing.T, more string) string {
	folder := t.TempDir()
	write(t, folder, map[string]string{"checks.yaml": "external-checks: v1\nnetworks: [127.0.0.0/8]\n" + more})
	return filepath.Join(folder, "checks.yaml")
}
