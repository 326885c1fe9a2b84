package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/test/faults/production"
)

// patience bounds every wait; it is long because machines may be slow, and no
// test waits for it when all is well.
const patience = 4 * time.Minute

// world is a partition in a folder, its production, and a server.
type world struct {
	*testing.T
	// folder holds the definition, production the resources.
	folder, production string
	store              string
	programs           string
	// jobs are written into every manifest; identity is what their names
	// begin with.
	jobs     map[string]job
	identity string
	// schemas are written into every manifest.
	schemas map[string]schema
	// definition is the lehr.yaml of the server's first partition.
	definition string
	secrets    *secrets
	// environment are variables of this world's servers, beside those of secrets.
	environment []string

	server *server
}

// server is one life of lehr serve.
type server struct {
	*exec.Cmd
	log   string
	ended chan struct{}
	err   error
}

// partition is what a folder says: a program and its manifest.
type partition struct {
	name string
	// plugins is the section of that name; empty: commands are served.
	plugins string
	program string
}

// usualProgram makes one command asset for each value of the manifest, a job of
// real processes for each of its jobs, and a schema for each of its databases.
const usualProgram = `
def generate(ctx):
    service = yaml("source/service.yaml")
    resources = [resource(service, name, value) for name, value in service["values"].items()]
    jobs = [job(service, name, service["jobs"][name]) for name in service["jobs"]]
    return resources + jobs + [schema(name, service["schemas"][name]) for name in service["schemas"]]

def resource(service, name, value):
    arguments = [service["production"], name, str(value)]
    return asset(
        "resource/" + name,
        lehr.command.v1.Command(
            diff = [service["program"], "production:diff"] + arguments,
            push = [service["program"], "production:push"] + arguments,
            retryable_exit_codes = [137],
        ),
    )

def job(service, name, job):
    return asset(
        "job/" + name,
        lehr.process.v1.Job(
            name = service["identity"] + "/" + name,
            replicas = job["replicas"],
            binary = service["program"],
            args = ["production:task", "{port}", str(service["test"])],
            base_port = job["port"],
        ),
    )

def schema(name, schema):
    return asset(
        "schema/" + name,
        lehr.sqlschema.v1.Schema(
            database = schema["database"],
            sql = schema["sql"],
            lock_timeout = duration("0.3s"),
        ),
    )
`

// values are the manifest's resources.
type values map[string]int

// job is one of the manifest's jobs.
type job struct {
	Replicas int `json:"replicas"`
	Port     int `json:"port"`
}

// schema is one of the manifest's databases.
type schema struct {
	Database string `json:"database"`
	SQL      string `json:"sql"`
}

// newWorld writes a partition of command resources. Its server is not started.
func newWorld(t *testing.T, p partition) *world {
	t.Helper()
	programs := binaries(t)
	w := &world{T: t, folder: t.TempDir(), production: t.TempDir(), programs: programs, jobs: map[string]job{}, schemas: map[string]schema{}}
	w.identity = fmt.Sprintf("faults-%d/%x", os.Getpid(), rand.Uint64())
	w.store = filepath.Join(w.folder, ".lehr", "lehr.db")
	w.definition = filepath.Join(w.folder, "lehr.yaml")
	w.define(w.folder, p)
	w.secrets = plantSecrets(w)
	t.Cleanup(w.close)
	return w
}

// define writes the definition and the program of a partition into a folder.
func (w *world) define(folder string, p partition) {
	w.Helper()
	if p.plugins == "" {
		p.plugins = "Command: {run: lehr-command}"
	}
	if p.program == "" {
		p.program = usualProgram
	}
	w.write(filepath.Join(folder, "lehr.yaml"), fmt.Sprintf(`lehr: v1
partition: %s
mode: enforce
sources:
  service: {dir: source, files: [service.yaml]}
generate:
  web: {starlark: web.star, from: [service]}
plugins:
  %s
`, p.name, p.plugins))
	w.write(filepath.Join(folder, "web.star"), p.program)
	if err := os.MkdirAll(filepath.Join(folder, "source"), 0o755); err != nil {
		w.Fatal(err)
	}
}

// want writes the manifest.
func (w *world) want(v values) {
	w.Helper()
	w.wantIn(w.folder, v)
}

func (w *world) wantIn(folder string, v values) {
	w.Helper()
	manifest, err := json.Marshal(map[string]any{
		"program": filepath.Join(w.programs, "production"), "production": w.production, "values": v, "jobs": w.jobs, "schemas": w.schemas, "identity": w.identity, "test": os.Getpid(),
	})
	if err != nil {
		w.Fatal(err)
	}
	w.write(filepath.Join(folder, "source", "service.yaml"), string(manifest))
}

// write replaces a file at once, as editors do.
func (w *world) write(path, content string) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := production.ReplaceFile(path, content); err != nil {
		w.Fatal(err)
	}
}

// edit replaces a text in a file.
func (w *world) edit(path, old, by string) {
	w.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	if !strings.Contains(string(content), old) {
		w.Fatalf("%s does not hold %q", path, old)
	}
	w.write(path, strings.Replace(string(content), old, by, 1))
}

// start runs a server on the store; the definition is registered.
func (w *world) start(arguments ...string) {
	w.Helper()
	if w.server != nil {
		w.Fatal("a server runs already")
	}
	arguments = append([]string{"serve", "-v", "--store", w.store, "-p", w.definition, "--sweep", "2s"}, arguments...)
	command := exec.Command(filepath.Join(w.programs, "lehr"), arguments...)
	log, err := os.OpenFile(filepath.Join(w.production, "server.log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		w.Fatal(err)
	}
	defer log.Close()
	command.Stdout, command.Stderr, command.Dir = log, log, w.folder
	// The logs of tasks go into the home folder. Some tests bound the memory that a server
	// takes as people start it, whatever the tests' own processes are given.
	command.Env = append(os.Environ(), slices.Concat(w.secrets.environment, w.environment, []string{"HOME=" + w.production, "GOGC=100"})...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		w.Fatal(err)
	}
	s := &server{Cmd: command, log: log.Name(), ended: make(chan struct{})}
	go func() {
		s.err = command.Wait()
		close(s.ended)
	}()
	w.server = s
}

// serve starts a server and waits until it answers.
func (w *world) serve(arguments ...string) {
	w.Helper()
	w.start(arguments...)
	w.await("the server answers", w.answers)
}

func (w *world) answers() string {
	select {
	case <-w.server.ended:
		w.Fatalf("the server ended: %v\n%s", w.server.err, w.logged())
	default:
	}
	_, err := w.lehr("get", "partitions")
	return text(err)
}

// kill ends the server as a power cut would, and waits until it is reaped.
func (w *world) kill() {
	w.server.Process.Kill()
	<-w.server.ended
	w.server = nil
}

// end stops the server as a person would.
func (w *world) end() {
	w.Helper()
	if w.server == nil {
		return
	}
	w.server.Process.Signal(syscall.SIGTERM)
	select {
	case <-w.server.ended:
	case <-time.After(patience):
		w.Errorf("the server did not end within %s", patience)
		w.server.Process.Kill()
		<-w.server.ended
	}
	w.server = nil
}

func (w *world) close() {
	if w.Failed() && w.server != nil {
		if told, err := w.lehr("get", "reports", "-o", "wide"); err == nil {
			w.Logf("the reports are:\n%s", told)
		}
		if told, err := w.lehr("get", "pushes"); err == nil {
			w.Logf("the pushes are:\n%s", told)
		}
		w.Logf("the server's log, before it is asked where it hangs:\n%s", last(w.logged(), 16<<10))
		// Its goroutines say where it hangs.
		w.server.Process.Signal(syscall.SIGQUIT)
		<-w.server.ended
		w.server = nil
	}
	if w.server != nil {
		w.secrets.SearchArguments(w.T, w.server.Process.Pid)
	}
	w.end()
	killAll(w.tasks())
	w.searchAll()
	if w.Failed() {
		w.Logf("the server's log ends:\n%s", last(w.logged(), 64<<10))
	}
}

// logged is what all servers of this world have written.
func (w *world) logged() string {
	content, _ := os.ReadFile(filepath.Join(w.production, "server.log"))
	return string(content)
}

func last(text string, most int) string { return text[max(0, len(text)-most):] }

// await waits until a condition says nothing more.
func (w *world) await(what string, condition func() string) {
	w.Helper()
	if missing := w.within(patience, condition); missing != "" {
		w.Fatalf("not within %s: %s; %s", patience, what, missing)
	}
}

// within returns what is still missing after some time. A machine that was
// suspended meanwhile has not waited.
func (w *world) within(most time.Duration, condition func() string) (missing string) {
	const pause, step = 30 * time.Millisecond, 2 * time.Second
	for waited := time.Duration(0); waited < most; {
		began := time.Now()
		if missing = condition(); missing == "" {
			return ""
		}
		time.Sleep(rest(began, pause))
		waited += min(time.Since(began), step)
	}
	return missing
}

// awaitTold waits until a person is told all that the patterns say about an
// asset, and returns it.
func (w *world) awaitTold(asset string, patterns ...string) (told string) {
	w.Helper()
	w.await(fmt.Sprintf("why %s says %q", asset, patterns), func() string {
		told = w.why(asset)
		return unmatched(told, patterns...)
	})
	return told
}

// unmatched returns what is missing in a text.
func unmatched(text string, patterns ...string) string {
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(text) {
			return fmt.Sprintf("no %q in: %s", pattern, text)
		}
	}
	return ""
}

// holds says what is missing in production, if anything.
func (w *world) holds(wanted values) func() string {
	return func() string {
		for resource, value := range wanted {
			if have, err := production.ReadValue(w.production, resource); err != nil || have != value {
				return fmt.Sprintf("%s is %d, not %d %s", resource, have, value, text(err))
			}
		}
		return ""
	}
}

// converges waits until production is as wanted.
func (w *world) converges(wanted values) {
	w.Helper()
	if missing := w.within(patience, w.holds(wanted)); missing != "" {
		resource, _, _ := strings.Cut(missing, " ")
		w.Fatalf("production is not as wanted within %s: %s: %s", patience, missing, w.why("resource/"+resource))
	}
}

// untouched fails the test when production changes before something is so.
func (w *world) untouched(what string, wanted values, condition func() string) {
	w.Helper()
	before := len(readEffects(w.T, w.production))
	w.await(what, condition)
	if missing := w.holds(wanted)(); missing != "" {
		w.Errorf("while waiting until %s, production was changed: %s", what, missing)
	}
	if effects := readEffects(w.T, w.production)[before:]; len(effects) > 0 {
		w.Errorf("while waiting until %s, production was touched: %+v", what, effects)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
