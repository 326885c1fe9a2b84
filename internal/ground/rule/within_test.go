package rule_test

import (
	"strings"
	"testing"

	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

const objectType = intent.TypeName("lehr.kubernetes.v1.Object")

// assignWithin gives a field of an object's JSON a value, and returns the JSON.
func assignWithin(t *testing.T, text, field, expression string, fill bool) (string, error) {
	t.Helper()
	set := schema.Builtin()
	environment := rule.New(set)
	found, err := environment.FindField(field, objectType)
	if err != nil {
		return "", err
	}
	assignment, err := environment.Assign(found, expression, objectType)
	if err != nil {
		return "", err
	}
	packed, err := set.Pack(&kubernetespb.Object{ApiVersion: "v1", Kind: "ConfigMap", Name: "a", Cluster: "eu", Json: text})
	if err != nil {
		t.Fatal(err)
	}
	asset, err := assignment.Apply(intent.Asset{ID: "a", Payload: packed}, fill)
	if err != nil {
		return "", err
	}
	payload, err := set.Unpack(asset.Payload)
	if err != nil {
		t.Fatal(err)
	}
	message := payload.ProtoReflect()
	return message.Get(message.Descriptor().Fields().ByName("json")).String(), nil
}

// TestAssignWithinJSON: a path leads into a text that is JSON. What it does not name keeps all its digits.
func TestAssignWithinJSON(t *testing.T) {
	const text = `{"a":{"b":1},"big":12345678901234567890,"list":[1]}`
	for _, c := range []struct {
		field, expression string
		fill              bool
		want              string
	}{
		{"payload.json.a.b", "2", false, `{"a":{"b":2},"big":12345678901234567890,"list":[1]}`},
		{"payload.json.a.b", "2", true, text},
		{"payload.json.c.d", `"<x>"`, true, `{"a":{"b":1},"big":12345678901234567890,"c":{"d":"<x>"},"list":[1]}`},
		{"payload.json.c", `""`, true, text},
		{`payload.json.a["x.y/z"]`, `{"k": [1, true]}`, false, `{"a":{"b":1,"x.y/z":{"k":[1,true]}},"big":12345678901234567890,"list":[1]}`},
		{"payload.json.list", "[]", false, `{"a":{"b":1},"big":12345678901234567890,"list":[]}`},
		{"payload.json.a.b", "parseJSON(payload.json).a.b + 1", false, `{"a":{"b":2},"big":12345678901234567890,"list":[1]}`},
	} {
		got, err := assignWithin(t, text, c.field, c.expression, c.fill)
		if err != nil || got != c.want {
			t.Errorf("%s = %s: %v\n got %s\nwant %s", c.field, c.expression, err, got, c.want)
		}
	}
	if got, err := assignWithin(t, "", "payload.json.a", "1", false); err != nil || got != "" {
		t.Errorf("of an object that is elsewhere: %q, %v", got, err)
	}
	for field, want := range map[string]string{"payload.json.list.a": "list has no fields of its own", "payload.json.a.b.c": "a.b has no fields of its own"} {
		if _, err := assignWithin(t, text, field, "1", false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
