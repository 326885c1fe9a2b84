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
	"syscall"
	"testing"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/test/building"
)

// partition of plain manifests, in no order of theirs.
var partition = map[string]string{
	"lehr.yaml": `lehr: v1
partition: shop
mode: enforce
sources:
  manifests: {dir: manifests, files: ["*.yaml"]}
generate:
  plain: {render: kubernetes, from: [manifests], with: {cluster: real, namespace: shop}}
plugins:
  lehr.kubernetes.v1.Object: {run: [%s, --clusters, %s]}
`,
	"manifests/a-berth.yaml": "apiVersion: harbour.example/v1\nkind: Berth\nmetadata: {name: north}\nspec: {length: 9}\n",
	"manifests/b-web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "shop/web:v1", envFrom: [{configMapRef: {name: settings}}]}]
`,
	"manifests/c-settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: green}\n",
	"manifests/d-kinds.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: berths.harbour.example}
spec:
  group: harbour.example
  names: {kind: Berth, plural: berths}
  scope: Namespaced
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {length: {type: integer}}}}}}}
`,
	"manifests/e-namespace.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
}

// TestAPartitionIsKept: lehr serve brings a partition of manifests up from nothing, its
// namespace and its definitions of kinds before what needs them, undoes what a person
// edits, and carries a change of the manifests out.
func TestAPartitionIsKept(t *testing.T) {
	p := plane.Start(t)
	folder := t.TempDir()
	lehr, plugin := filepath.Join(folder, "lehr"), filepath.Join(folder, "lehr-kubernetes")
	if err := errors.Join((building.Program{Of: "../../cmd/lehr"}).At(lehr), (building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(plugin)); err != nil {
		t.Fatal(err)
	}
	clusters := filepath.Join(folder, "clusters.yaml")
	writeAll(t, p, clusters)
	write := func(name, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Join(folder, "manifests"), 0o700), os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range partition {
		if name == "lehr.yaml" {
			text = fmt.Sprintf(text, plugin, clusters)
		}
		write(name, text)
	}
	startServer(t, folder, lehr, "2s")
	holds := func(path string, wants ...string) {
		t.Helper()
		p.Wait(path+" to be as intended", func() error {
			answer, err := p.Ask(http.MethodGet, path, "", nil)
			for _, want := range wants {
				if err == nil && !bytes.Contains(answer, []byte(want)) {
					err = fmt.Errorf("no %s in %s", want, answer)
				}
			}
			return err
		})
	}
	const web, settings = "/apis/apps/v1/namespaces/shop/deployments/web", "/api/v1/namespaces/shop/configmaps/settings"
	holds("/apis/harbour.example/v1/namespaces/shop/berths/north", `"length":9`)
	holds(web, `"image":"shop/web:v1"`, `"replicas":2`)
	holds(settings, `"colour":"green"`)

	if _, err := p.Ask(http.MethodPatch, settings+"?fieldManager=kubectl-edit", "application/merge-patch+json", []byte(`{"data":{"colour":"red","theirs":"yes"}}`)); err != nil {
		t.Fatal(err)
	}
	holds(settings, `"colour":"green"`, `"theirs":"yes"`)

	write("manifests/b-web.yaml", strings.Replace(partition["manifests/b-web.yaml"], "web:v1", "web:v2", 1))
	holds(web, `"image":"shop/web:v2"`)
}

// startServer runs lehr serve until the test ends, with more flags where they are given.
func startServer(t testing.TB, folder, lehr, sweep string, flags ...string) {
	t.Helper()
	log := &bytes.Buffer{}
	command := exec.Command(lehr, "serve", "--store", filepath.Join(folder, "store"), "-p", filepath.Join(folder, "lehr.yaml"), "--listen", "127.0.0.1:0", "--sweep", sweep)
	command.Args = append(command.Args, flags...)
	command.Dir, command.Env = folder, append(os.Environ(), "HOME="+folder)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("lehr serve said\n%s", log)
		}
	})
}
