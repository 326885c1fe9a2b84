package schema_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

func TestFields(t *testing.T) {
	set := everything(t)
	long := strings.Repeat("x", 257)
	tests := []struct {
		name  string
		asset intent.Asset
		want  []intent.Field
	}{
		{"every shape", intent.Asset{Payload: pack(t, set, fromJSON(t, set, "test.v1.Findable", `{
			"text": "a = \"b\"", "number": "-3", "flag": true, "colour": "COLOUR_BLUE", "ratio": 0.5, "optional": "",
			"colours": {"y": "COLOUR_RED", "x": 9}, "plain": "not marked", "nested": {"text": "not searched"}
		}`))}, []intent.Field{
			{Path: "test.v1.Findable.text", Value: `a = "b"`},
			{Path: "test.v1.Findable.number", Value: "-3"},
			{Path: "test.v1.Findable.flag", Value: "true"},
			{Path: "test.v1.Findable.colour", Value: "COLOUR_BLUE"},
			{Path: "test.v1.Findable.ratio", Value: "0.5"},
			{Path: "test.v1.Findable.optional"},
			{Path: `test.v1.Findable.colours["x"]`, Value: "9"},
			{Path: `test.v1.Findable.colours["y"]`, Value: "COLOUR_RED"},
		}},
		{"nothing set", intent.Asset{Payload: pack(t, set, fromJSON(t, set, "test.v1.Findable", `{}`))}, nil},
		{"addons", intent.Asset{
			Payload: pack(t, set, fromJSON(t, set, "test.v1.Linked", `{"on": "a"}`)),
			Addons: []intent.Message{
				pack(t, set, &intentpb.Dependencies{}),
				pack(t, set, &intentpb.ImpactedScope{Scopes: map[string]string{"rack": "", "cluster": "a"}}),
			},
		}, []intent.Field{
			{Path: "lehr.intent.v1.Dependencies"},
			{Path: "lehr.intent.v1.ImpactedScope"},
			{Path: `lehr.intent.v1.ImpactedScope.scopes["cluster"]`, Value: "a"},
			{Path: `lehr.intent.v1.ImpactedScope.scopes["rack"]`},
		}},
		{"too long", intent.Asset{
			Payload: pack(t, set, fromJSON(t, set, "test.v1.Findable", `{"text": "`+long+`"}`)),
			Addons:  []intent.Message{pack(t, set, &intentpb.Labels{Labels: map[string]string{long: "a", "b": long, "c": long[1:]}})},
		}, []intent.Field{
			{Path: "lehr.intent.v1.Labels"},
			{Path: `lehr.intent.v1.Labels.labels["c"]`, Value: long[1:]},
		}},
	}
	for _, test := range tests {
		got, err := set.Fields(test.asset)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
	if _, err := set.Fields(intent.Asset{ID: "x", Payload: intent.Message{Type: "test.v1.Findable", Bytes: []byte{0xff}}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("bytes that are no message: %v", err)
	}
}

// What a linked type marks is marked in a stored set too.
func TestBuiltinFields(t *testing.T) {
	stored, err := schema.FromFiles(schema.Builtin().Files())
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []*schema.Set{schema.Builtin(), stored} {
		got, err := set.Fields(intent.Asset{
			Payload: pack(t, set, &processpb.Job{Name: "web", Version: "2", Binary: "/bin/true"}),
			Addons:  []intent.Message{pack(t, set, &intentpb.Owner{Owner: "sre"})},
		})
		want := []intent.Field{
			{Path: "lehr.process.v1.Job.name", Value: "web"},
			{Path: "lehr.process.v1.Job.version", Value: "2"},
			{Path: "lehr.intent.v1.Owner"},
			{Path: "lehr.intent.v1.Owner.owner", Value: "sre"},
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestIndexedMustBeShort(t *testing.T) {
	for _, field := range []string{"repeated string f", "M f", "bytes f", "map<int32, string> f", "map<string, M> f"} {
		_, err := schema.FromFiles(compile(t, map[string]string{"x.proto": `edition = "2023";
			package x;
			import "lehr/intent/v1/options.proto";
			message M { ` + field + ` = 1 [(lehr.intent.v1.indexed) = true]; }`}))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "x.M.f") {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

func TestFieldPath(t *testing.T) {
	set := schema.Builtin()
	for short, want := range map[string]string{
		"Job.version":                   "lehr.process.v1.Job.version",
		"lehr.process.v1.Job.version":   "lehr.process.v1.Job.version",
		"Owner":                         "lehr.intent.v1.Owner",
		"ImpactedScope.scopes[cluster]": `lehr.intent.v1.ImpactedScope.scopes["cluster"]`,
		`lehr.intent.v1.Labels.labels["a.b[1] \""]`: `lehr.intent.v1.Labels.labels["a.b[1] \""]`,
	} {
		if got, err := set.FieldPath(short); got != want || err != nil {
			t.Errorf("%s is %q, %v, want %q", short, got, err, want)
		}
	}
	for _, bad := range []string{"", ".", "[", "Job.replicas", "Job.version[x]", "Labels.labels", "Labels.labels[x", "Nothing", "Nothing.version"} {
		_, err := set.FieldPath(bad)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "lehr.process.v1.Job.version") || !strings.Contains(err.Error(), "Labels.labels[KEY]") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
