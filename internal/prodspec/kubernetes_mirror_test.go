package prodspec_test

import (
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
)

const mirrorOf = "kubernetes/eu/shop/"

// TestMirrorOfACanary: a route copies requests to the Service of the slot that is not live, which selects pods only in the
// next incarnation, and then the route names the other. So there are copies only between these two steps.
func TestMirrorOfACanary(t *testing.T) {
	for live, old := range map[string]string{"green": "blue", "blue": "green"} {
		w := newWorld(t, "kubernetesmodel")
		w.replace("shop.yaml", "live: green", "live: "+live)
		w.replace("shop.yaml", "[10, 50]", "[10, 50]\n  mirror: {percent: 25, methods: [GET, HEAD]}")
		built := w.build()
		objects := payloads(t, built, "json")
		copies := `"filters":[{"requestMirror":{"backendRef":{"name":"shop-mirror-` + old + `","port":80},"percent":25},"type":"RequestMirror"}]`
		for id, want := range map[string][2]string{
			"service/shop-mirror-" + live:              {`"selector":{"app.kubernetes.io/name":"shop","lehr.dev/slot":"` + live + `"}`, "mirror"},
			"service/shop-mirror-" + old:               {`"selector":{"app.kubernetes.io/name":"shop","lehr.dev/slot":"none"}`, "mirror"},
			"httproute.gateway.networking.k8s.io/shop": {copies + `,"matches":[{"method":"GET","path":{"type":"PathPrefix","value":"/"}},{"method":"HEAD",`, "10"},
		} {
			if text := objects[mirrorOf+id]; !strings.Contains(text, want[0]) || !strings.Contains(text, `"release.lehr.dev/pods":`) {
				t.Errorf("%s has no %s: %s", id, want[0], text)
			}
			if labels := addons(t, built, intent.AssetID(mirrorOf+id))["Labels"]; !strings.Contains(labels, `"step":"`+want[1]+`"`) {
				t.Errorf("%s is brought by %s, not by %s", id, labels, want[1])
			}
		}
		route := objects[mirrorOf+"httproute.gateway.networking.k8s.io/shop"]
		if strings.Count(route, "RequestMirror") != 1 || strings.Count(route, `"weight":40`) != 2 || strings.Index(route, "X-Canary") > strings.Index(route, "RequestMirror") {
			t.Errorf("not only the methods are copied, or requests with a header: %s", route)
		}
	}
}

// TestMirrorOfAllRequests: without methods there is no rule of its own, nor a share where all are copied.
func TestMirrorOfAllRequests(t *testing.T) {
	w := newWorld(t, "kubernetesmodel")
	w.replace("shop.yaml", "steps: [10, 50]", "mirror: {percent: 100}")
	built := w.build()
	route := mirrorOf + "httproute.gateway.networking.k8s.io/shop"
	text := payloads(t, built, "json")[route]
	if strings.Contains(text, "percent") || strings.Count(text, `"matches"`) != 2 || strings.Count(text, "RequestMirror") != 1 {
		t.Errorf("not all requests are copied: %s", text)
	}
	if labels := addons(t, built, intent.AssetID(route))["Labels"]; !strings.Contains(labels, `"step":"100"`) {
		t.Errorf("no copies end when the new version has all requests: %s", labels)
	}
}

// TestMirrorWithFewPods: copies go to the pods that are there before any request is.
func TestMirrorWithFewPods(t *testing.T) {
	w := newWorld(t, "kubernetesmodel")
	w.replace("shop.yaml", "[10, 50]", "[10, 50]\n  pods: [20, 50]\n  mirror: {percent: 25}")
	built := w.build()
	edges := addons(t, built, mirrorOf+"service/shop-mirror-green")["Dependencies"]
	if !strings.Contains(edges, "deployment.apps/shop-green-1") || strings.Contains(edges, "deployment.apps/shop-green-2") {
		t.Errorf("copies do not wait for the first pods alone: %s", edges)
	}
	if edges := addons(t, built, mirrorOf+"service/shop-mirror-blue")["Dependencies"]; strings.Contains(edges, "shop-green") {
		t.Errorf("a Service without pods waits for some: %s", edges)
	}
}

// TestMirrorsAreRefused: what cannot be is told with what to write.
func TestMirrorsAreRefused(t *testing.T) {
	const steps, headers = "[10, 50]", "\n  headers: {X-Canary: always}\n"
	for name, c := range map[string]struct{ old, by, message string }{
		"by replicas":      {steps + headers, steps + "\n  by_replicas: true\n  mirror: {percent: 5}\n", "replicas cannot copy requests"},
		"no share":         {steps, steps + "\n  mirror: {methods: [GET]}", "mirror.percent"},
		"more than all":    {steps, steps + "\n  mirror: {percent: 101}", "mirror.percent"},
		"no such method":   {steps, steps + "\n  mirror: {percent: 5, methods: [FETCH]}", "mirror.methods[0]"},
		"a method twice":   {steps, steps + "\n  mirror: {percent: 5, methods: [GET, GET]}", "mirror.methods"},
		"a share in words": {steps, steps + "\n  mirror: 10%", "mirror"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "kubernetesmodel")
			w.replace("shop.yaml", c.old, c.by)
			built := w.build()
			wantFinding(t, built, c.message)
		})
	}
	t.Run("without a gateway", func(t *testing.T) {
		w := newWorld(t, "kubernetesmodel")
		w.replace("shop.yaml", "gateway: {name: public, namespace: gateways}\n", "")
		w.replace("shop.yaml", "steps: "+steps+headers, "mirror: {percent: 5}\n")
		wantFinding(t, w.build(), "canary.mirror without a gateway: write host and gateway")
	})
}
