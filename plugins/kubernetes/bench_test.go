package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/test/building"
)

const (
	// benchObjects are kept, in so many files.
	benchObjects, benchFiles = 1000, 10
	benchSweep               = 10 * time.Second
)

// BenchmarkThousandObjects keeps as many objects of a real API server with lehr serve, and
// does the same with kubectl where it is installed: figures of one run on one machine. It
// prints "name value unit" a line; make bench ONLY=kubernetes runs it.
func BenchmarkThousandObjects(b *testing.B) {
	for range b.N {
		p := plane.Start(b)
		m := &measured{B: b, plane: p, folder: b.TempDir(), objects: benchObjects, took: map[string]float64{}}
		m.build()
		m.keep()
		m.rest()
		m.memory()
		m.change()
		m.seen()
		m.plans()
		m.took["bare"] = m.seed().Seconds() // What bounds a creation: the same without a dry run, and with nobody who decides.
		m.figure("bare_create_%d", m.took["bare"], "s")
		if _, err := exec.LookPath("kubectl"); err != nil {
			fmt.Fprintln(os.Stderr, "bench: kubectl is not on the PATH: not compared with it")
			return
		}
		m.kubectl()
	}
}

type measured struct {
	*testing.B
	plane  *plane.Plane
	folder string
	// objects are kept.
	objects int
	// took are the figures that are compared at the end, in seconds.
	took map[string]float64
}

// figure prints what was measured: of so many objects.
func (m *measured) figure(name string, value float64, unit string) {
	fmt.Printf("%s %.4g %s\n", fmt.Sprintf(name, m.objects), value, unit)
}

// compared prints by how much kubectl took longer.
func (m *measured) compared(name, theirs, ours string) {
	m.figure("kubectl_over_lehr_"+name+"_%d", m.took["kubectl_"+theirs]/m.took[ours], "x")
}

func (m *measured) build() {
	if err := errors.Join(
		(building.Program{Of: "../../cmd/lehr"}).At(filepath.Join(m.folder, "lehr")),
		(building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(filepath.Join(m.folder, "lehr-kubernetes"))); err != nil {
		m.Fatal(err)
	}
	clusters := filepath.Join(m.folder, "clusters.yaml")
	writeAll(m, m.plane, clusters)
	m.write("lehr.yaml", fmt.Sprintf(`lehr: v1
partition: bench
mode: enforce
sources:
  manifests: {dir: manifests, files: ["*.yaml"]}
generate:
  plain: {render: kubernetes, from: [manifests], with: {cluster: real, namespace: bench}}
plugins:
  lehr.kubernetes.v1.Object: {run: [%s, --clusters, %s]}
`, filepath.Join(m.folder, "lehr-kubernetes"), clusters))
}

func (m *measured) write(name, text string) {
	path := filepath.Join(m.folder, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		m.Fatal(err)
	}
}

// manifests are files of objects; value is that of the first.
func (m *measured) manifests(folder, namespace, value string) {
	m.write(folder+"/00-namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}\n")
	for file := range benchFiles {
		var text strings.Builder
		for i := range m.objects / benchFiles {
			fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: thing-%d, namespace: %s}\ndata: {value: %q, other: some text that stays}\n", file*m.objects/benchFiles+i, namespace, value)
			value = "1"
		}
		m.write(fmt.Sprintf("%s/%02d.yaml", folder, file+1), text.String())
	}
}

// until waits for a value of the first object, or for all objects, and returns how many
// requests that took.
func (m *measured) until(namespace, value string) (asked int) {
	m.plane.Wait("the objects to be as intended", func() error {
		asked++
		path := "/api/v1/namespaces/" + namespace + "/configmaps"
		if value != "" {
			path += "/thing-0"
		}
		answer, err := m.plane.Ask(http.MethodGet, path, "", nil)
		if value == "" && bytes.Count(answer, []byte(`"name":"thing-`)) < m.objects || !bytes.Contains(answer, []byte(`"value":"`+value)) {
			err = errors.Join(err, errors.New("not yet"))
		}
		return err
	})
	return asked
}

func (m *measured) keep() {
	m.manifests("manifests", "bench", "1")
	began, before := time.Now(), requests(m.plane)
	startServer(m, m.folder, filepath.Join(m.folder, "lehr"), benchSweep.String())
	m.until("bench", "")
	m.took["create"] = time.Since(began).Seconds()
	m.figure("lehr_create_%d", m.took["create"], "s")
	after := requests(m.plane)
	for name, of := range map[string]string{"dry_runs": "APPLY configmaps All", "writes": "APPLY configmaps "} {
		m.figure("lehr_create_%d_"+name, float64(after[of]-before[of]), "requests")
	}
}

// longest that the benchmark waits for something that takes long with many objects.
const longest = 15 * time.Minute

// await waits until there is no error; what is measured takes longer than tests wait.
func (m *measured) await(what string, try func() error) {
	deadline := time.Now().Add(longest)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			m.Fatalf("waiting for %s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// rest waits until the looks at first have ended, and counts what a sweep costs.
func (m *measured) rest() {
	m.await("the first looks to end", func() error {
		before := requests(m.plane)
		time.Sleep(benchSweep * 3 / 2)
		if total, text := spent(before, requests(m.plane)); total > 0 {
			return errors.New(text)
		}
		return nil
	})
	before, used := requests(m.plane), m.cpu()
	time.Sleep(3 * benchSweep)
	total, _ := spent(before, requests(m.plane))
	m.figure("lehr_rest_%d_cpu", (m.cpu()-used).Seconds()*float64(time.Minute/(3*benchSweep)), "s/minute")
	m.figure("lehr_rest_%d", float64(total)/3, "requests/sweep")
}

func (m *measured) change() {
	before := requests(m.plane)
	began := time.Now()
	m.manifests("manifests", "bench", "2")
	own := m.until("bench", "2")
	m.took["change"] = time.Since(began).Seconds()
	m.figure("lehr_change_one_of_%d", 1000*m.took["change"], "ms")
	time.Sleep(benchSweep) // The look after it belongs to it.
	total, _ := spent(before, requests(m.plane))
	m.figure("lehr_change_one_of_%d_requests", float64(total-own), "requests")

	began = time.Now()
	if _, err := m.plane.Ask(http.MethodPatch, "/api/v1/namespaces/bench/configmaps/thing-0", "application/merge-patch+json", []byte(`{"data":{"value":"theirs"}}`)); err != nil {
		m.Fatal(err)
	}
	m.until("bench", "2")
	m.figure("lehr_drift_undone_of_%d", float64(time.Since(began).Milliseconds()), "ms")
}

// seenEdits are how many edits are made to tell after how long one is seen.
const seenEdits = 21

// seen is how long it takes until an edit by hand is undone, again and again: what is seen is
// looked at, asked about and written back.
func (m *measured) seen() {
	var took []time.Duration
	for i := range seenEdits {
		path := fmt.Sprintf("/api/v1/namespaces/bench/configmaps/thing-%d", 100+i)
		began := time.Now()
		if _, err := m.plane.Ask(http.MethodPatch, path+"?fieldManager=kubectl-edit", "application/merge-patch+json", []byte(`{"data":{"other":"theirs"}}`)); err != nil {
			m.Fatal(err)
		}
		m.plane.Wait("the edit to be undone", func() error {
			answer, err := m.plane.Ask(http.MethodGet, path, "", nil)
			if err == nil && bytes.Contains(answer, []byte("theirs")) {
				err = errors.New("not yet")
			}
			return err
		})
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	m.figure("lehr_edit_undone_of_%d_p50", float64(took[seenEdits/2].Milliseconds()), "ms")
}

// plans ask what differs, where nothing does: of what the server has, which it knows; of the newest
// candidate, which it looks at as of now; and of the definition, by a plugin that begins with nothing.
func (m *measured) plans() {
	for _, one := range []struct {
		name      string
		arguments []string
	}{{"head", []string{"plan", "--head"}}, {"alone", []string{"plan", "lehr.yaml"}}} {
		before, began := requests(m.plane), time.Now()
		command := exec.CommandContext(m.Context(), filepath.Join(m.folder, "lehr"), one.arguments...)
		command.Dir, command.Env = m.folder, append(os.Environ(), "HOME="+m.folder, "LEHR_SERVER=", "LEHR_STORE="+filepath.Join(m.folder, "store"))
		if text, err := command.CombinedOutput(); err != nil {
			m.Fatalf("lehr %v: %v\n%s", one.arguments, err, text)
		}
		took := time.Since(began)
		total, _ := spent(before, requests(m.plane))
		m.took["plan_"+one.name] = took.Seconds()
		m.figure("lehr_plan_"+one.name+"_%d", took.Seconds(), "s")
		m.figure("lehr_plan_"+one.name+"_%d_requests", float64(total), "requests")
	}
}

// memory of the plugin, which watches all objects and keeps an answer of each.
func (m *measured) memory() float64 {
	megabytes := m.readMemory()
	m.figure("lehr_kubernetes_memory_%d", megabytes, "MB")
	return megabytes
}

// readMemory is what the plugin takes now, in megabytes.
func (m *measured) readMemory() (megabytes float64) {
	for line := range strings.Lines(m.ofProcess("lehr-kubernetes", "status")) {
		var kilobytes float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f", &kilobytes); err == nil {
			megabytes = kilobytes / 1024
		}
	}
	return megabytes
}

// cpu is what lehr and its plugin have spent so far.
func (m *measured) cpu() (spent time.Duration) {
	for _, program := range []string{"lehr", "lehr-kubernetes"} {
		_, text, _ := strings.Cut(m.ofProcess(program, "stat"), ") ")
		fields := strings.Fields(text)
		for _, ticks := range fields[11:13] { // utime and stime, in hundredths of a second.
			count, err := strconv.Atoi(ticks)
			if err != nil {
				m.Fatal(err)
			}
			spent += time.Duration(count) * 10 * time.Millisecond
		}
	}
	return spent
}

// ofProcess reads what the kernel says of a program of the benchmark that runs.
func (m *measured) ofProcess(program, file string) string {
	folder, ok := m.findProcess(program)
	if !ok {
		m.Fatalf("%s does not run", program)
	}
	text, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		m.Fatal(err)
	}
	return string(text)
}

// findProcess returns the kernel's folder of a program of the benchmark.
func (m *measured) findProcess(program string) (folder string, ok bool) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil && name == filepath.Join(m.folder, program) {
			return filepath.Dir(link), true
		}
	}
	return "", false
}

// kubectl keeps the same objects in another namespace.
func (m *measured) kubectl() {
	run := func(name, verb string) {
		before, began := requests(m.plane), time.Now()
		command := exec.CommandContext(m.Context(), "kubectl", verb, "--kubeconfig", m.plane.Kubeconfig, "--server-side", "--force-conflicts", "-f", filepath.Join(m.folder, "theirs"))
		command.Env = append(os.Environ(), "HOME="+m.folder)
		if text, err := command.CombinedOutput(); err != nil {
			m.Fatalf("kubectl %s: %v\n%s", verb, err, text)
		}
		took := time.Since(began)
		total, _ := spent(before, requests(m.plane))
		m.took["kubectl_"+name] = took.Seconds()
		m.figure("kubectl_"+name+"_%d", took.Seconds(), "s")
		used := command.ProcessState.UserTime() + command.ProcessState.SystemTime()
		m.figure("kubectl_"+name+"_%d_cpu", used.Seconds(), "s")
		m.figure("kubectl_"+name+"_%d_requests", float64(total), "requests")
	}
	m.manifests("theirs", "theirs", "1")
	run("create", "apply")
	run("apply_nothing", "apply")
	run("diff_nothing", "diff")
	m.manifests("theirs", "theirs", "2")
	run("apply_one_of", "apply")
	m.compared("create", "create", "create")
	m.figure("lehr_over_bare_create_%d", m.took["create"]/m.took["bare"], "x")
	m.compared("no_change", "apply_nothing", "plan_head")
	m.compared("one_change", "apply_one_of", "change")
	m.compared("diff", "diff_nothing", "plan_head")
	m.compared("diff_by_a_plugin_that_begins", "diff_nothing", "plan_alone")
}
