package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/test/building"
)

const canaryDefinition = `lehr: v1
partition: shop
mode: enforce
sources:
  manifests: {dir: manifests, files: ["*.yaml"]}
generate:
  eu: {render: kubernetes, from: [manifests], with: {cluster: eu}}
  us: {render: kubernetes, from: [manifests], with: {cluster: us}}
plugins:
  lehr.kubernetes.v1.Object: {run: [%s, --clusters, %s]}
rollouts:
  clusters:
    select: type == "lehr.kubernetes.v1.Object"
    stages: [{name: first, where: payload.cluster == "eu"}, {name: others, rest: true}]
`

// TestACanaryAcrossClusters: what the first cluster refuses changes nothing there, and never
// reaches the second; what it accepts goes on.
func TestACanaryAcrossClusters(t *testing.T) {
	eu, us := plane.Start(t), plane.Start(t)
	folder := t.TempDir()
	lehr, plugin, clusters := filepath.Join(folder, "lehr"), filepath.Join(folder, "lehr-kubernetes"), filepath.Join(folder, "clusters.yaml")
	list := fmt.Sprintf("kubernetes-clusters: v1\nclusters:\n  eu: {kubeconfig: %q, partitions: [shop]}\n  us: {kubeconfig: %q, partitions: [shop]}\n", eu.Kubeconfig, us.Kubeconfig)
	manifest := filepath.Join(folder, "manifests", "settings.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join((building.Program{Of: "../../cmd/lehr"}).At(lehr), (building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(plugin)); err != nil {
		t.Fatal(err)
	}
	settings := func(data string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {" + data + "}\n"
	}
	write(clusters, list)
	write(filepath.Join(folder, "lehr.yaml"), fmt.Sprintf(canaryDefinition, plugin, clusters))
	write(manifest, settings("colour: green"))
	read := func(p *plane.Plane) (data map[string]any, version string, err error) {
		answer, err := p.Ask(http.MethodGet, "/api/v1/namespaces/default/configmaps/settings", "", nil)
		if err != nil {
			return nil, "", err
		}
		object := p.Parse(answer)
		data, _ = object["data"].(map[string]any)
		version, _ = object["metadata"].(map[string]any)["resourceVersion"].(string)
		return data, version, nil
	}
	await := func(p *plane.Plane, colour string) {
		t.Helper()
		p.Wait("the colour "+colour, func() error {
			data, _, err := read(p)
			if err == nil && data["colour"] != colour {
				err = fmt.Errorf("there is %v", data)
			}
			return err
		})
	}
	startServer(t, folder, lehr, "1s")
	await(eu, "green")
	await(us, "green")
	_, before, err := read(us)
	if err != nil {
		t.Fatal(err)
	}

	status := func(want string) {
		t.Helper()
		eu.Wait("the rollout to say "+want, func() error {
			command := exec.CommandContext(t.Context(), lehr, "rollout", "status", "clusters")
			command.Dir, command.Env = folder, append(os.Environ(), "HOME="+folder, "LEHR_SERVER=", "LEHR_STORE="+filepath.Join(folder, "store"))
			said, err := command.CombinedOutput()
			if err == nil && !strings.Contains(string(said), want) {
				err = errors.New(string(said))
			}
			return err
		})
	}
	status("done")
	write(manifest, settings(`colour: red, "a key that is none": x`))
	status("is invalid: data[a key that is none]")
	status("waits for the stages before it")
	if data, after, err := read(us); err != nil || after != before || data["colour"] != "green" {
		t.Errorf("the second cluster has %v in version %s, which was %s, %v", data, after, before, err)
	}
	if data, _, err := read(eu); err != nil || data["colour"] != "green" {
		t.Errorf("the first cluster has %v, %v", data, err)
	}
	write(manifest, settings("colour: blue"))
	await(us, "blue")
	if data, _, err := read(eu); err != nil || data["colour"] != "blue" {
		t.Errorf("the second cluster has what the first has not: %v, %v", data, err)
	}
}
