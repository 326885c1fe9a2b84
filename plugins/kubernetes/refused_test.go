package main

import (
	"errors"
	"net/http"
	"strings"

	"lehr.dev/sdk/serve"
)

// denying: a change that the server refuses differs, its plan has the server's words,
// its push fails without a write, and what is there stays. It is no question of waiting for an
// answer, so it is not unknown.
func denying(c *cluster) {
	const namespace, path = "denying", deployments + "denying/deployments/web"
	right := deployment(namespace, `"replicas":2,`)
	c.mustPush(c.asset(object(c.T, right)))
	before := c.byHand(path, http.MethodGet, "")["metadata"].(map[string]any)["resourceVersion"]
	for name, test := range map[string]struct{ manifest, want string }{
		"a value that is out of bounds": {deployment(namespace, `"replicas":-1,`), "spec.replicas: the cluster refuses it: Invalid value: -1: must be greater than or equal to 0"},
		"a field that is missing":       {strings.Replace(right, `"image":"shop/web:v1",`, `"image":"",`, 1), "spec.template.spec.containers[name=web].image: the cluster refuses the change: Deployment.apps \"web\" is invalid: spec.template.spec.containers[0].image: Required value"},
		"a field that is none":          {deployment(namespace, `"replcas":3,"replicas":2,`), "spec.replcas: the cluster refuses the change: failed to create typed patch object (" + namespace + "/web; apps/v1, Kind=Deployment): .spec.replcas: field not declared in schema"},
		"a value of another type":       {deployment(namespace, `"replicas":"two",`), "spec.replicas: the cluster refuses the change: failed to create typed patch object (" + namespace + "/web; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float), got string"},
	} {
		c.mustRefuse(name, c.asset(object(c.T, test.manifest)), test.want)
	}
	if after := c.byHand(path, http.MethodGet, "")["metadata"].(map[string]any)["resourceVersion"]; after != before {
		c.Errorf("the object is in version %v, and was in %v", after, before)
	}

	// What a policy refuses, is refused with its code: 403 is no missing right here.
	labelled := func(label string) serve.Intent {
		return c.asset(object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"a":"`+label+`"},"name":"settings","namespace":"`+namespace+`"}}`))
	}
	c.mustPush(labelled("1"))
	const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	c.byHand(policies, http.MethodPost, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"few"},"spec":{"failurePolicy":"Fail",
"matchConstraints":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"`+namespace+`"}},"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["configmaps"]}]},
"validations":[{"expression":"object.metadata.labels.a != \"2\"","reason":"Forbidden","message":"2 is not for here"}]}}`)
	c.byHand(policies[:len(policies)-len("policies")]+"policybindings", http.MethodPost, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"few"},"spec":{"policyName":"few","validationActions":["Deny"]}}`)
	c.plane.Wait("the policy to count", func() error {
		if d := c.diff(labelled("2")); !strings.Contains(notes(d), "2 is not for here") {
			return errors.New(d.Reason + changes(d))
		}
		return nil
	})
	c.mustRefuse("what a policy forbids", labelled("2"), `metadata.labels.a: the cluster refuses the change: configmaps "settings" is forbidden: ValidatingAdmissionPolicy 'few' with binding 'few' denied request: 2 is not for here`)

	// A right that is missing says nothing of the object.
	o := object(c.T, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"a":"3"},"name":"settings","namespace":"`+namespace+`"}}`)
	o.Cluster = "mayread"
	c.byHand("/apis/rbac.authorization.k8s.io/v1/clusterroles", http.MethodPost, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"mayread"},"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["get","list","watch"]}]}`)
	c.byHand("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", http.MethodPost, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"mayread"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"mayread"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"mayread"}]}`)
	c.plane.Wait("the role to count", func() error {
		if d := c.diff(c.asset(o)); d.Outcome != serve.Unknown || !strings.Contains(d.Reason, `User "mayread" cannot patch resource "configmaps"`) {
			return errors.New(d.Reason + changes(d))
		}
		return nil
	})
}

// mustRefuse wants a change that the server refuses told so, and not written.
func (c *cluster) mustRefuse(name string, asset serve.Intent, want string) {
	c.Helper()
	d := c.diff(asset)
	var lines []string
	for _, change := range d.Plan.Changes {
		lines = append(lines, change.Path+": "+change.Reason)
	}
	if d.Outcome != serve.Differs || d.Plan.Action != serve.ActionUpdate || strings.Join(lines, "\n") != want {
		c.Errorf("%s is %v %s %s\n%s\nwant\n%s", name, d.Outcome, d.Reason, d.Plan.Action, strings.Join(lines, "\n"), want)
	}
	outcome := c.push(asset, d, permits{before: func() { c.Errorf("%s is written", name) }})
	if outcome.Ending != serve.Failed || outcome.Retryable || outcome.Reason == "" {
		c.Errorf("a push of %s ended %+v", name, outcome)
	}
}
