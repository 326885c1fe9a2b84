package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/test/building"
)

// ferryDefinition is the ferry's of examples, but for its tables, with a plugin that pushes.
const ferryDefinition = `lehr: v1
partition: ferry-dev
mode: enforce
sources:
  kustomize: {dir: kustomize, files: ["**"]}
  chart: {dir: boards, files: ["**"]}
generate:
  services: {render: kustomize, from: [kustomize], with: {cluster: real, folder: kustomize/overlays/dev}}
  boards:
    render: helm
    from: [chart]
    with: {cluster: real, namespace: ferry-dev, chart: boards/chart, values: boards/dev.yaml, kube_version: "1.34"}
plugins:
  lehr.kubernetes.v1.Object: {run: [%s, --clusters, %s]}
`

// ferry is the example, served against a cluster.
type ferry struct {
	*testing.T
	plane        *plane.Plane
	folder, lehr string
}

func newFerry(t *testing.T, p *plane.Plane, definition string) *ferry {
	f := &ferry{T: t, plane: p, folder: t.TempDir()}
	programs := filepath.Join(f.folder, "programs")
	f.lehr = filepath.Join(programs, "lehr")
	stripped := []string{"-ldflags", "-s -w"}
	err := errors.Join(
		(building.Program{Of: "../../cmd/lehr"}).At(f.lehr),
		(building.Program{Of: ".", Flags: stripped}).At(filepath.Join(programs, "lehr-kubernetes")),
		(building.Program{Of: "../../renderers/kustomize", Flags: stripped, Env: []string{"CGO_ENABLED=0"}}).At(filepath.Join(programs, "lehr-kustomize")),
		(building.Program{Of: "../../renderers/helm", Flags: stripped, Env: []string{"CGO_ENABLED=0"}}).At(filepath.Join(programs, "lehr-helm")),
		os.CopyFS(f.folder, os.DirFS("../../examples/ferry")),
	)
	if err != nil {
		t.Fatal(err)
	}
	clusters := filepath.Join(f.folder, "clusters.yaml")
	writeAll(t, p, clusters)
	f.write("lehr.yaml", fmt.Sprintf(definition, filepath.Join(programs, "lehr-kubernetes"), clusters))
	return f
}

func (f *ferry) write(name, text string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.folder, name), []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

// run runs a command of lehr, against the server if there is one.
func (f *ferry) run(arguments ...string) (string, error) {
	command := exec.CommandContext(f.Context(), f.lehr, arguments...)
	command.Dir, command.Env = f.folder, append(os.Environ(), "HOME="+f.folder, "LEHR_SERVER=", "LEHR_STORE="+filepath.Join(f.folder, "store"))
	said, err := command.CombinedOutput()
	return string(said), err
}

// assets of the partition, by what lehr build lists.
func (f *ferry) assets() (ids []string) {
	f.Helper()
	said, err := f.run("build", "lehr.yaml")
	if err != nil {
		f.Fatalf("%v: %s", err, said)
	}
	for line := range strings.Lines(said) {
		if id, _, _ := strings.Cut(line, " "); strings.HasPrefix(id, "kubernetes/") {
			ids = append(ids, id)
		}
	}
	return ids
}

// awaitInSync waits until the server has found every asset as intended: what is not healthy,
// because nothing runs pods here, is in sync too.
func (f *ferry) awaitInSync(assets []string) {
	f.Helper()
	f.plane.Wait("all assets to be in sync", func() error {
		said, err := f.run("get", "assets")
		if err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		var left []string
		for line := range strings.Lines(said) {
			if words := strings.Fields(line); len(words) > 0 && slices.Contains(assets, words[0]) && !strings.Contains(line, "in-sync") && !strings.Contains(line, "unhealthy") {
				left = append(left, strings.TrimSpace(line))
			}
		}
		if len(left) > 0 || strings.Count(said, "kubernetes/") < len(assets) {
			return fmt.Errorf("%d are not: %s", len(left), strings.Join(left, "\n"))
		}
		return nil
	})
}

// TestTheFerryIsBroughtUp: the example's Kustomize overlay and its chart come up whole in a
// cluster that has nothing of them, in the order that they need; a change that is under way
// while the API server is killed arrives once it is back.
func TestTheFerryIsBroughtUp(t *testing.T) {
	f := newFerry(t, plane.Start(t), ferryDefinition)
	assets := f.assets()
	if len(assets) < 30 {
		t.Fatalf("the ferry has %d assets: %v", len(assets), assets)
	}
	startServer(t, f.folder, f.lehr, "2s")
	f.awaitInSync(assets)
	for _, path := range []string{
		"/api/v1/namespaces/ferry-dev", deployments + "ferry-dev/deployments/booking", "/apis/apps/v1/namespaces/ferry-dev/statefulsets/store",
		"/apis/networking.k8s.io/v1/namespaces/ferry-dev/ingresses/web", "/apis/rbac.authorization.k8s.io/v1/namespaces/ferry-dev/rolebindings",
	} {
		if _, err := f.plane.Ask(http.MethodGet, path, "", nil); err != nil {
			t.Error(err)
		}
	}

	overlay := filepath.Join("kustomize", "overlays", "dev", "kustomization.yaml")
	text, err := os.ReadFile(filepath.Join(f.folder, overlay))
	if err != nil {
		t.Fatal(err)
	}
	f.plane.KillServer()
	f.write(overlay, strings.ReplaceAll(string(text), `newTag: "main"`, `newTag: "next"`))
	f.plane.Wait("the new incarnation", func() error {
		said, err := f.run("get", "partitions")
		if err == nil && !strings.Contains(said, "ferry-dev@2") {
			err = errors.New(said)
		}
		return err
	})
	f.plane.StartServer()
	f.plane.Wait("the new image", func() error {
		answer, err := f.plane.Ask(http.MethodGet, deployments+"ferry-dev/deployments/booking", "", nil)
		if err == nil && !strings.Contains(string(answer), "ferry/booking:next") {
			err = fmt.Errorf("it is %s", answer)
		}
		return err
	})
	f.awaitInSync(assets)
	f.plane.Wait("a plan without a difference", func() error {
		said, err := f.run("plan", "--review", "lehr.yaml")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return err
	})
	settings := slices.IndexFunc(assets, func(id string) bool { return strings.Contains(id, "/configmap/settings-") })
	if settings < 0 {
		t.Fatalf("no asset is the settings: %v", assets)
	}
	if said, err := f.run("get", "assets", "--uses", assets[settings]); err != nil || !strings.Contains(said, "/deployment.apps/desk") {
		t.Errorf("who uses %s: %v\n%s", assets[settings], err, said)
	}
}
