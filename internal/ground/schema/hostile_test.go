package schema_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// TestHostileWires: what claims to be large takes no memory, and what is not
// known or too deep is refused.
func TestHostileWires(t *testing.T) {
	set := everything(t)
	claimed := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.BytesType), 1<<31)
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 99_999, protowire.BytesType), bytes.Repeat([]byte("x"), 149_000))
	packed := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.BytesType), 100_000_000)
	for name, wire := range map[string][]byte{
		"a length of 2 GiB": claimed, "149 kB of unknown fields": unknown, "100 million packed values that are not there": packed,
		"101 messages in each other": deep(101), "10 000 in each other": deep(10_000), "a group that does not end": protowire.AppendTag(nil, 1, protowire.StartGroupType),
		"a tag without a number": {0x00}, "a number of eleven bytes": bytes.Repeat([]byte{0xff}, 11),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := set.Unpack(intent.Message{Type: everythingType, Bytes: wire})
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s is taken", name)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
			t.Errorf("%s took %d MB", name, took>>20)
		}
		if _, err := schema.Decode(wire); err == nil {
			t.Errorf("%s is taken for an asset", name)
		}
	}
}

// TestZeroIsNotUnset: where a field has presence, a zero that was written is
// another content than none.
func TestZeroIsNotUnset(t *testing.T) {
	set := schema.Builtin()
	digest := func(guard *intentpb.ShrinkGuard) intent.Digest {
		t.Helper()
		_, digest, err := set.Encode(intent.Asset{ID: "a", Payload: pack(t, set, &intentpb.Policy{Shrink: guard})})
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	if digest(nil) == digest(&intentpb.ShrinkGuard{}) {
		t.Error("a guard that is not there is the same as one that lets nothing through")
	}
}

// TestAnyOfItself: an Any in an Any is as deep as others, and a type that is
// none is named.
func TestAnyOfItself(t *testing.T) {
	set := schema.Builtin()
	inner := []byte{}
	for range 200 {
		wire := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "type.googleapis.com/google.protobuf.Any")
		inner = protowire.AppendBytes(protowire.AppendTag(wire, 2, protowire.BytesType), inner)
	}
	if _, _, err := set.Encode(intent.Asset{ID: "a", Payload: intent.Message{Type: "google.protobuf.Any", Bytes: inner}}); err == nil {
		t.Error("200 Any in each other are taken")
	}
	if _, _, err := set.Encode(intent.Asset{ID: "a", Payload: intent.Message{Type: "acme.Nothing"}}); err == nil || !strings.Contains(err.Error(), "acme.Nothing") {
		t.Errorf("an unknown type: %v", err)
	}
}
