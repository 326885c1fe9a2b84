package schema_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// The text of an asset is stable, holds all of it, and reads back, however it is
// laid out, as the same bytes.
func TestTextComesBack(t *testing.T) {
	set := schema.Builtin()
	encode := func(payload proto.Message, addons ...proto.Message) []byte {
		asset := intent.Asset{ID: "web/a", Payload: pack(t, set, payload)}
		for _, addon := range addons {
			asset.Addons = append(asset.Addons, pack(t, set, addon))
		}
		body, _, err := set.Encode(asset)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	anything, err := structpb.NewStruct(map[string]any{"a": []any{1.5, nil, "<&\u2028>"}, "b": map[string]any{"@type": "x", "value": 1e300}})
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{
		"fields":  encode(&commandpb.Command{Diff: []string{"a", ""}, Input: "\x00\t\"é", Timeout: durationpb.New(1500)}),
		"addons":  encode(&commandpb.Command{}, &intentpb.Labels{Labels: map[string]string{"b": "1", "a": "2"}}, &intentpb.Owner{Owner: "o"}),
		"struct":  encode(anything),
		"a value": encode(structpb.NewNullValue()),
		"empty":   encode(&structpb.Struct{}),
	} {
		text, err := set.Text(body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again, _ := set.Text(body); !bytes.Equal(again, text) || bytes.ContainsRune(text, '\n') || bytes.Contains(text, []byte(`": `)) {
			t.Errorf("%s: the text is not one stable line: %s, %s", name, text, again)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "", "\t"); err != nil {
			t.Fatal(err)
		}
		if back, err := set.ParseText(indented.Bytes()); err != nil || !bytes.Equal(back, body) {
			t.Errorf("%s: %s reads back as %x, %v, not %x", name, text, back, err, body)
		}
	}
	_, err = set.Text(encode(&durationpb.Duration{Seconds: math.MaxInt64}))
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "web/a") {
		t.Errorf("a duration that has no JSON: %v", err)
	}
	for _, wrong := range []string{
		"", "{", "[]", `{"id": "a"}`, `{"id": "a", "payload": {}}`, `{"id": "A", "payload": {"@type": "x/lehr.intent.v1.Owner"}}`,
		`{"id": "a", "payload": {"@type": "x/no.such.Type"}}`, `{"id": "a", "payload": {"@type": "x/lehr.intent.v1.Owner", "colour": 1}}`,
		`{"id": "a", "payload": {"@type": "x/lehr.intent.v1.Owner"}, "more": 1}`, strings.Repeat(`{"payload":`, 5000),
	} {
		if _, err := set.ParseText([]byte(wrong)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.80s: %v", wrong, err)
		}
	}
}
