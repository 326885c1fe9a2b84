package renderers_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"lehr.dev/renderers/kubectl"
)

// fluxFleet is a repository as people lay it out, with what Flux's pages show.
var fluxFleet = map[string]string{
	"clusters/east/flux-system/gotk-sync.yaml": `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, url: "https://git.example.com/fleet", ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {path: ./clusters/east, prune: true, sourceRef: {kind: GitRepository, name: flux-system}, interval: 1h}
`,
	"clusters/east/flux-system/kustomization.yaml": "resources: [gotk-components.yaml, gotk-sync.yaml]\n",
	"clusters/east/settings.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-settings, namespace: flux-system}
data: {region: eu-1, port: "8080", empty: ""}
`,
	"clusters/east/base.yaml": `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: base, namespace: flux-system}
spec:
  path: ./base
  prune: true
  sourceRef: {kind: GitRepository, name: flux-system}
  targetNamespace: shop
  commonMetadata: {labels: {team: harbour}, annotations: {note: by-flux}}
  namePrefix: p-
  images: [{name: web, newName: registry.example.com/web, newTag: "2"}]
  patches:
  - target: {kind: Deployment}
    patch: |
      - {op: replace, path: /spec/replicas, value: 3}
  components: [../components/extra]
  decryption: {provider: sops}
`,
	"clusters/east/apps.yaml": `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec:
  dependsOn: [{name: base}]
  path: ./apps
  prune: true
  wait: true
  sourceRef: {kind: GitRepository, name: flux-system}
  postBuild:
    substitute: {tier: gold, region: eu-2}
    substituteFrom: [{kind: ConfigMap, name: cluster-settings}, {kind: ConfigMap, name: none, optional: true}]
`,
	"base/kustomization.yaml":             "resources: [web.yaml, secret.yaml]\nconfigMapGenerator: [{name: settings, files: [app.conf]}]\n",
	"base/app.conf":                       "a=b\n",
	"base/web.yaml":                       "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: web, envFrom: [{configMapRef: {name: settings}}]}]}\n",
	"base/secret.yaml":                    "apiVersion: v1\nkind: Secret\nmetadata: {name: pilot}\nstringData: {password: \"ENC[AES256_GCM,data:x,type:str]\"}\nsops: {mac: x, version: 3.9.0}\n",
	"components/extra/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [service.yaml]\n",
	"components/extra/service.yaml":       "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n",
	// No kustomization: Flux takes all manifests, and below/ as a whole.
	"apps/config.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: "tier-${tier}", namespace: apps}
data:
  region: ${region}
  upper: ${tier^^}
  cut: ${region:0:2}
  other: ${other:=usual}
  unset: "[${unset}]"
  kept: $${region}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: script, namespace: apps, annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}}
data: {run: "echo ${HOME}"}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: apps}
spec: {selector: {app: web}, ports: [{port: "${port}"}]}
`,
	"apps/values.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web-values, namespace: apps}\ndata:\n  values.yaml: |\n    redis: {enabled: true}\n    replicas: 2\n  image: web:7\n",
	"apps/release.yaml": `apiVersion: helm.toolkit.fluxcd.io/v2beta2
kind: HelmRelease
metadata: {name: shop, namespace: apps}
spec:
  interval: 1h
  targetNamespace: front
  install: {createNamespace: true, remediation: {retries: 3}}
  chart: {spec: {chart: web, version: ">=1.0.0", sourceRef: {kind: HelmRepository, name: charts}}}
  values: {region: "${region}", replicas: 4}
  valuesFrom:
  - {kind: ConfigMap, name: web-values}
  - {kind: ConfigMap, name: web-values, valuesKey: image, targetPath: image}
  driftDetection: {mode: enabled, ignore: [{paths: [/spec/replicas], target: {kind: Deployment}}]}
  postRenderers:
  - kustomize:
      patches:
      - target: {kind: Service}
        patch: |
          - {op: add, path: /metadata/labels, value: {after: chart}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: local, namespace: apps}
spec:
  interval: 1h
  dependsOn: [{name: shop}]
  chart: {spec: {chart: ./charts/local, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: charts, namespace: apps}
spec: {interval: 5m, url: "http://HOST/web"}
`,
	"apps/below/kustomization.yaml": "namespace: below\nresources: [one.yaml]\n",
	"apps/below/one.yaml":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {region: \"${region}\"}\n",
	"apps/below/ignored.yaml":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ignored}\n",
}

func writeFleet(t *testing.T, files map[string][]byte) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		at := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// imported imports a fleet and builds what was written.
func imported(t *testing.T, lehr, fleet, cluster string) (b built, said, folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "imported")
	sources := filepath.Join(t.TempDir(), "sources.yaml")
	if err := os.WriteFile(sources, []byte("sources: v1\nnetworks: [127.0.0.0/8]\nfolders: [{path: "+fleet+", partitions: [\"*\"]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := run(t, lehr, "import", "flux", fleet, "--path", cluster, "--sources", sources, "--to", folder)
	t.Logf("lehr import flux (%v) output\n%s", err, output)
	if strings.Contains(output, "error:") {
		t.FailNow()
	}
	t.Setenv("LEHR_SOURCES", sources)
	return build(t, lehr, filepath.Join(folder, "lehr.yaml")), output, folder
}

// share compares what was imported with what Flux applies, prints the share by feature, and
// asks for nine in ten.
func share(t *testing.T, want applied, got built) {
	t.Helper()
	have := map[string]map[string]any{}
	for id, text := range got.json {
		value, err := kubectl.Value(text)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		have[keyOf(value)] = value
	}
	equal, all := 0, 0
	for _, feature := range slices.Sorted(maps.Keys(want)) {
		same := 0
		for _, key := range slices.Sorted(maps.Keys(want[feature])) {
			o, ok := have[key]
			switch differ := ""; {
			case !ok:
				t.Logf("%s: %s is missing; there are %v", feature, key, slices.Sorted(maps.Keys(have)))
			default:
				if differ = kubectl.Same(o, want[feature][key]); differ == "" {
					same++
				} else {
					t.Logf("%s: %s: %s", feature, key, differ)
				}
			}
		}
		t.Logf("%-40s %3d of %3d objects have equal content", feature, same, len(want[feature]))
		equal, all = equal+same, all+len(want[feature])
	}
	t.Logf("%d of %d objects have equal content", equal, all)
	if all == 0 || equal*10 < all*9 {
		t.Errorf("only %d of %d objects have equal content", equal, all)
	}
}

func asFiles(texts map[string]string, host string) map[string][]byte {
	files := map[string][]byte{}
	for name, text := range texts {
		files[name] = []byte(strings.ReplaceAll(text, "HOST", host))
	}
	for name, text := range chartFiles("local") {
		files["charts/local/"+name] = text
	}
	return files
}

// TestImportOfAFluxFleet: of a fleet with what Flux's objects can say, the imported partition
// has the objects that Flux would apply, with equal content, in the order of dependsOn; what is
// not carried over is told.
func TestImportOfAFluxFleet(t *testing.T) {
	lehr := programs(t)
	files := asFiles(fluxFleet, serveCharts(t))
	got, said, folder := imported(t, lehr, writeFleet(t, files), "clusters/east")

	want := applied{}
	want.add(t, "the cluster's own folder", []byte(fluxFleet["clusters/east/settings.yaml"]))
	base := kustomized(t, files, "base", map[string]any{
		"namespace": "shop", "namePrefix": "p-", "components": []any{"../components/extra"},
		"images":  []any{map[string]any{"name": "web", "newName": "registry.example.com/web", "newTag": "2"}},
		"patches": []any{map[string]any{"target": map[string]any{"kind": "Deployment"}, "patch": "- {op: replace, path: /spec/replicas, value: 3}\n"}},
	}, nil)
	want.add(t, "patches, images, components, namespace", withMetadata(t, base))
	variables := map[string]string{"region": "eu-2", "port": "8080", "empty": "", "tier": "gold"}
	apps := map[string][]byte{}
	for name, text := range files {
		if strings.HasPrefix(name, "apps/") {
			apps[name] = text
		}
	}
	want.add(t, "a folder without a kustomization, variables", kustomized(t, apps, "apps", map[string]any{"resources": []any{"below", "config.yaml", "release.yaml", "values.yaml"}}, variables))
	shop := helmed(t, chartFiles("web"), "front-shop", "front", map[string]any{"redis": map[string]any{"enabled": true}, "replicas": 4, "region": "eu-2", "image": "web:7"})
	want.add(t, "HelmRelease: valuesFrom, postRenderers", kustomized(t, map[string][]byte{"x/all.yaml": shop}, "x", map[string]any{
		"resources": []any{"all.yaml"},
		"patches":   []any{map[string]any{"target": map[string]any{"kind": "Service"}, "patch": "- {op: add, path: /metadata/labels, value: {after: chart}}\n"}},
	}, nil))
	want.add(t, "HelmRelease: createNamespace", []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: front}\n"))
	want.add(t, "HelmRelease: a chart of the repository", helmed(t, chartFiles("local"), "local", "apps", nil))
	share(t, want, got)

	for id, before := range map[string]string{
		"east/apps/configmap/tier-gold":         "east/shop/deployment.apps/p-web",
		"east/front/deployment.apps/front-shop": "east/shop/deployment.apps/p-web",
		"east/apps/deployment.apps/local":       "east/front/deployment.apps/front-shop",
	} {
		if edges := edgesOf(got, id); !slices.ContainsFunc(edges, func(e string) bool { return strings.HasSuffix(before, e) || strings.HasSuffix(e, before) }) {
			t.Errorf("%s comes after %v, not after %s", id, edges, before)
		}
	}
	for _, words := range []string{"Secret shop/p-pilot", "SOPS", "prune:", "wait, healthChecks:", "install, upgrade"} {
		if !strings.Contains(said, words) {
			t.Errorf("it is not said: %q", words)
		}
	}
	definition, err := os.ReadFile(filepath.Join(folder, "lehr.yaml"))
	if err != nil || !bytes.Contains(definition, []byte("json.spec.replicas")) {
		t.Errorf("nothing is unmanaged (%v):\n%s", err, definition)
	}
}

func edgesOf(b built, id string) []string {
	for known, edges := range b.edges {
		if strings.HasSuffix(id, known) || strings.HasSuffix(known, id) {
			return edges
		}
	}
	return nil
}

// withMetadata is what commonMetadata of Flux's controller adds to each object.
func withMetadata(t *testing.T, text []byte) []byte {
	t.Helper()
	objects, err := kubectl.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, o := range objects {
		metadata := o["metadata"].(map[string]any)
		for key, more := range map[string]map[string]any{"labels": {"team": "harbour"}, "annotations": {"note": "by-flux"}} {
			values, _ := metadata[key].(map[string]any)
			if values == nil {
				values = map[string]any{}
			}
			maps.Copy(values, more)
			metadata[key] = values
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return bytes.Join(all, []byte("\n---\n"))
}

// TestImportOfTheFluxCorpus: of fleets that others wrote, nine objects in ten are in the
// partition with equal content, for each cluster. The charts that they name stand in for by one
// that shows all values.
func TestImportOfTheFluxCorpus(t *testing.T) {
	corpus := os.Getenv("LEHR_CORPUS")
	if corpus == "" {
		t.Skip("LEHR_CORPUS names no corpus")
	}
	lehr, host := programs(t), serveCharts(t)
	files := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(filepath.Join(corpus, "flux-example")), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name], err = os.ReadFile(filepath.Join(corpus, "flux-example", name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		replaced := strings.ReplaceAll(string(text), "https://stefanprodan.github.io/podinfo", "http://"+host+"/podinfo")
		replaced = regexp.MustCompile(`(?m)^  url: oci://[^/]+/(.*)$`).ReplaceAllString(replaced, "  url: oci://"+host+"/$1\n  insecure: true")
		files[name] = []byte(replaced)
	}
	for _, cluster := range []string{"staging", "production"} {
		t.Run(cluster, func(t *testing.T) {
			got, _, _ := imported(t, lehr, writeFleet(t, files), "clusters/"+cluster)
			want := applied{}
			want.add(t, "Kustomization: infra-controllers", kustomized(t, files, "infrastructure/controllers", nil, nil))
			var patches struct{ Spec struct{ Patches []any } }
			decoder := yaml.NewDecoder(bytes.NewReader(files["clusters/"+cluster+"/infrastructure.yaml"]))
			for len(patches.Spec.Patches) == 0 {
				if err := decoder.Decode(&patches); err != nil {
					t.Fatal(err)
				}
			}
			want.add(t, "Kustomization with patches: infra-configs", kustomized(t, files, "infrastructure/configs", map[string]any{"patches": patches.Spec.Patches}, nil))
			applies := kustomized(t, files, "apps/"+cluster, nil, nil)
			want.add(t, "Kustomization of an overlay: apps", applies)
			controllers := kustomized(t, files, "infrastructure/controllers", nil, nil)
			for name, r := range map[string]struct {
				text      []byte
				namespace string
				chart     string
			}{
				"podinfo": {applies, "podinfo", "podinfo"}, "cert-manager": {controllers, "cert-manager", "cert-manager"}, "envoy-gateway": {controllers, "envoy-gateway-system", "gateway-helm"},
			} {
				want.add(t, "HelmRelease: "+name, helmed(t, chartFiles(r.chart), name, r.namespace, valuesOf(t, r.text, name)))
			}
			share(t, want, got)
		})
	}
}

// valuesOf are those of a HelmRelease among objects.
func valuesOf(t *testing.T, text []byte, name string) map[string]any {
	t.Helper()
	objects, err := kubectl.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o["kind"] == "HelmRelease" && o["metadata"].(map[string]any)["name"] == name {
			values, _ := o["spec"].(map[string]any)["values"].(map[string]any)
			text, err := yaml.Marshal(values)
			if err == nil {
				values = nil
				err = yaml.Unmarshal(text, &values)
			}
			if err != nil {
				t.Fatal(err)
			}
			return values
		}
	}
	t.Fatalf("there is no HelmRelease %s", name)
	return nil
}
