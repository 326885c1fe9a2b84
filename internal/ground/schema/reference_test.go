package schema_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

func TestReferences(t *testing.T) {
	set := everything(t)
	linked := fromJSON(t, set, "test.v1.Linked", `{
		"on": "a",
		"reads": ["b", "", "c"],
		"byName": {"y": "e", "x": "d", "none": ""},
		"nested": {"on": "f"},
		"list": [{}, {"reads": ["g"]}],
		"nestedByName": {"k": {"on": "h"}},
		"any": {"@type": "x/test.v1.Linked", "on": "i"},
		"plain": "not a reference"
	}`)
	dependencies := &intentpb.Dependencies{Dependencies: []*intentpb.Dependency{{On: "j"}, {On: "k"}}}
	asset := intent.Asset{
		ID:      "x",
		Payload: pack(t, set, linked),
		Addons:  []intent.Message{pack(t, set, dependencies), pack(t, set, &intentpb.Owner{Owner: "sre"})},
	}
	got, err := set.References(asset)
	if err != nil {
		t.Fatal(err)
	}
	types := []intent.TypeName{everythingType}
	want := []intent.Reference{
		{Field: "test.v1.Linked.on", To: "a", Types: types},
		{Field: "test.v1.Linked.reads[0]", To: "b", Read: true},
		{Field: "test.v1.Linked.reads[2]", To: "c", Read: true},
		{Field: `test.v1.Linked.by_name["x"]`, To: "d"},
		{Field: `test.v1.Linked.by_name["y"]`, To: "e"},
		{Field: "test.v1.Linked.nested.on", To: "f", Types: types},
		{Field: "test.v1.Linked.list[1].reads[0]", To: "g", Read: true},
		{Field: `test.v1.Linked.nested_by_name["k"].on`, To: "h", Types: types},
		{Field: "test.v1.Linked.any.(test.v1.Linked).on", To: "i", Types: types},
		{Field: "lehr.intent.v1.Dependencies.dependencies[0].on", To: "j"},
		{Field: "lehr.intent.v1.Dependencies.dependencies[1].on", To: "k"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReferenceMustBeText(t *testing.T) {
	_, err := schema.FromFiles(compile(t, map[string]string{"x.proto": `edition = "2023";
		package x;
		import "lehr/intent/v1/options.proto";
		message M { int32 number = 1 [(lehr.intent.v1.reference) = {}]; }`}))
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "x.M.number") {
		t.Errorf("error %v", err)
	}
}
