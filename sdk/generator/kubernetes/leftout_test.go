package kubernetes

import (
	"strings"
	"testing"
)

// TestOneWrongObjectIsLeftOut: what is wrong with one object keeps no other back, and
// it is said which one it would have been, or that it may be any.
func TestOneWrongObjectIsLeftOut(t *testing.T) {
	const good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n---\n"
	for name, c := range map[string]struct {
		text, id string
		unknown  bool
		want     string
	}{
		"no kind":                     {"metadata: {name: a}", "", true, "an object has no apiVersion or kind"},
		"no object":                   {"- a\n- b", "", true, "a document is no object"},
		"a list inside":               {"apiVersion: v1\nkind: List\nitems:\n- [1]\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}", "", true, "items[0] is no object"},
		"a generateName":              {"apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: once-}", "", false, "a Job has no metadata.name"},
		"no name":                     {"apiVersion: batch/v1\nkind: Job\nmetadata: {}", "", true, "a Job has no metadata.name"},
		"a kustomization":             {"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]", "", false, "is for Kustomize"},
		"a Secret's content":          {"apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\ndata: {a: Yg==}", "kubernetes/eu/shop/secret/s", false, "Secret s has data"},
		"what readers differ":         {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: yes}", "kubernetes/eu/default/configmap/a", false, "data.x is yes, no, on or off"},
		"a key twice":                 {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\nrules: []\nrules: []", "kubernetes/eu/clusterrole.rbac.authorization.k8s.io/a", false, "rules is there twice"},
		"a name twice":                {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, name: b}", "", true, "metadata.name is there twice"},
		"no YAML":                     {"a: [", "", true, "not valid YAML"},
		"no namespace's name":         {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: A_B}", "", true, "metadata.namespace of ConfigMap a is no name"},
		"a name that is too long":     {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + strings.Repeat("a", 250) + "}", "", false, "at most 253 are allowed"},
		"an object that is too large": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: \"" + strings.Repeat("a", maxObjectBytes) + "\"}", "kubernetes/eu/default/configmap/a", false, "Kubernetes takes at most"},
	} {
		objects, findings := Read([]Manifest{{File: "a.yaml", Text: []byte(good + c.text)}, {File: "b.yaml", Text: []byte(strings.ReplaceAll(good, "good", "other"))}}, Settings{Cluster: "eu", Namespace: "default"})
		has := ""
		for _, o := range objects {
			has += o.Payload.Name + " "
		}
		if len(findings) != 1 || findings[0].Fails() || !strings.Contains(findings[0].Message, c.want) || findings[0].ID != c.id || findings[0].Unknown != c.unknown {
			t.Errorf("%s: it says %+v", name, findings)
		}
		if !strings.Contains(has, "good") || !strings.Contains(has, "other") || strings.HasPrefix(has, "a") {
			t.Errorf("%s: the objects are %s", name, has)
		}
		if left := Whole(nil, findings); !left[0].Fails() {
			t.Errorf("%s: nothing else is there, and it is no error", name)
		}
	}
	// What is omitted is not told of, whatever is wrong with it.
	_, findings := Read([]Manifest{{File: "a.yaml", Text: []byte(good + "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: y}")}}, Settings{Cluster: "eu", Namespace: "default", Omit: []string{"Secret/s"}})
	if len(findings) > 0 {
		t.Errorf("it says %+v", findings)
	}
	// The same object twice is no object that is wrong: nobody knows which is meant.
	_, findings = Read([]Manifest{{File: "a.yaml", Text: []byte(good + good)}}, Settings{Cluster: "eu", Namespace: "default"})
	if len(findings) != 1 || !findings[0].Fails() {
		t.Errorf("it says %+v", findings)
	}
}
