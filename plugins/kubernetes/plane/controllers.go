package plane

import (
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// keepProgram returns the path of a program of Kubernetes, built from the module test/controlplane.
func keepProgram(t testing.TB, name string) string {
	t.Helper()
	return keep(t, "test/controlplane", "k8s.io/kubernetes/cmd/"+name)
}

// Helm returns the path of the real Helm of a version, as v4, built from the module test/helm.
func (p *Plane) Helm(version string) string {
	p.Helper()
	return keep(p.TB, "test/helm", "helm.sh/helm/"+version+"/cmd/helm")
}

// keep returns the path of a program of a module, which is kept between runs: compiling one takes minutes.
func keep(t testing.TB, module, name string) string {
	t.Helper()
	root := checkout(t)
	command := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/keep-tool"), filepath.Join(root, module), name, "-ldflags", "-s -w")
	command.Stderr = testOutput{t}
	path, err := command.Output()
	if err != nil {
		t.Fatalf("building %s: %v", name, err)
	}
	return strings.TrimSpace(string(path))
}

// testOutput writes to the log of a test.
type testOutput struct{ testing.TB }

func (o testOutput) Write(text []byte) (int, error) {
	o.Log(strings.TrimSpace(string(text)))
	return len(text), nil
}

// StartControllers runs a controller manager and a scheduler beside the API server, and one
// node, whose kubelet is ours and runs nothing: it says of each pod what it is told to say.
func (p *Plane) StartControllers() *Kubelet {
	p.Helper()
	start(p.TB, keepProgram(p.TB, "kube-controller-manager"), "--kubeconfig", p.Kubeconfig, "--leader-elect=false",
		// Nobody asks them anything, so they take no port.
		"--secure-port=0", "--service-account-private-key-file", filepath.Join(p.folder, "sa.key"),
		// What the garbage collector and horizontal autoscalers wait for by default is longer than a test.
		"--horizontal-pod-autoscaler-sync-period=1s", "--kube-api-qps=200", "--kube-api-burst=400")
	start(p.TB, keepProgram(p.TB, "kube-scheduler"), "--kubeconfig", p.Kubeconfig, "--leader-elect=false", "--secure-port=0")
	kubelet := startKubelet(p, "node-1")
	p.Wait("the controllers to work", func() error {
		_, err := p.Ask(http.MethodGet, "/api/v1/namespaces/default/configmaps/kube-root-ca.crt", "", nil)
		return err
	})
	return kubelet
}

// Fewest watches an object's spec.replicas from now on, and returns what says how few there
// were at any moment until it is called.
func (p *Plane) Fewest(path string) (end func() int) {
	p.Helper()
	folder, name := filepath.Split(path)
	current := p.Parse(mustAsk(p, path))
	ctx, cancel := context.WithCancel(p.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+strings.TrimSuffix(folder, "/")+"?watch=true&fieldSelector=metadata.name%3D"+name+
		"&resourceVersion="+current["metadata"].(Object)["resourceVersion"].(string), nil)
	if err != nil {
		p.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := p.client.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	type event struct {
		Object struct {
			Metadata struct{ ResourceVersion string }
			Spec     struct{ Replicas int }
		}
	}
	events := make(chan event, 10_000)
	go func() {
		defer close(events)
		defer response.Body.Close()
		decoder := json.NewDecoder(response.Body)
		for {
			var one event
			if decoder.Decode(&one) != nil {
				return
			}
			events <- one
		}
	}()
	fewest := int(current["spec"].(Object)["replicas"].(float64))
	return func() int {
		defer cancel()
		last := p.Parse(mustAsk(p, path))["metadata"].(Object)["resourceVersion"].(string)
		for one := range events {
			fewest = min(fewest, one.Object.Spec.Replicas)
			if atLeast(one.Object.Metadata.ResourceVersion, last) {
				return fewest
			}
		}
		p.Fatal("the watch of " + path + " ended")
		return 0
	}
}

func atLeast(version, other string) bool {
	one, _ := strconv.ParseUint(version, 10, 64)
	two, _ := strconv.ParseUint(other, 10, 64)
	return one >= two
}

func mustAsk(p *Plane, path string) []byte {
	p.Helper()
	answer, err := p.Ask(http.MethodGet, path, "", nil)
	if err != nil {
		p.Fatal(err)
	}
	return answer
}
