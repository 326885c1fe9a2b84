package rollouts

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"lehr.dev/examples/shakespeare"
	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/test/freeport"
)

// world is the service in ten clusters, what watches it, and who rolls it out.
type world struct {
	*testing.T
	// whole is the test of the story, until whose end all runs.
	whole                     *testing.T
	folder, programs, service string
	// port of the first cluster's frontend; the others follow. watching is the port of
	// Prometheus.
	port, watching     int
	server, prometheus *program
	users              *users
	watcher            *watcher
	// drain is the flag that all clusters are to run with.
	drain string
}

// definition of the partition. The rollouts are added when the first version runs.
const definition = `lehr: v1
partition: shakespeare
mode: enforce
sources:
  service: {dir: ., files: [service.yaml]}
  shared: {dir: ., files: [cluster.star]}
  knobs: {document: knobs}
generate:
  web: {starlark: web.star, from: [service, shared, knobs]}
plugins:
  Job: {run: lehr-process}
`

// rollout of the frontends: one cluster, then two, then the rest, each judged beside the
// clusters that have not changed. A limit on latencies is told beside it. A flag of the
// same jobs has stages of its own.
const rollout = `rollouts:
  frontends:
    select: type == "Job"
    stages:
      - {name: canary, scopes: [c0], soak: 5s}
      - {name: two, scopes: [c1, c2], soak: 5s}
      - {name: rest, rest: true, soak: 5s}
    validate: [users]
  flags:
    select: type == "Job"
    by: {document: knobs, field: "/clusters/{scope.cluster}/drain"}
    stages:
      - {name: canary, scopes: [c9], soak: 30s}
      - {name: rest, rest: true, soak: 2s}
validations:
  users:
    warm_up: 2s
    interval: 14s
    step: 2s
    compare: control
    metrics:
      errors:
        prometheus: main
        query: 'sum(increase(frontend_errors_total{cluster=~"$scope.cluster"}[2s]))'
        of: 'sum(increase(frontend_requests_total{cluster=~"$scope.cluster"}[2s]))'
        tolerance: 0.005
        matters: 0.02
      latency:
        prometheus: main
        query: 'sum(rate(frontend_seconds_sum{cluster=~"$scope.cluster"}[2s])) / sum(rate(frontend_seconds_count{cluster=~"$scope.cluster"}[2s]))'
        unit: s
        worse: higher
        tolerance: 0.005
        matters: 0.01
        spread: 1000  # of one cluster beside the mean of nine
      limit:
        prometheus: main
        query: 'sum(rate(frontend_seconds_sum{cluster=~"$scope.cluster"}[2s])) / sum(rate(frontend_seconds_count{cluster=~"$scope.cluster"}[2s]))'
        unit: s
        compare: none
        at_most: 0.25
        shadow: true
`

func newWorld(t *testing.T) *world {
	t.Helper()
	need(t, "prometheus")
	startReaper(t)
	w := &world{T: t, whole: t, folder: t.TempDir(), programs: t.TempDir(), service: serviceOf(os.Getpid()), drain: "400ms"}
	build(t, w.programs)
	w.port = freeport.Row(t, clusters+1)
	w.watching = w.port + clusters
	t.Cleanup(func() {
		for _, f := range frontends(w.service) {
			_ = syscall.Kill(f.pid, syscall.SIGKILL)
		}
	})
	targets := ""
	for i := range clusters {
		targets += fmt.Sprintf("\"127.0.0.1:%d\",", w.port+i)
	}
	w.write("prometheus.yml", "global: {scrape_interval: 250ms, scrape_timeout: 250ms}\nscrape_configs: [{job_name: frontends, static_configs: [{targets: ["+strings.TrimSuffix(targets, ",")+"]}]}]\n")
	w.write("checks.yaml", fmt.Sprintf("external-checks: v1\nmonitoring: [{name: main, kind: prometheus, url: \"http://127.0.0.1:%d\", partitions: [shakespeare]}]\n", w.watching))
	for _, name := range []string{"web.star", "cluster.star"} {
		content, err := shakespeare.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		w.write(name, strings.Replace(string(content), "in service.args]", "in service.args] + flags(cluster.name)", 1))
	}
	w.add("web.star", flags)
	w.write("lehr.yaml", definition)
	w.release("v1")
	w.watch()
	w.serve()
	knobs := "clusters:\n"
	for i := range clusters {
		knobs += fmt.Sprintf("  %s: {drain: %s}\n", cluster(i), w.drain)
	}
	w.write("knobs.yaml", knobs)
	w.orders("document", "create", "knobs", "--file", "knobs.yaml", "--reason", "to begin with")
	w.runs("v1", "v1")
	w.users, w.watcher = startUsers(t, w.port), watch(t, w.service)
	w.write("lehr.yaml", definition+rollout)
	w.Cleanup(func() {
		if t.Failed() {
			t.Logf("the rollout:\n%s\n%s\n%s\n%v", w.says("rollout", "status", "frontends"), w.says("why", "shakespeare"), w.says("get", "pins"), frontends(w.service))
		}
	})
	return w
}

// flags of a cluster are from a document, which a rollout edits.
const flags = `
def flags(cluster):
    return ["--drain=" + json("knobs/knobs.json")["clusters"][cluster]["drain"]]
`

// write replaces a file at once, as editors do.
func (w *world) write(name, content string) {
	w.Helper()
	path := filepath.Join(w.folder, name)
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		w.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.Fatal(err)
	}
}

// add writes to a file's end.
func (w *world) add(name, more string) {
	w.Helper()
	content, err := os.ReadFile(filepath.Join(w.folder, name))
	if err != nil {
		w.Fatal(err)
	}
	w.write(name, string(content)+more)
}

// release says which version is to run everywhere, and how it misbehaves.
func (w *world) release(version string, more ...string) {
	w.Helper()
	arguments := append([]string{"--port={port}", "--version={version}", "--cluster={cluster}"}, more...)
	var b strings.Builder
	fmt.Fprintf(&b, "service: %s\nbinary: %s\nargs: [\"%s\"]\nversion: %s\nclusters:\n", w.service, filepath.Join(w.programs, "frontend"), strings.Join(arguments, `", "`), version)
	for i := range clusters {
		fmt.Fprintf(&b, "  - {name: %s, replicas: 1, base_port: %d}\n", cluster(i), w.port+i)
	}
	w.write("service.yaml", b.String())
}

// watch starts Prometheus, with what it remembers, and waits until it answers.
func (w *world) watch() {
	w.Helper()
	w.prometheus = start(w.whole, w.folder, nil, need(w.T, "prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data",
		fmt.Sprintf("--web.listen-address=127.0.0.1:%d", w.watching), "--log.level=warn")
	eventually(w.T, "Prometheus answers", func() string {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/-/ready", w.watching))
		if err != nil {
			return err.Error()
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return response.Status
		}
		return ""
	})
}

// serve starts a server on the store, and waits until it answers.
func (w *world) serve() {
	w.Helper()
	w.server = start(w.whole, w.folder, []string{"LEHR_EXTERNAL_CHECKS=" + filepath.Join(w.folder, "checks.yaml"), "HOME=" + w.folder},
		filepath.Join(w.programs, "lehr"), "serve", "-p", "lehr.yaml", "--sweep", "2s")
	eventually(w.T, "the server answers", func() string {
		if output, err := w.command("get", "partitions").CombinedOutput(); err != nil {
			return fmt.Sprintf("%v: %s", err, output)
		}
		return ""
	})
}

// command of lehr, in the partition's folder.
func (w *world) command(arguments ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(w.programs, "lehr"), arguments...)
	command.Dir = w.folder
	return command
}

// says is what a command writes, however it ends.
func (w *world) says(arguments ...string) string {
	output, _ := w.command(arguments...).CombinedOutput()
	return string(output)
}

// orders something that must be taken.
func (w *world) orders(arguments ...string) {
	w.Helper()
	if output, err := w.command(arguments...).CombinedOutput(); err != nil {
		w.Fatalf("lehr %s: %v: %s", strings.Join(arguments, " "), err, output)
	}
}

// runs waits until all clusters run a version, but the canary another.
func (w *world) runs(version, canary string) {
	w.Helper()
	eventually(w.T, "the clusters run "+version+", and the canary "+canary, func() string {
		missing := runs(w.service, w.drain, func(of string) string {
			if of == cluster(0) {
				return canary
			}
			return version
		})
		if missing != "" {
			missing += "; " + w.says("why", "shakespeare")
		}
		return missing
	})
}

// run of the releases' rollout, as it is now.
func (w *world) run() *apipb.RolloutRun {
	w.Helper()
	return w.runOf("frontends")
}

func (w *world) runOf(rollout string) *apipb.RolloutRun {
	w.Helper()
	output, err := w.command("rollout", "status", rollout, "-o", "json").Output()
	if err != nil {
		return &apipb.RolloutRun{} // The server may not know it yet.
	}
	r := &apipb.Rollout{}
	if err := protojson.Unmarshal(output, r); err != nil {
		w.Fatalf("%v: %s", err, output)
	}
	if r.Run == nil {
		return &apipb.RolloutRun{}
	}
	return r.Run
}

// follow waits until a run says what is wanted of it.
func (w *world) follow(what string, missing func(*apipb.RolloutRun) string) (run *apipb.RolloutRun) {
	w.Helper()
	eventually(w.T, what, func() string {
		run = w.run()
		if why := missing(run); why != "" {
			return fmt.Sprintf("%s (run %d is %s, waits %s; %v)", why, run.Run, run.State, run.Waits, lastEvent(run))
		}
		return ""
	})
	return run
}

func lastEvent(run *apipb.RolloutRun) string {
	if n := len(run.Events); n > 0 {
		return run.Events[n-1].Text
	}
	return ""
}

// becomes waits until a run after another is in a state; in another that ends it the
// test fails.
func (w *world) becomes(after uint64, state string) *apipb.RolloutRun {
	w.Helper()
	began := time.Now()
	run := w.follow(fmt.Sprintf("run %d is %s", after+1, state), func(run *apipb.RolloutRun) string {
		if run.Run <= after {
			return "it has not begun"
		}
		switch run.State {
		case state:
			return ""
		case "done", "rolled-back", "stopped", "superseded", "paused":
			w.Fatalf("run %d is %s: %s\n%s", run.Run, run.State, lastEvent(run), w.says("rollout", "status", "frontends"))
		}
		return "it is " + run.State
	})
	w.Logf("run %d was %s within %s: %s", run.Run, state, time.Since(began).Round(time.Second), lastEvent(run))
	return run
}

// verdict on a stage; empty: there is none yet.
func verdict(run *apipb.RolloutRun, stage string) *apipb.RolloutVerdict {
	for _, v := range run.Verdicts {
		if v.Stage == stage {
			return v
		}
	}
	return &apipb.RolloutVerdict{}
}

// stage of a run by its name.
// firstDone is when a stage of a run was done first. It may be done again: an asset that
// does not answer at once, as on a busy machine, makes it begin anew.
func firstDone(run *apipb.RolloutRun, name string) time.Time {
	for _, event := range run.Events {
		if event.Kind == "stage" && event.Stage == name {
			return event.At.AsTime()
		}
	}
	return time.Now()
}

func stage(run *apipb.RolloutRun, name string) *apipb.RolloutStage {
	for _, s := range run.Stages {
		if s.Name == name {
			return s
		}
	}
	return &apipb.RolloutStage{}
}
