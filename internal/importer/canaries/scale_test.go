package canaries

import (
	"fmt"
	"strings"
	"testing"
)

const (
	weighed    = "canaryService: web-canary, stableService: web, trafficRouting: {plugins: {argoproj-labs/gatewayAPI: {httpRoute: web}}}, "
	autoscaled = "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web}, minReplicas: 2, maxReplicas: 5}\n"
)

// importScaled imports a Rollout of ten pods, and says which step brings how many of them.
func importScaled(t *testing.T, strategy, more string) (parts, left, counts string) {
	t.Helper()
	made := mustRead(t, ArgoRollouts(), strings.Replace(rollout(strategy), "replicas: 4", "replicas: 10", 1)+aService("web")+aService("web-canary")+httpRoute("HTTPRoute")+more)
	_, rest, _ := strings.Cut(string(made.Files["workloads/web.yaml"]), "\nparts:")
	rest, _, _ = strings.Cut(rest, "\nmetadata:")
	lines := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(" -\n\"[]", r) })
	for i := 0; i+3 < len(lines); i += 4 {
		parts += fmt.Sprintf(" %s+%s", lines[i+1], lines[i+3])
	}
	return strings.TrimSpace(parts), listed(made), strings.Join(made.Read, "\n")
}

// TestPodsGrowWithTheSteps: each step has the pods that hold for it, as Argo Rollouts counts them: a share is rounded up, and
// what comes without a word of it has the share of the requests.
func TestPodsGrowWithTheSteps(t *testing.T) {
	const match = "{setCanaryScale: {matchTrafficWeight: true}}, "
	for _, c := range []struct{ steps, more, parts, left string }{
		{steps: match + "{setWeight: 11}, {setWeight: 50}", parts: "candidate+2 50+3 100+5"},
		{steps: "{setWeight: 10}, {pause: {}}, {setWeight: 50}", parts: ""},
		{steps: "{setCanaryScale: {replicas: 1}}, {pause: {}}, " + match + "{setWeight: 25}", parts: "candidate+1 25+2 100+7"},
		{steps: "{setCanaryScale: {weight: 25}}, {setWeight: 5}, {pause: {}}, {setWeight: 20}, " + match + "{setWeight: 80}", parts: "candidate+3 80+5 100+2"},
		{steps: "{setWeight: 10}, {setCanaryScale: {replicas: 4}}, {pause: {}}, {setWeight: 20}", parts: "candidate+4 100+6"},
		{steps: "{setCanaryScale: {weight: 30, matchTrafficWeight: true}}, {setWeight: 10}", parts: "candidate+1 100+9"},
		{steps: match + "{setWeight: 10}, {setWeight: 100}, {setCanaryScale: {replicas: 1}}", parts: "candidate+1 100+9"},
		{steps: "{setCanaryScale: {replicas: 10}}, {setWeight: 10}", parts: ""},
		{steps: "{setCanaryScale: {replicas: 12}}, {setWeight: 10}", parts: "", left: "there are 10, and not 12"},
		{steps: "{setCanaryScale: {replicas: 0}}, {setWeight: 10}", parts: "candidate+1 100+9", left: "there are 1, and not 0"},
		{steps: "{setCanaryScale: {replicas: 6}}, {setWeight: 10}, " + match + "{setWeight: 20}", parts: "candidate+6 100+4", left: "pods only grow"},
		{steps: match + "{setWeight: 10}, {setWeight: 50}", more: "minPodsPerReplicaSet: 3, ", parts: "candidate+3 50+2 100+5"},
		{steps: "{setWeight: 10}", more: "minPodsPerReplicaSet: 3, ", left: "minPodsPerReplicaSet"},
	} {
		parts, left, counts := importScaled(t, "{canary: {"+weighed+c.more+"steps: ["+c.steps+"]}}", "")
		if parts != c.parts || (c.left == "") != (left == "") || !strings.Contains(left, c.left) {
			t.Errorf("%s%s: %q, want %q; left out: %q, want %q", c.more, c.steps, parts, c.parts, left, c.left)
		}
		if isWhole := strings.Count(counts, "(100 %)") == strings.Count(counts, "%"); isWhole == strings.Contains(left, "minPodsPerReplicaSet") {
			t.Errorf("%s%s: %s", c.more, c.steps, counts)
		}
	}
}

func TestPodsOfAPreview(t *testing.T) {
	const strategy = "{blueGreen: {activeService: web, previewService: web-canary, autoPromotionEnabled: false, previewReplicaCount: %d}}"
	if parts, left, _ := importScaled(t, fmt.Sprintf(strategy, 2), ""); parts != "candidate+2 100+8" || strings.Contains(left, "preview") {
		t.Errorf("%s; %s", parts, left)
	}
	if parts, left, _ := importScaled(t, fmt.Sprintf(strategy, 2), autoscaled); parts != "" || !strings.Contains(left, "previewReplicaCount: the slot that becomes live begins with one pod") {
		t.Errorf("%s; %s", parts, left)
	}
}

// TestPodsThatCannotGrow: with an autoscaler, or where shares of pods are those of requests, it is listed, and is not counted as carried over.
func TestPodsThatCannotGrow(t *testing.T) {
	const steps = "steps: [{setCanaryScale: {replicas: 2}}, {setWeight: 10}]}}"
	parts, left, counts := importScaled(t, "{canary: {"+weighed+steps, autoscaled)
	if parts != "" || !strings.Contains(left, "steps: setCanaryScale: the slot that becomes live begins with one pod") || !strings.Contains(counts, "strategies: 3 of 4") {
		t.Errorf("%s; %s; %s", parts, left, counts)
	}
	parts, left, counts = importScaled(t, "{canary: {"+steps, "")
	if parts != "10+2 100+8" || !strings.Contains(left, "steps: setCanaryScale: shares of pods are shares of requests here") || !strings.Contains(counts, "strategies: 1 of 2") {
		t.Errorf("%s; %s; %s", parts, left, counts)
	}
	for value, problem := range map[string]string{"weight: 101": "all.yaml:11: setCanaryScale: the weight is 101, at most 100", "replicas: many": "a whole number from 0 on", "matchTrafficWeight: so": "true or false"} {
		_, err := read(t, ArgoRollouts(), rollout("{canary: {"+weighed+"steps: [{setCanaryScale: {"+value+"}}, {setWeight: 10}]}}")+aService("web")+aService("web-canary")+httpRoute("HTTPRoute"))
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", value, err)
		}
	}
}
