package checkers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/test/building"
)

// besides builds the renderers beside lehr, too.
func besides(t *testing.T, lehr string) {
	t.Helper()
	for _, name := range []string{"helm", "kustomize"} {
		p := building.Program{Of: "../renderers/" + name, Flags: []string{"-ldflags", "-s -w"}, Env: []string{"CGO_ENABLED=0"}}
		if err := p.At(filepath.Join(filepath.Dir(lehr), "lehr-"+name)); err != nil {
			t.Fatal(err)
		}
	}
}

const objectsDefinition = "lehr: v1\npartition: shop\nsources:\n  manifests: {dir: manifests, files: ['*.yaml']}\n  definitions: {dir: definitions, files: ['*.yaml']}\n" +
	"generate:\n  objects: {render: kubernetes, from: [manifests], with: {cluster: eu, namespace: shop}}\n" +
	"validate:\n  programs:\n    types: {check: kubernetes-objects, from: [definitions, objects], with: {version: '1.37'}}\nmodels: [lehr.kubernetes.v1.Object]\n"

const webObject = `# The shop's front.
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {level: info}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replcas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, version: 1.10}}
    spec:
      containers:
      - name: web
        image: web:1
        env:
        - name: PORT
          value: 8080
        - {name: LEVEL, value: info}
        resources:
          limits:
            memory: 1GiB
`

const queueDefinition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: queues.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Queue, plural: queues}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            type: object\n            x-kubernetes-validations: [{rule: self.size < 10, message: a queue is small}]\n            properties: {size: {type: integer}}\n"

// TestObjectLines: what is wrong with an object is told at its line in the manifest.
func TestObjectLines(t *testing.T) {
	lehr, folder := programs(t), t.TempDir()
	write(t, folder, map[string]string{
		"lehr.yaml": objectsDefinition, "manifests/web.yaml": webObject, "definitions/queue.yaml": queueDefinition,
		"manifests/queue.yaml": "apiVersion: example.com/v1\nkind: Queue\nmetadata: {name: a}\nspec:\n  size: 12\n",
	})
	out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml"))
	if err == nil {
		t.Errorf("it passes:\n%s", out)
	}
	for _, said := range []string{
		"error: manifests/web.yaml:12: payload.json.spec.replcas: Kubernetes 1.37 knows no such field here (check types)\n  did you mean replicas?",
		"error: manifests/web.yaml:15: payload.json.spec.template.metadata.labels.version: is the number 1.1, and a text is wanted",
		"error: manifests/web.yaml:22: payload.json.spec.template.spec.containers[0].env[0].value: is a number, and a text is wanted",
		"error: manifests/web.yaml:26: payload.json.spec.template.spec.containers[0].resources.limits.memory: \"1GiB\" is no quantity (check types)\n  did you mean 1Gi?",
		"error: manifests/queue.yaml:4: payload.json.spec: invalid value: a queue is small",
	} {
		if !strings.Contains(out, said) {
			t.Errorf("it does not say %q:\n%s", said, out)
		}
	}
}

// TestObjectsMade: of what a patch or a program made, the line is where it says that, or where the
// object was made.
func TestObjectsMade(t *testing.T) {
	lehr, folder := programs(t), t.TempDir()
	besides(t, lehr)
	write(t, folder, map[string]string{
		"lehr.yaml": "lehr: v1\npartition: shop\nsources:\n  all: {dir: ., files: [kustomization.yaml, web.yaml, patch.yaml]}\n" +
			"generate:\n  patched: {render: kustomize, from: [all], with: {cluster: eu, namespace: shop}}\n  made: {starlark: made.star, from: [all]}\n" +
			"validate:\n  programs:\n    types: {check: kubernetes-objects, from: [patched, made], with: {version: '1.37'}}\nmodels: [lehr.kubernetes.v1.Object]\n",
		"kustomization.yaml": "resources: [web.yaml]\npatches: [{path: patch.yaml}]\n",
		"web.yaml":           "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  type: ClusterIP\n  ports:\n  - port: 80\n",
		"patch.yaml":         "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  type: ClusterIp\n",
		"made.star":          "def generate(ctx):\n    return [asset(\"kubernetes/eu/shop/configmap/a\", lehr.kubernetes.v1.Object(api_version = \"v1\", kind = \"ConfigMap\", namespace = \"shop\", name = \"a\", cluster = \"eu\",\n        json = '{\"apiVersion\":\"v1\",\"data\":{\"a\":1},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"namespace\":\"shop\"}}'))]\n",
	})
	out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml"))
	if err == nil {
		t.Errorf("it passes:\n%s", out)
	}
	for _, said := range []string{
		"error: patch.yaml:5: payload.json.spec.type: \"ClusterIp\" is none of",
		"error: made.star:2: payload.json.data.a: is a number, and a text is wanted",
	} {
		if !strings.Contains(out, said) {
			t.Errorf("it does not say %q:\n%s", said, out)
		}
	}
}

// TestObjectsOfCorpus: charts and kustomizations that others wrote for real use have no fault that the
// check tells, but kinds whose definitions are not there.
func TestObjectsOfCorpus(t *testing.T) {
	corpus := os.Getenv("LEHR_CORPUS")
	if corpus == "" {
		t.Skip("LEHR_CORPUS names no folder with the corpus")
	}
	lehr, folder := programs(t), t.TempDir()
	besides(t, lehr)
	for _, name := range []string{"argocd-examples", "flux-example"} {
		if err := os.CopyFS(filepath.Join(folder, name), os.DirFS(filepath.Join(corpus, name))); err != nil {
			t.Fatal(err)
		}
	}
	write(t, folder, map[string]string{"lehr.yaml": "lehr: v1\npartition: shop\nsources:\n" +
		"  argocd: {dir: argocd-examples, files: ['helm-guestbook/**', 'apps/**', 'kustomize-guestbook/*', 'pre-post-sync/*']}\n" +
		"  flux: {dir: flux-example, files: ['**/*.yaml']}\n" +
		"generate:\n" +
		"  guestbook: {render: helm, from: [argocd], with: {cluster: a, namespace: shop, chart: argocd-examples/helm-guestbook, kube_version: '1.37'}}\n" +
		"  apps: {render: helm, from: [argocd], with: {cluster: b, namespace: argocd, chart: argocd-examples/apps, kube_version: '1.37'}}\n" +
		"  kustomized: {render: kustomize, from: [argocd], with: {cluster: c, namespace: shop, folder: argocd-examples/kustomize-guestbook}}\n" +
		"  production: {render: kustomize, from: [flux], with: {cluster: d, namespace: shop, folder: flux-example/apps/production}}\n" +
		"  infrastructure: {render: kustomize, from: [flux], with: {cluster: e, namespace: shop, folder: flux-example/infrastructure/configs}}\n" +
		"validate:\n  programs:\n    types: {check: kubernetes-objects, from: [guestbook, apps, kustomized, production, infrastructure], with: {version: '1.37'}}\nmodels: [lehr.kubernetes.v1.Object]\n"})
	out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml"))
	if err != nil || !strings.Contains(out, "assets. Nothing was published.") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, "(check types)") && !strings.Contains(line, "its definition is not here") {
			t.Errorf("a false alarm: %s", line)
		}
	}
}

// textsOf all files of a folder, as one, in which JSON within JSON is as it is outside.
func textsOf(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(all.String(), `\"`, `"`)
}

const modelled = "lehr: v1\npartition: shop\nsources:\n  shop: {dir: ., files: [shop.yaml]}\n  mail: {dir: ., files: [mail.yaml]}\n  report: {dir: ., files: [report.yaml]}\n" +
	"generate:\n  web: {model: kubernetes-web-service, from: shop}\n  post: {model: kubernetes-worker, from: mail}\n  nightly: {model: kubernetes-cron, from: report}\n" +
	"validate:\n  programs:\n    types: {check: kubernetes-objects, from: [web, post, nightly], with: {version: 'VERSION', definitions: required}}\nmodels: [lehr.kubernetes.v1.Object]\n"

// TestKubernetesModels: what the models make is well for each version of Kubernetes, and what a manifest
// says counts in place of a default.
func TestKubernetesModels(t *testing.T) {
	lehr, folder := programs(t), t.TempDir()
	write(t, folder, map[string]string{
		"shop.yaml": "service: shop\nimage: shop:{version}\nversion: v7+a\nargs: [\"--cluster={cluster}\"]\nenv: {B: \"2\", A: \"1\"}\nhost: shop.example.com\nport: 9000\n" +
			"probe: {path: /ready, startup_seconds: 301}\nresources: {cpu: 250m, memory: 1Gi}\nsecurity: {writable: true}\n" +
			"clusters:\n- {name: eu, replicas: 3, most_replicas: 9}\n- {name: us, replicas: 1, namespace: front, version: v6, resources: {cpu: \"2\"}}\n",
		"mail.yaml":   "service: mail\nimage: mail:1\nversion: v1\nclusters: [{name: eu}]\n",
		"report.yaml": "service: report\nimage: report:1\nversion: v1\ncron: 30 2 * * 1-5\nzone: Europe/London\nclusters: [{name: eu}]\n",
	})
	for _, version := range []string{"1.35", "1.36", "1.37"} {
		write(t, folder, map[string]string{"lehr.yaml": strings.Replace(modelled, "VERSION", version, 1)})
		if out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml")); err != nil || strings.Contains(out, "(check types)") {
			t.Errorf("%s: %v\n%s", version, err, out)
		}
	}
	made := t.TempDir()
	if out, err := run(t, lehr, "build", "--out", made, filepath.Join(folder, "lehr.yaml")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := textsOf(t, made)
	for _, said := range []string{
		`"image":"shop:v7+a"`, `"image":"shop:v6"`, `"app.kubernetes.io/version":"v7-a"`, `"args":["--cluster=us"]`,
		`"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]`, `"containerPort":9000`, `"path":"/ready"`, `"failureThreshold":151`,
		`{"limits":{"memory":"1Gi"},"requests":{"cpu":"250m","memory":"1Gi"}}`, `{"limits":{"memory":"1Gi"},"requests":{"cpu":"2","memory":"1Gi"}}`,
		`"readOnlyRootFilesystem":false`, `"readOnlyRootFilesystem":true`, `"runAsNonRoot":true`, `"automountServiceAccountToken":false`,
		`"minReplicas":3`, `"maxReplicas":9`, `"timeZone":"Europe/London"`, `"host":"shop.example.com"`,
		`kubernetes/us/front/deployment.apps/shop`, `kubernetes/eu/mail/poddisruptionbudget.policy/mail`,
	} {
		if !strings.Contains(text, said) {
			t.Errorf("it has no %s", said)
		}
	}
	// One replica: a budget of one pod would let nobody drain its machine.
	if strings.Contains(text, "kubernetes/us/front/poddisruptionbudget.policy/shop") {
		t.Error("one replica has a budget")
	}
}

const modelledCanary = "lehr: v1\npartition: shop\nsources:\n  shop: {dir: ., files: [shop.yaml]}\n  grown: {dir: ., files: [grown.yaml]}\n  parts: {dir: ., files: [parts.yaml]}\n  orders: {dir: ., files: [orders.yaml]}\n  crds: {dir: ., files: [crds.yaml]}\n" +
	"generate:\n  web: {model: kubernetes-web-service, from: shop}\n  parted: {model: kubernetes-web-service, from: parts}\n  growing: {model: kubernetes-web-service, from: grown}\n  stages: {model: kubernetes-pipeline, from: orders}\n" +
	"validate:\n  programs:\n    types: {check: kubernetes-objects, from: [web, parted, growing, stages, crds], with: {version: '1.37', definitions: required}}\n" +
	"    rules: {check: prometheus-rules, from: [web, stages]}\nmodels: [lehr.kubernetes.v1.Object]\n"

// TestKubernetesCanaryModel: what a canary, a pipeline, policies and alerts become is well for Kubernetes, for the
// definition of HTTPRoutes, and for Prometheus' own library.
func TestKubernetesCanaryModel(t *testing.T) {
	lehr, folder := programs(t), t.TempDir()
	definition, err := os.ReadFile("../plugins/kubernetes/testdata/gateway/httproute.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules := "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: prometheusrules.monitoring.coreos.com}\nspec:\n  group: monitoring.coreos.com\n  scope: Namespaced\n" +
		"  names: {kind: PrometheusRule, plural: prometheusrules}\n  versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n"
	canary := "canary: {live: green, blue: {version: \"1\"}, green: {version: \"2\"}, steps: [10, 50]"
	write(t, folder, map[string]string{
		"lehr.yaml": modelledCanary, "crds.yaml": string(definition) + rules,
		"shop.yaml": "service: shop\nimage: shop:{version}\nhost: shop.example.com\ngateway: {name: public, namespace: gateways, section: https}\n" +
			"network: {callers: [front/web, monitoring], calls: [db/orders], outside: [{cidr: 10.0.0.0/8, port: 5432}, {cidr: \"fd00::/8\"}]}\n" +
			"alerts: {runbook: \"https://example.com\", rules: [{name: Slow, query: 'latency{service=\"{service}\"} > 1', for_seconds: 60}]}\n" +
			"clusters: [{name: eu, replicas: 3, most_replicas: 9}]\n" + canary + ", headers: {X-Canary: always}, mirror: {percent: 10, methods: [GET, HEAD]}}\n",
		"grown.yaml": "service: grown\nimage: grown:{version}\nhost: grown.example.com\ngateway: {name: public, namespace: gateways}\nclusters: [{name: eu, replicas: 9}]\n" + canary + ", pods: [20, 50]}\n",
		"parts.yaml": "service: parts\nimage: parts:{version}\nclusters: [{name: eu, replicas: 9}]\n" + canary + ", by_replicas: true}\n",
		"orders.yaml": "service: orders\nimage: orders:{version}\nversion: v1\nclusters: [{name: eu}]\nalerts: {}\nsecurity: {api_access: true}\n" +
			"stages:\n- {name: schema, command: [/migrate]}\n- {name: load, cron: '0 4 * * *'}\n- {name: serve, replicas: 2, probe: {port: 80}}\n",
	})
	if out, err := run(t, lehr, "build", filepath.Join(folder, "lehr.yaml")); err != nil || strings.Contains(out, "(check ") {
		t.Errorf("%v\n%s", err, out)
	}
}
