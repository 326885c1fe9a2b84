package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/test/building"
)

const rollbackDefinition = `lehr: v1
partition: shop
mode: enforce
sources:
  manifests: {dir: manifests, files: ["*.yaml"]}
generate:
  plain: {render: kubernetes, from: [manifests], with: {cluster: real}}
plugins:
  lehr.kubernetes.v1.Object: {run: [%s, --clusters, %s]}
rollouts:
  web:
    select: payload.kind == "Deployment"
    stages: [{name: first, where: payload.name == "a"}, {name: others, rest: true}]
    patience: 20s
`

// served is a partition that lehr serve keeps on a cluster with controllers.
type served struct {
	*ferry
	kubelet *plane.Kubelet
}

func newServed(t *testing.T, manifests map[string]string) served {
	p := plane.Start(t)
	s := served{ferry: &ferry{T: t, plane: p, folder: t.TempDir()}, kubelet: p.StartControllers()}
	s.lehr = filepath.Join(s.folder, "lehr")
	plugin, clusters := filepath.Join(s.folder, "lehr-kubernetes"), filepath.Join(s.folder, "clusters.yaml")
	err := errors.Join((building.Program{Of: "../../cmd/lehr"}).At(s.lehr), (building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(plugin),
		os.Mkdir(filepath.Join(s.folder, "manifests"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	writeAll(t, p, clusters)
	s.write("lehr.yaml", fmt.Sprintf(rollbackDefinition, plugin, clusters))
	for name, text := range manifests {
		s.write("manifests/"+name, text)
	}
	startServer(t, s.folder, s.lehr, "1s")
	return s
}

// says waits until a command says all of some words, and returns what it says.
func (s served) says(command string, wants ...string) (said string) {
	s.Helper()
	s.plane.Wait(command+" to say "+strings.Join(wants, ", "), func() (err error) {
		said, err = s.run(strings.Fields(command)...)
		for _, want := range wants {
			if !strings.Contains(said, want) {
				err = errors.Join(err, fmt.Errorf("no %q", want))
			}
		}
		if err != nil {
			err = fmt.Errorf("%w in %s", err, said)
			time.Sleep(500 * time.Millisecond) // To start a program is more than a look.
		}
		return err
	})
	return said
}

// image of a Deployment now, and how many versions of it were written.
func (s served) image(name string) (image string, generation float64) {
	s.Helper()
	answer, err := s.plane.Ask(http.MethodGet, deployments+"default/deployments/"+name, "", nil)
	if err != nil {
		return err.Error(), 0
	}
	object := s.plane.Parse(answer)
	containers := object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)
	generation, _ = object["metadata"].(map[string]any)["generation"].(float64)
	return containers[0].(map[string]any)["image"].(string), generation
}

func (s served) awaitImage(name, want string) {
	s.Helper()
	s.plane.Wait(name+" with the image "+want, func() error {
		if got, _ := s.image(name); got != want {
			return errors.New(got)
		}
		return nil
	})
}

func twoDeployments(image, more string) string {
	one := func(name string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + "}\nspec:\n" + more + "  selector: {matchLabels: {app: " + name + "}}\n" +
			"  template: {metadata: {labels: {app: " + name + "}}, spec: {containers: [{name: web, image: \"" + image + "\"}]}}\n"
	}
	return one("a") + "---\n" + one("b")
}

// TestABadChangeIsStopped: an image that cannot be pulled, and then an object that the API server
// refuses, are each found bad where they came first, with the reason, and taken back; nothing
// else ever has them. What is good goes on.
func TestABadChangeIsStopped(t *testing.T) {
	const manifest = "manifests/web.yaml"
	s := newServed(t, map[string]string{"web.yaml": twoDeployments("good:v1", "")})
	s.kubelet.SetFault("bad:v2", plane.Fault{NoImage: "manifest unknown"})
	s.says("rollout status web", "done")
	s.awaitImage("a", "good:v1")
	s.awaitImage("b", "good:v1")
	_, before := s.image("b")

	s.write(manifest, twoDeployments("bad:v2", ""))
	s.awaitImage("a", "bad:v2")
	s.says("why kubernetes/real/default/deployment.apps/a", "container web: ImagePullBackOff: manifest unknown")
	s.says("rollout status web", "rolled-back", "ImagePullBackOff: manifest unknown")
	s.awaitImage("a", "good:v1")

	s.write(manifest, twoDeployments("good:v3", "  replicas: -1\n"))
	s.says("why kubernetes/real/default/deployment.apps/a", "spec.replicas: Invalid value: -1: must be greater than or equal to 0")
	s.says("rollout status web", "rolled-back", "spec.replicas: Invalid value: -1")
	if image, after := s.image("b"); image != "good:v1" || after != before {
		t.Errorf("the second has %s in generation %v, which was %v", image, after, before)
	}

	s.write(manifest, twoDeployments("good:v4", ""))
	s.awaitImage("b", "good:v4")
	s.says("rollout status web", "done")
}

// TestASecondManager: another program that keeps the same field otherwise, as Flux's
// kustomize-controller would, is named, and the two do not fight on at full speed.
func TestASecondManager(t *testing.T) {
	s := newServed(t, map[string]string{"settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: green}\n"})
	const path = "/api/v1/namespaces/default/configmaps/settings"
	s.plane.Wait("the map", func() error {
		_, err := s.plane.Ask(http.MethodGet, path, "", nil)
		return err
	})
	ended := make(chan struct{})
	go func() { // Until the test ends.
		defer close(ended)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for t.Context().Err() == nil {
			_, _ = s.plane.Ask(http.MethodPatch, path+"?fieldManager=kustomize-controller&force=true", "application/apply-patch+yaml",
				[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"colour":"red"}}`))
			select {
			case <-t.Context().Done():
			case <-ticker.C:
			}
		}
	}()
	t.Cleanup(func() { <-ended })
	s.says("why kubernetes/real/default/configmap/settings", "kustomize-controller", "data.colour", "find that writer, or hold the asset")
}
