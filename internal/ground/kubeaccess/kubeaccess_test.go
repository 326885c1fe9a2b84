package kubeaccess

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
)

func object(t *testing.T, text string) Object {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	metadata := content["metadata"].(map[string]any)
	o := Object{APIVersion: content["apiVersion"].(string), Kind: content["kind"].(string), Name: metadata["name"].(string), Content: content}
	o.Namespace, _ = metadata["namespace"].(string)
	return o
}

// permits reports whether some rule allows a verb on a resource, by name or on all.
func permits(rules []Rule, verb, group, resource, name string) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool {
		return slices.Contains(r.Verbs, verb) && slices.Contains(r.Groups, group) && slices.Contains(r.Resources, resource) && (len(r.Names) == 0 || slices.Contains(r.Names, name))
	})
}

const (
	web      = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}"
	scaled   = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 3}}"
	secret   = "{apiVersion: v1, kind: Secret, metadata: {name: pilot, namespace: shop}}"
	gathered = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: all}, aggregationRule: {}, rules: [{nonResourceURLs: [/metrics], verbs: [get]}]}"
	shop     = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"
	berths   = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: berths.harbour.example}, spec: {group: harbour.example, scope: Namespaced, names: {kind: Berth, plural: berths}}}"
	guard    = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: guard}, webhooks: [{clientConfig: {url: 'https://elsewhere.example'}}, {failurePolicy: Ignore, clientConfig: {service: {namespace: harbour, name: other}}}, {clientConfig: {service: {namespace: harbour, name: guard}}}]}"
	berth    = "{apiVersion: harbour.example/v1, kind: Berth, metadata: {name: north, namespace: shop}}"
)

func TestEachObjectAddsWhatItNeeds(t *testing.T) {
	down := func(text string) Object { o := object(t, text); o.TurnedDown = true; return o }
	for _, test := range []struct {
		name        string
		objects     []Object
		options     Options
		namespace   string
		yes, denied [][4]string
	}{
		{"a workload", []Object{object(t, web)}, Options{}, "shop",
			[][4]string{{"get", "apps", "deployments", "web"}, {"watch", "apps", "deployments", ""}, {"patch", "apps", "deployments", "other"}, {"create", "apps", "deployments", "x"}, {"list", "", "pods", ""}, {"watch", "", "pods", ""}, {"get", "", "pods/log", "x"}, {"list", "", "events", ""}},
			[][4]string{{"delete", "apps", "deployments", "web"}, {"update", "apps", "deployments", "web"}, {"get", "", "pods", "x"}}},
		{"that is observed", []Object{object(t, web)}, Options{Observe: true}, "shop",
			[][4]string{{"get", "apps", "deployments", "web"}}, [][4]string{{"patch", "apps", "deployments", "web"}, {"create", "apps", "deployments", "web"}}},
		{"that may be replaced", []Object{object(t, web)}, Options{Replaceable: []string{"Deployment.apps"}}, "shop",
			[][4]string{{"delete", "apps", "deployments", "web"}}, [][4]string{{"delete", "apps", "deployments", "other"}}},
		{"that is turned down", []Object{down(web)}, Options{}, "shop",
			[][4]string{{"delete", "apps", "deployments", "web"}, {"get", "apps", "deployments", "web"}}, [][4]string{{"patch", "apps", "deployments", "web"}, {"delete", "apps", "deployments", "other"}}},
		{"a number of replicas", []Object{object(t, scaled)}, Options{Observe: true}, "shop",
			[][4]string{{"list", "autoscaling", "horizontalpodautoscalers", ""}}, [][4]string{{"patch", "apps", "deployments", "web"}}},
		{"no number of replicas", []Object{object(t, web)}, Options{}, "shop", nil, [][4]string{{"list", "autoscaling", "horizontalpodautoscalers", ""}}},
		{"a Secret", []Object{object(t, secret)}, Options{}, "shop",
			[][4]string{{"list", "", "secrets", "pilot"}, {"create", "", "secrets", "pilot"}}, [][4]string{{"get", "", "secrets", "other"}, {"create", "", "secrets", "other"}}},
		{"a Secret that may be replaced", []Object{object(t, secret)}, Options{Replaceable: []string{"Secret"}}, "shop",
			[][4]string{{"create", "", "secrets", "other"}, {"delete", "", "secrets", "pilot"}}, [][4]string{{"patch", "", "secrets", "other"}}},
		{"a namespace", []Object{object(t, shop)}, Options{}, "",
			[][4]string{{"patch", "", "namespaces", "shop"}, {"get", "", "namespaces", "shop"}}, [][4]string{{"patch", "", "namespaces", "other"}, {"create", "", "namespaces", "other"}}},
		{"a namespace that goes", []Object{down(shop)}, Options{}, "shop", [][4]string{{"list", "*", "*", ""}}, [][4]string{{"get", "*", "*", ""}}},
		{"a kind that goes", []Object{down(berths)}, Options{}, "", [][4]string{{"list", "harbour.example", "berths", ""}}, nil},
		{"a kind that it defines", []Object{object(t, berth), object(t, berths)}, Options{}, "shop", [][4]string{{"patch", "harbour.example", "berths", "north"}}, nil},
		{"a kind that is given", []Object{object(t, berth)}, Options{Plurals: map[string]string{"Berth.harbour.example": "berthes"}}, "shop",
			[][4]string{{"patch", "harbour.example", "berthes", "north"}}, nil},
		{"a webhook", []Object{object(t, guard)}, Options{}, "harbour",
			[][4]string{{"get", "", "services", "guard"}, {"list", "discovery.k8s.io", "endpointslices", ""}}, [][4]string{{"get", "", "services", "other"}, {"patch", "", "services", "guard"}}},
		{"a role that gathers others", []Object{object(t, gathered)}, Options{}, "",
			[][4]string{{"escalate", "rbac.authorization.k8s.io", "clusterroles", "all"}}, [][4]string{{"escalate", "rbac.authorization.k8s.io", "clusterroles", "other"}}},
	} {
		access, err := Need(test.objects, test.options)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		for _, p := range test.yes {
			if !permits(access[test.namespace], p[0], p[1], p[2], p[3]) {
				t.Errorf("%s may not %v: %+v", test.name, p, access[test.namespace])
			}
		}
		for _, p := range test.denied {
			if permits(access[test.namespace], p[0], p[1], p[2], p[3]) {
				t.Errorf("%s may %v", test.name, p)
			}
		}
	}
}

func TestWhatCannotBeKnownIsNamed(t *testing.T) {
	for want, options := range map[string]Options{
		"--plural Berth.harbour.example=berths": {},
		"it has: Berth.harbour.example":         {Plurals: map[string]string{"Berth.harbour.example": "berths", "Boat.harbour.example": "boats"}},
		"as Kind.group":                         {Plurals: map[string]string{"Berth.harbour.example": "berths"}, Replaceable: []string{"berths"}},
	} {
		_, err := Need([]Object{object(t, berth)}, options)
		if refusal, ok := errors.AsType[*fault.Error](err); !ok || !strings.Contains(refusal.Message+refusal.Hint, want) {
			t.Errorf("%v gives %v, want %s", options, err, want)
		}
	}
}

// TestYAMLSaysWhatJSONSays: both forms are the same manifest.
func TestYAMLSaysWhatJSONSays(t *testing.T) {
	access, err := Need([]Object{object(t, web), object(t, secret), object(t, gathered)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	roles := Manifests(access, "lehr-shop")
	all := slices.Concat(roles, Bindings(roles, []Subject{User("ann"), Group("people: all"), User("system:serviceaccount:lehr:shop")}))
	if len(all) != 4 || all[2].Subjects[2] != (Subject{Kind: "ServiceAccount", Name: "shop", Namespace: "lehr"}) {
		t.Fatalf("they are %+v", all)
	}
	for _, manifest := range all {
		var written, encoded any
		text, err := json.Marshal(manifest)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &encoded); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(manifest.YAML()), &written); err != nil || !reflect.DeepEqual(written, encoded) {
			t.Errorf("%v: the YAML is\n%s\nthe JSON %s", err, manifest.YAML(), text)
		}
		var commented any
		if err := yaml.Unmarshal([]byte(Commented(manifest.YAML())), &commented); err != nil || commented != nil {
			t.Errorf("commented it is %v, %v", commented, err)
		}
	}
}
