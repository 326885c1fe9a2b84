package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

func pack(t testing.TB, set *schema.Set, m proto.Message) intent.Message {
	t.Helper()
	packed, err := set.Pack(m)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func TestEncodeRefuses(t *testing.T) {
	set := schema.Builtin()
	command := pack(t, set, &commandpb.Command{Diff: []string{"d"}, Push: []string{"p"}})
	owner := pack(t, set, &intentpb.Owner{Owner: "o"})
	tests := []struct {
		name  string
		asset intent.Asset
		want  string
	}{
		{"empty id", intent.Asset{Payload: command}, `segment ""`},
		{"id of another syntax", intent.Asset{ID: "A//b", Payload: command}, "is not of the form"},
		{"long id", intent.Asset{ID: intent.AssetID(strings.Repeat("a", 254)), Payload: command}, "253"},
		{"no payload", intent.Asset{ID: "a"}, "asset a has no payload"},
		{"unknown payload", intent.Asset{ID: "a", Payload: intent.Message{Type: "lehr.command.v1.Commnd"}}, "did you mean lehr.command.v1.Command"},
		{"unknown addon", intent.Asset{ID: "a", Payload: command, Addons: []intent.Message{{Type: "x.Y"}}}, `asset a: addon: no message type is named "x.Y"`},
		{"two addons of a type", intent.Asset{ID: "a", Payload: command, Addons: []intent.Message{owner, owner}}, "two addons of type lehr.intent.v1.Owner"},
		{"broken payload", intent.Asset{ID: "a", Payload: intent.Message{Type: command.Type, Bytes: []byte{0xff}}}, "asset a: payload"},
		{"unknown field", intent.Asset{ID: "a", Payload: intent.Message{Type: command.Type, Bytes: []byte{0xf8, 0x7f, 1}}}, "has no field number"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := set.Encode(test.asset)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want Invalid with %q", err, test.want)
			}
		})
	}
}

func TestLargestAsset(t *testing.T) {
	set := schema.Builtin()
	encode := func(input int) ([]byte, error) {
		payload := pack(t, set, &commandpb.Command{Diff: []string{"d"}, Input: strings.Repeat("x", input)})
		encoded, _, err := set.Encode(intent.Asset{ID: "a", Payload: payload})
		return encoded, err
	}
	const about = 149_000
	encoded, err := encode(about)
	if err != nil {
		t.Fatal(err)
	}
	around := intent.MaxAssetBytes - len(encoded) + about // gives exactly the limit
	for _, size := range []int{-1, 0, 1} {
		encoded, err := encode(around + size)
		if size <= 0 {
			if err != nil || len(encoded) != intent.MaxAssetBytes+size {
				t.Errorf("%d bytes: %d bytes, %v", intent.MaxAssetBytes+size, len(encoded), err)
			}
			continue
		}
		if !fault.Is(err, fault.Invalid) {
			t.Fatalf("%d bytes: %v", intent.MaxAssetBytes+size, err)
		}
		for _, want := range []string{"asset a has 150001 canonical bytes", "150000", "lehr.command.v1.Command.input with 149"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q lacks %q", err, want)
			}
		}
	}
}

func TestDecodeAcceptsOnlyWhatEncodeWrites(t *testing.T) {
	set := schema.Builtin()
	asset := intent.Asset{
		ID:      "a",
		Payload: pack(t, set, &commandpb.Command{Diff: []string{"d"}}),
		Addons:  []intent.Message{pack(t, set, &intentpb.Labels{}), pack(t, set, &intentpb.Owner{Owner: "o"})},
	}
	encoded, _, err := set.Encode(asset)
	if err != nil {
		t.Fatal(err)
	}
	got, err := schema.Decode(encoded)
	if diff := cmp.Diff(asset, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for cut := range len(encoded) {
		if got, err := schema.Decode(encoded[:cut]); err == nil && len(got.Addons) == len(asset.Addons) {
			t.Errorf("the first %d of %d bytes decode to a whole asset", cut, len(encoded))
		}
	}
	id := protowire.AppendString([]byte{0x0a}, "a")
	for name, wire := range map[string][]byte{
		"nothing":          nil,
		"id alone":         id,
		"no id":            encoded[len(id):],
		"id twice":         append(append([]byte{}, id...), encoded...),
		"trailing garbage": append(append([]byte{}, encoded...), 0),
		"unknown field":    append(append([]byte{}, encoded...), 0x22, 0),
		"long length":      append([]byte{0x0a, 0x81, 0x00, 'a'}, encoded[len(id):]...),
		"huge length":      {0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f},
	} {
		if _, err := schema.Decode(wire); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJSONIsReadableAndStable(t *testing.T) {
	set := schema.Builtin()
	asset := intent.Asset{
		ID:      "a",
		Payload: pack(t, set, &commandpb.Command{Diff: []string{"d"}, RetryableExitCodes: []int32{75}, Env: map[string]string{"b": "", "a": ""}}),
		Addons:  []intent.Message{pack(t, set, &intentpb.Owner{Owner: "o"})},
	}
	got, err := set.JSON(asset)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "id": "a",
  "type": "lehr.command.v1.Command",
  "payload": {
    "diff": [
      "d"
    ],
    "retryable_exit_codes": [
      75
    ],
    "env": {
      "a": "",
      "b": ""
    }
  },
  "addons": {
    "lehr.intent.v1.Owner": {
      "owner": "o"
    }
  }
}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func BenchmarkEncode(b *testing.B) {
	builtin := schema.Builtin()
	job, owner := benchmarkJob(b), pack(b, builtin, &intentpb.Owner{Owner: "sre@example.com"})
	asset := intent.Asset{ID: "shop/cluster-a/frontend", Payload: job, Addons: []intent.Message{owner}}
	changed := strings.Replace(jobProto(b), "repeated string args = 4;", "repeated string args = 4; string more = 77;", 1)
	dynamic, err := schema.FromFiles(append(compile(b, map[string]string{"lehr/process/v1/job.proto": changed}), addonFiles(b)...))
	if err != nil {
		b.Fatal(err)
	}
	for name, set := range map[string]*schema.Set{"generated": builtin, "dynamic": dynamic} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encoded, _, err := set.Encode(asset)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(encoded)))
			}
		})
	}
}

func benchmarkJob(t testing.TB) intent.Message {
	env := map[string]string{}
	for i := range 4 {
		env[fmt.Sprintf("VARIABLE_%d", i)] = "value"
	}
	return pack(t, schema.Builtin(), jobOf("shop/cluster-a/frontend", env))
}
