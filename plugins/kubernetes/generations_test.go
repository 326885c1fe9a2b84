package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lehr.dev/plugins/kubernetes/plane"
)

// generationsDefinition is of an application whose settings have a hash in their name, by
// Kustomize, and whose migration has its version.
const generationsDefinition = `lehr: v1
partition: shop
mode: enforce
sources:
  kustomize: {dir: shop, files: ["**"]}
generate:
  shop: {render: kustomize, from: [kustomize], with: {cluster: real, folder: shop}}
generations:
  settings: {assets: kubernetes/real/shop/configmap/settings-*, generator: shop, suffix: hash, keep: 1}
  migrations: {assets: kubernetes/real/shop/job.batch/migrate-*, generator: shop, suffix: version, keep: 1}
plugins:
  lehr.kubernetes.v1.Object: {run: [%s, --clusters, %s]}
`

const generationsManifests = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate-1-%[1]d-0}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: migrate, image: "shop/migrate:v%[1]d"}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: shop/web, envFrom: [{configMapRef: {name: settings}}]}]
`

// TestGenerationsInACluster: each change of the settings makes a ConfigMap of another name, and each
// version a Job. The newest older one of each stays in the cluster, and what is older is deleted there,
// by the rule alone: nobody approves anything.
func TestGenerationsInACluster(t *testing.T) {
	p := plane.Start(t)
	p.StartControllers()
	f := newFerry(t, p, generationsDefinition)
	if err := os.Mkdir(filepath.Join(f.folder, "shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	change := func(version int) {
		f.write("shop/all.yaml", fmt.Sprintf(generationsManifests, version))
		f.write("shop/kustomization.yaml", fmt.Sprintf("namespace: shop\nresources: [all.yaml]\nconfigMapGenerator:\n- {name: settings, literals: [version=%d]}\n", version))
	}
	change(1)
	startServer(t, f.folder, f.lehr, "1s")
	var settings []string
	for version := 1; version <= 4; version++ {
		if version > 1 {
			change(version)
		}
		p.Wait(fmt.Sprintf("version %d", version), func() error {
			name, err := settingsOf(p)
			if err == nil && slices.Contains(settings, name) {
				err = fmt.Errorf("the settings are %s", name)
			}
			return err
		})
		f.awaitInSync(f.assets())
		name, err := settingsOf(p)
		if err != nil {
			t.Fatal(err)
		}
		settings = append(settings, name)
	}
	want := []string{"migrate-1-3-0", "migrate-1-4-0"}
	p.Wait("what is older to be deleted", func() error {
		jobs, maps := namesIn(t, p, "/apis/batch/v1/namespaces/shop/jobs"), namesIn(t, p, "/api/v1/namespaces/shop/configmaps")
		maps = slices.DeleteFunc(maps, func(name string) bool { return !strings.HasPrefix(name, "settings-") })
		if !slices.Equal(jobs, want) || len(maps) != 2 {
			return fmt.Errorf("there are %v and %v", jobs, maps)
		}
		return nil
	})
	said, err := f.run("get", "audit")
	if err != nil || strings.Contains(said, "approved by") || !strings.Contains(said, "approval of rule migrations") || !strings.Contains(said, "approval of rule settings") {
		t.Errorf("%v: the audit says %s", err, said)
	}
}

// settingsOf is the name of the settings that the Deployment uses.
func settingsOf(p *plane.Plane) (string, error) {
	answer, err := p.Ask(http.MethodGet, deployments+"shop/deployments/web", "", nil)
	if err != nil {
		return "", err
	}
	var web struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						EnvFrom []struct{ ConfigMapRef struct{ Name string } }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(answer, &web); err != nil {
		return "", err
	}
	return web.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name, nil
}

// namesIn lists the objects at a path, sorted.
func namesIn(t *testing.T, p *plane.Plane, path string) (names []string) {
	t.Helper()
	answer, err := p.Ask(http.MethodGet, path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		names = append(names, item.Metadata.Name)
	}
	slices.Sort(names)
	return names
}
