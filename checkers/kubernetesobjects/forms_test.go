package main

import (
	"encoding/json"
	"strings"
	"testing"

	"lehr.dev/checkers/kubernetesobjects/builtin"
	"lehr.dev/sdk/generator/kubernetes"
)

// TestAnyForm: whatever stands where something else is wanted, the check ends and tells it, or it is well.
func TestAnyForm(t *testing.T) {
	tables, err := builtin.Load()
	if err != nil {
		t.Fatal(err)
	}
	version, err := tables.Version("1.37")
	if err != nil {
		t.Fatal(err)
	}
	queue := "apiVersion: example.com/v1\nkind: Queue\nmetadata: {name: a}\nspec: {size: 3, mode: fast}\n"
	customs := &customs{kinds: map[string]customKind{}, unread: map[string]bool{}, versions: map[string][]string{}}
	for _, d := range definitionsOf([]byte(definition)) {
		if err := customs.define(d.value); err != nil {
			t.Fatal(err)
		}
	}
	forms := []any{nil, "x", "", json.Number("1"), json.Number("1e40"), true, []any{}, []any{nil}, []any{"x"}, map[string]any{}, map[string]any{"": nil}, map[string]any{strings.Repeat("k", 100_000): "x"}}
	tried := 0
	for _, text := range []string{deployment, strings.Replace(cronJob, "SCHEDULE", `"@daily"`, 1), "apiVersion: v1\nkind: Service\nmetadata: {name: web, labels: {a: b}}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n", "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {selector: {matchLabels: {app: wbe}}}\n", queue, definition} {
		objects, findings := kubernetes.Read([]kubernetes.Manifest{{File: "a.yaml", Text: []byte(text)}}, kubernetes.Settings{Cluster: "eu", Namespace: "shop"})
		if len(objects) != 1 {
			t.Fatal(findings)
		}
		whole, err := newObject(objects[0].ID, objects[0].Payload)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range forms {
			each(whole.value, func(place func(value any)) {
				tried++
				place(form)
				changed := *whole
				c := &checker{settings: settings{version: version}, customs: customs, objects: []*object{&changed, whole}}
				c.object(&changed)
				for _, f := range c.found {
					_, _ = changed.written(f.path), shown(f.path)
				}
				_ = customs.define(changed.value) // It says what is wrong, or takes it.
			})
		}
	}
	if tried < 1000 {
		t.Errorf("only %d changes were tried", tried)
	}
}

// each calls back for every place within a value; what the place holds is there again afterwards.
func each(value any, try func(place func(any))) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(value) {
			old := value[key]
			try(func(form any) { value[key] = form })
			value[key] = old
			each(old, try)
		}
	case []any:
		for i, old := range value {
			try(func(form any) { value[i] = form })
			value[i] = old
			each(old, try)
		}
	}
}
