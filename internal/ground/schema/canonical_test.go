package schema_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

const everythingType = "test.v1.Everything"

func fromJSON(t testing.TB, set *schema.Set, name intent.TypeName, text string) proto.Message {
	t.Helper()
	message, err := set.New(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := (protojson.UnmarshalOptions{Resolver: set.Types()}).Unmarshal([]byte(text), message); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return message
}

func TestCanonicalBytes(t *testing.T) {
	set := everything(t)
	tests := []struct{ name, json, want string }{
		{"nothing", `{}`, ""},
		{"implicit defaults are left out", `{"flag": false, "small": 0, "last": "", "ratio": 0}`, ""},
		{"explicit defaults are written", `{"optionalLarge": "0", "text": "", "optionalRatio": 0}`, "18 00 69 0000000000000000 72 00"},
		{"by number, not by declaration", `{"last": "z", "flag": true}`, "08 01 a21f 01 7a"},
		// Protobuf's own marshalling writes members of a oneof last.
		{"a oneof in its place", `{"choiceText": "c", "between": "b", "text": "a"}`, "72 01 61 f201 01 63 c202 01 62"},
		{"packed and expanded", `{"packed": [1, 300], "expanded": [1, 300]}`, "b204 03 01 ac02 b804 01 b804 ac02"},
		{"maps by key", `{"byText": {"b": "2", "a": "", "aa": "3"}}`, "8205 05 0a 01 61 12 00 8205 07 0a 02 6161 12 01 33 8205 06 0a 01 62 12 01 32"},
		{"signed keys by value", `{"bySigned": {"1": "COLOUR_RED", "-1": "COLOUR_BLUE"}}`, "a205 04 08 01 10 07 a205 04 08 02 10 01"},
		{"bool keys", `{"byFlag": {"true": "", "false": ""}}`, "9205 04 08 00 12 00 9205 04 08 01 12 00"},
		{"negative zero", `{"ratio": -0.0, "optionalRatio": -0.0, "ratios": [-0.0]}`, "69 0000000000000000 c204 08 0000000000000000"},
		{"delimited", `{"delimited": {"flag": true}}`, "ab01 08 01 ac01"},
		{"an empty nested message is there", `{"nested": {}}`, "8a01 00"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := set.Canonical(fromJSON(t, set, everythingType, test.json))
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.ReplaceAll(test.want, " ", ""); hex.EncodeToString(got) != want {
				t.Errorf("got  %x\nwant %s", got, want)
			}
		})
	}
}

// What somebody else marshalled inside an Any comes out canonical, under one
// prefix.
func TestAnyIsEncodedAnew(t *testing.T) {
	set := everything(t)
	straight, err := set.Canonical(fromJSON(t, set, everythingType, `{"any": {"@type": "type.googleapis.com/test.v1.Everything", "flag": true, "last": "z"}}`))
	if err != nil {
		t.Fatal(err)
	}
	wire := protowire.AppendString(protowire.AppendTag(nil, 500, protowire.BytesType), "old")
	wire = protowire.AppendVarint(protowire.AppendTag(wire, 1, protowire.VarintType), 1)
	wire = protowire.AppendString(protowire.AppendTag(wire, 500, protowire.BytesType), "z")
	crooked, err := set.New(everythingType)
	if err != nil {
		t.Fatal(err)
	}
	any, err := proto.Marshal(&anypb.Any{TypeUrl: "example.com/x/test.v1.Everything", Value: wire})
	if err != nil {
		t.Fatal(err)
	}
	outer := protowire.AppendBytes(protowire.AppendTag(nil, 19, protowire.BytesType), any)
	if err := proto.Unmarshal(outer, crooked); err != nil {
		t.Fatal(err)
	}
	got, err := set.Canonical(crooked)
	if err != nil || !bytes.Equal(got, straight) {
		t.Errorf("got  %x, %v\nwant %x", got, err, straight)
	}
}

func TestRefused(t *testing.T) {
	set := everything(t)
	unknownInside := protowire.AppendBytes(protowire.AppendTag(nil, 17, protowire.BytesType),
		protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1))
	anyOf := func(url string, value []byte) []byte {
		wire, err := proto.Marshal(&anypb.Any{TypeUrl: url, Value: value})
		if err != nil {
			t.Fatal(err)
		}
		return protowire.AppendBytes(protowire.AppendTag(nil, 19, protowire.BytesType), wire)
	}
	tests := []struct {
		name string
		wire []byte
		want string
	}{
		{"unknown field", unknownInside, "field nested: test.v1.Everything has no field number 999"},
		{"unknown field in an Any", anyOf("x/"+everythingType, unknownInside), "has no field number 999"},
		{"unknown type in an Any", anyOf("x/test.v1.Nothing", nil), `field any: an Any has the type "test.v1.Nothing"`},
		{"Any without type", anyOf("", []byte("x")), "no type"},
		{"broken content of an Any", anyOf("x/"+everythingType, []byte{0xff}), "the bytes are not a test.v1.Everything"},
		{"NaN", protowire.AppendFixed32(protowire.AppendTag(nil, 12, protowire.Fixed32Type), math.Float32bits(float32(math.NaN()))), "field ratio: NaN"},
		{"NaN in a list", protowire.AppendBytes(protowire.AppendTag(nil, 72, protowire.BytesType), protowire.AppendFixed64(nil, math.Float64bits(math.NaN()))), "field ratios[0]: NaN"},
		{"invalid UTF-8", protowire.AppendString(protowire.AppendTag(nil, 14, protowire.BytesType), "\xff"), "UTF-8"},
		{"101 deep", deep(101), "deep"},
		{"101 deep by way of Any", deepAny(t, 101), "deep"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := set.Unpack(intent.Message{Type: everythingType, Bytes: test.wire})
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "recursion") {
				t.Errorf("Unpack: %v, want Invalid with %q", err, test.want)
			}
			message, _ := set.New(everythingType)
			if err := (proto.UnmarshalOptions{Resolver: set.Types()}).Unmarshal(test.wire, message); err != nil {
				return // protobuf refuses it by itself
			}
			if _, err := set.Canonical(message); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Canonical: %v, want Invalid with %q", err, test.want)
			}
		})
	}
}

func TestAHundredDeepIsAllowed(t *testing.T) {
	set := everything(t)
	for name, wire := range map[string][]byte{"nested": deep(100), "by way of Any": deepAny(t, 99)} {
		if _, err := set.Unpack(intent.Message{Type: everythingType, Bytes: wire}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// deep is a message that nests to the depth, itself counted.
func deep(depth int) []byte {
	var wire []byte
	for range depth - 1 {
		wire = protowire.AppendBytes(protowire.AppendTag(nil, 17, protowire.BytesType), wire)
	}
	return wire
}

// deepAny nests Any and content in turns; both count.
func deepAny(t *testing.T, depth int) []byte {
	var wire []byte
	for range (depth - 1) / 2 {
		any, err := proto.Marshal(&anypb.Any{TypeUrl: "x/" + everythingType, Value: wire})
		if err != nil {
			t.Fatal(err)
		}
		wire = protowire.AppendBytes(protowire.AppendTag(nil, 19, protowire.BytesType), any)
	}
	return wire
}

// Generated and dynamic types of the same file have the same bytes.
func TestDynamicAndGeneratedAgree(t *testing.T) {
	job := &processpb.Job{Name: "n", Replicas: 3, Binary: "/b", Args: []string{"x", ""}, Env: map[string]string{"k": "v", "a": ""}, Health: &processpb.HealthCheck{Path: "/h"}}
	want, err := schema.Builtin().Canonical(job)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(jobProto(t), "repeated string args = 4;", "repeated string args = 4; string more = 77;", 1)
	set, err := schema.FromFiles(compile(t, map[string]string{"lehr/process/v1/job.proto": changed}))
	if err != nil {
		t.Fatal(err)
	}
	message, err := set.Unpack(intent.Message{Type: "lehr.process.v1.Job", Bytes: want})
	if err != nil {
		t.Fatal(err)
	}
	if _, generated := message.(*processpb.Job); generated {
		t.Error("a changed file is decoded by the linked type")
	}
	if got, err := set.Canonical(message); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got  %x, %v\nwant %x", got, err, want)
	}
}
