package kubernetes_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/reflect/protoregistry"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/generator"
	"lehr.dev/sdk/generator/kubernetes"
	"lehr.dev/test/detector"
)

var settings = kubernetes.Settings{Cluster: "prod", Namespace: "default"}

func read(t *testing.T, text string) []kubernetes.Object {
	t.Helper()
	objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: "a.yaml", Text: []byte(text)}}, settings)
	for _, f := range findings {
		t.Errorf("unexpected: %+v", f)
	}
	return objects
}

// object is a ConfigMap with a field of data.
func object(field string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: " + field + "\n"
}

// TestCanonicalJSON: one value has one text, whatever it was written as.
func TestCanonicalJSON(t *testing.T) {
	for written, want := range map[string]string{
		"9007199254740993":        "9007199254740993",
		"9223372036854775807":     "9223372036854775807",
		"-9223372036854775808":    "-9223372036854775808",
		"-0":                      "0",
		"+5":                      "5",
		"0644":                    "420",
		"0x1F":                    "31",
		"1.0":                     "1",
		"1e3":                     "1000",
		"1e21":                    "1e+21",
		"0.0000001":               "1e-7",
		"1.5":                     "1.5",
		"~":                       "null",
		"":                        "null",
		"True":                    "true",
		"!!str 12":                `"12"`,
		"'NO'":                    `"NO"`,
		"yn":                      `"yn"`,
		"0x":                      `"0x"`,
		"1_a":                     `"1_a"`,
		"!!float 3":               "3",
		"!!int 0x10":              "16",
		"2001-01-01":              `"2001-01-01"`,
		"1.2.3":                   `"1.2.3"`,
		`"<&>\u2028\t\u0001\\\""`: "\"<&>\u2028\\t\\u0001\\\\\\\"\"",
		"[b, a, {}, []]":          `["b","a",{},[]]`,
		"{b: 1, a: 2, 8080: 3}":   `{"8080":3,"a":2,"b":1}`,
		"|\n    a\n    b":         `"a\nb\n"`,
		"&v {a: &w [1]}":          `{"a":[1]}`,
		"{<<: [{a: 1, b: 2}, {a: 4, c: 5}], b: 3}":      `{"a":1,"b":3,"c":5}`,
		"{true: 1, 1.5: 2, -7: 3, 'y': 4, \"0644\": 5}": `{"-7":3,"0644":5,"1.5":2,"true":1,"y":4}`,
	} {
		objects := read(t, object(written))
		if len(objects) != 1 {
			continue
		}
		want = `{"apiVersion":"v1","data":{"x":` + want + `},"kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`
		if got := objects[0].Payload.Json; got != want {
			t.Errorf("%s became\n%s, want\n%s", written, got, want)
		}
	}
	yaml := read(t, object("{i: 1234567890123456789, s: \"a\\tb\", t: [true, null, 1.5]}"))
	json := read(t, "\t{\"kind\": \"ConfigMap\",\n\t\"apiVersion\": \"v1\", \"data\": {\"x\": {\"t\": [true, null, 1.50], \"s\": \"a\\tb\", \"i\": 1234567890123456789}}, \"metadata\": {\"name\": \"a\"}}")
	if yaml[0].Payload.Json != json[0].Payload.Json {
		t.Errorf("YAML and JSON of one object differ:\n%s\n%s", yaml[0].Payload.Json, json[0].Payload.Json)
	}
	if emoji := read(t, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"x":"\ud83d\ude00"}}`); !strings.Contains(emoji[0].Payload.Json, "😀") {
		t.Errorf("escapes of JSON were lost: %s", emoji[0].Payload.Json)
	}
}

// TestRefused: what readers differ about, what is broken, and what is hostile
// is refused, by file, line and field, and without the value (S13).
func TestRefused(t *testing.T) {
	laughs := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'i'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10), ", "))
	}
	for name, c := range map[string]struct {
		text, want string
		line       int
	}{
		"NO":              {object("NO"), "data.x is yes, no, on or off", 5},
		"y":               {object("y"), "data.x is yes, no, on or off, or y or n alone", 5},
		"N in a list":     {object("[a, N]"), "data.x[1] is yes, no, on or off, or y or n alone", 5},
		"y as a key":      {object("{x: 1, y: 2}"), "data.x has the key \"y\", which is yes, no, on or off, or y or n alone", 5},
		"On as a key":     {object("{On: 1}"), "data.x has the key \"On\", which is yes, no, on or off", 5},
		"True as a key":   {object("{True: 1}"), "data.x has the key \"True\", which is a number or a truth value", 5},
		"0644 as a key":   {object("{0644: 1}"), "data.x has the key \"0644\", which is a number or a truth value", 5},
		"1.10 as a key":   {object("{1.10: 1}"), "data.x has the key \"1.10\", which is a number or a truth value", 5},
		"1e6 as a key":    {object("{1e6: 1}"), "data.x has the key \"1e6\", which is a number or a truth value", 5},
		"1_0 as a key":    {object("{1_0: 1}"), "data.x has the key \"1_0\", which is a number to some readers", 5},
		"0B11":            {object("0B11"), "data.x is a number to some readers", 5},
		"-0X1f":           {object("-0X1f"), "data.x is a number to some readers", 5},
		"0O17":            {object("0O17"), "data.x is a number to some readers", 5},
		"+_5":             {object("+_5"), "data.x is a number to some readers", 5},
		"1_0e3":           {object("1_0e3"), "data.x is a number to some readers", 5},
		"2^63":            {object("9223372036854775808"), "data.x is an integer outside of -9223372036854775808 to", 5},
		"2^64 and more":   {object("18446744073709551617"), "data.x is an integer outside of", 5},
		"2^63 in JSON":    {`{"kind": "ConfigMap", "data": {"x": 9223372036854775808}}`, "data.x is an integer outside of", 1},
		"no integer":      {object("!!int 1.0"), "data.x has the tag !!int, and is no such value", 5},
		"no null":         {object("!!null x"), "data.x has the tag !!null, and is no such value", 5},
		"<< twice":        {object("\n    <<: {a: 1}\n    <<: {b: 1}"), "data.x has << twice: it was at line 6 before", 7},
		"<< after":        {object("\n    a: 1\n    <<: {a: 2}"), "data.x.a is written before << adds it", 7},
		"1 and '1'":       {object("{1: a, '1': b}"), "data.x.1 is there twice", 5},
		"after ...":       {object("1") + "...\n" + object("2"), "a document ends with ... here", 6},
		"text after ---":  {"--- {a: 1}\n", "a line that begins with --- holds more", 1},
		"directive":       {"%YAML 1.2\n---\n" + object("1"), "not valid YAML", 0},
		"late":            {object("1") + "---\n" + object("y"), "data.x is yes, no, on or off", 11},
		"late and broken": {object("1") + "---\na: b: c\n", "not valid YAML", 7},
		"0o7":             {object("0o7"), "data.x is a number to some readers", 5},
		"0b1":             {object("0b1"), "data.x is a number to some readers", 5},
		"1_000":           {object("1_000"), "data.x is a number to some readers", 5},
		"089":             {object("089"), "data.x is a number to some readers", 5},
		"1e309":           {object("1e309"), "data.x is a number of more than 64 bits", 5},
		".nan":            {object(".nan"), "data.x is no finite number", 5},
		"NaN":             {object("NaN"), "data.x is no finite number", 5},
		"-.inf":           {object("-.inf"), "data.x is no finite number", 5},
		"many digits":     {object(strings.Repeat("9", 101)), "data.x is a number of more than 100 digits", 5},
		"binary":          {object("!!binary aGk="), "data.x has the tag !!binary", 5},
		"own tag":         {object("!secret hush"), "data.x has the tag !secret", 5},
		"list tag":        {object("!!set [a]"), "data.x has the tag !!set", 5},
		"twice":           {object("{a: 1, a: 2}"), "data.x.a is there twice: it was at line 5 before", 5},
		"twice in JSON":   {"{\"kind\": \"ConfigMap\",\n\"kind\": \"ConfigMap\"}", "kind is there twice", 2},
		"null key":        {object("{~: 1}"), "data.x has a key that is no text", 5},
		"list key":        {object("{[a]: 1}"), "data.x has a key that is no text", 5},
		"merged text":     {object("{<<: a}"), "data.x merges what has no fields", 5},
		"tab":             {"apiVersion: v1\nkind:\n\t- a\n", "not valid YAML", 3},
		"BOM":             {"\xef\xbb\xbf" + object("1"), "begins with a byte order mark", 1},
		"UTF-16":          {"\xff\xfea\x00", "is UTF-16", 1},
		"latin":           {object("\"\xe9\""), "is not UTF-8", 1},
		"unknown alias":   {object("*hush"), "an alias of no anchor", 5},
		"laughs":          {laughs, "holds more than 1000000 values", 0},
		"itself":          {"a: &a [*a]\n", "", 0},
		"deep":            {object(strings.Repeat("[", 10_000)), "", 0},
		"deep in block":   {object("\n" + deepBlock(1000)), "", 0},
		"deep in JSON":    {strings.Repeat(`{"a":`, 10_000), "values lie within more than 200 others", 1},
		"half of JSON":    {"{\"kind\": \"Pod\",\n\"metadata\": {", "it ends in the middle", 2},
		"JSON with NaN":   {"{\"kind\":\n NaN}", "not valid JSON", 2},
		"text":            {"hello\n", "a document is no object", 1},
		"values file":     {"replicas: 3\n", "has no apiVersion or kind", 1},
		"no name":         {"apiVersion: v1\nkind: Pod\nmetadata: {labels: {a: b}}\n", "a Pod has no metadata.name", 1},
		"generateName":    {"---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "a Pod has no metadata.name", 2},
		"name with slash": {"apiVersion: v1\nkind: Pod\nmetadata: {name: a/b}\n", "metadata.name of a Pod is no name", 1},
		"bad namespace":   {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: A/b}\n", "metadata.namespace of Pod a is no name", 1},
		"kustomization":   {"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", "is for Kustomize", 1},
		"twice the same":  {object("1") + "---\n" + object("2"), "ConfigMap a is there twice: it was in a.yaml:1 before", 7},
		"long":            {object(strings.Repeat("a", 1_500_000)), "ConfigMap a has 1500", 1},
		"secret":          {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {password: hush}\n", "Secret a has stringData: no secret may enter", 1},
		"secret in list":  {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Secret\n  metadata: {name: a}\n  data: {hush: aHVzaA==}\n", "Secret a has data", 4},
		"items no object": {"apiVersion: v1\nkind: List\nitems: [1]\n", "items[0] is no object", 3},
	} {
		t.Run(name, func(t *testing.T) {
			if c.text == laughs {
				detector.SkipSequential(t)
			}
			file := "a.yaml"
			if strings.Contains(name, "JSON") {
				file = "a.json"
			}
			objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: file, Text: []byte(c.text)}}, settings)
			if len(findings) == 0 {
				t.Fatalf("taken, as %d objects", len(objects))
			}
			f := findings[0]
			if f.Warning || f.File != file || !strings.Contains(f.Message, c.want) || f.Hint == "" || c.line != 0 && f.Line != c.line {
				t.Errorf("got %+v, want line %d and %q", f, c.line, c.want)
			}
			if said := f.Message + f.Hint; strings.Contains(said, "hush") && name != "unknown alias" && !strings.Contains(said, "!secret") || strings.Contains(said, "aHVzaA") || len(said) > 1000 {
				t.Errorf("it says too much: %s", said)
			}
		})
	}
}

func deepBlock(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", 4+i) + "a:\n")
	}
	return b.String()
}

// TestIDs: readable, and one object has one, whatever the version of its API.
func TestIDs(t *testing.T) {
	objects := read(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:Reader", namespace: ignored}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.example.com}, spec: {group: example.com, scope: Cluster, names: {kind: Gadget}}}
---
{apiVersion: example.com/v1, kind: Gadget, metadata: {name: g}}
---
# Nothing.
---
kind: ServiceList
apiVersion: v1
items:
- metadata: {name: s, uid: 1, resourceVersion: "2", creationTimestamp: null, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}
  status: {loadBalancer: {}}
`)
	want := []string{
		"kubernetes/prod/clusterrole.rbac.authorization.k8s.io/system_3a_52eader 6 ",
		"kubernetes/prod/customresourcedefinition.apiextensions.k8s.io/gadgets.example.com 14 ",
		"kubernetes/prod/default/service/s 23 default",
		"kubernetes/prod/default/widget.example.com/w 12 default",
		"kubernetes/prod/gadget.example.com/g 16 ",
		"kubernetes/prod/namespace/shop 10 ",
		"kubernetes/prod/shop/deployment.apps/web 2 shop",
	}
	var got []string
	for _, o := range objects {
		got = append(got, fmt.Sprintf("%s %d %s", o.ID, o.Line, o.Payload.Namespace))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("ids, lines and namespaces are\n%s", strings.Join(got, "\n"))
	}
	if json := objects[2].Payload.Json; json != `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":"default"}}` {
		t.Errorf("what the cluster wrote is still there: %s", json)
	}
	ids := map[string]bool{}
	for _, name := range []string{":a", "a:", "0", "0:", "0__3aa", "_3aa", "-a", ".a", "a_3a", "A", "a"} {
		id := read(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: \""+name+"\"}\n")[0].ID
		if ids[id] {
			t.Errorf("two names have the id %s", id)
		}
		ids[id] = true
	}
}

// TestAddons: scopes, group, labels, and the order that objects need.
func TestAddons(t *testing.T) {
	own := settings
	own.References = []kubernetes.Reference{{Of: "Certificate.cert-manager.io", Path: "spec.issuerRef.name", To: "Issuer.cert-manager.io"}}
	objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: "a.yaml", Text: []byte(`
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: web, namespace: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: other}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: disk, namespace: shop}, spec: {storageClassName: fast}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: web
  namespace: shop
  labels: {app.kubernetes.io/name: web, app.kubernetes.io/part-of: store, app.kubernetes.io/instance: store-1}
spec:
  serviceName: web
  template:
    spec:
      serviceAccountName: web
      containers:
      - {name: web, envFrom: [{configMapRef: {name: settings}}], env: [{name: X, valueFrom: {secretKeyRef: {name: elsewhere, key: x}}}]}
      volumes:
      - {name: disk, persistentVolumeClaim: {claimName: disk}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: tidy, namespace: shop}
spec: {jobTemplate: {spec: {template: {spec: {initContainers: [{env: [{valueFrom: {configMapKeyRef: {name: settings}}}]}]}}}}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reader, namespace: shop}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: web}, {kind: User, name: web}, {kind: ServiceAccount, name: web, namespace: other}]
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: certificates.cert-manager.io}, spec: {group: cert-manager.io, names: {kind: Certificate}}}
---
{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: web, namespace: shop}, spec: {issuerRef: {name: ours}}}
---
{apiVersion: cert-manager.io/v1, kind: Issuer, metadata: {name: ours, namespace: shop}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: judge}, webhooks: [{clientConfig: {service: {name: web, namespace: shop}}}]}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, namespace: shop}, spec: {rules: [{http: {paths: [{backend: {service: {name: web}}}, {backend: {service: {name: nowhere}}}]}}]}}
`)}}, own)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	var said []string
	for _, o := range objects {
		line := strings.TrimPrefix(o.ID, "kubernetes/prod/") + ":"
		for _, addon := range o.Addons {
			switch addon := addon.(type) {
			case *intentpb.Dependencies:
				for _, d := range addon.Dependencies {
					if d.Rule != intentpb.Dependency_RULE_ORDER {
						t.Errorf("%s has the rule %s", o.ID, d.Rule)
					}
					line += " " + strings.TrimPrefix(d.On, "kubernetes/prod/")
				}
			case *intentpb.Group:
				line += " group " + addon.Service + "," + addon.Instance
			case *intentpb.ImpactedScope:
				line += " in " + addon.Scopes["cluster"] + "," + addon.Scopes["namespace"]
			case *intentpb.Labels:
				line += fmt.Sprintf(" labels %d", len(addon.Labels))
			}
		}
		said = append(said, line)
	}
	want := `customresourcedefinition.apiextensions.k8s.io/certificates.cert-manager.io: in prod,
namespace/shop: in prod,shop
other/configmap/settings: in prod,other
shop/certificate.cert-manager.io/web: in prod,shop customresourcedefinition.apiextensions.k8s.io/certificates.cert-manager.io namespace/shop shop/issuer.cert-manager.io/ours
shop/configmap/settings: in prod,shop namespace/shop
shop/cronjob.batch/tidy: in prod,shop namespace/shop shop/configmap/settings
shop/ingress.networking.k8s.io/web: in prod,shop namespace/shop shop/service/web
shop/issuer.cert-manager.io/ours: in prod,shop namespace/shop
shop/persistentvolumeclaim/disk: in prod,shop namespace/shop storageclass.storage.k8s.io/fast
shop/role.rbac.authorization.k8s.io/reader: in prod,shop namespace/shop
shop/rolebinding.rbac.authorization.k8s.io/reader: in prod,shop namespace/shop shop/role.rbac.authorization.k8s.io/reader shop/serviceaccount/web
shop/service/web: in prod,shop namespace/shop
shop/serviceaccount/web: in prod,shop namespace/shop
shop/statefulset.apps/web: in prod,shop group store,store-1 labels 3 namespace/shop shop/configmap/settings shop/persistentvolumeclaim/disk shop/service/web shop/serviceaccount/web
storageclass.storage.k8s.io/fast: in prod,
validatingwebhookconfiguration.admissionregistration.k8s.io/judge: in prod, shop/service/web`
	if got := strings.Join(said, "\n"); got != want {
		t.Errorf("it says\n%s", got)
	}
}

// TestSecrets: what looks like one is warned of, by its field alone; one that is
// left out is not looked at.
func TestSecrets(t *testing.T) {
	const key = "AKIA" + "ABCDEFGHIJKLMNOP"
	objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: "a.yaml", Text: []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {note: plain}}\nspec: {containers: [{env: [{name: K, value: " + key + "}, {name: D, value: \"postgres://shop:hushhush@db/shop\"}, {name: E, value: \"postgres://shop:$(PASSWORD)@db/shop\"}]}]}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: empty}\ntype: kubernetes.io/service-account-token\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: own}\ndata: {a: aHVzaA==}\n")}},
		kubernetes.Settings{Cluster: "prod", Namespace: "default", Omit: []string{"Secret/own"}})
	if len(objects) != 2 || len(findings) != 2 {
		t.Fatalf("%d objects, findings %+v", len(objects), findings)
	}
	for i, want := range []string{"spec.containers[].env[].value of Pod a looks like a key of AWS", "spec.containers[].env[].value of Pod a looks like a URL with a password"} {
		if f := findings[i]; !f.Warning || f.Message != want || f.Line != 1 {
			t.Errorf("got %+v, want %s", f, want)
		}
	}
}

// TestOmit: what is left out is named, also by patterns.
func TestOmit(t *testing.T) {
	text := ""
	for _, o := range []string{"v1 Secret web-tls", "v1 Secret web-key", "v1 ConfigMap web-tls", "batch/v1 Job once-1", "batch/v1 Job once-2", "batch/v1 Job often"} {
		part := strings.Fields(o)
		text += "apiVersion: " + part[0] + "\nkind: " + part[1] + "\nmetadata: {name: " + part[2] + "}\n---\n"
	}
	for omit, want := range map[string]string{
		"Secret/web-tls":   "web-key web-tls once-1 once-2 often",
		"Secret/*":         "web-tls once-1 once-2 often",
		"*/web-tls":        "web-key once-1 once-2 often",
		"Job.batch/once-?": "web-tls web-key web-tls often",
		"Job*/often":       "web-tls web-key web-tls once-1 once-2",
		"Job/often":        "web-tls web-key web-tls once-1 once-2 often",
	} {
		objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: "a.yaml", Text: []byte(text)}}, kubernetes.Settings{Cluster: "prod", Namespace: "default", Omit: []string{omit}})
		var names []string
		for _, o := range objects {
			names = append(names, o.Payload.Name)
		}
		wanted := strings.Fields(want)
		slices.Sort(wanted)
		slices.Sort(names)
		if !slices.Equal(names, wanted) || len(findings) > 0 {
			t.Errorf("without %s: %s, want %s; %+v", omit, names, wanted, findings)
		}
	}
}

// TestLargeObjectsAreSpilled: what is too large for an asset is a blob, which the
// asset names.
func TestLargeObjectsAreSpilled(t *testing.T) {
	for size, spilled := range map[int]bool{149_000: false, 150_000: true} {
		files := fstest.MapFS{"a.yaml": {Data: []byte(object(strings.Repeat("a", size)))}}
		var said bytes.Buffer
		if err := generator.Run(kubernetes.Render, generator.NewInput(nil, []string{"--cluster=prod"}, files), protoregistry.GlobalTypes, &said); err != nil {
			t.Fatal(err)
		}
		blob := `{"blob":{"content":"`
		if strings.HasPrefix(said.String(), blob) != spilled || strings.Contains(said.String(), `"external":{"uri":"blob:sha256:`) != spilled || strings.Contains(said.String(), `"json":"{`) == spilled {
			t.Errorf("of %d bytes it said %.300s", size, &said)
		}
	}
}

// TestSettings: what with may hold, and what is said of the rest.
func TestSettings(t *testing.T) {
	settings := func(arguments ...string) (kubernetes.Settings, error) {
		options, err := generator.NewInput(nil, arguments, nil).Options(kubernetes.Keys...)
		if err != nil {
			return kubernetes.Settings{}, err
		}
		return kubernetes.SettingsOf(options)
	}
	s, err := settings("--cluster=a", "--namespace=b", "--omit=Secret/x", "--omit=Pod/y", "--reference=A.b.c:spec.x[].y=ConfigMap", "--cluster_scoped=Thing.example.com")
	if err != nil || s.Cluster != "a" || s.Namespace != "b" || len(s.Omit) != 2 || s.References[0] != (kubernetes.Reference{Of: "A.b.c", Path: "spec.x[].y", To: "ConfigMap"}) || s.ClusterScoped[0] != "Thing.example.com" {
		t.Errorf("%+v %v", s, err)
	}
	for argument, want := range map[string]string{
		"--x=1":              `the key "x", which is not known; allowed: cluster, cluster_scoped`,
		"--cluster=b":        "has 2 values for cluster",
		"--namespace=/":      "with.namespace \"/\" is no name",
		"--reference=a":      `with.reference "a" is none`,
		"--omit=x":           `with.omit "x" names no object`,
		"--omit=Secret/[":    `with.omit "Secret/[" is no pattern`,
		"--cluster_scoped=x": `with.cluster_scoped "x" is no kind`,
	} {
		if _, err := settings("--cluster=a", argument); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", argument, err, want)
		}
	}
	for argument, want := range map[string]string{"--cluster=A b": `with.cluster "A b" is no name`, "--namespace=a": "does not name the cluster"} {
		if _, err := settings(argument); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", argument, err, want)
		}
	}
}

// FuzzManifest: whatever the text, objects are whole and come out the same
// when their JSON is read again.
func FuzzManifest(f *testing.F) {
	for _, text := range []string{object("1"), object("&a [*a]"), `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`, "kind: List\napiVersion: v1\nitems: [{}]", "a: 0o7", "\xff", "{", "<<: [a]", "? [a]\n: b"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: "a.yaml", Text: text}}, settings)
		for _, f := range findings {
			if f.Message == "" || f.Hint == "" || f.Line < 0 {
				t.Fatalf("a finding says too little: %+v", f)
			}
		}
		if len(findings) > 0 {
			return
		}
		for _, o := range objects {
			again, findings := kubernetes.Read([]kubernetes.Manifest{{File: "a.json", Text: []byte(o.Payload.Json)}}, settings)
			if len(findings) > 0 || len(again) != 1 || again[0].Payload.Json != o.Payload.Json || again[0].ID != o.ID {
				t.Fatalf("%s came back as %+v (%+v)", o.Payload.Json, again, findings)
			}
		}
	})
}

// TestLastLine: a block scalar ends with a newline where its file has none, as kubectl
// reads it, and keeps those that it has.
func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{
		object("|\n    one"):                    `"one\n"`,
		object("|\n    one") + "\n":             `"one\n"`,
		object("|-\n    one"):                   `"one"`,
		object(">\n    one\n    two"):           `"one two\n"`,
		object("|+\n    one"):                   `"one\n"`,
		strings.TrimSuffix(object("one"), "\n"): `"one"`,
	} {
		for _, after := range []string{"", "\n---\n"} {
			objects := read(t, strings.TrimSuffix(text, "\n")+after)
			if len(objects) != 1 || !strings.Contains(objects[0].Payload.Json, `"data":{"x":`+want+`}`) {
				t.Errorf("%q is read as %v, want %s", text+after, objects, want)
			}
		}
	}
}

// TestCheck: keys that are one field to who reads a file are found wherever they are,
// with both lines, and so are values without an end.
func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb:\n- c: 1\n  c: 2\n":          "4: b[0].c is there twice: it was at line 3 before",
		"a: 1\n'a': 2\n":                      "2: a is there twice: it was at line 1 before",
		"y: 1\ntrue: 2\n":                     `2: true is there twice: it was at line 1 before`,
		"16: 1\n0x10: 2\n":                    "2: 16 is there twice: it was at line 1 before",
		"<<: &a {b: 1}\n<<: *a\n":             `2: ["<<"] is there twice: it was at line 1 before`,
		"a: 1\n---\na: 1\n---\n{b: 1, b: 1}":  "5: b is there twice: it was at line 5 before",
		"\xef\xbb\xbfa: 1\na: 2":              "2: a is there twice: it was at line 1 before",
		"{\"a\":\n{\"b\": 1,\n\t\"b\": 2}}\n": "3: a.b is there twice: it was at line 2 before",
		"a: 1\nA: 2\n\"y\": 1\ntrue: 2\n":     "",
		"a: [\n":                              "",
		"a: &a\n  b: &b [*a]\n":               "2: a.b[0] is an alias within its own anchor: the value has no end",
		"a: &a {b: 1}\nc: {<<: *a, d: *a}\n":  "",
	} {
		said := ""
		for _, f := range kubernetes.Check("a.yaml", []byte(text)) {
			said += fmt.Sprintf("%d: %s", f.Line, f.Message)
		}
		if said != want {
			t.Errorf("of %q it says %q, want %q", text, said, want)
		}
	}
}
