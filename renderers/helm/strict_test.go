package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestKeysTwice: a key that is there twice in what Helm reads is refused, with the
// file and both lines.
func TestKeysTwice(t *testing.T) {
	for name, c := range map[string]struct {
		file, text, want string
		line             int
	}{
		"values":         {"chart/values.yaml", "replicas: 1\nannotations: {}\nreplicas: 2\n", "replicas is there twice: it was at line 1 before", 3},
		"deep in values": {"chart/values.yaml", "replicas: 1\na:\n- b: {c: 1, \"c\": 2}\n", "a[0].b.c is there twice", 3},
		"given values":   {"prod.yaml", "replicas: 1\nreplicas: 2\n", "replicas is there twice", 2},
		"Chart.yaml":     {"chart/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\nname: shop\n", "name is there twice: it was at line 2 before", 4},
		"schema":         {"chart/values.schema.json", "{\"type\": \"object\",\n\"type\": \"object\"}", "type is there twice", 2},
		"part":           {"chart/charts/p/values.yaml", "a: 1\na: 2\n", "a is there twice", 2},
		"Chart of part":  {"chart/charts/p/Chart.yaml", "apiVersion: v2\nname: p\nname: p\nversion: 1.0.0\n", "name is there twice", 3},
		"old":            {"chart/requirements.yaml", "dependencies: []\ndependencies: []\n", "dependencies is there twice", 2},
		"template":       {"chart/templates/x.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n{{ if true }}\ndata: {}\ndata: {}\n{{ end }}\n", "in line 6 of what it renders: data is there twice: it was at line 5 before", 0},
		"late template":  {"chart/templates/x.yaml", "# One.\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: w}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: y}\n", "in line 10 of what it renders: data.a is yes, no, on or off", 0},
		"CRD":            {"chart/crds/x.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b, a: b}\n", "data.a is there twice", 4},
		"large":          {"chart/values.yaml", "replicas: 1\nid: 9007199254740993\n", "id is an integer that Helm rounds", 2},
		"larger":         {"prod.yaml", "a: [0x20000000000001]\n", "a[0] is an integer that Helm rounds", 1},
	} {
		t.Run(name, func(t *testing.T) {
			more := map[string]string{c.file: c.text}
			if strings.HasPrefix(c.file, "chart/charts/p/v") {
				more["chart/charts/p/Chart.yaml"] = "apiVersion: v2\nname: p\nversion: 1.0.0\n"
			}
			objects, findings := render(chart(more), prod)
			if len(findings) == 0 {
				t.Fatalf("taken, as %d objects", len(objects))
			}
			if f := findings[0]; f.Warning || f.File != c.file || f.Line != c.line || !strings.Contains(f.Message, c.want) || f.Hint == "" {
				t.Errorf("got %+v, want %s:%d %q", f, c.file, c.line, c.want)
			}
		})
	}
	files := chart(nil)
	files["chart/charts/packed-0.1.0.tgz"] = packed(t, map[string]string{"packed/Chart.yaml": "apiVersion: v2\nname: packed\nversion: 0.1.0\n", "packed/values.yaml": "a: 1\na: 2\n"})
	_, findings := render(files, prod)
	if len(findings) != 1 || findings[0].File != "chart/charts/packed-0.1.0.tgz" || !strings.Contains(findings[0].Message, "values.yaml in it, line 2: a is there twice") {
		t.Errorf("of an archive it says %+v", findings)
	}
	quoted := chart(map[string]string{"chart/values.yaml": "replicas: 1\nid: '9007199254740993'\neven: 9007199254740994\nignored: {y: 1, Y: '2'}\n", "chart/templates/n.yaml": "a: 1\na: 2\n", "chart/.helmignore": "templates/n.yaml\n"})
	if _, findings := render(quoted, prod); len(findings) != 1 || !strings.Contains(findings[0].Message, "ignored.true is there twice") {
		t.Errorf("of what Helm reads as one key it says %+v", findings)
	}
}

// TestLargeNumbers: who puts a large number into a text is told what Helm makes of it.
func TestLargeNumbers(t *testing.T) {
	files := chart(map[string]string{"chart/values.yaml": "replicas: 1\nbuild: 356000000\n", "chart/templates/web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {build: {{ .Values.build | quote }}, whole: {{ .Values.build | int64 | quote }}}}\n"})
	objects, findings := render(files, prod)
	if len(objects) != 1 || !strings.Contains(objects[0].Payload.Json, `"labels":{"build":"3.56e+08","whole":"356000000"}`) {
		t.Fatalf("%v %+v", objects, findings)
	}
	if len(findings) != 1 || !findings[0].Warning || findings[0].Message != "metadata.labels.build of ConfigMap a holds the value build as Helm writes large numbers, with an exponent" {
		t.Errorf("%+v", findings)
	}
}

// TestNulls: a null in a chart's values is read as the Helm that is named reads it,
// and where none is and it matters, a warning says so.
func TestNulls(t *testing.T) {
	files := chart(map[string]string{
		"chart/values.yaml":        "strategy: {type: Recreate, rollingUpdate: null}\nsecond: ~\n",
		"chart/templates/web.yaml": "apiVersion: example.com/v1\nkind: W\nmetadata: {name: w}\nspec: {{ toYaml .Values.strategy | nindent 2 }}\n",
		"prod.yaml":                "{}\n",
	})
	for nulls, want := range map[string]string{
		"":      `"spec":{"type":"Recreate"}`,
		"helm4": `"spec":{"type":"Recreate"}`,
		"helm3": `"spec":{"rollingUpdate":null,"type":"Recreate"}`,
	} {
		o := prod
		o.nulls = nulls
		objects, findings := render(files, o)
		if len(objects) != 1 || !strings.Contains(objects[0].Payload.Json, want) {
			t.Errorf("%q gives %v", nulls, objects)
		}
		told := fmt.Sprint(findings)
		if warned := strings.Contains(told, "spec.rollingUpdate of W w is another to Helm 3"); warned != (nulls == "") || !warned && len(findings) > 0 {
			t.Errorf("%q says %+v", nulls, findings)
		}
	}
	unused := chart(map[string]string{"chart/values.yaml": "replicas: 1\nunused: null\n"})
	if _, findings := render(unused, prod); len(findings) > 0 {
		t.Errorf("of a null that changes nothing it says %+v", findings)
	}
	// A user's null removes a default, to both.
	removed := chart(map[string]string{"chart/values.yaml": "replicas: 1\nannotations: {a: b}\n", "prod.yaml": "annotations: null\n"})
	for _, nulls := range []string{"", "helm3", "helm4"} {
		o := prod
		o.nulls = nulls
		if objects, findings := render(removed, o); len(findings) > 0 || strings.Contains(objects[0].Payload.Json, "annotations") {
			t.Errorf("%q: %+v %v", nulls, findings, objects)
		}
	}
	other := chart(map[string]string{
		"chart/values.yaml":      "replicas: 1\nmode: null\n",
		"chart/templates/x.yaml": "{{ if hasKey .Values \"mode\" }}apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x}\n{{ end }}",
	})
	if _, findings := render(other, prod); len(findings) != 1 || !strings.Contains(findings[0].Message, "Helm 3 renders ServiceAccount x, too") {
		t.Errorf("of an object that only Helm 3 renders it says %+v", findings)
	}
}

// TestSplitAsHelm: a document begins wherever a line begins with ---.
func TestSplitAsHelm(t *testing.T) {
	files := chart(map[string]string{"chart/templates/web.yaml": "{{- range list \"a\" \"b\" }}\n---apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ . }}}\ndata:\n  x: |\n    {{ . }}\n{{- end }}"})
	objects, findings := render(files, prod)
	if len(findings) > 0 || len(objects) != 2 || !strings.Contains(objects[1].Payload.Json, `"x":"b\n"`) {
		t.Errorf("%v %+v", objects, findings)
	}
}
