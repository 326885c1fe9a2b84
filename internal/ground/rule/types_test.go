package rule_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// acme are types that are known at run time only. Owner has a namesake among
// the built-in ones.
const acme = `edition = "2023";
package acme.v1;
import "lehr/intent/v1/options.proto";
option features.field_presence = IMPLICIT;
message Widget {
  string color = 1 [(lehr.intent.v1.indexed) = true];
  int64 size = 2 [(lehr.intent.v1.indexed) = true];
  bool round = 3 [(lehr.intent.v1.indexed) = true];
  Kind kind = 4 [(lehr.intent.v1.indexed) = true];
  double weight = 5 [(lehr.intent.v1.indexed) = true];
  string part_of = 6 [(lehr.intent.v1.reference) = {}];
  map<string, int32> holes = 7 [(lehr.intent.v1.indexed) = true];
  Widget inner = 8;
  uint32 count = 9 [(lehr.intent.v1.indexed) = true, features.field_presence = EXPLICIT];
  enum Kind { KIND_UNSPECIFIED = 0; KIND_LARGE = 1; }
}
message Owner { string of = 1 [(lehr.intent.v1.indexed) = true]; }
`

func acmeSet(t *testing.T) *schema.Set {
	t.Helper()
	compiled, findings := schema.Compile(t.Context(), []schema.SourceFile{{Path: "acme/v1/widget.proto", Text: []byte(acme)}}, nil)
	if len(findings) > 0 {
		t.Fatalf("%+v", findings)
	}
	return compiled.Set
}

func acmeMessage(t *testing.T, set *schema.Set, name intent.TypeName, json string) intent.Message {
	t.Helper()
	message, err := set.New(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal([]byte(json), message); err != nil {
		t.Fatal(err)
	}
	packed, err := set.Pack(message)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func TestTypesOfTheirOwn(t *testing.T) {
	set := acmeSet(t)
	environment := rule.New(set)
	widget := intent.Asset{ID: "w", Payload: acmeMessage(t, set, "acme.v1.Widget",
		`{"color": "red", "size": -7, "round": true, "kind": "KIND_LARGE", "weight": 1.5, "part_of": "other", "holes": {"a": 3, "b": 0}, "inner": {"color": "blue"}, "count": 0}`)}
	widget.Addons = []intent.Message{
		acmeMessage(t, set, "acme.v1.Owner", `{"of": "me"}`),
		acmeMessage(t, set, "lehr.intent.v1.Owner", `{"owner": "you"}`),
	}
	fields, err := set.Fields(widget)
	if err != nil {
		t.Fatal(err)
	}
	const is = `type == "Widget" && `
	for text, narrow := range map[string]string{
		is + `payload.color == "red"`:                         `acme.v1.Widget.color=red exact`,
		is + `payload.size == -7`:                             `acme.v1.Widget.size=-7 exact`,
		is + `payload.size < 0 && payload.size + 1 < 0`:       `= `,
		is + `payload.round == true`:                          `acme.v1.Widget.round=true exact`,
		is + `payload.round`:                                  `= `,
		is + `payload.kind == 1`:                              `acme.v1.Widget.kind=KIND_LARGE exact`,
		is + `payload.kind == acme.v1.Widget.Kind.KIND_LARGE`: `= `,
		is + `payload.weight == 1.5`:                          `= `,
		is + `payload.holes["a"] == 3`:                        `acme.v1.Widget.holes["a"]=3 exact`,
		is + `payload.holes["b"] == 0`:                        `acme.v1.Widget.holes["b"]=0 exact`,
		is + `"a" in payload.holes`:                           `acme.v1.Widget.holes["a"]= exact`,
		is + `payload.inner.color == "blue"`:                  `= `,
		is + `payload.inner.size == 0`:                        `= `,
		is + `payload.count == 0`:                             `= `,
		is + `"other" in refs`:                                `= exact`,
		`payload.color == "red"`:                              `= `,
		`addons["acme.v1.Owner"].of == "me"`:                  `acme.v1.Owner.of=me exact`,
		`"acme.v1.Owner" in addons`:                           `acme.v1.Owner= exact`,
		`owner == "you"`:                                      `lehr.intent.v1.Owner.owner=you exact`,
	} {
		filter, err := environment.Filter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if matched, err := filter.Match(widget); err != nil || !matched {
			t.Errorf("%s is %v (%v)", text, matched, err)
		}
		n, exact := filter.Narrow(), ""
		if n.Exact {
			exact = "exact"
		}
		if got := fmt.Sprintf("%s=%s %s", n.Field, n.Value, exact); got != narrow {
			t.Errorf("%s narrows to %q, want %q", text, got, narrow)
		}
		found := n.Field == ""
		for _, field := range fields {
			found = found || field.Path == n.Field && (n.Value == "" || n.Value == field.Value)
		}
		if !found {
			t.Errorf("%s matches, and is not in the index: %+v", text, n)
		}
	}
	for text, says := range map[string]string{
		`has(addons.Owner)`:                         "ambiguous",
		`type == "Widget" && payload.colour == "x"`: "did you mean color?",
		`type == "Widget" && payload.size == "x"`:   "does not work on (int, string)",
	} {
		if _, err := environment.Filter(text); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
