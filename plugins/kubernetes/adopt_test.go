package main

import (
	"net/http"
	"strings"

	"lehr.dev/sdk/serve"
)

// adopting: what managers own that count as us, and intent no longer names, is shown as
// removed, without what the server would put there again; the first push takes their
// entries over. What others own stays.
func adopting(c *cluster) {
	const path = deployments + "adopting/deployments/web"
	manifest := func(spec string) serve.Intent {
		o := object(c.T, strings.Replace(deployment("adopting", spec), `"metadata":{`, `"metadata":{"labels":{"team":"harbour"},`, 1))
		o.Cluster = "adopting"
		return c.asset(o)
	}
	const spec = `"replicas":2,`
	c.byHand("/apis/apps/v1/namespaces/adopting/deployments?fieldManager=kubectl-client-side-apply", http.MethodPost,
		strings.NewReplacer(`"metadata":{"name":"web"`, `"metadata":{"name":"web","labels":{"team":"harbour","old":"1"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}`,
			`"spec":{"containers":[{`, `"spec":{"terminationGracePeriodSeconds":7,"containers":[{"image":"side:1","name":"side"},{"env":[{"name":"OLD","value":"1"}],`).Replace(deployment("adopting", `"replicas":2,"minReadySeconds":5,`)))
	c.apply(path+"?fieldManager=argocd-controller&force=true", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"adopting","annotations":{"argocd.example/id":"7"}}}`)
	c.byHand(path+"?fieldManager=someone", http.MethodPatch, `{"metadata":{"labels":{"theirs":"yes"}}}`)

	// Who does not count as us is left alone.
	o := object(c.T, deployment("adopting", spec))
	if d := c.diff(c.asset(o)); d.Outcome != serve.InSync {
		c.Errorf("with no adopted manager it is %v %s\n%s", d.Outcome, d.Reason, changes(d))
	}
	want := strings.Join([]string{
		"update",
		`metadata.annotations["argocd.example/id"]: "7" → `,
		`metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]: (redacted) → `,
		`metadata.labels.old: "1" → `,
		`spec.minReadySeconds: 5 → `,
		`spec.template.spec.containers[name=side].image: "side:1" → `,
		`spec.template.spec.containers[name=side].imagePullPolicy: "IfNotPresent" → `,
		`spec.template.spec.containers[name=side].name: "side" → `,
		`spec.template.spec.containers[name=side].resources: {} → `,
		`spec.template.spec.containers[name=side].terminationMessagePath: "/dev/termination-log" → `,
		`spec.template.spec.containers[name=side].terminationMessagePolicy: "File" → `,
		`spec.template.spec.containers[name=web].env[name=OLD].name: "OLD" → `,
		`spec.template.spec.containers[name=web].env[name=OLD].value: "1" → `,
		`spec.template.spec.terminationGracePeriodSeconds: 7 → 30`,
	}, "\n")
	d := c.diff(manifest(spec))
	if got := changes(d); got != want {
		c.Fatalf("the plan is %v %s\n%s\nwant\n%s", d.Outcome, d.Reason, got, want)
	}
	c.mustPush(manifest(spec))
	live := c.byHand(path, http.MethodGet, "")
	metadata := live["metadata"].(map[string]any)
	managers := map[string]bool{}
	for _, entry := range metadata["managedFields"].([]any) {
		managers[entry.(map[string]any)["manager"].(string)] = true
	}
	if len(managers) != 2 || !managers["lehr"] || !managers["someone"] {
		c.Errorf("its fields are managed by %v", managers)
	}
	if labels := metadata["labels"].(map[string]any); labels["theirs"] != "yes" || labels["old"] != nil || labels["team"] != "harbour" {
		c.Errorf("its labels are %v", labels)
	}
	pod := live["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	if pod["terminationGracePeriodSeconds"] != 30.0 || len(pod["containers"].([]any)) != 1 {
		c.Errorf("its pods are %v", pod)
	}
	// What intent stops naming later goes, too.
	c.mustPush(manifest(""))
}

// apply is what another manager applies.
func (c *cluster) apply(path, body string) {
	c.Helper()
	if _, err := c.plane.Ask(http.MethodPatch, path, "application/apply-patch+yaml", []byte(body)); err != nil {
		c.Fatal(err)
	}
}
