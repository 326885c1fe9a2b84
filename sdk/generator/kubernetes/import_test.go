package kubernetes_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"lehr.dev/sdk/generator/kubernetes"
)

// TestImport: files are copied as they are, what a cluster said is taken apart,
// and what is made by something else, or is secret, is left out and said.
func TestImport(t *testing.T) {
	web := "# Ours.\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n"
	dump := `{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": "shop"}},
{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}, "data": {"p": "aHVzaA=="}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": true}]}},
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o", "ownerReferences": [{"kind": "Cache", "name": "c"}]}},
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "shop", "uid": "1"}, "spec": {"a": ["yes", "1", "a\nb\n", "", "null", " x", "a: b", "#c", "é"], "big": 9007199254740993, "f": 1.5, "g": 1e+21, "n": null, "t": true, "m": {"y": {}, "1": []}}, "status": {"replicas": 1}}]}`
	mixed := web[8:] + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: t}\nstringData: {p: hush}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"
	mixed = strings.Replace(mixed, "name: web", "name: other", 1)
	made, findings := kubernetes.Import([]kubernetes.Manifest{{File: "a/web.yaml", Text: []byte(web)}, {File: "dump.json", Text: []byte(dump)}, {File: "b/web.yaml", Text: []byte(mixed)}}, settings)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	want := []string{"manifests/default-configmap-m.yaml", "manifests/shop-deployment.apps-d.yaml", "manifests/shop-service-other.yaml", "manifests/web.yaml"}
	if got := slices.Sorted(maps.Keys(made.Files)); !slices.Equal(got, want) {
		t.Errorf("files %v", got)
	}
	if string(made.Files["manifests/web.yaml"]) != web {
		t.Errorf("the copy is %s", made.Files["manifests/web.yaml"])
	}
	left := made.LeftOut
	if len(left) != 6 || left[0].What != "ConfigMap shop/kube-root-ca.crt" || left[2].Why != "made by ReplicaSet r" || left[4].Why != "owned by Cache c, with which it goes" || !strings.Contains(left[5].Why, "no secret enters intent") {
		t.Errorf("left out %+v", left)
	}
	var again []kubernetes.Manifest
	for name, text := range made.Files {
		if strings.Contains(string(text), "hush") || strings.Contains(string(text), "aHVz") {
			t.Errorf("%s has a secret", name)
		}
		again = append(again, kubernetes.Manifest{File: name, Text: text})
	}
	// What was written is read as what was there.
	objects, findings := kubernetes.Read(again, settings)
	if len(findings) > 0 || len(objects) != 4 {
		t.Fatalf("%d objects, %+v", len(objects), findings)
	}
	if got := objects[1].Payload.Json; got != `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"shop"},"spec":{"a":["yes","1","a\nb\n","","null"," x","a: b","#c","é"],"big":9007199254740993,"f":1.5,"g":1e+21,"m":{"1":[],"y":{}},"n":null,"t":true}}` {
		t.Errorf("it became %s, by\n%s", got, made.Files["manifests/shop-deployment.apps-d.yaml"])
	}
	if text := string(made.Files["manifests/shop-deployment.apps-d.yaml"]); !strings.HasPrefix(text, "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d\n") {
		t.Errorf("it reads\n%s", text)
	}
	if !strings.Contains(made.Definition, "render: kubernetes") || !strings.Contains(made.Definition, "{cluster: prod, namespace: default}") || made.Objects["Deployment.apps"] != 1 {
		t.Errorf("%s %v", made.Definition, made.Objects)
	}
}

// TestImportLeavesOutWhatIsWrong: what is no object as it stands is left out and told, with
// its place, and all else is taken over.
func TestImportLeavesOutWhatIsWrong(t *testing.T) {
	object := func(name string) string { return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n" }
	var list []kubernetes.Manifest
	for name, text := range map[string]string{
		"a.yaml":             object("a"),
		"kustomization.yaml": "resources: [a.yaml]\n",
		"broken.yaml":        "a: [\n",
		"once.yaml":          object("before") + "---\napiVersion: batch/v1\nkind: Job\nmetadata: {generateName: once-}\n---\n" + object("after"),
		"later.yaml":         object("twice"),
		"twice.yaml":         object("twice") + "---\n" + object("other"),
		"keys.yaml":          object("keys") + "data: {a: b, a: c}\n---\n" + object("sound"),
		"binary.json":        "\xff\xfe",
		"values.yaml":        "replicas: 3\n",
		"secret.yaml":        object("c") + "data: {password: hunter2hunter2}\n",
	} {
		list = append(list, kubernetes.Manifest{File: name, Text: []byte(text)})
	}
	slices.SortFunc(list, func(a, b kubernetes.Manifest) int { return strings.Compare(a.File, b.File) })
	scoped := settings
	scoped.ClusterScoped = []string{"Thing.example.com"}
	made, findings := kubernetes.Import(list, scoped)
	if len(findings) > 0 {
		t.Errorf("findings %+v", findings)
	}
	var wrong []string
	for _, left := range made.LeftOut {
		if left.Wrong {
			wrong = append(wrong, left.What)
		}
		if left.Why == "" {
			t.Errorf("%s is left out, and nothing says why", left.What)
		}
	}
	if want := []string{"binary.json:1", "broken.yaml:1", "keys.yaml:4", "kustomization.yaml:1", "once.yaml:5", "values.yaml:1", "twice.yaml:1"}; !slices.Equal(wrong, want) {
		t.Errorf("left out as wrong: %v, want %v", wrong, want)
	}
	var again []kubernetes.Manifest
	var names []string
	for _, name := range slices.Sorted(maps.Keys(made.Files)) {
		again = append(again, kubernetes.Manifest{File: name, Text: made.Files[name]})
	}
	objects, findings := kubernetes.Read(again, settings)
	for _, o := range objects {
		names = append(names, o.Payload.Name)
	}
	slices.Sort(names)
	if want := []string{"a", "after", "before", "other", "sound", "twice"}; !slices.Equal(names, want) || len(findings) > 0 {
		t.Errorf("taken over: %v, want %v; %+v", names, want, findings)
	}
	if !strings.Contains(made.Definition, "cluster_scoped: [Thing.example.com]") {
		t.Errorf("the definition forgets what has no namespace:\n%s", made.Definition)
	}
}
