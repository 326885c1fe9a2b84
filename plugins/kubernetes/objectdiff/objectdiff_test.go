package objectdiff

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func lines(changes []Change) string {
	var all []string
	for _, change := range changes {
		all = append(all, strings.TrimSuffix(Text(change.Path)+": "+Show(change.Current, change.HasCurrent)+" → "+Show(change.Target, change.HasTarget)+" "+change.Writer, " "))
	}
	return strings.Join(all, "\n")
}

func TestPathsAreReadAsWritten(t *testing.T) {
	for _, text := range []string{"spec.replicas", `metadata.labels["a.b/c"]`, "spec.containers[name=web].image", "spec.list[3]", `a["with \" quote"].b`} {
		path, err := ParsePath(text)
		if err != nil || Text(path) != text {
			t.Errorf("%s is read as %s, %v", text, Text(path), err)
		}
	}
	for _, text := range []string{"spec..a", "[", `a["b]`, "a b"} {
		if path, err := ParsePath(text); err == nil {
			t.Errorf("%s is read as %s", text, Text(path))
		}
	}
}

// TestWhatIsOursIsCompared: a predicted change of a field that we own, or come to own, is
// shown, whoever makes it; another one is a note.
func TestWhatIsOursIsCompared(t *testing.T) {
	live := &unstructured.Unstructured{Object: parse(t, `{"kind":"X","metadata":{"resourceVersion":"1","managedFields":[
		{"manager":"lehr","operation":"Apply","fieldsV1":{"f:spec":{"f:gone":{},"f:list":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:v":{}}}}}},
		{"manager":"kubectl-edit","operation":"Update","fieldsV1":{"f:spec":{"f:size":{}}}}]},
		"spec":{"gone":1,"size":5,"list":[{"name":"b","v":7},{"name":"a","v":1}],"theirs":1}}`)}
	predicted := &unstructured.Unstructured{Object: parse(t, `{"kind":"X","metadata":{"resourceVersion":"2","managedFields":[
		{"manager":"lehr","operation":"Apply","fieldsV1":{"f:spec":{"f:size":{},"f:list":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:v":{}}}}}}]},
		"spec":{"size":2,"list":[{"name":"a","v":2},{"name":"b","v":7}],"theirs":3}}`)}
	compared, err := Compare(live, predicted, Managers{Own: "lehr"})
	if err != nil {
		t.Fatal(err)
	}
	want := "spec.gone: 1 → \nspec.list[name=a].v: 1 → 2\nspec.size: 5 → 2 kubectl-edit"
	if got := lines(compared.Changes); got != want {
		t.Errorf("the changes are\n%s\nwant\n%s", got, want)
	}
	if got := lines(compared.Others); got != "spec.theirs: 1 → 3" {
		t.Errorf("the others are\n%s", got)
	}
}

func TestWithoutTheServerOnlyWhatIsNamedIsCompared(t *testing.T) {
	live := parse(t, `{"status":{"a":1},"spec":{"cpu":"1","more":true,"ports":[{"port":80,"protocol":"TCP"}],"list":[{"name":"a","v":1},{"name":"b","v":1}]}}`)
	target := parse(t, `{"spec":{"cpu":"1000m","ports":[{"port":80}],"list":[{"name":"b","v":2}],"new":{"x":1}}}`)
	if got, want := lines(Named(live, target)), "spec.list[name=b].v: 1 → 2\nspec.new.x:  → 1"; got != want {
		t.Errorf("the changes are\n%s\nwant\n%s", got, want)
	}
}

// TestNoLabelsAreNone: an object that says that it has no labels is as one that says nothing. An
// empty value elsewhere counts.
func TestNoLabelsAreNone(t *testing.T) {
	live := map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{}}
	target := map[string]any{"metadata": map[string]any{"name": "a", "labels": map[string]any{}}, "spec": map[string]any{"emptyDir": map[string]any{}}}
	changes := Named(live, target)
	if len(changes) != 1 || Text(changes[0].Path) != "spec.emptyDir" {
		t.Errorf("the changes are %v", changes)
	}
}
