package canaries

import (
	"strings"
	"testing"
)

// mirrored is a Rollout whose version that comes gets copies of requests before the step of 10 %.
func mirrored(routing, step, more string) string {
	return rollout("\n    canary:\n      canaryService: web-canary\n      stableService: web\n      trafficRouting: {"+routing+"}\n      steps:\n"+
		"      - pause: {duration: 1m}\n      - setMirrorRoute: "+step+"\n      - pause: {duration: 5m}\n"+more+"      - setWeight: 10\n      - pause: {duration: 2m}") + aService("web") + aService("web-canary")
}

const (
	gatewayRouting = "plugins: {argoproj-labs/gatewayAPI: {httpRoute: web, namespace: shop}}"
	endsCopies     = "      - setMirrorRoute: {name: copies}\n"
)

// TestMirrorRoute: copies are a stage before the first requests, of two Services; the route has a rule for what is copied, and names
// no slot before somebody says that the first run is done.
func TestMirrorRoute(t *testing.T) {
	made := mustRead(t, ArgoRollouts(), mirrored(gatewayRouting, `{name: copies, percentage: 35, match: [{method: {exact: GET}, path: {prefix: /}}, {path: {exact: /basket}, headers: {X-Kind: {exact: a}}}]}`, endsCopies)+httpRoute("HTTPRoute"))
	want(t, made.Definition, "name: mirror\n        where: labels.step == \"mirror\"\n        soak: 5m0s\n      - name: \"10\"\n        where: labels.step == \"10\"\n        soak: 2m0s", "- rest: true\n        soak: 1m0s")
	data := string(made.Files["workloads/web.yaml"])
	want(t, data, "mirror:\n  active: false\n  service: web-mirror\n  until: \"10\"", "step: mirror\n    slot: blue", "name: web-mirror-green",
		"requestMirror:\n              backendRef:\n                name: web-mirror\n                port: 80\n              percent: 35\n            type: RequestMirror",
		"- method: GET\n          path:\n            type: PathPrefix\n            value: /\n", "type: Exact\n            value: /basket", "name: X-Kind")
	if strings.Count(data, "requestMirror") != 1 || strings.Count(data, "name: web-step-10\n") != 3 {
		t.Errorf("not one rule of two copies requests:\n%s", data)
	}
	want(t, listed(made), "!setMirrorRoute")
	want(t, strings.Join(made.Hints, "\n"), "write active: true under mirror in workloads/web.yaml")
	want(t, strings.Join(made.Read, "\n"), "strategies: 13 of 13 (100 %)")
}

// TestMirrorRouteOfIstio: a VirtualService copies requests, too.
func TestMirrorRouteOfIstio(t *testing.T) {
	const service = "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: web}\nspec: {hosts: [web], http: [{name: main, match: [{uri: {prefix: /shop}}], route: [{destination: {host: web.shop.svc.cluster.local}, weight: 100}, {destination: {host: web-canary}}]}]}\n"
	made := mustRead(t, ArgoRollouts(), mirrored("istio: {virtualService: {name: web, routes: [main]}}, managedRoutes: [{name: copies}]", `{name: copies, percentage: 5, match: [{method: {exact: GET}, headers: {x-kind: {regex: "a.*"}}}]}`, "      - pause: {}\n"+endsCopies)+service)
	want(t, string(made.Files["workloads/web.yaml"]), "mirror:\n          host: web-mirror.shop.svc.cluster.local\n        mirrorPercentage:\n          value: 5",
		"uri:\n              prefix: /shop", "x-kind:\n                regex: a.*", "method:\n              exact: GET", "held:\n  - \"10\"")
}

// TestMirrorMatches: what a rule and a mirror both ask for is copied; where nothing is both, it is listed.
func TestMirrorMatches(t *testing.T) {
	const listedAll = "no rule of one has these requests"
	for name, c := range map[string]struct{ rule, match, want string }{
		"all of a part":     {"/shop", "path: {prefix: /}", "value: /shop"},
		"a part of it":      {"/shop", "path: {prefix: /shop/basket}", "value: /shop/basket"},
		"within it":         {"/shop/basket", "path: {prefix: /shop}", "value: /shop/basket"},
		"beside it":         {"/shop", "path: {prefix: /shopping}", listedAll},
		"nobody knows":      {"/shop", `path: {regex: "/s.*"}`, listedAll},
		"a regex for all":   {"/shop", `path: {regex: "/.*"}`, "value: /shop"},
		"a regex of a root": {"/", `path: {regex: "/s.*"}`, "type: RegularExpression"},
		"a part of methods": {"/", `method: {regex: "GET|HEAD"}`, "routes know methods by their whole name"},
	} {
		made := mustRead(t, ArgoRollouts(), mirrored(gatewayRouting, "{name: copies, match: [{"+c.match+"}]}", endsCopies)+strings.Replace(httpRoute("HTTPRoute"), "value: /}", "value: "+c.rule+"}", 1))
		rules, _, _ := strings.Cut(string(made.Files["workloads/web.yaml"]), "autoscaler")
		if _, copies, _ := strings.Cut(rules, "requestMirror"); !strings.Contains(copies+listed(made), c.want) {
			t.Errorf("%s: no %q in %s\n%s", name, c.want, listed(made), rules)
		}
		if isNone := strings.HasPrefix(c.want, "no") || strings.HasPrefix(c.want, "routes"); isNone == strings.Contains(made.Definition, "mirror") {
			t.Errorf("%s: %s", name, made.Definition)
		}
	}
}

// TestMirrorOfSomeRules: a rule that no regular expression can be compared with has no copies, which is listed beside what has.
func TestMirrorOfSomeRules(t *testing.T) {
	made := mustRead(t, ArgoRollouts(), mirrored(gatewayRouting, `{name: copies, match: [{path: {prefix: /shop/basket}}, {path: {regex: "/s.*"}}]}`, endsCopies)+strings.Replace(httpRoute("HTTPRoute"), "value: /}", "value: /shop}", 1))
	want(t, string(made.Files["workloads/web.yaml"]), "value: /shop/basket")
	want(t, listed(made), "a regular expression and a path of the route may have requests in common")
	made = mustRead(t, ArgoRollouts(), mirrored(gatewayRouting, `{name: copies, match: [{path: {prefix: /shop/basket}}, {path: {prefix: /depot}}]}`, endsCopies)+strings.Replace(httpRoute("HTTPRoute"), "value: /}", "value: /shop}", 1))
	want(t, listed(made), "!setMirrorRoute")
}

// TestMirrorWithFewPods: the example of Argo Rollouts, where a part of the pods gets copies before anything else comes.
func TestMirrorWithFewPods(t *testing.T) {
	text := strings.Replace(mirrored(gatewayRouting, `{name: copies, percentage: 35, match: [{method: {exact: GET}, path: {prefix: /}}]}`, endsCopies), "      - setMirrorRoute", "      - setCanaryScale: {weight: 25}\n      - setMirrorRoute", 1)
	made := mustRead(t, ArgoRollouts(), text+httpRoute("HTTPRoute"))
	data := string(made.Files["workloads/web.yaml"])
	want(t, data, "parts:\n  - step: candidate\n    pods: 1\n  - step: \"100\"\n    pods: 3", "mirror:\n  active: false")
	want(t, listed(made), "!setMirrorRoute", "!setCanaryScale")
}

// TestMirrorsThatAreListed: what has no place is listed, and a share that is none is refused.
func TestMirrorsThatAreListed(t *testing.T) {
	const get = "match: [{method: {exact: GET}}]"
	made := mustRead(t, ArgoRollouts(), mirrored(gatewayRouting, "{name: copies, "+get+"}", "      - setMirrorRoute: {name: more, "+get+"}\n")+httpRoute("HTTPRoute"))
	want(t, listed(made), "one of them is carried over, the first", "copies end when the first requests come")
	made = mustRead(t, ArgoRollouts(), mirrored("nginx: {stableIngress: web}", "{name: copies, "+get+"}", endsCopies))
	want(t, listed(made), "no request is copied")
	want(t, made.Definition, "!mirror")
	made = mustRead(t, ArgoRollouts(), mirrored(gatewayRouting, "{name: copies, percentage: 0, "+get+"}", endsCopies)+httpRoute("HTTPRoute"))
	want(t, listed(made), "0 % of the requests are none")
	if _, err := read(t, ArgoRollouts(), mirrored(gatewayRouting, "{name: copies, percentage: 120, "+get+"}", endsCopies)+httpRoute("HTTPRoute")); err == nil || !strings.Contains(err.Error(), "write a share of the requests from 1 to 100") {
		t.Errorf("120 %% of the requests are copied: %v", err)
	}
	long := strings.Repeat("a", 52)
	text := strings.NewReplacer("stableService: web\n", "stableService: "+long+"\n", "{name: web, port", "{name: "+long+", port").Replace(mirrored(gatewayRouting, "{name: copies, "+get+"}", endsCopies) + aService(long) + httpRoute("HTTPRoute"))
	if _, err := read(t, ArgoRollouts(), text); err == nil || !strings.Contains(err.Error(), "is too long for a Service, which copies of requests need") {
		t.Errorf("a Service has a name that none can have: %v", err)
	}
}

// TestMirrorOfFlagger: one interval of copies before the first weight, or all iterations.
func TestMirrorOfFlagger(t *testing.T) {
	const (
		gateway = "  provider: gatewayapi:v1\n  service: {port: 80, hosts: [a.example.com], gatewayRefs: [{name: public}]}\n"
		metric  = ", metrics: [{name: latency, thresholdRange: {max: 500}, interval: 30s, templateRef: {name: latency, namespace: flagger}, templateVariables: {zone: a}}]"
	)
	made := mustRead(t, Flagger(), canary(gateway+"  analysis: {interval: 1m, stepWeight: 25, maxWeight: 50, mirror: true, mirrorWeight: 30"+metric+"}\n")+webDeployment+latency)
	want(t, made.Definition, "name: mirror\n        where: labels.step == \"mirror\"\n        soak: 1m0s\n      - name: \"25\"")
	want(t, string(made.Files["workloads/web.yaml"]), "name: web-mirror\n                port: 80\n              percent: 30", "until: \"25\"")
	want(t, listed(made), "!mirror")
	made = mustRead(t, Flagger(), canary("  provider: istio\n  service: {port: 80}\n  analysis: {interval: 1m, iterations: 10, mirror: true"+metric+"}\n")+webDeployment+latency)
	want(t, made.Definition, "name: mirror\n        where: labels.step == \"mirror\"\n        soak: 10m0s\n      - name: all", "- rest: true\n", "validate:")
	want(t, string(made.Files["workloads/web.yaml"]), "mirror:\n          host: web-mirror\n", "!mirrorPercentage", "until: \"100\"")
	made = mustRead(t, Flagger(), canary("  provider: traefik\n  service: {port: 80}\n  analysis: {interval: 1m, stepWeight: 25, mirror: true}\n")+webDeployment)
	want(t, listed(made), "analysis: mirror: routes of traefik copy no request")
	made = mustRead(t, Flagger(), canary(gateway+"  analysis: {interval: 1m, iterations: 2, mirror: true, match: [{headers: {x-canary: {exact: insider}}}]}\n")+webDeployment)
	want(t, listed(made), "analysis: mirror: with match")
	made = mustRead(t, Flagger(), canary(gateway+"  analysis: {interval: 1m, stepWeight: 25, mirror: false, mirrorWeight: 30}\n")+webDeployment)
	want(t, made.Definition, "!mirror")
	if _, err := read(t, Flagger(), canary(gateway+"  analysis: {interval: 1m, stepWeight: 25, mirror: true, mirrorWeight: 101}\n")+webDeployment); err == nil || !strings.Contains(err.Error(), "mirrorWeight is 101: write a share") {
		t.Errorf("101 %% of the requests are copied: %v", err)
	}
}
