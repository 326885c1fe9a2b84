package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/cli"
)

// TestImportedCanariesAreBuilt: what lehr import makes of Argo Rollouts and Flagger is accepted by lehr
// build and lehr lint, as blue is live, and as a release makes green live, with copies of requests.
func TestImportedCanariesAreBuilt(t *testing.T) {
	const pods = "selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {containers: [{name: main, image: \"registry.example.com/NAME:7\"}]}}"
	rollout := func(name, strategy string) string {
		return strings.ReplaceAll("---\napiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: NAME, namespace: shop}\nspec: {replicas: 4, "+pods+", strategy: "+strategy+"}\n", "NAME", name)
	}
	service := func(name, app string) string {
		return "---\napiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: shop}\nspec: {selector: {app: " + app + "}, ports: [{port: 80}]}\n"
	}
	scaler := func(kind, name string) string {
		return "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: " + name + ", namespace: shop}\nspec: {minReplicas: 2, maxReplicas: 5, scaleTargetRef: {" + kind + ", name: " + name + "}}\n"
	}
	argo := rollout("routed", `{canary: {canaryService: routed-canary, stableService: routed, trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: routed}}}, steps: [{setMirrorRoute: {name: copies, percentage: 10, match: [{method: {exact: GET}}]}}, {pause: {duration: 1m}}, {setMirrorRoute: {name: copies}}, {setWeight: 10}, {pause: {}}, {setWeight: 50}, {pause: {duration: 5m}}], analysis: {templates: [{templateName: good}]}}}`) +
		service("routed", "routed") + service("routed-canary", "routed") + scaler("apiVersion: argoproj.io/v1alpha1, kind: Rollout", "routed") +
		"---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: routed, namespace: shop}\nspec: {parentRefs: [{name: public}], rules: [{backendRefs: [{name: routed, port: 80}, {name: routed-canary, port: 80}]}]}\n" +
		"---\napiVersion: argoproj.io/v1alpha1\nkind: AnalysisTemplate\nmetadata: {name: good, namespace: shop}\nspec: {metrics: [{name: errors, interval: 1m, failureLimit: 1, successCondition: \"result[0] < 0.05\", provider: {prometheus: {address: \"http://p\", query: errors}}}]}\n" +
		rollout("counted", `{canary: {canaryService: counted-new, stableService: counted-old, steps: [{setWeight: 25}, {pause: {}}, {setWeight: 50}]}}`) +
		service("counted-new", "counted") + service("counted-old", "counted") +
		rollout("switched", `{blueGreen: {activeService: switched, previewService: switched-preview, autoPromotionEnabled: false}}`) + service("switched", "switched") + service("switched-preview", "switched") +
		rollout("plain", `{canary: {maxSurge: 1, analysis: {templates: [{templateName: good}]}}}`)
	flagger := "apiVersion: flagger.app/v1beta1\nkind: Canary\nmetadata: {name: web, namespace: shop}\nspec:\n  provider: istio\n  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n  autoscalerRef: {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, name: web}\n  service: {port: 80}\n  analysis: {interval: 1m, threshold: 1, mirror: true, mirrorWeight: 10, stepWeight: 20, maxWeight: 60, metrics: [{name: request-duration, thresholdRange: {max: 500}}], webhooks: [{name: gate, type: confirm-rollout, url: \"http://gate\"}, {name: end, type: confirm-promotion, url: \"http://gate\"}]}\n" +
		strings.ReplaceAll("---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: NAME, namespace: shop}\nspec: {replicas: 2, "+pods+"}\n", "NAME", "web") + scaler("apiVersion: apps/v1, kind: Deployment", "web")
	for kind, c := range map[string]struct {
		text   string
		assets int
		// route is the name of one that comes after the Service of a step.
		route, service string
	}{"argo-rollouts": {argo, 22, "httproute", "kubernetes/eu/shop/service/routed-step-10"}, "flagger": {flagger, 12, "virtualservice", "kubernetes/eu/shop/service/web-step-20"}} {
		t.Run(kind, func(t *testing.T) {
			t.Chdir(t.TempDir())
			run := func(arguments ...string) string {
				var out strings.Builder
				if code := cli.Run(t.Context(), cli.Local{Build: build, Lint: lint, Imports: imports()}, cli.Terminal{Out: &out, Err: &out, Getenv: func(string) string { return "" }}, arguments); code != 0 {
					t.Fatalf("lehr %v ends with %d:\n%s", arguments, code, out.String())
				}
				return out.String()
			}
			if err := os.WriteFile("all.yaml", []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			run("import", kind, "all.yaml", "--cluster", "eu", "--to", "shop")
			run("build", "shop/lehr.yaml", "--out", "built")
			comesAfter := false
			_ = filepath.WalkDir("built", func(name string, _ os.DirEntry, _ error) error { // What is not there is no such file.
				text, err := os.ReadFile(name)
				comesAfter = comesAfter || err == nil && strings.Contains(name, c.route) && strings.Contains(string(text), `"on": "`+c.service+`"`)
				return nil
			})
			if !comesAfter {
				t.Errorf("the %s does not come after %s", c.route, c.service)
			}
			for range 2 {
				built := run("build", "shop/lehr.yaml")
				if n := strings.Count(built, "kubernetes/eu/"); n != c.assets || strings.Contains(built, "warning") {
					t.Errorf("%d assets, want %d:\n%s", n, c.assets, built)
				}
				// It has no owner, and lehr-kubernetes is not beside this test.
				if linted := run("lint", "shop/lehr.yaml"); !strings.Contains(linted, "0 errors, 0 holds, 2 warnings") {
					t.Errorf("lehr lint: %s", linted)
				}
				files, _ := filepath.Glob("shop/workloads/*.yaml") // The pattern is right.
				for _, name := range files {
					text, err := os.ReadFile(name)
					if err == nil {
						err = os.WriteFile(name, []byte(strings.NewReplacer("live: blue", "live: green", "active: false", "active: true").Replace(string(text))), 0o600)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}
