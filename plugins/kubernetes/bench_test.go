package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
		m := &measured{B: b, plane: p, folder: b.TempDir()}
		m.build()
		m.keep()
		m.rest()
		m.memory()
		m.change()
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
}

func figure(name string, value float64, unit string) { fmt.Printf("%s %.4g %s\n", name, value, unit) }

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
		for i := range benchObjects / benchFiles {
			fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: thing-%d, namespace: %s}\ndata: {value: %q, other: some text that stays}\n", file*benchObjects/benchFiles+i, namespace, value)
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
		if value == "" && bytes.Count(answer, []byte(`"name":"thing-`)) < benchObjects || !bytes.Contains(answer, []byte(`"value":"`+value)) {
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
	figure(fmt.Sprintf("lehr_create_%d", benchObjects), time.Since(began).Seconds(), "s")
	after := requests(m.plane)
	for name, of := range map[string]string{"dry_runs": "APPLY configmaps All", "writes": "APPLY configmaps "} {
		figure(fmt.Sprintf("lehr_create_%d_%s", benchObjects, name), float64(after[of]-before[of]), "requests")
	}
}

// rest waits until the looks after the creation have ended, and counts what a sweep costs.
func (m *measured) rest() {
	m.plane.Wait("the looks after the creation to end", func() error {
		before := requests(m.plane)
		time.Sleep(benchSweep * 3 / 2)
		if total, text := spent(before, requests(m.plane)); total > benchObjects/100 {
			return errors.New(text)
		}
		return nil
	})
	before := requests(m.plane)
	time.Sleep(3 * benchSweep)
	total, _ := spent(before, requests(m.plane))
	figure(fmt.Sprintf("lehr_rest_%d", benchObjects), float64(total)/3, "requests/sweep")
}

func (m *measured) change() {
	before := requests(m.plane)
	began := time.Now()
	m.manifests("manifests", "bench", "2")
	own := m.until("bench", "2")
	figure(fmt.Sprintf("lehr_change_one_of_%d", benchObjects), float64(time.Since(began).Milliseconds()), "ms")
	time.Sleep(benchSweep) // The look after it belongs to it.
	total, _ := spent(before, requests(m.plane))
	figure(fmt.Sprintf("lehr_change_one_of_%d_requests", benchObjects), float64(total-own), "requests")

	began = time.Now()
	if _, err := m.plane.Ask(http.MethodPatch, "/api/v1/namespaces/bench/configmaps/thing-0", "application/merge-patch+json", []byte(`{"data":{"value":"theirs"}}`)); err != nil {
		m.Fatal(err)
	}
	m.until("bench", "2")
	figure(fmt.Sprintf("lehr_drift_undone_of_%d", benchObjects), float64(time.Since(began).Milliseconds()), "ms")
}

// memory of the plugin, which watches all objects and keeps an answer of each.
func (m *measured) memory() {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if program, err := os.Readlink(link); err != nil || program != filepath.Join(m.folder, "lehr-kubernetes") {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(link), "status"))
		if err != nil {
			m.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			var kilobytes float64
			if _, err := fmt.Sscanf(line, "VmRSS: %f", &kilobytes); err == nil {
				figure(fmt.Sprintf("lehr_kubernetes_memory_%d", benchObjects), kilobytes/1024, "MB")
			}
		}
	}
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
		figure(fmt.Sprintf("kubectl_%s_%d", name, benchObjects), took.Seconds(), "s")
		figure(fmt.Sprintf("kubectl_%s_%d_requests", name, benchObjects), float64(total), "requests")
	}
	m.manifests("theirs", "theirs", "1")
	run("create", "apply")
	run("diff_nothing", "diff")
	m.manifests("theirs", "theirs", "2")
	run("apply_one_of", "apply")
}
