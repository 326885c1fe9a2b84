package query_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	commandpb "lehr.dev/gen/lehr/command/v1"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/query"
)

// TestFieldsWithinJSON: of a text that is canonical JSON its fields differ, and
// of any other the text.
func TestFieldsWithinJSON(t *testing.T) {
	object := func(json string) intent.Asset {
		return intent.Asset{ID: "a", Payload: pack(t, &kubernetespb.Object{ApiVersion: "v1", Kind: "Pod", Name: "a", Cluster: "eu", Json: json})}
	}
	command := func(input string) intent.Asset {
		return intent.Asset{ID: "a", Payload: pack(t, &commandpb.Command{Diff: []string{"d"}, Input: input})}
	}
	for name, c := range map[string]struct {
		before, after intent.Asset
		want          []intent.FieldChange
	}{
		"fields": {
			object(`{"data":{"a.b":"x","c":1},"list":[{"image":"v1"},2],"none":null}`), object(`{"data":{"a.b":"y","c":1},"list":[{"image":"v2"},2,{}],"none":[]}`),
			[]intent.FieldChange{
				{Path: `payload.json.data["a.b"]`, Current: `"x"`, Target: `"y"`}, {Path: "payload.json.list[0].image", Current: `"v1"`, Target: `"v2"`},
				{Path: "payload.json.list[2]", Target: "{}"}, {Path: "payload.json.none", Current: "null", Target: "[]"},
			},
		},
		"a number and a text":   {object(`{"a":1}`), object(`{"a":"1"}`), []intent.FieldChange{{Path: "payload.json.a", Current: "1", Target: `"1"`}}},
		"a list and a map":      {object(`{"a":[1]}`), object(`{"a":{"0":1}}`), []intent.FieldChange{{Path: `payload.json.a["0"]`, Target: "1"}, {Path: "payload.json.a[0]", Current: "1"}}},
		"JSON with spaces":      {command(`{"a": 1}`), command(`{"a": 2}`), []intent.FieldChange{{Path: "payload.input", Current: `"{\"a\": 1}"`, Target: `"{\"a\": 2}"`}}},
		"JSON of another order": {command(`{"b":1,"a":1}`), command(`{"a":1,"b":1}`), []intent.FieldChange{{Path: "payload.input", Current: `"{\"b\":1,\"a\":1}"`}, {Path: "payload.input.a", Target: "1"}, {Path: "payload.input.b", Target: "1"}}},
		"half of JSON":          {command(`{"a":1`), command(`{"a":2`), []intent.FieldChange{{Path: "payload.input", Current: `"{\"a\":1"`, Target: `"{\"a\":2"`}}},
	} {
		got, err := query.Differences(schema.Builtin(), c.before, schema.Builtin(), c.after)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}
