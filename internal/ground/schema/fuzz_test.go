package schema_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// FuzzDecode: nothing panics, and what decodes and encodes stays as it is.
func FuzzDecode(f *testing.F) {
	set := schema.Builtin()
	encoded, _, err := set.Encode(intent.Asset{ID: "a/b", Payload: benchmarkJob(f), Addons: []intent.Message{pack(f, set, &intentpb.Owner{Owner: "o"})}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Add([]byte{})
	f.Add(deep(200))
	f.Fuzz(func(t *testing.T, wire []byte) {
		asset, err := schema.Decode(wire)
		if err != nil {
			return
		}
		canonical, _, err := set.Encode(asset)
		if err != nil {
			return
		}
		again, err := schema.Decode(canonical)
		if err != nil {
			t.Fatalf("what Encode wrote cannot be decoded: %v", err)
		}
		if rewritten, _, err := set.Encode(again); err != nil || !bytes.Equal(rewritten, canonical) {
			t.Fatalf("canonical bytes are encoded otherwise: %v\n%x\n%x", err, canonical, rewritten)
		}
		if _, err := set.References(again); err != nil {
			t.Fatalf("a canonical asset has no references that can be told: %v", err)
		}
	})
}

// FuzzCanonical: whatever is accepted comes back equal, and stays as it is.
func FuzzCanonical(f *testing.F) {
	set := everything(f)
	f.Add([]byte{0x08, 1})
	f.Add(deep(100))
	f.Add([]byte{0x9a, 0x01, 0x04, 0x0a, 0x02, 'x', '/'})
	f.Fuzz(func(t *testing.T, wire []byte) {
		message, err := set.Unpack(intent.Message{Type: everythingType, Bytes: wire})
		if err != nil {
			return
		}
		canonical, err := set.Canonical(message)
		if err != nil {
			t.Fatalf("unpacked but not encoded: %v", err)
		}
		back, err := set.Unpack(intent.Message{Type: everythingType, Bytes: canonical})
		if err != nil {
			t.Fatalf("canonical bytes are not accepted: %v\n%x", err, canonical)
		}
		again, err := set.Canonical(back)
		if err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("canonical bytes change: %v\n%x\n%x", err, canonical, again)
		}
		if _, err := proto.Marshal(back); err != nil {
			t.Fatal(err)
		}
	})
}
