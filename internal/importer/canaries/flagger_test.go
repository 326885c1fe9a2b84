package canaries

import (
	"strings"
	"testing"
)

func canary(more string) string {
	return `apiVersion: flagger.app/v1beta1
kind: Canary
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
` + more
}

const (
	webDeployment = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 0, minReadySeconds: 5, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: \"x:1\", ports: [{containerPort: 8080}, {containerPort: 9797, name: metrics}]}]}}}\n" +
		"---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web-primary}\nspec: {replicas: 3, selector: {matchLabels: {app: web-primary}}, template: {metadata: {labels: {app: web-primary}}, spec: {containers: [{name: web, image: \"x:1\"}]}}}\n"
	latency = "---\napiVersion: flagger.app/v1beta1\nkind: MetricTemplate\nmetadata: {name: latency, namespace: flagger}\nspec:\n  provider: {type: prometheus, address: \"http://p:9090\", secretRef: {name: p}}\n  query: 'latency{namespace=\"{{ namespace }}\",pod=~\"{{ target }}-.*\",zone=\"{{ variables.zone }}\"}[{{ interval }}]'\n"
)

func TestProgressiveCanary(t *testing.T) {
	made := mustRead(t, Flagger(), canary(`  provider: gatewayapi:v1
  progressDeadlineSeconds: 120
  service:
    port: 80
    targetPort: 8080
    portDiscovery: true
    hosts: [shop.example.com]
    gatewayRefs: [{name: public, namespace: gateways}]
    match: [{uri: {prefix: /shop}, method: {exact: GET}}]
    apex: {labels: {who: apex}}
  analysis:
    interval: 2m
    threshold: 5
    maxWeight: 50
    stepWeight: 20
    metrics:
    - {name: latency, interval: 30s, thresholdRange: {max: 500}, templateRef: {name: latency, namespace: flagger}, templateVariables: {zone: a}}
    webhooks:
    - {name: gate, type: confirm-promotion, url: "http://gate/"}
    - {name: load, url: "http://load/", metadata: {cmd: hey}}
    - {name: told, type: event, url: "http://told/"}
    alerts: [{name: chat, severity: info, providerRef: {name: chat}}]
`)+webDeployment+latency)
	want(t, made.Definition, "name: \"20\"", "name: \"40\"", "name: \"50\"", "soak: 2m0s", "patience: 2m0s", "at_most: 500", `pod=~"$scope.candidate-.*",zone="a"}[30s]`,
		"http: load", "http: gate", `labels.workload == "web" && labels.step == "100"`)
	data := string(made.Files["workloads/web.yaml"])
	want(t, data, "replicas: 3", "slot_label: lehr.dev/slot", "name: web-canary", "name: web-step-20", "minReadySeconds: 5", "who: apex", "name: metrics")
	want(t, string(made.Files["workloads/web.yaml"]), "value: /shop", "method: GET", "name: web-step-50\n          port: 80\n          weight: 10", "weight: 50", "namespace: gateways", "shop.example.com")
	want(t, listed(made), "analysis: alerts", "webhooks: event", "provider: secretRef", "web-primary")
	want(t, strings.Join(made.Hints, "\n"), `must answer {"result": "pass"}`, "list http://p:9090 under monitoring as main")
	if _, ok := made.Files["manifests/deployment-shop-web-primary.yaml"]; ok {
		t.Error("the copy that Flagger made is kept")
	}
}

func TestABTestingAndIstio(t *testing.T) {
	made := mustRead(t, Flagger(), canary(`  service: {port: 9898, gateways: [istio-system/public], hosts: [a.example.com], timeout: 15s, trafficPolicy: {tls: {mode: DISABLE}}, retries: {attempts: 3}}
  suspend: true
  analysis:
    interval: 1m
    iterations: 10
    threshold: 2
    match: [{headers: {x-canary: {exact: insider}}}, {headers: {cookie: {regex: "^(.*?;)?(canary=always)(;.*)?$"}}}]
    metrics: [{name: request-success-rate, threshold: 99, interval: 1m}, {name: request-duration, thresholdRange: {max: 500}, interval: 1m}]
`)+webDeployment, "--mesh-provider=istio")
	want(t, made.Definition, "newer: held", "retries: 1\n", "soak: 10m0s", "warm_up: 1m0s", "interval: 9m0s", "step: 1m0s", "at_least: 99", "at_most: 500", `destination_workload=~"$scope.candidate"`, "web-pods:")
	route := string(made.Files["workloads/web.yaml"])
	want(t, route, "exact: insider", "regex:", "host: web-canary\n          weight: 100", "host: web\n", "- mesh", "timeout: 15s", "attempts: 3")
	if strings.Count(route, "host: web-canary") != 1 {
		t.Errorf("headers have more than one route:\n%s", route)
	}
	want(t, string(made.Files["manifests/destinationrule-shop-web-canary.yaml"]), "mode: DISABLE")
}

// TestChecksOfFlagger: one for each step, an interval after the requests moved, and what has no value or no number fails.
func TestChecksOfFlagger(t *testing.T) {
	const metrics = "metrics: [{name: latency, thresholdRange: {max: 500}, interval: 30s, templateRef: {name: latency, namespace: flagger}, templateVariables: {zone: a}}]"
	made := mustRead(t, Flagger(), canary("  provider: istio\n  service: {port: 80}\n  analysis: {interval: 1m, stepWeight: 25, maxWeight: 50, "+metrics+"}\n")+webDeployment+latency)
	want(t, made.Definition, "soak: 1m0s", "warm_up: 1m0s", "interval: 5s", "step: 5s", "every: 5s", "nan: bad", "at_most: 500", "(latency{", "[30s]) or on() vector(NaN)")
	made = mustRead(t, Flagger(), canary("  provider: istio\n  service: {port: 80}\n  analysis: {interval: 1s, stepWeight: 25, maxWeight: 50, "+metrics+"}\n")+webDeployment+strings.Replace(latency, "type: prometheus", "type: datadog", 1))
	want(t, made.Definition, "soak: 10s", "warm_up: 10s", "nan: bad", "http: datadog", "!vector(NaN)")
}

// TestWhatFlaggerMade of a Canary is read from a cluster, too, and is no part of what is intended.
func TestWhatFlaggerMade(t *testing.T) {
	const (
		owner      = "ownerReferences: [{apiVersion: flagger.app/v1beta1, kind: Canary, name: %, uid: u, controller: true}]"
		autoscaler = "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web%, " + owner + "}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web%}, minReplicas: 2, maxReplicas: 5}\n"
		configMap  = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %, " + owner + "}\n"
	)
	own := strings.ReplaceAll(strings.Replace(autoscaler, ", "+owner, "", 1), "%", "")
	primary := strings.NewReplacer("name: web%", "name: web-primary", "name: %", "name: web").Replace(autoscaler)
	copied := strings.NewReplacer("{name: %", "{name: web-config-primary", "name: %", "name: web").Replace(configMap)
	made := mustRead(t, Flagger(), canary("  provider: istio\n  autoscalerRef: {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, name: web}\n  service: {port: 80}\n  analysis: {interval: 1m, stepWeight: 50}\n")+webDeployment+own+primary+copied)
	want(t, string(made.Files["workloads/web.yaml"]), "maxReplicas: 5")
	for _, name := range []string{"horizontalpodautoscaler-shop-web-primary", "configmap-shop-web-config-primary"} {
		if _, ok := made.Files["manifests/"+name+".yaml"]; ok {
			t.Errorf("%s is kept", name)
		}
	}
}

func TestFlaggerBlueGreenAndOthers(t *testing.T) {
	made := mustRead(t, Flagger(), canary("  provider: kubernetes\n  service: {port: 80}\n  analysis: {interval: 30s, iterations: 4, threshold: 1}\n")+webDeployment)
	want(t, made.Definition, "soak: 2m0s", "!validat")
	made = mustRead(t, Flagger(), canary("  provider: nginx\n  ingressRef: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: web}\n  service: {port: 80}\n  analysis: {interval: 30s, stepWeights: [10, 40], threshold: 1}\n")+webDeployment)
	want(t, string(made.Files["workloads/web.yaml"]), "shares: replicas")
	want(t, listed(made), "provider: nginx")
	made = mustRead(t, Flagger(), canary("  provider: linkerd\n  skipAnalysis: true\n  service: {port: 80}\n  analysis: {interval: 30s, stepWeights: [10, 40], threshold: 1}\n")+webDeployment)
	want(t, made.Definition, "!\"10\"")
	made = mustRead(t, Flagger(), canary("  provider: traefik\n  service: {port: 80}\n  analysis: {interval: 30s, stepWeight: 1, maxWeight: 50, threshold: 1}\n")+webDeployment)
	want(t, string(made.Files["workloads/web.yaml"]), "name: web-step-50")
	want(t, listed(made), "each 3th is kept")
}

func TestFlaggerRefused(t *testing.T) {
	analysis := func(metrics string) string {
		return canary("  provider: istio\n  service: {port: 80}\n  analysis: {interval: 1m, threshold: 1, stepWeight: 50, metrics: ["+metrics+"]}\n") + webDeployment
	}
	metric := "{name: latency, thresholdRange: {max: 5}, templateRef: {name: latency, namespace: flagger}, templateVariables: {zone: a}}"
	for name, c := range map[string]struct{ text, want string }{
		"no template":      {analysis(metric), "there is no MetricTemplate flagger/latency"},
		"unknown provider": {analysis(metric) + strings.Replace(latency, "type: prometheus", "type: oracle", 1), "oracle is no provider of metrics that Flagger has"},
		"no variable":      {analysis(strings.Replace(metric, ", templateVariables: {zone: a}", "", 1)) + latency, "the query asks for variables.zone"},
		"no range":         {analysis("{name: request-duration}"), "has no thresholdRange"},
		"no query":         {analysis("{name: mine, thresholdRange: {max: 1}}"), "has no templateRef"},
		"no target":        {canary("  provider: istio\n  service: {port: 80}\n"), "targetRef leads to nothing: there is no Deployment shop/web"},
		"no provider":      {canary("  service: {port: 80}\n") + webDeployment, "add --mesh-provider"},
		"no port":          {canary("  provider: istio\n  service: {name: web}\n") + webDeployment, "service has no port"},
		"no autoscaler":    {canary("  provider: istio\n  service: {port: 80}\n  autoscalerRef: {kind: HorizontalPodAutoscaler, name: gone}\n") + webDeployment, "there is no autoscaler shop/gone"},
		"two":              {analysis("") + "---\n" + canary("  provider: istio\n  service: {port: 80}\n"), "there twice"},
		"no YAML":          {"apiVersion: flagger.app/v1beta1\nkind: Canary\nspec: [\n", "all.yaml:"},
	} {
		if made, err := read(t, Flagger(), c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q; %s", name, err, c.want, made.Definition)
		}
	}
}
