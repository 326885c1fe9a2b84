// Package watching holds the shipped alert rules and the dashboard to what a real
// server shows, with Prometheus's own programs. Nothing imports it.
package watching

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/test/building"
	"lehr.dev/test/freeport"
)

// patience bounds every wait; no test waits for it when all is well.
const patience = 4 * time.Minute

const shipped = "../../docs/operate/monitoring"

// program finds one of Prometheus's, or skips; in CI none may be missing.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing: scripts/install-test-tools installs it", name)
		}
		t.Skipf("%s is missing: scripts/install-test-tools installs it", name)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func eventually(t *testing.T, what string, missing func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		text := missing()
		if text == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never came about that %s: %s", what, text)
		}
	}
}

func fetch(url string) (string, error) {
	answer, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return string(body), err
}

// world is a real server of what lehr init writes, enforced.
type world struct {
	folder, metrics, log string
	environment          []string
}

func (w world) lehr(t *testing.T, arguments ...string) string {
	t.Helper()
	command := exec.Command(filepath.Join(w.folder, "bin", "lehr"), arguments...)
	command.Dir, command.Env = filepath.Join(w.folder, "hello"), w.environment
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("lehr %v: %v\n%s", arguments, err, out)
	}
	return string(out)
}

// begin starts something that ends with the test.
func begin(t *testing.T, command *exec.Cmd) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if command.Stderr = file; command.Stdout == nil {
		command.Stdout = file
	}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s said\n%s", command.Path, read(t, file.Name()))
		}
	})
}

// programs are built once, into a folder that TestMain removes.
var built string

var programs = sync.OnceValue(func() (err error) {
	if built, err = os.MkdirTemp("", "lehr-watching-"); err != nil {
		return err
	}
	for name, source := range map[string]string{"lehr": "cmd/lehr", "lehr-command": "plugins/command", "lehr-process": "plugins/process"} {
		if err := (building.Program{Of: "../../" + source}).At(filepath.Join(built, name)); err != nil {
			return err
		}
	}
	return nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(code)
}

func newWorld(t *testing.T, arguments ...string) world {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs the real programs")
	}
	w := world{folder: t.TempDir(), metrics: freeport.Address(t), environment: append(os.Environ(), "LEHR_STORE=")}
	err := programs()
	if err == nil {
		err = os.CopyFS(filepath.Join(w.folder, "bin"), os.DirFS(built))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(w.folder, "hello"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.lehr(t, "init")
	definition := filepath.Join(w.folder, "hello", "lehr.yaml")
	text := strings.Replace(read(t, definition), "mode: observe", "mode: enforce", 1)
	text += "notifications: {held: {when: 'report.waiting.exists(w, w.kind == \"hold\")', to: [chat]}}\n"
	if err := os.WriteFile(definition, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(filepath.Join(w.folder, "bin", "lehr"), append([]string{"serve", "-p", "lehr.yaml", "--metrics", w.metrics, "--sweep", "1s",
		"--audit-checkpoints", filepath.Join(w.folder, "checkpoints")}, arguments...)...)
	serve.Dir, serve.Env = filepath.Join(w.folder, "hello"), w.environment
	serve.Stdout = io.Discard
	begin(t, serve)
	w.log = serve.Stderr.(*os.File).Name()
	eventually(t, "all is pushed", func() string {
		text, err := w.show()
		if err == nil && !regexp.MustCompile(`lehr_assets\{[^}]*state="in-sync",waiting=""\} [1-9]`).MatchString(text) {
			return "nothing is in sync"
		}
		return errorText(err)
	})
	return w
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func (w world) show() (string, error) { return fetch("http://" + w.metrics + "/metrics") }

var named = regexp.MustCompile(`\b(?:lehr|go|process)_[a-z_]+\b`)

// Every metric that a rule or a panel asks for is shown by a real server, and each
// of its labels too. A rule says what to do where operating.md does.
func TestRulesAndDashboardAskForWhatIsShown(t *testing.T) {
	w := newWorld(t)
	w.lehr(t, "get", "partitions")
	shows, err := w.show()
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(shipped, "dashboard.json"))), &dashboard); err != nil {
		t.Fatal(err)
	}
	rules := read(t, filepath.Join(shipped, "alerts.yaml"))
	asked := map[string]string{"the rules": rules}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			asked["panel "+panel.Title] += target.Expr + "\n"
		}
	}
	used := map[string]bool{}
	for where, text := range asked {
		for _, name := range named.FindAllString(text, -1) {
			used[name] = true
			if strings.HasPrefix(name, "lehr_delivery_") { // This server delivers no application; test/scripts/delivery_told.txtar has one.
				if !slices.Contains(app.MetricNames(), name) {
					t.Errorf("%s: there is no metric %s", where, name)
				}
				continue
			}
			if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(shows) {
				t.Errorf("%s: the server does not show %s", where, name)
			}
		}
	}
	if len(used) < 35 {
		t.Errorf("only %d metrics are asked for", len(used))
	}
	for _, name := range app.MetricNames() {
		if !strings.Contains(shows, "# HELP "+name+" ") {
			t.Logf("nothing to show of %s", name)
		}
	}
	operating := read(t, "../../docs/operate/operating.md")
	if !strings.Contains(operating, "\n## Alerts\n") {
		t.Error("operating.md has no section of alerts")
	}
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(operating, "| `"+alert[1]+"` |") {
			t.Errorf("operating.md does not say what to do at %s", alert[1])
		}
	}
	if n := strings.Count(rules, "runbook: docs/operate/operating.md#alerts\n"); n != strings.Count(rules, "- alert:") {
		t.Errorf("%d rules say where to read on", n)
	}
}

// TestRulesKnowWhatFails: whatever an asset can wait for that is of the failing or the
// fighting sort counts for both rules that are about it, and they name nothing that is not.
func TestRulesKnowWhatFails(t *testing.T) {
	rules := read(t, filepath.Join(shipped, "alerts.yaml"))
	lists := regexp.MustCompile(`waiting=~"([^"]*)"`).FindAllStringSubmatch(rules, -1)
	if len(lists) != 2 {
		t.Fatalf("%d rules are about what assets wait for", len(lists))
	}
	for _, list := range lists {
		kinds := strings.Split(list[1], "|")
		for _, kind := range intent.WaitingKinds() {
			if kind.Sort() != intent.SortWaiting && !slices.Contains(kinds, string(kind)) {
				t.Errorf("%s is not in %s", kind, list[1])
			}
		}
		for _, kind := range kinds {
			if !slices.Contains(intent.WaitingKinds(), intent.WaitingKind(kind)) {
				t.Errorf("nothing waits for %s", kind)
			}
		}
	}
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	promtool := program(t, "promtool")
	for _, arguments := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		command := exec.Command(promtool, arguments...)
		command.Dir = shipped
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments, err, out)
		}
	}
	w := newWorld(t)
	shows, err := w.show()
	if err != nil {
		t.Fatal(err)
	}
	lint := exec.Command(promtool, "check", "metrics")
	lint.Stdin = strings.NewReader(shows)
	out, err := lint.CombinedOutput()
	if problems := regexp.MustCompile(`(?m)^lehr_.*`).FindAllString(string(out), -1); len(problems) > 0 {
		t.Errorf("promtool finds in the metrics: %v\n%s", err, strings.Join(problems, "\n"))
	}
}

// A real Prometheus scrapes a real server by the shipped rules, without their
// pauses, and alarms about a stop, and about nothing before.
func TestAlertFires(t *testing.T) {
	prometheus := program(t, "prometheus")
	w := newWorld(t)
	folder, address := t.TempDir(), freeport.Address(t)
	rules := regexp.MustCompile(`for: \w+`).ReplaceAllString(read(t, filepath.Join(shipped, "alerts.yaml")), "for: 0s")
	for name, text := range map[string]string{
		"alerts.yaml": rules,
		"prometheus.yml": "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [alerts.yaml]\n" +
			"scrape_configs: [{job_name: lehr, static_configs: [{targets: ['" + w.metrics + "']}]}]\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command(prometheus, "--config.file", "prometheus.yml", "--storage.tsdb.path", filepath.Join(folder, "data"), "--web.listen-address", address)
	command.Dir = folder
	begin(t, command)
	// firing lists the alerts that fire, once the server was scraped.
	firing := func() ([]string, string) {
		up, err := fetch("http://" + address + "/api/v1/query?query=lehr_build_info")
		if err != nil || !strings.Contains(up, `"lehr_build_info"`) {
			return nil, "it was not scraped: " + errorText(err)
		}
		text, err := fetch("http://" + address + "/api/v1/alerts")
		if err != nil {
			return nil, err.Error()
		}
		var answer struct {
			Data struct {
				Alerts []struct {
					Labels map[string]string
					State  string
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			return nil, err.Error()
		}
		list := []string{}
		for _, alert := range answer.Data.Alerts {
			if alert.State == "firing" {
				list = append(list, alert.Labels["alertname"]+" "+alert.Labels["partition"])
			}
		}
		return list, ""
	}
	eventually(t, "nothing fires", func() string {
		list, missing := firing()
		if missing == "" && len(list) > 0 {
			missing = strings.Join(list, ", ")
		}
		return missing
	})
	w.lehr(t, "stop", "--reason", "a fire")
	eventually(t, "the stop is told of", func() string {
		list, missing := firing()
		if missing == "" && !slices.Contains(list, "LehrStopped hello") {
			missing = "there fires " + strings.Join(list, ", ")
		}
		return missing
	})
}

// Each line of a real server's log is a record in JSON, with the keys that are
// documented and no others.
func TestLogIsJSON(t *testing.T) {
	w := newWorld(t, "--log-format", "json", "--log-level", "debug")
	program := filepath.Join(w.folder, "hello", "web.star")
	if err := os.WriteFile(program, []byte("broken("), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is broken is logged", func() string {
		if !strings.Contains(read(t, w.log), `"msg":"rejected"`) {
			return read(t, w.log)
		}
		return ""
	})
	documented := map[string]bool{"time": true, "level": true, "msg": true}
	_, page, _ := strings.Cut(read(t, "../../docs/operate/monitoring.md"), "\n## The log\n")
	for _, key := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(page, -1) {
		documented[key[1]] = true
	}
	lines := 0
	for line := range strings.Lines(read(t, w.log)) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("%q is no record: %v", line, err)
		}
		lines++
		for key := range record {
			if !documented[key] {
				t.Errorf("%q is not documented: %s", key, line)
			}
		}
	}
	if lines < 3 {
		t.Errorf("only %d lines", lines)
	}
}
