package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"slices"
	"strings"
	"testing"

	"lehr.dev/sdk/generator"
	"lehr.dev/sdk/generator/kubernetes"
)

func TestMain(m *testing.M) {
	isolate()
	os.Exit(m.Run())
}

const web = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-web
  labels: {app.kubernetes.io/name: web}
  {{- with .Values.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  replicas: {{ .Values.replicas }}
`

// chart of some files, for one release.
func chart(more map[string]string) map[string][]byte {
	all := map[string]string{
		"chart/Chart.yaml":         "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"chart/values.yaml":        "replicas: 1\nannotations: {}\n",
		"chart/templates/web.yaml": web,
		"prod.yaml":                "replicas: 3\n",
	}
	for name, text := range more {
		all[name] = text
	}
	made := map[string][]byte{}
	for name, text := range all {
		if text != "" {
			made[name] = []byte(text)
		}
	}
	return made
}

var prod = options{
	folder: "chart", release: "eu", kubeVersion: "1.34", values: []string{"prod.yaml"},
	settings: kubernetes.Settings{Cluster: "prod", Namespace: "shop"},
}

// TestPostRender: a kustomization after the chart changes what it rendered, and objects keep
// their files and lines; one that reads elsewhere, or patches nothing, is refused.
func TestPostRender(t *testing.T) {
	after := prod
	after.postRender = "after.yaml"
	const patch = "patches:\n- target: {kind: Deployment}\n  patch: |-\n    - {op: replace, path: /spec/replicas, value: 7}\n"
	objects, findings := render(chart(map[string]string{"after.yaml": patch, "chart/templates/none.yaml": "# Nothing.\n"}), after)
	if len(findings) > 0 || len(objects) != 1 || !strings.Contains(objects[0].Payload.Json, `"replicas":7`) {
		t.Fatalf("it is %v, %v", objects, findings)
	}
	if o := objects[0]; o.File != "chart/templates/web.yaml" || strings.Contains(o.Payload.Json, "origin") {
		t.Errorf("it is of %s:%d: %s", o.File, o.Line, o.Payload.Json)
	}
	for text, want := range map[string]string{
		"resources: [https://example.com/x.yaml]\n":                                                                "has no resources",
		"patches:\n- target: {kind: Deployment}\n  patch: |-\n    - {op: replace, path: /spec/none/x, value: 7}\n": "cannot change",
		"": "not among the declared files",
	} {
		_, findings := render(chart(map[string]string{"after.yaml": text}), after)
		if len(findings) != 1 || !strings.Contains(findings[0].Message, want) {
			t.Errorf("of %q is said %v, want %q", text, findings, want)
		}
	}
}

// TestRelease: what Helm would make of a chart, its values in their order, its
// CRDs and its parts.
func TestRelease(t *testing.T) {
	files := chart(map[string]string{
		"more.yaml":                            "replicas: 4\nannotations: {team: web}\n",
		"chart/Chart.yaml":                     "apiVersion: v2\nname: shop\nversion: 1.0.0\nkubeVersion: '>=1.30'\ndependencies: [{name: cache, version: 1.0.0}, {name: packed, version: 0.1.0, condition: packed.enabled}]\n",
		"chart/charts/cache/Chart.yaml":        "apiVersion: v2\nname: cache\nversion: 1.0.0\n",
		"chart/charts/cache/values.yaml":       "size: 1\n",
		"chart/charts/cache/templates/a.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cache}\ndata: {size: {{ .Values.size | quote }}, kube: {{ .Capabilities.KubeVersion.Version | quote }}, has: {{ .Capabilities.APIVersions.Has \"example.com/v1\" | quote }}, keys: {{ keys (dict \"c\" 1 \"a\" 2 \"b\" 3) | join \",\" | quote }}, values: {{ values (dict \"c\" 1 \"a\" 2 \"b\" 3) | join \",\" | quote }}, found: {{ lookup \"v1\" \"Pod\" \"a\" \"b\" | toJson | quote }}, dns: {{ getHostByName \"example.com\" | quote }}}\n",
		"chart/crds/things.yaml":               "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\nspec: {group: example.com, names: {kind: Thing}, scope: Namespaced}\n",
		"chart/templates/thing.yaml":           "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\n---\n# Nothing.\n",
		"chart/templates/empty.yaml":           "{{ if false }}\na: b\n{{ end }}\n",
		"chart/templates/_helpers.tpl":         "{{ define \"x\" }}x{{ end }}",
		"chart/templates/NOTES.txt":            "Thank you.",
		"chart/templates/ignored.yaml":         "{{ fail \"never read\" }}",
		"chart/.helmignore":                    "templates/ignored.*\n",
		"chart/values.schema.json":             `{"$schema": "https://json-schema.org/draft-07/schema#", "properties": {"replicas": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"type": "integer", "maximum": 9}}}`,
		"elsewhere/chart/templates/other.yaml": "{{ fail \"of no chart\" }}",
	})
	files["chart/charts/packed-0.1.0.tgz"] = packed(t, map[string]string{
		"packed/Chart.yaml":        "apiVersion: v2\nname: packed\nversion: 0.1.0\n",
		"packed/templates/a.yaml":  "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: packed}\n",
		"packed/templates/b.txt":   "",
		"packed/templates/_x.yaml": "",
	})
	o := prod
	o.values, o.set, o.apiVersions = []string{"prod.yaml", "more.yaml"}, []string{"replicas=5", "cache.size=2", "packed.enabled=true"}, []string{"example.com/v1"}
	objects, findings := render(files, o)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	var said []string
	for _, object := range objects {
		said = append(said, object.ID+" "+object.File)
	}
	want := `kubernetes/prod/customresourcedefinition.apiextensions.k8s.io/things.example.com chart/crds/things.yaml
kubernetes/prod/shop/configmap/cache chart/charts/cache/templates/a.yaml
kubernetes/prod/shop/deployment.apps/eu-web chart/templates/web.yaml
kubernetes/prod/shop/serviceaccount/packed chart/charts/packed-0.1.0.tgz
kubernetes/prod/shop/thing.example.com/a chart/templates/thing.yaml`
	if got := strings.Join(said, "\n"); got != want {
		t.Fatalf("it gives\n%s", got)
	}
	for i, want := range map[int]string{
		1: `"data":{"dns":"","found":"{}","has":"true","keys":"a,b,c","kube":"v1.34","size":"2","values":"2,3,1"}`,
		2: `"metadata":{"annotations":{"team":"web"},"labels":{"app.kubernetes.io/name":"web"},"name":"eu-web","namespace":"shop"},"spec":{"replicas":5}`,
	} {
		if !strings.Contains(objects[i].Payload.Json, want) {
			t.Errorf("no %s in %s", want, objects[i].Payload.Json)
		}
	}
}

func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	zip := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(zip)
	for name, text := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// TestChance: what a chart takes from chance or the clock is fixed in
// annotations, and refused elsewhere, whatever is made of it; what it asks for
// and does not use is nobody's matter.
func TestChance(t *testing.T) {
	for name, c := range map[string]struct{ template, want string }{
		"unused default":    {`data: {a: {{ .Values.given | default (randAlphaNum 8) | quote }}}`, ""},
		"unused cert":       {`{{ $ca := genCA "a" 365 }}{{ $c := genSignedCert "a" nil nil 365 $ca }}{{ if not $c.Cert }}{{ fail "none" }}{{ end }}data: {a: b}`, ""},
		"random":            {`data: {a: {{ randAlphaNum 8 | quote }}}`, "data.a of ConfigMap a is another each time: the chart takes it from randAlphaNum"},
		"hashed":            {`data: {a: {{ randAlpha 8 | sha256sum | quote }}}`, "data.a of ConfigMap a"},
		"encoded":           {`data: {a: {{ randBytes 8 | b64enc | quote }}}`, "takes it from randBytes"},
		"cut":               {`data: {a: {{ randNumeric 8 | trunc 1 | quote }}}`, "takes it from randNumeric"},
		"number":            {`data: {a: "{{ randInt 1 3 }}"}`, "takes it from randInt"},
		"certain number":    {`data: {a: "{{ randInt 1 2 }}"}`, ""},
		"shuffled":          {`data: {a: {{ shuffle "abc" | quote }}}`, "takes it from shuffle"},
		"uuid":              {`data: {a: {{ uuidv4 | trunc 1 | quote }}}`, "takes it from uuidv4"},
		"certificate":       {`{{ $c := genSelfSignedCert "a" nil nil 1 }}data: {a: {{ $c.Key | b64enc | quote }}}`, "takes it from genSelfSignedCert"},
		"key":               {`data: {a: {{ genPrivateKey "rsa" | quote }}}`, "takes it from genPrivateKey"},
		"password":          {`data: {a: {{ htpasswd "a" "b" | quote }}}`, "takes it from htpasswd"},
		"encrypted":         {`data: {a: {{ encryptAES "a" "b" | quote }}}`, "takes it from encryptAES"},
		"bcrypt":            {`data: {a: {{ bcrypt "a" | quote }}}`, "takes it from bcrypt"},
		"now":               {`data: {a: {{ now | date "2006" | quote }}}`, "takes it from now"},
		"date of nothing":   {`data: {a: {{ date "2006" "x" | quote }}}`, "takes it from now"},
		"date of something": {`data: {a: {{ date "2006-01-02T15" 86400 | quote }}, b: {{ dateInZone "15" 86400 "Europe/Berlin" | quote }}, c: {{ toDate "2006" "2020" | htmlDate | quote }}}`, ""},
		"ago":               {`data: {a: {{ ago 86400 | quote }}}`, "takes it from now"},
		"condition":         {`{{ if gt (randInt 0 9) 3 }}data: {a: b}{{ end }}`, "data of ConfigMap a is another"},
		"key of a map":      {`data: { {{ randAlpha 3 }}: b }`, "of ConfigMap a is another"},
		"derived password":  {`data: {a: {{ derivePassword 1 "long" "a" "b" "c" | quote }}}`, ""},
		"another object":    {"data: {a: b}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ randAlpha 3 }} }", "ConfigMap aaa is not there, or has another name, each time"},
		"more objects":      {"data: {a: b}\n---\n{{ if gt (randInt 0 9) 3 }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n{{ end }}", "how many objects the chart gives depends on randInt"},
		"annotation":        {"spec: {template: {metadata: {annotations: {rollme: {{ randAlphaNum 5 | quote }}, at: {{ now | quote }} }}}}", "warning: spec.template.metadata.annotations.at of ConfigMap a is another each time: the chart takes it from now, randAlphaNum, and stays"},
	} {
		t.Run(name, func(t *testing.T) {
			files := chart(map[string]string{
				"chart/values.yaml":      "given: x\n",
				"chart/templates/a.yaml": strings.Replace(c.template, "data:", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:", 1),
			})
			if !strings.Contains(c.template, "data: ") || name == "condition" || name == "annotation" {
				files["chart/templates/a.yaml"] = []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n" + c.template)
			}
			var first string
			for range 3 {
				objects, findings := render(files, prod)
				var said []string
				for _, f := range findings {
					text := f.Message
					if f.Warning {
						text = "warning: " + text
					}
					said = append(said, text)
				}
				if len(objects) > 0 && failed(findings) == false {
					said = append(said, objects[0].Payload.Json)
				}
				if text := strings.Join(said, "\n"); first == "" {
					first = text
				} else if text != first {
					t.Errorf("it said\n%s, then\n%s", first, text)
				}
				if c.want == "" && len(findings) > 0 || !strings.Contains(first, c.want) {
					t.Fatalf("got %s, want %q", first, c.want)
				}
				if failed(findings) == (c.want == "" || strings.HasPrefix(c.want, "warning")) {
					t.Fatalf("findings %+v", findings)
				}
			}
		})
	}
}

// TestHooks are not for a state that is kept: they are left out aloud, each with its template, or
// are objects in their order.
func TestHooks(t *testing.T) {
	hook := func(name, events string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", annotations: {helm.sh/hook: \"" + events + "\"}}\n---\n"
	}
	files := chart(map[string]string{"chart/templates/hooks.yaml": hook("before", "pre-install,pre-upgrade") + hook("after", "post-delete") + hook("test", "test") + hook("test-old", "test-success")})
	names := func(o options) (names []string, said []kubernetes.Finding) {
		objects, said := render(files, o)
		for _, object := range objects {
			names = append(names, object.Payload.Name)
		}
		return names, said
	}
	o := prod
	o.settings.Hooks = kubernetes.HooksLeftOut
	got, said := names(o)
	if strings.Join(got, " ") != "eu-web" || len(said) != 4 {
		t.Fatalf("%v %+v", got, said)
	}
	for _, f := range said {
		if !f.LeftOut || f.ID == "" || f.File != "chart/templates/hooks.yaml" || !strings.Contains(f.Message, "is a hook of Helm") {
			t.Errorf("it is said %+v", f)
		}
	}
	o.settings.Hooks = kubernetes.HooksIncluded
	if got, said := names(o); strings.Join(got, " ") != "eu-web before" || len(said) != 4 || !slices.ContainsFunc(said, func(f kubernetes.Finding) bool {
		return f.Warning && strings.Contains(f.Message, "Pod before was a hook and is an object")
	}) {
		t.Errorf("included: %v %+v", got, said)
	}
	o.settings.Omit = []string{"Pod/*"}
	if got, said := names(o); strings.Join(got, " ") != "eu-web" || len(said) != 0 {
		t.Errorf("omitted: %v %+v", got, said)
	}
}

// TestRefused: findings name the file and the line of the chart, and what to do.
func TestRefused(t *testing.T) {
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {password: hush}\n"
	for name, c := range map[string]struct {
		files      map[string]string
		change     func(*options)
		file, want string
		line       int
	}{
		"no chart":          {map[string]string{"chart/Chart.yaml": ""}, nil, "", "chart/Chart.yaml is not among the declared files", 0},
		"broken chart":      {map[string]string{"chart/Chart.yaml": "a: [\n"}, nil, "chart/Chart.yaml", "the chart cannot be loaded", 0},
		"no version":        {map[string]string{"chart/Chart.yaml": "name: shop\n"}, nil, "chart/Chart.yaml", "the chart cannot be loaded", 0},
		"library":           {map[string]string{"chart/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\ntype: library\n"}, nil, "chart/Chart.yaml", "is a library", 0},
		"dependency":        {map[string]string{"chart/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: redis, version: 1.x, repository: 'https://example.com'}]\n"}, nil, "chart/Chart.yaml", "depends on redis 1.x, which is not among the declared files", 0},
		"syntax":            {map[string]string{"chart/templates/web.yaml": "a: b\nc: {{ .Values.x\n"}, nil, "chart/templates/web.yaml", "Helm cannot render it", 2},
		"execution":         {map[string]string{"chart/templates/web.yaml": "a: b\n\nc: {{ .Values.x.y.z }}\n"}, nil, "chart/templates/web.yaml", "nil pointer", 3},
		"required":          {map[string]string{"chart/templates/web.yaml": "a: b\nc: {{ required \"name a host\" .Values.host }}\n"}, nil, "chart/templates/web.yaml", "name a host", 2},
		"in an include":     {map[string]string{"chart/templates/web.yaml": "a: {{ include \"x\" . }}\n", "chart/templates/_x.tpl": "{{ define \"x\" }}\n{{ fail \"never\" }}\n{{ end }}"}, nil, "*", "never", 0},
		"unknown function":  {map[string]string{"chart/templates/web.yaml": "a: {{ env \"HOME\" }}\n"}, nil, "chart/templates/web.yaml", `function "env" not defined`, 1},
		"no YAML":           {map[string]string{"chart/templates/web.yaml": "a: b\n c: d\n"}, nil, "chart/templates/web.yaml", "line 2 of what it renders: not valid YAML", 0},
		"ambiguous":         {map[string]string{"chart/templates/web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: {{ \"yes\" }}}\n"}, nil, "chart/templates/web.yaml", "in line 4 of what it renders: data.a is yes, no, on or off", 0},
		"secret":            {map[string]string{"chart/templates/web.yaml": secret}, nil, "chart/templates/web.yaml", "Secret a has stringData", 0},
		"schema":            {map[string]string{"chart/values.schema.json": `{"properties": {"replicas": {"maximum": 2}}}`}, nil, "prod.yaml", "replicas", 0},
		"schema elsewhere":  {map[string]string{"chart/values.schema.json": `{"properties": {"replicas": {"$ref": "https://example.com/a.json"}}}`}, nil, "chart/values.schema.json", "refers to https://example.com/a.json, and only declared files are read", 0},
		"schema of machine": {map[string]string{"chart/values.schema.json": `{"$ref": "file:///etc/passwd"}`}, nil, "chart/values.schema.json", "refers to file:///etc/passwd", 0},
		"metaschema":        {map[string]string{"chart/values.schema.json": `{"$schema": "http://localhost/a.json"}`}, nil, "chart/values.schema.json", "refers to http://localhost/a.json", 0},
		"no values":         {nil, func(o *options) { o.values = []string{"no.yaml"} }, "", "with.values no.yaml is not among the declared files", 0},
		"broken values":     {map[string]string{"prod.yaml": "a: 1\nb: [\n"}, nil, "prod.yaml", "the values cannot be read", 0},
		"broken set":        {nil, func(o *options) { o.set = []string{"x"} }, "", "with.set cannot be read", 0},
		"kube version":      {nil, func(o *options) { o.kubeVersion = "new" }, "", `with.kube_version "new" is no version`, 0},
		"other kubernetes":  {map[string]string{"chart/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\nkubeVersion: '<1.30'\n"}, nil, "chart/Chart.yaml", "the chart is for Kubernetes <1.30, and not v1.34", 0},
		"recursion":         {map[string]string{"chart/templates/web.yaml": "{{ define \"x\" }}{{ include \"x\" . }}{{ end }}{{ include \"x\" . }}"}, nil, "chart/templates/web.yaml", "nested reference name", 1},
		"long chance":       {map[string]string{"chart/templates/web.yaml": "a: {{ randAlpha 1000000000 }}"}, nil, "chart/templates/web.yaml", "at most 100000 are allowed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := prod
			if c.change != nil {
				c.change(&o)
			}
			objects, findings := render(chart(c.files), o)
			if len(findings) == 0 {
				t.Fatalf("taken, as %d objects", len(objects))
			}
			f := findings[0]
			if c.file != "*" && f.File != c.file || !strings.Contains(f.Message, c.want) || f.Hint == "" || c.line != 0 && f.Line != c.line {
				t.Errorf("got %+v, want %s:%d %q", f, c.file, c.line, c.want)
			}
			if strings.Contains(f.Message+f.Hint, "hush") || len(f.Message) > 900 {
				t.Errorf("it says too much: %+v", f)
			}
		})
	}
}

// TestOptions: what with may hold.
func TestOptions(t *testing.T) {
	all := []string{"--cluster=c", "--chart=a/b", "--kube_version=1.34"}
	for arguments, want := range map[string]string{
		"--cluster=c --kube_version=1.34":                  "with does not name the chart",
		"--cluster=c --chart=a":                            "with does not say for which Kubernetes",
		strings.Join(all, " ") + " --hooks=x":              `with.hooks "x" is not known`,
		strings.Join(all, " ") + " --value=x":              `the key "value", which is not known`,
		strings.Join(all, " ") + " --release=a --release=": "has 2 values for release",
		"--chart=a --kube_version=1.34":                    "does not name the cluster",
	} {
		if _, err := read(generator.NewInput(nil, strings.Fields(arguments), nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
	o, err := read(generator.NewInput(nil, append(all, "--values=a", "--values=b", "--set=x=y=z", "--hooks=include", "--release=r", "--api_versions=v"), nil))
	if err != nil || o.folder != "a/b" || len(o.values) != 2 || o.set[0] != "x=y=z" || o.settings.Hooks != kubernetes.HooksIncluded || o.release != "r" || o.apiVersions[0] != "v" || o.settings.Namespace != "default" {
		t.Errorf("%+v (%v)", o, err)
	}
}
