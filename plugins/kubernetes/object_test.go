package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/plugintest"
	"lehr.dev/sdk/serve"
	"lehr.dev/test/building"
)

// TestOnARealCluster holds the plugin to one real API server. Its parts share it, each in
// a namespace of its own: to start one takes seconds.
func TestOnARealCluster(t *testing.T) {
	p := plane.Start(t)
	c := &cluster{T: t, plane: p, list: writeList(t, p)}
	p.Wait("the namespace kube-system", func() error {
		_, err := p.Ask(http.MethodGet, "/api/v1/namespaces/kube-system", "", nil)
		return err
	})
	for name, part := range map[string]func(*cluster){
		"creating": creating, "editing": editing, "removing": removing, "racing": racing, "replacing": replacing, "deleting": deleting,
		"autoscaling": autoscaling, "defining": defining, "observing": observing, "faring": faring, "hiding": hiding, "refusing": refusing, "adopting": adopting,
		"bounding": bounding, "knowing": knowing, "hooking": hooking, "denying": denying, "judging": judging, "showing": showing, "fickle": ficklePredictions, "telling": telling,
	} {
		t.Run(name, func(t *testing.T) { part(c.with(t, name)) })
	}
	t.Run("conformance", func(t *testing.T) { conformance(t, p, c.list) })
}

func deployment(namespace, spec string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"` + namespace + `"},"spec":{` + spec +
		`"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"shop/web:v1","name":"web","ports":[{"containerPort":80}]}]}}}}`
}

const deployments = "/apis/apps/v1/namespaces/"

// creating: the plan is intent's fields alone, and one write makes Lehr who applies them.
func creating(c *cluster) {
	settings := c.asset(object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"counted","namespace":"creating"}}`))
	before := c.requests()
	if outcome := c.push(settings, c.diff(settings), permits{}); outcome.Ending != serve.Pushed {
		c.Errorf("a push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	c.plane.Wait("a creation to be one dry run and one write", func() error { // A request is counted a moment after its answer.
		after := c.requests()
		if dry, written := after["APPLY configmaps All"]-before["APPLY configmaps All"], after["APPLY configmaps "]-before["APPLY configmaps "]; dry != 1 || written != 1 {
			return fmt.Errorf("it took %d dry runs and %d writes", dry, written)
		}
		return nil
	})
	asset := c.asset(object(c.T, deployment("creating", `"replicas":2,`)))
	d := c.diff(asset)
	if d.Plan.Action != serve.ActionCreate || !strings.Contains(changes(d), `spec.template.spec.containers[name=web].image:  → "shop/web:v1"`) || strings.Contains(changes(d), "strategy") {
		c.Errorf("the plan is\n%s", changes(d))
	}
	if len(d.Impacts) != 1 || d.Impacts[0] != (serve.Impact{Dimension: "replicas", Target: 2}) {
		c.Errorf("its impacts are %v", d.Impacts)
	}
	c.mustPush(asset)
	live := c.byHand(deployments+"creating/deployments/web", http.MethodGet, "")
	fields := live["metadata"].(map[string]any)["managedFields"].([]any)
	if first := fields[0].(map[string]any); len(fields) != 1 || first["manager"] != "lehr" || first["operation"] != "Apply" {
		c.Errorf("its fields are managed by %v", fields)
	}
	again := c.diff(asset)
	kube := c.byHand("/api/v1/namespaces/kube-system", http.MethodGet, "")["metadata"].(map[string]any)["uid"].(string)
	if want := serve.ResourceKey("kubernetes:" + kube + "/apps/Deployment/creating/web"); again.ResourceKey != want || d.ResourceKey != want {
		c.Errorf("its keys are %s and %s, want %s", d.ResourceKey, again.ResourceKey, want)
	}
}

// editing: what a person changes is shown with who did it, and repaired; what is not of
// intent is left alone.
func editing(c *cluster) {
	asset := c.asset(object(c.T, deployment("editing", `"replicas":2,`)))
	c.mustPush(asset)
	path := deployments + "editing/deployments/web"
	c.byHand(path+"?fieldManager=kubectl-edit", http.MethodPatch, `{"metadata":{"labels":{"theirs":"yes"}},"spec":{"replicas":5,"template":{"spec":{"containers":[{"name":"web","image":"shop/web:v9","ports":[{"containerPort":80}]}]}}}}`)
	want := "update\nspec.replicas: 5 → 2 by kubectl-edit\nspec.template.spec.containers[name=web].image: \"shop/web:v9\" → \"shop/web:v1\" by kubectl-edit"
	if got := changes(c.diff(asset)); got != want {
		c.Errorf("the plan is\n%s\nwant\n%s", got, want)
	}
	c.mustPush(asset)
	labels := c.byHand(path, http.MethodGet, "")["metadata"].(map[string]any)["labels"].(map[string]any)
	if labels["theirs"] != "yes" {
		c.Errorf("what is not of intent is now %v", labels)
	}
}

// removing: what intent no longer names goes, also right after the creation.
func removing(c *cluster) {
	first := c.asset(object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"b.c/d":"2"},"name":"settings","namespace":"removing"},"data":{"a":"1"}}`))
	second := c.asset(object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"removing"},"data":{"a":"1"}}`))
	c.mustPush(first)
	if got, want := changes(c.diff(second)), "update\nmetadata.annotations[\"b.c/d\"]: \"2\" → "; got != want {
		c.Errorf("the plan is\n%s\nwant\n%s", got, want)
	}
	c.mustPush(second)
}

// racing: what was planned for another state changes nothing.
func racing(c *cluster) {
	const path = "/api/v1/namespaces/racing/configmaps"
	asset := c.asset(object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"racing"},"data":{"a":"1"}}`))
	theirs := permits{before: func() {
		c.byHand(path, http.MethodPost, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"a":"theirs"}}`)
	}}
	if outcome := c.push(asset, c.diff(asset), theirs); outcome.Ending != serve.Stale {
		c.Errorf("a creation where something appears meanwhile ended %s: %s", outcome.Ending, outcome.Reason)
	}
	edit := permits{before: func() { c.byHand(path+"/settings", http.MethodPatch, `{"data":{"a":"edited"}}`) }}
	if outcome := c.push(asset, c.diff(asset), edit); outcome.Ending != serve.Stale {
		c.Errorf("a change of what was edited meanwhile ended %s: %s", outcome.Ending, outcome.Reason)
	}
	if got := c.byHand(path+"/settings", http.MethodGet, "")["data"].(map[string]any)["a"]; got != "edited" {
		c.Errorf("a stale push wrote %v", got)
	}
	down := c.asset(object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"racing"},"data":{"a":"1"}}`), &intentpb.Turndown{Reason: "gone"})
	edit.before = func() { c.byHand(path+"/settings", http.MethodPatch, `{"data":{"a":"again"}}`) }
	if outcome := c.push(down, c.diff(down), edit); outcome.Ending != serve.Stale {
		c.Errorf("a deletion of what was edited meanwhile ended %s: %s", outcome.Ending, outcome.Reason)
	}
	c.byHand(path+"/settings", http.MethodGet, "")
}

// replacing: what cannot be changed in place is a replacement, which names the field.
func replacing(c *cluster) {
	job := func(image string) serve.Intent {
		return c.asset(object(c.T, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"once","namespace":"replacing"},"spec":{"template":{"spec":{"containers":[{"image":"`+image+`","name":"main"}],"restartPolicy":"Never"}}}}`))
	}
	begin := func(asset serve.Intent) {
		c.Helper()
		if outcome := c.push(asset, c.diff(asset), permits{}); outcome.Ending != serve.Pushed {
			c.Fatalf("the push ended %s: %s", outcome.Ending, outcome.Reason)
		}
	}
	begin(job("a:1"))
	path := "/apis/batch/v1/namespaces/replacing/jobs/once"
	before := c.byHand(path, http.MethodGet, "")["metadata"].(map[string]any)["uid"]
	d := c.diff(job("a:2"))
	if d.Plan.Action != serve.ActionReplace || !d.Plan.Destructive() || changes(d) != "replace\nspec.template.spec.containers[name=main].image: \"a:1\" → \"a:2\"" {
		c.Fatalf("the plan is %v %s\n%s", d.Outcome, d.Reason, changes(d))
	}
	if !strings.Contains(d.Plan.Changes[0].Reason, "immutable") {
		c.Errorf("its reason is %q", d.Plan.Changes[0].Reason)
	}
	begin(job("a:2"))
	if after := c.byHand(path, http.MethodGet, "")["metadata"].(map[string]any)["uid"]; after == before {
		c.Error("the Job is the same one")
	}
	// Nothing is lost with a Job that has ended.
	c.byHand(path+"/status", http.MethodPatch, `{"status":{"startTime":"2026-11-26T10:00:00Z","completionTime":"2026-11-26T10:01:00Z","succeeded":1,"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}`)
	if d := c.diff(job("a:3")); d.Plan.Action != serve.ActionUpdate || d.Plan.Destructive() {
		c.Errorf("when it has ended the plan is %v, destructive %v\n%s", d.Outcome, d.Plan.Destructive(), changes(d))
	}
	begin(job("a:3"))
}

// deleting: a turndown ends when nothing is left, and says what it waits for.
func deleting(c *cluster) {
	manifest := object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"deleting","finalizers":["example.com/clean"]},"data":{"a":"1"}}`)
	c.mustPush(c.asset(manifest))
	down := c.asset(manifest, &intentpb.Turndown{Reason: "gone"})
	d := c.diff(down)
	if d.Plan.Action != serve.ActionDelete || !d.Plan.Destructive() {
		c.Fatalf("the plan is %s", changes(d))
	}
	if outcome := c.push(down, d, permits{}); outcome.Ending != serve.Pushed {
		c.Fatalf("the push ended %s: %s", outcome.Ending, outcome.Reason)
	}
	for _, asset := range []serve.Intent{down, c.asset(manifest)} {
		if d := c.diff(asset); d.Outcome != serve.Pending || !strings.Contains(d.Reason, "example.com/clean") || d.PendingSince.IsZero() {
			c.Errorf("under way it is %v: %s", d.Outcome, d.Reason)
		}
	}
	c.byHand("/api/v1/namespaces/deleting/configmaps/settings", http.MethodPatch, `{"metadata":{"finalizers":null}}`)
	if d := c.diff(down); d.Outcome != serve.InSync || len(d.Current) > 0 {
		c.Errorf("in the end it is %v: %s", d.Outcome, d.Reason)
	}
}

// autoscaling: replicas that are left to production are never reset, before and after
// something else owns them.
func autoscaling(c *cluster) {
	path := deployments + "autoscaling/deployments/web"
	replicas := func() any { return c.byHand(path, http.MethodGet, "")["spec"].(map[string]any)["replicas"] }
	c.mustPush(c.asset(object(c.T, deployment("autoscaling", `"replicas":4,`))))
	version := func(v string) serve.Intent {
		return c.asset(object(c.T, strings.Replace(deployment("autoscaling", `"replicas":2,`), "shop/web:v1", "shop/web:"+v, 1)), unmanaged("json.spec.replicas"))
	}
	d := c.diff(version("v1"))
	if d.Outcome != serve.InSync || len(d.Unmanaged) != 1 || d.Unmanaged[0].Current != "4" || d.Unmanaged[0].Target != "2" {
		c.Errorf("left to production it is %v %s, beside %v", d.Outcome, changes(d), d.Unmanaged)
	}
	c.mustPush(version("v2"))
	if got := replicas(); got != 4.0 {
		c.Fatalf("before an autoscaler has them there are %v replicas", got)
	}
	c.byHand(path+"/scale?fieldManager=autoscaler", http.MethodPatch, `{"spec":{"replicas":7}}`)
	if d := c.diff(version("v2")); d.Outcome != serve.InSync {
		c.Errorf("scaled it is %v %s %s", d.Outcome, d.Reason, changes(d))
	}
	c.mustPush(version("v3"))
	if got := replicas(); got != 7.0 {
		c.Errorf("after a change there are %v replicas", got)
	}
}

// defining: objects of a kind that is not there yet have the plan that they have later.
func defining(c *cluster) {
	berth := c.asset(object(c.T, `{"apiVersion":"harbour.example/v1","kind":"Berth","metadata":{"name":"north","namespace":"defining"},"spec":{"length":9}}`))
	early := c.diff(berth)
	if early.Plan.Action != serve.ActionCreate || !strings.Contains(early.Plan.Changes[len(early.Plan.Changes)-3].Reason+early.Plan.Changes[2].Reason, "no kind Berth") {
		c.Errorf("without its kind it is %v %s\n%+v", early.Outcome, early.Reason, early.Plan.Changes)
	}
	if outcome := c.push(berth, early, permits{}); outcome.Ending != serve.Failed || !outcome.Retryable {
		c.Errorf("pushed without its kind it ended %+v", outcome)
	}
	c.mustPush(c.asset(object(c.T, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"berths.harbour.example"},"spec":{"group":"harbour.example","names":{"kind":"Berth","plural":"berths"},"scope":"Namespaced","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"properties":{"spec":{"properties":{"length":{"type":"integer"}},"type":"object"}},"type":"object"}},"served":true,"storage":true}]}}`)))
	var late serve.Difference
	c.plane.Wait("the kind to be seen", func() error {
		late = kindOf(c.T, c.list).Diff(c.Context(), []serve.Intent{berth})[0]
		for _, change := range late.Plan.Changes {
			if change.Reason != "" {
				return context.DeadlineExceeded
			}
		}
		return nil
	})
	if late.Plan.Digest() != early.Plan.Digest() {
		c.Errorf("the plan was\n%s\nand is\n%s", changes(early), changes(late))
	}
	c.kind = kindOf(c.T, c.list)
	c.mustPush(berth)
	missing := c.diff(c.asset(object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"none"}}`)))
	found := false
	for _, change := range missing.Plan.Changes {
		found = found || change.Reason == "not asked yet: Namespace none is missing"
	}
	if !found || missing.Plan.Action != serve.ActionCreate {
		c.Errorf("without its namespace it is %v %+v", missing.Outcome, missing.Plan)
	}
}

// observing: an identity that may only read compares, and pushes nothing.
func observing(c *cluster) {
	c.byHand("/apis/rbac.authorization.k8s.io/v1/clusterroles", http.MethodPost, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"looker"},"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["get","list"]}]}`)
	c.byHand("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", http.MethodPost, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"looker"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"looker"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"lookers"}]}`)
	manifest := func(image string) string {
		return strings.Replace(deployment("observing", `"replicas":2,`), "shop/web:v1", image, 1)
	}
	c.mustPush(c.asset(object(c.T, manifest("a:1"))))
	looking := func(text string) serve.Intent {
		o := object(c.T, text)
		o.Cluster = "looking"
		return c.asset(o)
	}
	c.plane.Wait("the role to count", func() error {
		if d := c.diff(looking(manifest("a:1"))); d.Outcome == serve.Unknown {
			return context.DeadlineExceeded
		}
		return nil
	})
	if d := c.diff(looking(manifest("a:1"))); d.Outcome != serve.InSync {
		c.Errorf("what is as intended is %v %s\n%s", d.Outcome, d.Reason, changes(d))
	}
	other := looking(manifest("a:2"))
	d := c.diff(other)
	if changes(d) != "update\nspec.template.spec.containers[name=web].image: \"a:1\" → \"a:2\"" {
		c.Errorf("what is not is %v %s\n%s", d.Outcome, d.Reason, changes(d))
	}
	if outcome := c.push(other, d, permits{}); outcome.Ending != serve.Failed || !strings.Contains(outcome.Reason, "observe") {
		c.Errorf("a push ended %s: %s", outcome.Ending, outcome.Reason)
	}
}

// faring: health is that of the workload, with the reason of its worst pod.
func faring(c *cluster) {
	asset := c.asset(object(c.T, deployment("faring", `"replicas":1,`)))
	c.mustPush(asset)
	path := deployments + "faring/deployments/web"
	c.byHand("/api/v1/namespaces/faring/pods", http.MethodPost, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"shop/web:v1"}]}}`)
	pod := func(status string) {
		c.byHand("/api/v1/namespaces/faring/pods/web-1/status", http.MethodPatch, `{"status":`+status+`}`)
	}
	for status, want := range map[string]string{
		`{"containerStatuses":[{"name":"web","image":"i","imageID":"","ready":false,"restartCount":0,"state":{"waiting":{"reason":"ImagePullBackOff","message":"manifest unknown"}}}]}`:                               "ImagePullBackOff: manifest unknown",
		`{"containerStatuses":[{"name":"web","image":"i","imageID":"","ready":false,"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":3,"reason":"Error"}}}]}`: "exit code 3 (Error), 3 restarts",
		`{"containerStatuses":null,"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes are available"}]}`:                                                             "Unschedulable: 0/3 nodes are available",
		`{"containerStatuses":[{"name":"web","image":"i","imageID":"","ready":false,"restartCount":0,"state":{"running":{}}}],"conditions":null}`:                                                                     "readiness probe",
	} {
		pod(status)
		if d := c.diff(asset); d.Health.State != serve.Unhealthy || !strings.Contains(d.Health.Reason, want) || !strings.Contains(d.Health.Reason, "pod web-1") {
			c.Errorf("its health is %+v, want …%s…", d.Health, want)
		}
	}
	c.byHand(path+"/status", http.MethodPatch, `{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[{"type":"Available","status":"True","reason":"MinimumReplicasAvailable"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`)
	d := c.diff(asset)
	if d.Health.State != serve.Healthy || d.Health.ObservedVersion != "v1" || d.Impacts[0] != (serve.Impact{Dimension: "replicas", Current: 1, Target: 1}) {
		c.Errorf("when it is ready it is %+v, %v", d.Health, d.Impacts)
	}
}

// judging: a kind for which the list has an expression fares as that says.
func judging(c *cluster) {
	settings := func(value string) serve.Intent {
		o := object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"judging"},"data":{"a":"`+value+`"}}`)
		o.Cluster = "judging"
		return c.asset(o)
	}
	c.mustPush(settings("1"))
	if d := c.diff(settings("1")); d.Health.State != serve.Healthy {
		c.Errorf("it is %+v", d.Health)
	}
	c.mustPush(settings("2"))
	if d := c.diff(settings("2")); d.Health.State != serve.Unhealthy || d.Health.Reason != "a is 2" {
		c.Errorf("it is %+v", d.Health)
	}
}

// showing: the state that a Health addon looks at has the object's status, and no other has.
func showing(c *cluster) {
	o := object(c.T, deployment("showing", `"replicas":2,`))
	health := &intentpb.Health{Expression: "parseJSON(payload.json).status.observedGeneration == 7"}
	c.mustPush(c.asset(o, health))
	c.byHand(deployments+"showing/deployments/web/status", http.MethodPatch, `{"status":{"observedGeneration":7}}`)
	if d := c.diff(c.asset(o, health)); d.Outcome != serve.InSync || !strings.Contains(string(d.Current), `"observedGeneration":7`) {
		c.Errorf("it is %v %s, and shows %s", d.Outcome, d.Reason, d.Current)
	}
	if d := c.diff(c.asset(o)); strings.Contains(string(d.Current), "observedGeneration") {
		c.Errorf("without the addon it shows %s", d.Current)
	}
}

// hiding: nothing shows what is in a Secret.
func hiding(c *cluster) {
	c.mustPush(c.asset(object(c.T, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pilot","namespace":"hiding"},"data":{"key":"aHVzaC1odXNo"}}`)))
	d := c.diff(c.asset(object(c.T, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pilot","namespace":"hiding"},"data":{"key":"aHVzaA==","more":"aHVzaA=="}}`)))
	if got, want := changes(d), "update\ndata.key: (redacted) → (redacted)\ndata.more:  → (redacted)"; got != want || strings.Contains(string(d.Current), "aHVzaC1odXNo") {
		c.Errorf("the plan is\n%s\nand shows %s", got, d.Current)
	}
}

// refusing: whoever may not is told so, and a cluster that is not listed is unknown.
func refusing(c *cluster) {
	o := object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"refusing"}}`)
	o.Cluster = "weak"
	if d := c.diff(c.asset(o)); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, `User "nobody" cannot get`) {
		c.Errorf("without the right to read it is %v %s", d.Outcome, d.Reason)
	}
	o.Cluster = "elsewhere"
	if d := c.diff(c.asset(o)); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, "not listed for the partition shop") {
		c.Errorf("in a cluster that is not listed it is %v %s", d.Outcome, d.Reason)
	}
	wrong := c.asset(object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`))
	if d := c.diff(wrong); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, "intent names none") {
		c.Errorf("without a namespace it is %v %s", d.Outcome, d.Reason)
	}
}

// conformance holds the program to the protocol, over the real wire.
func conformance(t *testing.T, p *plane.Plane, list string) {
	program := filepath.Join(t.TempDir(), "lehr-kubernetes")
	if err := (building.Program{Of: ".", Flags: []string{"-ldflags", "-s -w"}}).At(program); err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(list, "clusters.yaml", "all.yaml", 1)
	writeAll(t, p, config)
	const path = "/api/v1/namespaces/default/configmaps/settings"
	go finalize(t.Context(), p, path)
	first := object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"default"},"data":{"a":"1","b":"2"}}`)
	second := object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"default"},"data":{"a":"2"}}`)
	plugintest.Run(t, plugintest.Target{
		Run: []string{program, "--clusters", config}, First: first, Second: second,
		Production: func(context.Context) (string, error) {
			answer, err := p.Ask(http.MethodGet, path, "", nil)
			if err != nil && strings.Contains(err.Error(), "NotFound") {
				return "", nil
			}
			return string(answer), err
		},
	})
}
