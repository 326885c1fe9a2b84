package prodspec_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
)

// TestKubernetesModels: a canary's Services select the live slot and a route weighs them; the other slot has no
// replicas; policies deny what is not named; opinions of resolvers reach into objects.
func TestKubernetesModels(t *testing.T) {
	built := newWorld(t, "kubernetesmodel").build()
	objects := payloads(t, built, "json")
	for id, wants := range map[string][]string{
		"deployment.apps/shop-blue": {`"replicas":0,`, `"image":"registry.example.com/shop:7"`, `"matchLabels":{"app.kubernetes.io/name":"shop","lehr.dev/slot":"blue"}`},
		"deployment.apps/shop-green": {`"replicas":9,`, `"image":"registry.example.com/shop:8"`, `"env":[{"name":"LEVEL","value":"debug"}]`,
			`"priorityClassName":"high"`, `"annotations":{"example.com/team":"front"}`, `"revisionHistoryLimit":3`, `"maxUnavailable":0`},
		"service/shop":         {`"lehr.dev/slot":"green"`},
		"service/shop-step-50": {`"lehr.dev/slot":"green"`},
		"service/shop-preview": {`"lehr.dev/slot":"green"`},
		"httproute.gateway.networking.k8s.io/shop": {
			`"backendRefs":[{"name":"shop-step-10","port":80,"weight":10},{"name":"shop-step-50","port":80,"weight":40},{"name":"shop","port":80,"weight":50}]`,
			`"backendRefs":[{"name":"shop-preview","port":80,"weight":1}],"matches":[{"headers":[{"name":"X-Canary","type":"Exact","value":"always"}]`,
			`"parentRefs":[{"name":"public","namespace":"gateways"}]`,
		},
		"poddisruptionbudget.policy/shop": {`"maxUnavailable":1`},
		"networkpolicy.networking.k8s.io/shop": {
			`"policyTypes":["Ingress","Egress"]`, `"podSelector":{"matchLabels":{"app.kubernetes.io/name":"web"}}`, `{"ports":[{"port":"http","protocol":"TCP"}]}`,
			`{"ports":[{"port":5432,"protocol":"TCP"}],"to":[{"ipBlock":{"cidr":"10.0.0.0/8"}}]}`,
		},
		"prometheusrule.monitoring.coreos.com/shop": {`"alert":"ShopUnavailable"`, `"release":"prometheus"`, `"expr":"latency{service=\"shop\",cluster=\"eu\"} > 1"`},
	} {
		for _, want := range wants {
			if text := objects["kubernetes/eu/shop/"+id]; !strings.Contains(text, want) {
				t.Errorf("%s has no %s: %s", id, want, text)
			}
		}
	}
	for id, want := range map[string]string{
		"orders-schema": "orders/job.batch", "orders-load": "orders/cronjob.batch", "orders-serve": "orders/deployment.apps",
	} {
		if objects["kubernetes/eu/"+want+"/"+id] == "" {
			t.Errorf("there is no %s/%s in %v", want, id, slices.Sorted(maps.Keys(objects)))
		}
	}
}

// TestStepsOfACanary: each object that a release brings says its step, both sides of the judge, and what comes before
// it; stages of a pipeline follow each other.
func TestStepsOfACanary(t *testing.T) {
	built := newWorld(t, "kubernetesmodel").build()
	steps := map[string]string{}
	for _, asset := range built.Assets {
		if asset.ID == intent.PolicyAsset || !strings.HasPrefix(string(asset.ID), "kubernetes/eu/shop/") {
			continue
		}
		labels := addons(t, built, asset.ID)["Labels"]
		if _, step, ok := strings.Cut(labels, `"step":"`); ok {
			step, _, _ = strings.Cut(step, `"`)
			steps[strings.TrimPrefix(string(asset.ID), "kubernetes/eu/shop/")] = step
		}
	}
	if diff := cmp.Diff(map[string]string{
		"deployment.apps/shop-green": "candidate", "service/shop-preview": "candidate", "service/shop-step-10": "10", "service/shop-step-50": "50",
		"service/shop": "100", "deployment.apps/shop-blue": "old",
	}, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	for id, want := range map[intent.AssetID][2]string{
		"kubernetes/eu/shop/service/shop-step-10":           {"ImpactedScope", `{"scopes":{"candidate":"shop-green","cluster":"eu","namespace":"shop","stable":"shop-blue"}}`},
		"kubernetes/eu/shop/service/shop":                   {"Dependencies", `{"dependencies":[{"at_least":"1","on":"kubernetes/eu/shop/deployment.apps/shop-green","rule":"RULE_VERSION"}]}`},
		"kubernetes/eu/shop/deployment.apps/shop-blue":      {"Version", `{"expression":"\"0\""}`},
		"kubernetes/eu/shop/deployment.apps/shop-green":     {"Version", `{"expression":"\"1\""}`},
		"kubernetes/eu/orders/job.batch/orders-schema":      {"Dependencies", `{"dependencies":[{"on":"kubernetes/eu/shop/service/shop","rule":"RULE_ORDER"}]}`},
		"kubernetes/eu/orders/deployment.apps/orders-serve": {"Dependencies", `{"dependencies":[{"on":"kubernetes/eu/orders/cronjob.batch/orders-load","rule":"RULE_ORDER"}]}`},
	} {
		if got := addons(t, built, id)[want[0]]; got != want[1] {
			t.Errorf("%s of %s: %s, want %s", want[0], id, got, want[1])
		}
	}
}

// TestCanaryByReplicas: shares of pods beside the whole of the old slot are the weights.
func TestCanaryByReplicas(t *testing.T) {
	w := newWorld(t, "kubernetesmodel")
	w.replace("shop.yaml", "  headers: {X-Canary: always}\n", "  by_replicas: true\n")
	objects := payloads(t, w.build(), "json")
	for id, want := range map[string]string{
		"deployment.apps/shop-green-1": `"replicas":1,`, "deployment.apps/shop-green-2": `"replicas":8,`, // 1 of 10, 9 of 18
		"deployment.apps/shop-blue-1": `"replicas":0,`, "service/shop": `"selector":{"app.kubernetes.io/name":"shop"}`,
	} {
		if text := objects["kubernetes/eu/shop/"+id]; !strings.Contains(text, want) {
			t.Errorf("%s has no %s: %s", id, want, text)
		}
	}
}

// TestPodsOfACanaryGrow: a step that needs more pods is a Deployment of each slot, and its Service needs those of its step and before.
func TestPodsOfACanaryGrow(t *testing.T) {
	for _, c := range []struct {
		steps, pods string
		want        map[string]string // Its step and its replicas.
	}{
		{"[10, 50]", "[10, 50]", map[string]string{"green-1": "candidate 1", "green-2": "50 4", "green-3": "100 4"}},
		{"[10, 50]", "[12, 12]", map[string]string{"green-1": "candidate 2", "green-2": "100 7"}},
		{"[10, 50]", "[50, 100]", map[string]string{"green-1": "candidate 5", "green-2": "50 4"}},
		{"[]", "[30]", map[string]string{"green-1": "candidate 3", "green-2": "100 6"}},
	} {
		w := newWorld(t, "kubernetesmodel")
		w.replace("shop.yaml", "steps: [10, 50]", "steps: "+c.steps+"\n  pods: "+c.pods)
		built := w.build()
		got := map[string]string{}
		for id, text := range payloads(t, built, "json") {
			name, isDeployment := strings.CutPrefix(id, "kubernetes/eu/shop/deployment.apps/shop-")
			if !isDeployment {
				continue
			}
			said := addons(t, built, intent.AssetID(id))
			_, step, _ := strings.Cut(said["Labels"], `"step":"`)
			step, _, _ = strings.Cut(step, `"`)
			_, replicas, _ := strings.Cut(text, `"replicas":`)
			replicas, _, _ = strings.Cut(replicas, ",")
			_, part, _ := strings.Cut(name, "-")
			if !strings.Contains(text, `"lehr.dev/part":"`+part+`"`) {
				t.Errorf("%s selects the pods of others: %s", name, text)
			}
			got[name] = step + " " + replicas
			if slot := strings.TrimPrefix(name, "blue-"); slot != name {
				if delete(got, name); step != "old" || replicas != "0" || c.want["green-"+slot] == "" || said["Version"] != `{"expression":"\"0\""}` {
					t.Errorf("%s of the other slot has the step %s, %s replicas and %s", name, step, replicas, said["Version"])
				}
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("steps %s, pods %s (-want +got):\n%s", c.steps, c.pods, diff)
		}
		if c.pods != "[10, 50]" {
			continue
		}
		for service, parts := range map[string]int{"shop-preview": 1, "shop-step-10": 1, "shop-step-50": 2, "shop": 3} {
			edges := addons(t, built, intent.AssetID("kubernetes/eu/shop/service/"+service))["Dependencies"]
			if last := fmt.Sprintf("shop-green-%d", parts); strings.Count(edges, `"at_least":"1"`) != parts || !strings.Contains(edges, last) {
				t.Errorf("%s needs %s, want %d Deployments up to %s", service, edges, parts, last)
			}
		}
	}
}

// TestKubernetesModelsAreRefused: what cannot be is told with what to write.
func TestKubernetesModelsAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ in, old, by, message string }{
		"steps without a gateway":  {"shop.yaml", "gateway: {name: public, namespace: gateways}\n", "", "canary.steps without a gateway: write host and gateway"},
		"steps that shrink":        {"shop.yaml", "[10, 50]", "[50, 10]", "do not grow: write steps: [10, 50]"},
		"a step twice":             {"shop.yaml", "[10, 50]", "[10, 10]", "two steps have one weight"},
		"a slot without a version": {"shop.yaml", `{version: "7"}`, "{}", "canary.blue has no version"},
		"a third slot":             {"shop.yaml", "live: green", "live: red", "in list"},
		"headers by replicas":      {"shop.yaml", "[10, 50]", "[10, 50]\n  by_replicas: true", "replicas cannot tell requests by their headers"},
		"a step without a pod":     {"shop.yaml", "[10, 50]\n  headers: {X-Canary: always}", "[9, 10]\n  by_replicas: true", "the step 10 has no pod more than the one before"},
		"fewer pods than steps":    {"shop.yaml", "[10, 50]", "[10, 50]\n  pods: [10]", "pods has a number for each of steps"},
		"pods that shrink":         {"shop.yaml", "[10, 50]", "[10, 50]\n  pods: [50, 10]", "canary.pods [50, 10] do not grow: write pods: [10, 50]"},
		"pods by replicas":         {"shop.yaml", "[10, 50]\n  headers: {X-Canary: always}", "[10, 50]\n  pods: [10, 50]\n  by_replicas: true", "the pods of a step follow from its weight"},
		"pods of an autoscaler":    {"shop.yaml", "replicas: 9}]\ncanary:", "replicas: 9, most_replicas: 20}]\ncanary:\n  pods: [10, 50]", "most_replicas, and canary.pods"},
		"a version of a cluster":   {"shop.yaml", "replicas: 9}", "replicas: 9, version: \"9\"}", "canary has a version of each slot"},
		"a stage that is two":      {"orders.yaml", `cron: "0 4 * * *"`, `cron: "0 4 * * *", replicas: 2`, "leave cron or replicas out"},
		"a stage without image":    {"orders.yaml", "image: registry.example.com/orders:{version}\n", "", "stages schema: image is not there"},
		"addresses":                {"shop.yaml", "10.0.0.0/8", "10.0.0.0", "must be addresses, such as 10.20.0.0/16"},
		"a path into a list": {"lehr.yaml", "payload.json.spec.template.spec.priorityClassName", "payload.json.spec.template.spec.containers.image",
			"has no fields of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "kubernetesmodel")
			w.replace(c.in, c.old, c.by)
			wantFinding(t, w.build(), c.message)
		})
	}
}

func wantFinding(t *testing.T, built prodspec.Built, message string) {
	t.Helper()
	for _, f := range built.Findings {
		if strings.Contains(f.Message, message) {
			return
		}
	}
	t.Errorf("nothing says %q: %+v", message, built.Findings)
}

// A Service of a canary has another content with other pods, also in the same slot: what was judged bad of one release
// says nothing of the next.
func TestServicesOfACanaryKnowTheirPods(t *testing.T) {
	w := newWorld(t, "kubernetesmodel")
	before := payloads(t, w.build(), "json")
	if again := payloads(t, w.build(), "json"); !maps.Equal(before, again) {
		t.Error("the same service is built in two ways")
	}
	w.replace("shop.yaml", `green: {version: "8"`, `green: {version: "9"`)
	after := payloads(t, w.build(), "json")
	for id, content := range before {
		isStep := strings.Contains(id, "service/shop")
		if isStep && after[id] == content {
			t.Errorf("%s is as before with other pods: %s", id, content)
		}
		if strings.Contains(id, "deployment.apps/shop-blue") && after[id] != content {
			t.Errorf("the other slot changed: %s", after[id])
		}
	}
}
