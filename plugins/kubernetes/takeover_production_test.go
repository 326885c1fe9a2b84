package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/plugins/kubernetes/plane"
)

// handMade is what people apply with kubectl.
const handMade = `apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: harbour}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {colour: green, limit: "7"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front, namespace: shop, labels: {app: front}}
spec:
  replicas: 2
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}}
    spec:
      containers:
        - name: front
          image: shop/front:v1
          ports: [{containerPort: 8080}]
          envFrom: [{configMapRef: {name: settings}}]
          resources: {requests: {cpu: 100m, memory: 64Mi}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: back, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: back}}
  template:
    metadata: {labels: {app: back}}
    spec: {containers: [{name: back, image: "shop/back:v1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: shop}
spec: {selector: {app: front}, ports: [{port: 80, targetPort: 8080}]}
`

// chartOfCache is the chart of releases, by its files. It has a hook where a value says so, which fails.
var chartOfCache = map[string]string{
	"cache-chart/Chart.yaml":  "apiVersion: v2\nname: cache\nversion: 1.2.3\nappVersion: \"7\"\n",
	"cache-chart/values.yaml": "replicas: 1\n",
	"cache-chart/templates/cache.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}, labels: {app.kubernetes.io/instance: {{ .Release.Name }}}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: cache, image: "cache:{{ .Chart.AppVersion }}"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {replicas: {{ .Values.replicas | quote }}}
`,
	"cache-chart/templates/hook.yaml": `{{- if .Values.hooked }}
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}-hook, annotations: {helm.sh/hook: pre-upgrade, helm.sh/hook-delete-policy: "before-hook-creation,hook-failed"}}
spec:
  backoffLimit: 0
  template: {spec: {restartPolicy: Never, containers: [{name: hook, image: "task:bad"}]}}
{{- end }}
`,
}

// fleetOfFlux is a repository as flux bootstrap lays it out.
var fleetOfFlux = map[string]string{
	"fleet/clusters/prod/flux-system/gotk-sync.yaml": `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, url: "https://git.example.com/fleet", ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 10m, path: ./clusters/prod, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
`,
	"fleet/clusters/prod/shop.yaml": `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: shop, namespace: flux-system}
spec:
  interval: 1h
  path: ./shop
  prune: true
  sourceRef: {kind: GitRepository, name: flux-system}
  postBuild: {substitute: {region: eu}}
`,
	"fleet/shop/api.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: region, namespace: shop}
data: {region: "${region}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: api, image: "shop/api:v1", env: [{name: REGION, value: "${region}"}]}]}
`,
}

// send writes an object of manifests as somebody does who goes by the name of a field manager.
func (o *takeover) send(method, manager string, object plane.Object) {
	o.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		o.Fatal(err)
	}
	path, content, query := o.plane.Path(object), "application/apply-patch+yaml", "?force=true&fieldManager="+manager
	if method == http.MethodPost {
		path, content, query = filepath.Dir(path), "application/json", "?fieldManager="+manager
	}
	if _, err := o.plane.Ask(method, path+query, content, text); err != nil {
		o.Fatal(err)
	}
}

// applyByHand does what kubectl apply does: it keeps what it applied in an annotation.
func (o *takeover) applyByHand() {
	o.Helper()
	for _, text := range strings.Split(handMade, "---\n") {
		object := o.plane.Parse([]byte(text))
		applied, err := json.Marshal(object)
		if err != nil {
			o.Fatal(err)
		}
		object["metadata"].(plane.Object)["annotations"] = plane.Object{"kubectl.kubernetes.io/last-applied-configuration": string(applied) + "\n"}
		o.send(http.MethodPost, "kubectl-client-side-apply", object)
	}
}

// predict gives the values that the API server would take away and bring, were a manifest applied by Lehr: as linesOfPlan.
func (o *takeover) predict(manifest string) (lines []string) {
	o.Helper()
	live := o.plane.Parse(mustGet(o.T, o.plane, o.plane.Path(o.plane.Parse([]byte(manifest)))))
	would, err := o.plane.Apply([]byte(manifest), true)
	if err != nil {
		o.Fatal(err)
	}
	before, after := leavesOf(live), leavesOf(would)
	for path, value := range before {
		if after[path] != value {
			lines = append(lines, "-"+path[strings.LastIndex(path, ".")+1:]+": "+value)
		}
	}
	for path, value := range after {
		if before[path] != value {
			lines = append(lines, "+"+path[strings.LastIndex(path, ".")+1:]+": "+value)
		}
	}
	slices.Sort(lines)
	return lines
}

// leavesOf an object are the values of an object by their paths, but for those by which a server counts its writes.
func leavesOf(object plane.Object) map[string]string {
	all := map[string]string{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch value := value.(type) {
		case plane.Object:
			for key, field := range value {
				if counted := path == ".metadata" && (key == "managedFields" || key == "generation" || key == "resourceVersion"); !counted {
					walk(path+"."+key, field)
				}
			}
		case []any:
			for i, element := range value {
				walk(fmt.Sprintf("%s.%d", path, i), element)
			}
		default:
			all[path] = fmt.Sprint(value)
		}
	}
	walk("", object)
	return all
}

// kubectlDiff is what kubectl diff shows of a file; ok: it is installed.
func (o *takeover) kubectlDiff(name string) (shown string, ok bool) {
	o.Helper()
	program, err := exec.LookPath("kubectl")
	if err != nil {
		return "", false
	}
	command := exec.CommandContext(o.Context(), program, "--kubeconfig", o.plane.Kubeconfig, "diff", "--server-side", "--force-conflicts", "--field-manager=lehr", "-f", filepath.Join(o.folder, name))
	command.Env = append(os.Environ(), "HOME="+o.folder)
	out, err := command.CombinedOutput()
	if ended, isExit := errors.AsType[*exec.ExitError](err); err != nil && (!isExit || ended.ExitCode() != 1) {
		o.Fatalf("kubectl diff: %v: %s", err, out)
	}
	return string(out), true
}

// releaseSecrets are the Secrets in which Helm keeps releases, as kubectl get -o yaml prints them.
func (o *takeover) releaseSecrets() string {
	o.Helper()
	list := o.plane.Parse(mustGet(o.T, o.plane, "/api/v1/secrets?labelSelector=owner%3Dhelm"))
	for _, item := range list["items"].([]any) {
		item.(plane.Object)["apiVersion"], item.(plane.Object)["kind"] = "v1", "Secret" // Lists of the API leave them out.
	}
	text, err := json.Marshal(plane.Object{"apiVersion": "v1", "kind": "List", "items": list["items"]})
	if err != nil {
		o.Fatal(err)
	}
	return string(text)
}

// helm runs a version of the real Helm, as people do, in the namespace.
func (o *takeover) helm(version string, arguments ...string) (said string, err error) {
	o.Helper()
	command := exec.CommandContext(o.Context(), o.plane.Helm(version), append(arguments, "--namespace", "shop", "--kubeconfig", o.plane.Kubeconfig)...)
	command.Dir, command.Env = o.folder, append(os.Environ(), "HOME="+o.folder)
	out, err := command.CombinedOutput()
	return string(out), err
}

// mustHelm is a run that ends well.
func (o *takeover) mustHelm(version string, arguments ...string) {
	o.Helper()
	if said, err := o.helm(version, arguments...); err != nil {
		o.Fatalf("helm %v: %v: %s", arguments, err, said)
	}
}

// installReleases has both versions of Helm install a release; that of Helm 4 is upgraded, and then an upgrade is left half
// done, for its hook fails.
func (o *takeover) installReleases() {
	o.Helper()
	o.mustHelm("v3", "install", "store", "cache-chart", "--set", "replicas=1")
	o.mustHelm("v4", "install", "cache", "cache-chart")
	o.mustHelm("v4", "upgrade", "cache", "cache-chart", "--set", "replicas=2")
	o.kubelet.SetFault("task:bad", plane.Fault{ExitCode: 1})
	if said, err := o.helm("v4", "upgrade", "cache", "cache-chart", "--set", "replicas=3,hooked=true"); err == nil || !strings.Contains(said, "pre-upgrade hooks failed") {
		o.Fatalf("an upgrade whose hook fails: %v: %s", err, said)
	}
	// Helm 4 applies, so that fields which it no longer names go; to Helm 3 each write is an update.
	for name, operation := range map[string]string{"cache": "Apply", "store": "Update"} {
		entries := o.deployment(name)["metadata"].(plane.Object)["managedFields"].([]any)
		if !slices.ContainsFunc(entries, func(entry any) bool {
			return entry.(plane.Object)["manager"] == "helm" && entry.(plane.Object)["operation"] == operation
		}) {
			o.Errorf("helm has %s not by %s, but %v", name, operation, entries)
		}
	}
}

// applyAsFlux does what kustomize-controller does at each interval.
func (o *takeover) applyAsFlux(change func(string) string) {
	o.Helper()
	text := change(strings.ReplaceAll(fleetOfFlux["fleet/shop/api.yaml"], "${region}", "eu"))
	for _, one := range strings.Split(text, "---\n") {
		object := o.plane.Parse([]byte(one))
		object["metadata"].(plane.Object)["labels"] = plane.Object{"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
		o.send(http.MethodPatch, "kustomize-controller", object)
	}
}

// collections are the collections in which a takeover is to change nothing but who owns what. Pods and ReplicaSets show each restart.
var collections = []string{
	"/api/v1/namespaces/shop/configmaps", "/api/v1/namespaces/shop/services", "/api/v1/namespaces/shop/pods", "/api/v1/namespaces/shop/secrets",
	"/apis/apps/v1/namespaces/shop/deployments", "/apis/apps/v1/namespaces/shop/replicasets",
}

// production is every object of the namespace, as JSON, by its collection and name.
func (o *takeover) production() map[string]string {
	o.Helper()
	all := map[string]string{}
	for _, path := range collections {
		for _, item := range o.plane.Parse(mustGet(o.T, o.plane, path))["items"].([]any) {
			text, err := json.Marshal(item)
			if err != nil {
				o.Fatal(err)
			}
			all[path+"/"+plane.NameOf(item.(plane.Object))] = string(text)
		}
	}
	return all
}

// checkUntouched: all objects are as they were, their versions and managers included, after something that only looks.
func (o *takeover) checkUntouched(before map[string]string, what string) {
	o.Helper()
	after := o.production()
	for path, was := range before {
		if after[path] != was {
			o.Errorf("%s changed %s from\n%s\nto\n%s", what, path, was, after[path])
		}
		delete(after, path)
	}
	for path := range after {
		o.Errorf("%s made %s", what, path)
	}
}

// contentOf an object is what pods, controllers and clients go by: the specification or data of an object. Of a pod it is its status, too,
// which says that it was restarted. The generation is not: a Deployment gets another when only its annotations change.
func contentOf(object plane.Object) string {
	short := plane.Object{}
	for key, value := range object {
		if key != "metadata" && key != "apiVersion" && key != "kind" && (key != "status" || object["spec"].(plane.Object)["containers"] != nil) {
			short[key] = value
		}
	}
	metadata := object["metadata"].(plane.Object)
	short["uid"], short["deletionTimestamp"] = metadata["uid"], metadata["deletionTimestamp"]
	text, _ := json.Marshal(short) // It was JSON.
	return string(text)
}

// checkNoRipple reports each write that made, deleted or changed the content of an object.
func (o *takeover) checkNoRipple(before map[string]string, events []plane.Event) {
	o.Helper()
	contents := map[string]string{}
	for _, text := range before {
		object := o.plane.Parse([]byte(text))
		contents[fmt.Sprint(object["metadata"].(plane.Object)["uid"])] = contentOf(object)
	}
	for _, e := range events {
		uid := fmt.Sprint(e.Object["metadata"].(plane.Object)["uid"])
		if was, is := contents[uid], contentOf(e.Object); e.Type != "MODIFIED" || was != is {
			o.Errorf("%s %s %s: from\n%s\nto\n%s", e.Type, e.Object["kind"], plane.NameOf(e.Object), was, is)
		}
	}
}

// managersOf an object are who owns fields of an object, but for those of its status.
func managersOf(object plane.Object) (names []string) {
	for _, entry := range object["metadata"].(plane.Object)["managedFields"].([]any) {
		if one := entry.(plane.Object); one["subresource"] == nil {
			names = append(names, one["manager"].(string))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
