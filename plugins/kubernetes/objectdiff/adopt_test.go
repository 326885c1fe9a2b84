package objectdiff

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// applyMerge does what a server does with a JSON merge patch.
func applyMerge(object, patch map[string]any) {
	for name, value := range patch {
		inner, isMap := value.(map[string]any)
		current, wasMap := object[name].(map[string]any)
		switch {
		case value == nil:
			delete(object, name)
		case isMap && wasMap:
			applyMerge(current, inner)
		default:
			object[name] = value
		}
	}
}

func TestAMergePatchMakesOneOfTheOther(t *testing.T) {
	for _, pair := range [][2]string{
		{`{"a":1}`, `{"a":1}`},
		{`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"c":4}}`},
		{`{"a":[1,2]}`, `{"a":[2],"b":{"c":{}}}`},
		{`{"a":{"b":1}}`, `{"a":[1]}`},
		{`{"a":"x"}`, `{"a":{"b":1}}`},
	} {
		from, to := parse(t, pair[0]), parse(t, pair[1])
		patch := MergePatch(from, to)
		applyMerge(from, patch)
		if !same(from, to) {
			t.Errorf("%s with %v is %v, want %s", pair[0], patch, from, pair[1])
		}
	}
}

// TestTakingOver: fields of another version of the kind, of a part of the object, and of who
// does not count as us stay as they are.
func TestTakingOver(t *testing.T) {
	live := &unstructured.Unstructured{Object: parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[
{"manager":"lehr","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}},
{"manager":"helm","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:a":{},"f:b":{}}}},
{"manager":"helm","operation":"Update","apiVersion":"v1beta1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:c":{}}}},
{"manager":"helm","operation":"Update","apiVersion":"v1","subresource":"status","fieldsType":"FieldsV1","fieldsV1":{"f:status":{}}},
{"manager":"someone","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:b":{}}}}]},"data":{"a":"1","b":"2","c":"3"}}`)}
	managers := Managers{Own: "lehr", Adopted: []string{"helm"}}
	if HasAdopted(live, Managers{Own: "lehr"}) || !HasAdopted(live, managers) {
		t.Error("who has fields is told wrong")
	}
	entries, err := TakenOver(live, managers)
	if err != nil {
		t.Fatal(err)
	}
	if last := entries[len(entries)-1]; len(entries) != 4 || last.Manager != "lehr" || string(last.FieldsV1.Raw) != `{"f:data":{".":{},"f:a":{},"f:b":{}}}` {
		t.Errorf("the entries are then %+v", entries)
	}
	// b is someone's, too: it stays.
	predicted := live.DeepCopy()
	if _, removes, err := WithoutDropped(live, predicted, managers); err != nil || removes {
		t.Errorf("it removes: %v, %v", removes, err)
	}
}
