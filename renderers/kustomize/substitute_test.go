package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"lehr.dev/sdk/generator/kubernetes"
)

// TestSubstitute: variables are replaced after the build as Flux replaces them, large integers
// stay whole where there is none, and an object whose variable has no value is left out.
func TestSubstitute(t *testing.T) {
	files := map[string][]byte{
		"kustomization.yaml": []byte("resources: [a.yaml]\nnamePrefix: p-\n"),
		"a.yaml": []byte(`apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {tier: "${tier}", port: "${port}", other: "${other:=usual}", kept: "$${tier}"}
---
apiVersion: example.com/v1
kind: Wide
metadata: {name: b, namespace: shop}
spec: {big: 9007199254740993}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c, labels: {kustomize.toolkit.fluxcd.io/substitute: disabled}}
data: {a: "${none}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: d}
data: {a: "${none} ${other}"}
`),
	}
	variables, err := readSubstitution([]string{"tier=go\nld", "port=8080"})
	if err != nil {
		t.Fatal(err)
	}
	tree := &tree{files: files, variables: variables}
	objects, findings := tree.build(".", settings)
	if len(objects) != 3 || len(findings) != 1 {
		t.Fatalf("it is %v, %v", objects, findings)
	}
	for i, want := range []string{`"data":{"kept":"${tier}","other":"usual","port":8080,"tier":"gold"}`, `"a":"${none}"`, "9007199254740993"} {
		if !strings.Contains(objects[i].Payload.Json, want) {
			t.Errorf("there is no %s in %s", want, objects[i].Payload.Json)
		}
	}
	if f := findings[0]; !f.LeftOut || f.File != "a.yaml" || f.Line != 16 || !strings.Contains(f.Message, "ConfigMap p-d takes the variable none, other") {
		t.Errorf("it says %+v", f)
	}
	for _, text := range []string{"tier", "a-b=1", "=x"} {
		if _, err := readSubstitution([]string{text}); err == nil {
			t.Errorf("%q is a variable", text)
		}
	}
}

// TestPlainFolders: a folder without a kustomization is built of all its manifests, one below
// with a kustomization as a whole, also where another kustomization names it.
func TestPlainFolders(t *testing.T) {
	object := func(name string) []byte {
		return []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n")
	}
	files := map[string][]byte{
		"overlay/kustomization.yaml":     []byte("resources: [../plain]\nnamePrefix: p-\n"),
		"plain/a.yaml":                   object("a"),
		"plain/deep/b.yml":               object("b"),
		"plain/whole/kustomization.yaml": []byte("resources: [c.yaml, inner]\n"),
		"plain/whole/c.yaml":             object("c"),
		"plain/whole/left.yaml":          object("left"),
		"plain/whole/inner/d.yaml":       object("d"),
		"plain/notes.txt":                []byte("x"),
		"other/kustomization.yaml":       []byte("resources: [x.yaml]\n"),
	}
	plainFolders(files, "overlay")
	objects, findings := build(files, "overlay", settings)
	var names []string
	for _, o := range objects {
		names = append(names, o.Payload.Name)
	}
	slices.Sort(names)
	if len(findings) > 0 || !slices.Equal(names, []string{"p-a", "p-b", "p-c", "p-d"}) {
		t.Errorf("it is %v, %v", names, findings)
	}
}

// TestList: lehr import is told the objects of a folder as text, and what is wrong; only what is no
// question ends with an error.
func TestList(t *testing.T) {
	ask := func(q question) (a answer) {
		t.Helper()
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if code := list(bytes.NewReader(text), &out); code != 0 {
			t.Fatalf("it ends with %d", code)
		}
		if err := json.Unmarshal(out.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	files := map[string][]byte{"x/a.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: \"${b}\"}\n")}
	if a := ask(question{Files: files, Folder: "x", Substitute: []string{"b=1"}}); len(a.Objects) != 1 || a.Objects[0].File != "x/a.yaml" || !strings.Contains(a.Objects[0].Text, "a: 1") {
		t.Errorf("it says %+v", a)
	}
	if a := ask(question{Files: files, Folder: "x", Substitute: []string{"c=1"}}); len(a.Objects) != 0 || !slices.Equal(a.Unset, []string{"b"}) {
		t.Errorf("it says %+v", a)
	}
	if a := ask(question{Files: map[string][]byte{}, Folder: "x"}); len(a.Findings) != 1 || !kubernetes.Finding.Fails(a.Findings[0]) {
		t.Errorf("it says %+v", a)
	}
	if list(strings.NewReader("x"), &bytes.Buffer{}) == 0 {
		t.Error("what is no question was answered")
	}
}
