package main

import (
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/sdk/generator/kubernetes"
)

var settings = kubernetes.Settings{Cluster: "prod", Namespace: "default"}

// files of a base and an overlay.
func files(more map[string]string) map[string][]byte {
	all := map[string]string{
		"base/kustomization.yaml": "resources: [web.yaml]\n",
		"base/web.yaml": `# The first line is a comment.
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  template:
    metadata: {annotations: {large: "1"}}
    spec:
      containers:
      - {name: web, image: web, envFrom: [{configMapRef: {name: settings}}]}
  big: 9007199254740993
`,
		"overlays/prod/kustomization.yaml": `resources: [../../base]
namePrefix: p-
namespace: shop
configMapGenerator:
- {name: settings, literals: [a=b], files: [more.txt]}
patches:
- path: patch.yaml
images:
- {name: web, newTag: "1.2"}
`,
		"overlays/prod/patch.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 5}\n",
		"overlays/prod/more.txt":   "hello\n",
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

// TestOverlay: objects are those that kustomize build makes, each with the file
// and line that it came from, large integers whole.
func TestOverlay(t *testing.T) {
	objects, findings := build(files(nil), "overlays/prod", settings)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	var said []string
	for _, o := range objects {
		said = append(said, o.ID)
		switch o.Payload.Kind {
		case "Deployment":
			for _, want := range []string{`"replicas":5`, `"big":9007199254740993`, `"image":"web:1.2"`, `"configMapRef":{"name":"p-settings-`} {
				if !strings.Contains(o.Payload.Json, want) {
					t.Errorf("no %s in %s", want, o.Payload.Json)
				}
			}
			if strings.Contains(o.Payload.Json, "config.kubernetes.io") {
				t.Errorf("traces are left: %s", o.Payload.Json)
			}
			if o.File != "base/web.yaml" || o.Line != 6 {
				t.Errorf("it is from %s:%d", o.File, o.Line)
			}
			edges := o.Addons[len(o.Addons)-1].(*intentpb.Dependencies)
			if len(edges.Dependencies) != 1 || !strings.HasPrefix(edges.Dependencies[0].On, "kubernetes/prod/shop/configmap/p-settings-") {
				t.Errorf("it depends on %v", edges)
			}
		case "Service":
			if o.File != "base/web.yaml" || o.Line != 2 {
				t.Errorf("it is from %s:%d", o.File, o.Line)
			}
		case "ConfigMap":
			if o.File != "overlays/prod/kustomization.yaml" {
				t.Errorf("it is from %s:%d", o.File, o.Line)
			}
		}
	}
	if len(said) != 3 || !strings.HasPrefix(said[0], "kubernetes/prod/shop/configmap/p-settings-") || said[1] != "kubernetes/prod/shop/deployment.apps/p-web" || said[2] != "kubernetes/prod/shop/service/p-web" {
		t.Errorf("objects %v", said)
	}
}

// TestUnusual: a kustomization whose origins nobody may ask for, or that asks
// itself, gives the same objects.
func TestUnusual(t *testing.T) {
	want, _ := build(files(nil), "base", settings)
	for name, text := range map[string]string{
		"flow":    "{resources: [web.yaml]}\n",
		"its own": "resources: [web.yaml]\nbuildMetadata: [managedByLabel]\n",
		"ended":   "resources: [web.yaml]\n...\n",
		"JSON":    `{"resources": ["web.yaml"]}`,
	} {
		got, findings := build(files(map[string]string{"base/kustomization.yaml": text}), "base", settings)
		if len(findings) > 0 || len(got) != len(want) || name != "its own" && got[0].Payload.Json != want[0].Payload.Json {
			t.Errorf("%s: %d objects, %+v", name, len(got), findings)
		}
	}
	whole := files(map[string]string{"kustomization.yaml": "resources: [base]\n"})
	if got, findings := build(whole, ".", settings); len(findings) > 0 || len(got) != len(want) {
		t.Errorf("in the folder of lehr.yaml: %d objects, %+v", len(got), findings)
	}
	asked, _ := build(files(map[string]string{"base/kustomization.yaml": "resources: [web.yaml]\nbuildMetadata: [originAnnotations]\n"}), "base", settings)
	if len(asked) != 2 || !strings.Contains(asked[0].Payload.Json, "config.kubernetes.io/origin") {
		t.Errorf("origins that were asked for are gone: %+v", asked)
	}
}

// TestRefused: what is not among the declared files is not fetched, and what is
// said names the line, and what to do.
func TestRefused(t *testing.T) {
	isolate()
	for name, c := range map[string]struct {
		files      map[string]string
		file, want string
		line       int
		hint       string
	}{
		"no kustomization":     {map[string]string{"overlays/prod/kustomization.yaml": ""}, "", "the folder overlays/prod has no kustomization.yaml", 0, "with: {folder: PATH}"},
		"two kustomizations":   {map[string]string{"overlays/prod/kustomization.yml": "{}"}, "", "has several kustomizations", 0, "keep one"},
		"remote base":          {map[string]string{"overlays/prod/kustomization.yaml": "resources:\n- ../../base\n- github.com/x/y//z?ref=v1\n"}, "overlays/prod/kustomization.yaml", "github.com/x/y//z?ref=v1 is elsewhere", 3, "declare it as a source"},
		"remote base of base":  {map[string]string{"base/kustomization.yaml": "resources: [web.yaml, 'https://example.com/a.yaml']\n"}, "base/kustomization.yaml", "https://example.com/a.yaml is elsewhere", 1, "declare it as a source"},
		"remote by ssh":        {map[string]string{"base/kustomization.yaml": "bases: ['git@example.com:a/b']\n"}, "base/kustomization.yaml", "is elsewhere", 1, "declare it as a source"},
		"remote component":     {map[string]string{"base/kustomization.yaml": "components: ['https://example.com/a']\n"}, "base/kustomization.yaml", "is elsewhere", 1, "declare it as a source"},
		"remote patch":         {map[string]string{"base/kustomization.yaml": "patches: [{path: 'https://example.com/a'}]\n"}, "base/kustomization.yaml", "is elsewhere", 1, "declare it as a source"},
		"remote content":       {map[string]string{"base/kustomization.yaml": "configMapGenerator: [{name: a, files: ['a=https://example.com/a']}]\n"}, "base/kustomization.yaml", "is elsewhere", 1, "declare it as a source"},
		"remote openapi":       {map[string]string{"base/kustomization.yaml": "openapi: {path: 'https://example.com/a'}\n"}, "base/kustomization.yaml", "is elsewhere", 1, "declare it as a source"},
		"undeclared file":      {map[string]string{"base/web.yaml": ""}, "base/kustomization.yaml", "base/web.yaml is not among the declared files", 1, "add it to the files of a source"},
		"file of the machine":  {map[string]string{"base/kustomization.yaml": "configMapGenerator: [{name: a, files: [/etc/passwd]}]\n"}, "base/kustomization.yaml", "is not among the declared files", 1, "add it"},
		"helm":                 {map[string]string{"base/kustomization.yaml": "helmCharts: [{name: a, repo: 'https://example.com'}]\n"}, "base/kustomization.yaml", "would have Kustomize run Helm", 1, "render: helm"},
		"secret":               {map[string]string{"base/kustomization.yaml": "secretGenerator: [{name: a, literals: [password=hush]}]\n"}, "base/kustomization.yaml", "has data: no secret may enter", 0, "omit: Secret/"},
		"exec plugin":          {map[string]string{"base/kustomization.yaml": "generators: [gen.yaml]\n", "base/gen.yaml": "apiVersion: v1\nkind: Gen\nmetadata: {name: a, annotations: {config.kubernetes.io/function: \"exec: {path: ./x}\"}}\n"}, "base/kustomization.yaml", "Kustomize cannot build it", 0, "kustomize build"},
		"container":            {map[string]string{"base/kustomization.yaml": "transformers: [gen.yaml]\n", "base/gen.yaml": "apiVersion: v1\nkind: Gen\nmetadata: {name: a, annotations: {config.kubernetes.io/function: \"container: {image: x}\"}}\n"}, "base/kustomization.yaml", "Kustomize cannot build it", 0, "kustomize build"},
		"broken YAML":          {map[string]string{"base/web.yaml": "a: [\n"}, "base/web.yaml", "Kustomize cannot build it", 0, ""},
		"broken kustomization": {map[string]string{"base/kustomization.yaml": "resources: [\n"}, "base/kustomization.yaml", "Kustomize cannot build it", 0, ""},
		"unknown key":          {map[string]string{"base/kustomization.yaml": "resource: [web.yaml]\n"}, "base/kustomization.yaml", `unknown field "resource"`, 0, ""},
		"resources twice":      {map[string]string{"base/kustomization.yaml": "resources: [web.yaml]\nnamePrefix: a-\nresources: []\n"}, "base/kustomization.yaml", "resources is there twice: it was at line 1 before", 3, "remove one"},
		"'resources' twice":    {map[string]string{"base/kustomization.yaml": "resources: [web.yaml]\n\"resources\": []\n"}, "base/kustomization.yaml", "resources is there twice: it was at line 1 before", 2, "remove one"},
		"twice in JSON":        {map[string]string{"base/kustomization.yaml": "{\"resources\": [\"web.yaml\"],\n\"resources\": []}\n"}, "base/kustomization.yaml", "resources is there twice", 2, "remove one"},
		"twice in a resource":  {map[string]string{"base/web.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {a: 1, a: 2}\n"}, "base/web.yaml", "spec.a is there twice", 4, "remove one"},
		"twice in a patch":     {map[string]string{"base/kustomization.yaml": "resources: [web.yaml]\npatches: [{path: p.yaml}]\n", "base/p.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  a: 1\n  a: 2\n"}, "base/p.yaml", "spec.a is there twice: it was at line 5 before", 6, "remove one"},
		"twice inline":         {map[string]string{"base/kustomization.yaml": "resources: [web.yaml]\npatches:\n- patch: |\n    apiVersion: v1\n    kind: Service\n    metadata: {name: web}\n    spec: {a: 1, a: 2}\n"}, "base/kustomization.yaml", "in the text that begins here: spec.a is there twice", 3, "remove one"},
		"twice in an old one":  {map[string]string{"base/kustomization.yaml": "resources: [web.yaml]\npatchesStrategicMerge:\n- |\n  apiVersion: v1\n  kind: Service\n  metadata: {name: web, name: web}\n"}, "base/kustomization.yaml", "in the text that begins here: metadata.name is there twice", 3, "remove one"},
		"twice in a 6902":      {map[string]string{"base/kustomization.yaml": "resources: [web.yaml]\npatches: [{path: p.json, target: {kind: Service}}]\n", "base/p.json": "[{\"op\": \"add\", \"path\": \"/spec\",\n\"value\": 1, \"value\": 2}]"}, "base/p.json", "[0].value is there twice", 2, "remove one"},
		"twice in a setting":   {map[string]string{"base/kustomization.yaml": "resources: [web.yaml]\nconfigurations: [c.yaml]\n", "base/c.yaml": "namePrefix: []\nnamePrefix: []\n"}, "base/c.yaml", "namePrefix is there twice", 2, "remove one"},
		"twice by transformer": {map[string]string{"base/kustomization.yaml": "resources: [web.yaml]\ntransformers: [t.yaml]\n", "base/t.yaml": "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: t}\npath: p.yaml\n", "base/p.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {a: 1, a: 2}\n"}, "base/p.yaml", "spec.a is there twice", 4, "remove one"},
		"endless":              {map[string]string{"base/web.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: &s\n  a: {<<: *s}\n"}, "base/web.yaml", "is an alias within its own anchor", 5, "write out"},
		"a date":               {map[string]string{"base/web.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {since: 2001-01-01}\n"}, "base/web.yaml", "spec.since is a date, which Kustomize writes as a time", 1, "quote it"},
		"a key of digits":      {map[string]string{"base/web.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {a: {80: hush}}\n"}, "base/web.yaml", "spec.a.80 has a key that is a number", 1, "quote the key"},
		"y":                    {map[string]string{"base/web.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {a: y}\n"}, "base/web.yaml", "spec.a is yes, no, on or off, or y or n alone", 1, "quote a text"},
		"itself":               {map[string]string{"base/kustomization.yaml": "resources: [../base]\n"}, "base/kustomization.yaml", "Kustomize cannot build it", 0, ""},
		"each other":           {map[string]string{"base/kustomization.yaml": "resources: [../other]\n", "other/kustomization.yaml": "resources: [../base]\n"}, "*", "Kustomize cannot build it", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := "base"
			if strings.Contains(name, "kustomizations") || name == "no kustomization" || strings.HasPrefix(name, "remote base") {
				folder = "overlays/prod"
			}
			objects, findings := build(files(c.files), folder, settings)
			if len(findings) == 0 {
				t.Fatalf("taken, as %d objects", len(objects))
			}
			f := findings[0]
			if c.file != "*" && f.File != c.file || !strings.Contains(f.Message, c.want) || !strings.Contains(f.Hint, c.hint) || c.line != 0 && f.Line != c.line {
				t.Errorf("got %+v, want %s:%d %q (%q)", f, c.file, c.line, c.want, c.hint)
			}
			if strings.Contains(f.Message+f.Hint, "hush") {
				t.Errorf("it tells a secret: %+v", f)
			}
		})
	}
}

// TestContentIsNotRead: what a ConfigMap holds is content, whatever is in it.
func TestContentIsNotRead(t *testing.T) {
	objects, findings := build(files(map[string]string{
		"base/kustomization.yaml": "configMapGenerator: [{name: a, files: [c.yaml, d=e/c.yaml]}]\n",
		"base/c.yaml":             "a: 1\na: 2\n", "base/e/c.yaml": "a: &a [*a]\n",
	}), "base", settings)
	if len(findings) > 0 || len(objects) != 1 || !strings.Contains(objects[0].Payload.Json, `"c.yaml":"a: 1\na: 2\n"`) {
		t.Errorf("%+v, %v", findings, objects)
	}
}

// TestOmitOfGeneratedNames: what a generator makes is left out by the name that it is given
// there, whatever its content is.
func TestOmitOfGeneratedNames(t *testing.T) {
	for _, content := range []string{"one", "two"} {
		omitting := settings
		omitting.Omit = []string{"Secret/a"}
		made := files(map[string]string{
			"base/kustomization.yaml": "resources: [web.yaml]\nsecretGenerator: [{name: a, literals: [password=" + content + "]}]\n",
		})
		if objects, findings := build(made, "base", omitting); len(findings) > 0 || len(objects) != 2 {
			t.Errorf("%d objects, %+v", len(objects), findings)
		}
		_, findings := build(made, "base", settings)
		if len(findings) != 1 || !strings.HasSuffix(findings[0].Hint, "with: {omit: Secret/a}") {
			t.Errorf("findings %+v", findings)
		}
	}
}
