package canaries

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/importer"
	"lehr.dev/internal/prodspec/definition"
)

// read imports a file of the kind.
func read(t *testing.T, kind importer.Kind, text string, flags ...string) (importer.Import, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	reader := kind.Bind(set)
	if err := set.Parse(append([]string{"--cluster=eu", "--namespace=shop"}, flags...)); err != nil {
		t.Fatal(err)
	}
	return reader(context.Background(), []string{name})
}

// mustRead imports what is right; its definition is read strictly.
func mustRead(t *testing.T, kind importer.Kind, text string, flags ...string) importer.Import {
	t.Helper()
	made, err := read(t, kind, text, flags...)
	if err != nil {
		t.Fatal(err)
	}
	if _, findings := definition.Parse("lehr.yaml", []byte("lehr: v1\npartition: shop\n"+made.Definition), schema.Builtin()); len(findings) > 0 {
		t.Fatalf("%+v in\n%s", findings, made.Definition)
	}
	return made
}

func rollout(strategy string) string {
	return `apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, labels: {team: shop}}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "registry.example.com/web:7"}]
  strategy: ` + strategy + "\n"
}

func aService(name string) string {
	return "---\napiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {type: LoadBalancer, selector: {app: web, rollouts-pod-template-hash: abc}, ports: [{port: 80, nodePort: 30080}]}\n"
}

func aTemplate(metric string) string {
	return "---\napiVersion: argoproj.io/v1alpha1\nkind: AnalysisTemplate\nmetadata: {name: good}\nspec:\n  args: [{name: hash}, {name: job, value: web}]\n  metrics:\n  - " + metric + "\n"
}

const (
	prometheus = `{name: errors, interval: 30s, count: 4, failureLimit: 1, initialDelay: 1m, successCondition: "result[0] <= 0.05", provider: {prometheus: {address: "http://p:9090", query: 'errors{pod=~"web-{{args.hash}}-.*",job="{{ args.job }}"}'}}}`
	analysed   = `templates: [{templateName: good}], args: [{name: hash, valueFrom: {podTemplateHashValue: Latest}}]`
)

func httpRoute(kind string) string {
	return "---\napiVersion: gateway.networking.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: web}\nspec: {parentRefs: [{name: public}], rules: [{matches: [{path: {type: PathPrefix, value: /}}], backendRefs: [{name: web, port: 80}, {name: web-canary, port: 80}, {name: other, port: 80, weight: 1}]}]}\n"
}

// indented is how far lines are in, which says nothing of what they say.
var indented = regexp.MustCompile(`\n\s+`)

// want checks that texts are there, or, after "!", are not.
func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	flat := indented.ReplaceAllString(text, "\n")
	for _, part := range parts {
		if rest, isNot := strings.CutPrefix(part, "!"); isNot == strings.Contains(flat, indented.ReplaceAllString(rest, "\n")) {
			t.Errorf("%q: %v in\n%s", rest, !isNot, text)
		}
	}
}

func listed(made importer.Import) string {
	var all strings.Builder
	for _, left := range made.LeftOut {
		all.WriteString(filepath.Base(left.What) + ": " + left.Why + "\n")
	}
	return all.String()
}

func TestCanaryWithRoutes(t *testing.T) {
	made := mustRead(t, ArgoRollouts(), rollout(`
    canary:
      canaryService: web-canary
      stableService: web
      scaleDownDelaySeconds: 60
      trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: web, namespace: shop}}}
      steps:
      - setHeaderRoute: {name: testers, match: [{headerName: X-Tester, headerValue: {exact: "yes"}}]}
      - setWeight: 10
      - pause: {duration: 5m}
      - pause: {duration: 60}
      - pause: {}
      - setWeight: 50
      - analysis: {`+analysed+`}
      - setCanaryScale: {weight: 50}
      - setWeight: 100
      - pause: {duration: 1h}`)+aService("web")+aService("web-canary")+httpRoute("HTTPRoute")+aTemplate(prometheus))
	want(t, made.Definition,
		"where: labels.step == \"10\"\n        soak: 6m0s", "name: all\n        rest: true\n        soak: 1h0m0s", "delay: 1m0s",
		"at_most: 0.05", "allow: 1", "newest: 4", "least: 1", "nan: bad", "warm_up: 1m0s", "interval: 2m0s", `pod=~"web-$scope.slot-.*",job="web"`, "allow:\n      - pause")
	data := string(made.Files["workloads/web.yaml"])
	want(t, data, "held:\n  - \"50\"", "name: web-step-10", "name: web-step-50", "type: LoadBalancer", "nodePort: 30080", "!rollouts-pod-template-hash: abc", "team: shop")
	if strings.Count(data, "LoadBalancer") != 2 {
		t.Errorf("Services of steps are reached from outside:\n%s", data)
	}
	route := string(made.Files["workloads/web.yaml"])
	want(t, route, "name: other", "X-Tester", "name: web-step-10\n          port: 80\n          weight: 10", "weight: 40", "name: web\n          port: 80\n          weight: 50")
	want(t, listed(made), "!setCanaryScale", "steps: analysis", "setHeaderRoute")
	want(t, data, "step: candidate\n    pods: 1", "step: \"50\"\n    pods: 1", "step: \"100\"\n    pods: 2")
	want(t, strings.Join(made.Read, "\n"), "strategies: 14 of 14 (100 %)", "analyses:", "all:")
	for _, slot := range []string{"blue", "green"} {
		want(t, string(made.Files["slots/web/"+slot+".yaml"]), "image: registry.example.com/web:7")
	}
}

// TestNoNumber: NaN fulfils no condition. It is a failure by a condition of success, as it is there, none by one of failure, and a
// person is asked where there are both.
func TestNoNumber(t *testing.T) {
	const success, failure = "successCondition: ", "failureCondition: "
	for conditions, line := range map[string]string{
		success + `"result[0] >= 0.95"`:                                             "nan: bad",
		success + `"result[0] >= 0"`:                                                "nan: bad",
		success + `"result[0] <= 0.05"`:                                             "nan: bad",
		success + `"result[0] < 0.05"`:                                              "nan: bad",
		success + `"result[0] >= 0.95 && result[0] <= 1"`:                           "nan: bad",
		success + `"!isNaN(result[0]) && result[0] <= 1"`:                           "nan: bad",
		success + `"isNaN(result[0]) || result[0] >= 0.95"`:                         "nan: ignore",
		failure + `"result[0] > 0.05"`:                                              "nan: ignore",
		failure + `"isNaN(result[0]) || result[0] > 0.05"`:                          "nan: bad",
		success + `"result[0] <= 0.05", ` + failure + `"result[0] > 0.5"`:           "!nan: ",
		success + `"len(result) == 0 || result[0] <= 0.05"`:                         "or on() vector(0.05)",
		success + `"default(result, 0) <= 0.05", ` + failure + `"result[0] > 0.05"`: "or on() vector(0.05)",
	} {
		made := mustRead(t, ArgoRollouts(), rollout("\n    canary:\n      canaryService: web-canary\n      stableService: web\n      trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: web, namespace: shop}}}\n      analysis: {"+analysed+"}\n      steps:\n      - setWeight: 10")+
			aService("web")+aService("web-canary")+httpRoute("HTTPRoute")+aTemplate(strings.Replace(prometheus, `successCondition: "result[0] <= 0.05"`, conditions, 1)))
		want(t, made.Definition, line, "least: 1")
	}
}

func TestCanaryByReplicas(t *testing.T) {
	made := mustRead(t, ArgoRollouts(), rollout(`{canary: {maxSurge: 1, steps: [{setWeight: 20}, {pause: {}}, {setWeight: 60}, {pause: {duration: 1m}}, {setWeight: 80}]}}`)+aService("web"))
	want(t, string(made.Files["workloads/web.yaml"]), "shares: replicas", "step: \"20\"\n    pods: 1", "step: \"60\"\n    pods: 3", "held:\n  - \"60\"")
	want(t, made.Definition, `labels.step == "60"`, "name: old", `!labels.step == "80"`)
	want(t, listed(made), "[80]", "maxSurge")
	want(t, string(made.Files["manifests/service-shop-web.yaml"]), "app: web")
}

func TestBlueGreen(t *testing.T) {
	made := mustRead(t, ArgoRollouts(), rollout(`{blueGreen: {activeService: web, previewService: web-preview, autoPromotionEnabled: false, scaleDownDelaySeconds: 30, antiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}, prePromotionAnalysis: {`+analysed+`}, postPromotionAnalysis: {`+analysed+`}}}`)+
		aService("web")+aService("web-preview")+aTemplate(prometheus)+
		"---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web}, minReplicas: 2, maxReplicas: 5}\n")
	want(t, made.Definition, "web-pods:", "validate:\n      - web-preview", "validate:\n      - web\n")
	want(t, string(made.Files["workloads/web.yaml"]), "held:\n  - \"100\"", "step: candidate", "maxReplicas: 5", "!web-step")
	want(t, string(made.Files["slots/web/green.yaml"]), "operator: NotIn\n                values:\n                  - green")
	if _, ok := made.Files["manifests/horizontalpodautoscaler-shop-web.yaml"]; ok {
		t.Error("the autoscaler of the Rollout is kept beside those of the slots")
	}
}

func TestWithoutSteps(t *testing.T) {
	made := mustRead(t, ArgoRollouts(), rollout(`{canary: {maxSurge: "30%", maxUnavailable: 0, analysis: {`+analysed+`}}}`)+aTemplate(prometheus))
	want(t, string(made.Files["manifests/deployment-shop-web.yaml"]), "maxSurge: 30%", "replicas: 4")
	want(t, made.Definition, `id == "kubernetes/eu/shop/deployment.apps/web"`, "!starlark")
}

func TestRoutesOfOthers(t *testing.T) {
	const steps = "steps: [{setWeight: 25}]"
	for name, c := range map[string]struct{ routing, object, want string }{
		"istio hosts":   {"istio: {virtualService: {name: web, routes: [main]}}", "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: web}\nspec: {hosts: [web], http: [{name: main, route: [{destination: {host: web.shop.svc.cluster.local}, weight: 100}, {destination: {host: web-canary}}]}]}", "host: web-step-25.shop.svc.cluster.local\n          weight: 25"},
		"istio subsets": {"istio: {virtualService: {name: web}, destinationRule: {name: web, canarySubsetName: c, stableSubsetName: s}}", "apiVersion: networking.istio.io/v1alpha3\nkind: VirtualService\nmetadata: {name: web}\nspec: {hosts: [web], http: [{route: [{destination: {host: web, subset: s}, weight: 100}, {destination: {host: web, subset: c}, weight: 0}]}]}", "host: web-step-25\n          weight: 25"},
		"traefik":       {"traefik: {weightedTraefikServiceName: web}", "apiVersion: traefik.io/v1alpha1\nkind: TraefikService\nmetadata: {name: web}\nspec: {weighted: {services: [{name: web, port: 80}, {name: web-canary, port: 80}]}}", "name: web-step-25\n        port: 80\n        weight: 25"},
		"apisix":        {"apisix: {route: {name: web, rules: [main]}}", "apiVersion: apisix.apache.org/v2\nkind: ApisixRoute\nmetadata: {name: web}\nspec: {http: [{name: main, backends: [{serviceName: web, servicePort: 80}]}]}", "serviceName: web-step-25\n          servicePort: 80\n          weight: 25"},
		"smi":           {"smi: {rootService: root}", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}", "service: web-step-25\n      weight: 25"},
		"grpc":          {"plugins: {argoproj-labs/gatewayAPI: {grpcRoutes: [{name: web, useHeaderRoutes: true}]}}", strings.TrimPrefix(httpRoute("GRPCRoute"), "---\n"), "weight: 25"},
	} {
		t.Run(name, func(t *testing.T) {
			made := mustRead(t, ArgoRollouts(), rollout("{canary: {canaryService: web-canary, stableService: web, trafficRouting: {"+c.routing+"}, "+steps+"}}")+aService("web")+aService("web-canary")+"---\n"+c.object+"\n")
			want(t, string(made.Files["workloads/web.yaml"]), c.want, "!subset")
		})
	}
	made := mustRead(t, ArgoRollouts(), rollout("{canary: {canaryService: web-canary, stableService: web, trafficRouting: {nginx: {stableIngress: web}}, "+steps+"}}")+aService("web")+aService("web-canary"))
	want(t, string(made.Files["workloads/web.yaml"]), "shares: replicas", "name: web-canary")
	want(t, listed(made), "trafficRouting: nginx: it has one weight at a time")
	want(t, string(made.Files["manifests/service-shop-web.yaml"]), "app: web")
}

func TestConditions(t *testing.T) {
	for text, w := range map[string]string{
		"result[0] >= 0.95":                             "0.95..",
		"result < 5":                                    "..5",
		"0.1 > asFloat(result)":                         "..0.1",
		"result[0] >= 1 && result[0] <= 3":              "1..3",
		"len(result) == 0 || result[0] < 5":             "..5 empty",
		"isNaN(result[0]) || result[0] >= 0.9":          "0.9.. nan",
		"len(result) > 0 and result[0] == 0":            "0..0",
		"default(result, 0) < 0.05":                     "..0.05 empty",
		"default(result, 0) > 0.05":                     "0.05..",
		"!result[0] > 1":                                "error",
		"result[0] > 1 || result[0] < 0":                "error",
		"all(result, # > 1)":                            "error",
		"result.ok == 1":                                "error",
		"failure: result[0] > 0.05":                     "..0.05 nan",
		"failure: result[0] < 1 || result[0] > 3":       "1..3 nan",
		"failure: isNaN(result[0]) || result[0] > 3":    "..3",
		"failure: !isNaN(result[0]) && result[0] >= 10": "..10 nan",
		"failure: len(result) > 0 && result[0] >= 10":   "..10 empty nan",
		"failure: result[0] == 1":                       "error",
	} {
		condition, isFailure := strings.CutPrefix(text, "failure: ")
		l, err := readCondition(condition, isFailure)
		got := "error"
		if err == nil {
			got = bound(l.atLeast) + ".." + bound(l.atMost)
			if l.emptyPasses {
				got += " empty"
			}
			if l.nanPasses {
				got += " nan"
			}
			if l.nanPasses == l.nanFails {
				t.Errorf("%s: what is no number passes: %v, and fails: %v", text, l.nanPasses, l.nanFails)
			}
		}
		if got != w {
			t.Errorf("%s: %s, want %s", text, got, w)
		}
	}
}

func bound(limit *float64) string {
	if limit == nil {
		return ""
	}
	return strconv.FormatFloat(*limit, 'g', -1, 64)
}

// TestRefused: what would let a release go on where it does not now, and what cannot be read.
func TestRefused(t *testing.T) {
	steps := `{canary: {steps: [{setWeight: 20}, {analysis: {` + analysed + `}}]}}`
	metric := func(old, new string) string { return strings.Replace(aTemplate(prometheus), old, new, 1) }
	for name, c := range map[string]struct{ text, want string }{
		"no template":      {rollout(steps), "all.yaml:11: there is no AnalysisTemplate shop/good in what was read"},
		"unknown provider": {rollout(steps) + metric("{prometheus: {", "{oracle: {"), "oracle is no provider of metrics that Argo Rollouts has"},
		"no condition":     {rollout(steps) + metric(`successCondition: "result[0] <= 0.05", `, ""), "has no condition, so it would judge nothing"},
		"condition":        {rollout(steps) + metric("result[0] <= 0.05", "any(result, true)"), "cannot be a limit"},
		"no limit":         {rollout(steps) + metric("failureLimit: 1", "failureLimit: 1, consecutiveErrorLimit: often"), "a whole number from 0 on"},
		"any failure":      {rollout(steps) + metric("failureLimit: 1", "failureLimit: -1"), "lets every measurement fail"},
		"no argument":      {rollout(strings.Replace(steps, "args: [{name: hash", "args: [{name: other", 1)) + aTemplate(prometheus), "the argument hash has no value"},
		"query":            {rollout(steps) + metric(`job="{{ args.job }}"`, `job="web"} > $limit{x="y"`), "the query cannot be asked"},
		"workloadRef":      {strings.Replace(rollout("{canary: {}}"), "  replicas: 4\n", "  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: gone}\n", 1), "all.yaml:5: workloadRef leads to nothing: there is no Deployment shop/gone"},
		"two of one name":  {rollout("{canary: {}}") + "---\n" + rollout("{canary: {}}"), "there twice"},
		"no YAML":          {"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: web\n", "all.yaml:"},
		"key twice":        {strings.Replace(rollout("{canary: {}}"), "  replicas: 4\n", "  replicas: 4\n  replicas: 5\n", 1), "replicas"},
		"no Service":       {rollout(`{blueGreen: {activeService: gone}}`), "there is no Service shop/gone"},
		"no route":         {rollout(`{canary: {stableService: web, trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: gone}}}, steps: [{setWeight: 5}]}}`) + aService("web"), "there is no HTTPRoute shop/gone"},
		"other route":      {rollout(`{canary: {stableService: else, trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: web}}}, steps: [{setWeight: 5}]}}`) + aService("else") + httpRoute("HTTPRoute"), "has no requests to weigh"},
		"plugin step":      {rollout(`{canary: {steps: [{plugin: {name: x}}]}}`), "a step by a plugin cannot be run"},
		"no number":        {rollout(`{canary: {steps: [{setWeight: many}]}}`), "all.yaml:11: a whole number"},
		"time":             {rollout(`{canary: {steps: [{setWeight: 5}, {pause: {duration: soon}}]}}`), `it is "soon"`},
		"two strategies":   {rollout(`{canary: {}, blueGreen: {activeService: a}}`), "a strategy is canary or blueGreen"},
		"selector":         {strings.Replace(rollout("{canary: {}}"), "selector: {matchLabels: {app: web}}", "selector: {matchLabels: {app: other}}", 1), "which its pods do not have"},
		"secret":           {strings.Replace(rollout("{canary: {}}"), `image: "registry.example.com/web:7"`, `image: x, env: [{name: DB_PASSWORD, value: hunter2hunter2x}]`, 1), "no secret enters intent"},
		"nothing":          {aService("web"), "there is nothing of Argo Rollouts"},
	} {
		made, err := read(t, ArgoRollouts(), c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q; %s", name, err, c.want, made.Definition)
		}
	}
}

// TestListed: words that have no place are listed with their line, and unknown ones as wrong.
func TestListed(t *testing.T) {
	made := mustRead(t, ArgoRollouts(), strings.Replace(rollout(`
    canary:
      stableMetadata: {labels: {role: stable}}
      steps:
      - setWeight: 20
      - setMirrorRoute: {name: m, match: [{method: {exact: GET}}]}
      - setwight: 30
`), "  replicas: 4\n", "  replicas: 4\n  rollbackWindow: {revisions: 3}\n", 1)+
		"---\napiVersion: argoproj.io/v1alpha1\nkind: Experiment\nmetadata: {name: ab}\nspec: {duration: 1h}\n"+aTemplate(prometheus)+
		"---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}\n")
	want(t, listed(made), "all.yaml:6: rollbackWindow", "all.yaml:14: canary: stableMetadata", "all.yaml:17: steps: setMirrorRoute: copies come before the first requests", "all.yaml:18: steps: setwight: Argo Rollouts has no such key here",
		"ab: Lehr runs no pods for a time", "no Rollout that was read names it", "Secret")
	isWrong := false
	for _, left := range made.LeftOut {
		isWrong = isWrong || left.Wrong && strings.Contains(left.What, "setwight")
	}
	if !isWrong {
		t.Error("a word that nobody knows is no mistake")
	}
}

// TestErrorLimits: metrics that may fail more or less often in a row are validated apart, and one that decides nothing beside them.
func TestErrorLimits(t *testing.T) {
	another := func(name, more string) string {
		return "\n  - " + strings.Replace(prometheus, "{name: errors, ", "{name: "+name+", "+more, 1)
	}
	made := mustRead(t, ArgoRollouts(), rollout(`{canary: {steps: [{setWeight: 20}], analysis: {`+analysed+`, dryRun: [{metricName: tried}]}}}`)+
		aTemplate(prometheus+another("tried", "consecutiveErrorLimit: 9, ")+another("hasty", "consecutiveErrorLimit: 0, ")+another("patient", "consecutiveErrorLimit: -1, ")+another("same", "consecutiveErrorLimit: 4, ")))
	_, validations, _ := strings.Cut(made.Definition, "validations:")
	if count := strings.Count(validations, "interval: "); count != 3 || strings.Count(validations, "errors: 4\n") != 1 || strings.Count(validations, "errors: 0\n") != 1 || strings.Contains(validations, "errors: 9") {
		t.Errorf("%d validations:\n%s", count, validations)
	}
	want(t, listed(made), "!consecutiveErrorLimit", "!dry runs")
}

// TestSuccessLimits: so many good measurements in a row are a validation of that length, which begins anew after one that fails, as often
// as may fail.
func TestSuccessLimits(t *testing.T) {
	strategy := rollout(`{canary: {steps: [{setWeight: 20}, {analysis: {` + analysed + `}}]}}`)
	for _, limits := range []struct{ written, retries string }{
		{"consecutiveSuccessLimit: 7, failureLimit: 2", "retries: 2\n"},
		{"consecutiveSuccessLimit: 7, failureLimit: -1", "retries: 100\n"},
		{"consecutiveSuccessLimit: 7, failureLimit: 0", "!retries"},
	} {
		made := mustRead(t, ArgoRollouts(), strategy+strings.Replace(aTemplate(prometheus), "failureLimit: 1", limits.written, 1))
		_, validations, _ := strings.Cut(made.Definition, "validations:")
		want(t, validations, "interval: 3m30s", limits.retries, "!allow:", "at_most: 0.05")
		want(t, listed(made), "!metrics: consecutiveSuccessLimit", "metrics: count: where so many measurements")
		uncounted := mustRead(t, ArgoRollouts(), strategy+strings.Replace(aTemplate(strings.Replace(prometheus, "count: 4, ", "", 1)), "failureLimit: 1", limits.written, 1))
		want(t, listed(uncounted), "!metrics: count")
	}
}

// TestBothConditions: what fulfils failureCondition is bad, and a person is asked about what fulfils neither.
func TestBothConditions(t *testing.T) {
	strategy := `{canary: {steps: [{setWeight: 20}, {analysis: {` + analysed + `}}]}}`
	both := strings.Replace(aTemplate(prometheus), `successCondition: "result[0] <= 0.05"`, `inconclusiveLimit: 2, successCondition: "result[0] <= 0.05", failureCondition: "result[0] > 0.5"`, 1)
	made := mustRead(t, ArgoRollouts(), rollout(strategy)+both)
	_, validations, _ := strings.Cut(made.Definition, "validations:")
	critical, wanted, _ := strings.Cut(validations, "errors-wanted:")
	want(t, validations, "pass: 100\n", "marginal: 1\n")
	want(t, critical, "errors:", "critical: true", "at_most: 0.5\n", "allow: 1\n")
	want(t, wanted, "!critical", "at_most: 0.05\n", "allow: 2\n")
	want(t, listed(made), "!inconclusiveLimit", "!failureCondition")

	tried := mustRead(t, ArgoRollouts(), rollout(strings.Replace(strategy, analysed, analysed+", dryRun: [{metricName: errors}]", 1))+
		strings.Replace(both, "\n  - ", "\n  - {name: other, interval: 30s, count: 4, initialDelay: 1m, successCondition: 'result[0] < 9', provider: {prometheus: {address: 'http://p:9090', query: up}}}\n  - ", 1))
	want(t, tried.Definition, "shadow: true", "!critical", "!marginal")
	odd := mustRead(t, ArgoRollouts(), rollout(strategy)+strings.Replace(both, "result[0] > 0.5", "any(result, true)", 1))
	want(t, odd.Definition, "at_most: 0.05", "!marginal")
	want(t, listed(odd), "failureCondition")
}

func TestProvidersOfOthers(t *testing.T) {
	made := mustRead(t, ArgoRollouts(), rollout(`{canary: {steps: [{setWeight: 20}], analysis: {templates: [{templateName: good}], dryRun: [{metricName: try}]}}}`)+
		aTemplate(`{name: try, interval: 1m, failureLimit: 3, successCondition: "result > 3", provider: {datadog: {query: q}}}
  - {name: score, interval: 1m, failureLimit: 3, successCondition: "result == 'ok'", provider: {web: {url: "https://w", jsonPath: "{$.x}"}}}`))
	want(t, made.Definition, "http: web", "http: datadog", "at_least: 1", "shadow: true", `"url":"https://w"`, "allow: 3", "newest: 5")
	want(t, strings.Join(made.Hints, "\n"), "1 for what is good")
	made = mustRead(t, ArgoRollouts(), rollout(`{canary: {steps: [{setWeight: 20}], analysis: {`+analysed+`, dryRun: [{metricName: "*"}]}}}`)+aTemplate(prometheus))
	want(t, listed(made), "the validation web: its metrics are all dry runs")
	want(t, made.Definition, "!validat")
}

// TestObjectsInOneLine: JSON without line breaks is read as any other.
func TestObjectsInOneLine(t *testing.T) {
	made := mustRead(t, ArgoRollouts(), `{"apiVersion": "v1", "kind": "List", "items": [`+
		`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}, `+
		`{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, `+
		`"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "x:1"}]}}, "strategy": {"blueGreen": {"activeService": "web"}}}}, `+
		`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}]}`)
	want(t, string(made.Files["workloads/web.yaml"]), "replicas: 3", "name: web")
}

func TestWorkloadRefAndLists(t *testing.T) {
	made := mustRead(t, ArgoRollouts(), `apiVersion: v1
kind: List
items:
- apiVersion: argoproj.io/v1alpha1
  kind: Rollout
  metadata: {name: web, uid: u, creationTimestamp: "2026-01-01T00:00:00Z", annotations: {rollout.argoproj.io/revision: "3"}}
  spec: {replicas: 2, workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web, scaleDown: never}, strategy: {blueGreen: {activeService: web}}}
  status: {phase: Healthy}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web}
  spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "x:1"}]}}}
- apiVersion: v1
  kind: Service
  metadata: {name: web}
  spec: {selector: {app: web}, ports: [{port: 80}]}
`)
	want(t, string(made.Files["slots/web/blue.yaml"]), "image: x:1")
	want(t, string(made.Files["workloads/web.yaml"]), "replicas: 2", "!revision", "!uid")
	if _, ok := made.Files["manifests/deployment-shop-web.yaml"]; ok {
		t.Error("the Deployment that the slots replace is kept")
	}
}
