package schema_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// Whatever order a sender writes fields and map entries in, the canonical
// bytes are the same, say the same, and are canonical.
func TestCanonicalWhateverTheWire(t *testing.T) {
	set := everything(t)
	rapid.Check(t, func(t *rapid.T) {
		message, err := set.New(everythingType)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, set, message.ProtoReflect(), 3)
		canonical, err := set.Canonical(message)
		if err != nil {
			t.Fatal(err)
		}
		back, err := set.Unpack(intent.Message{Type: everythingType, Bytes: canonical})
		if err != nil || !proto.Equal(back, message) {
			t.Fatalf("%v comes back as %v, %v", message, back, err)
		}
		wire, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		other, err := set.Unpack(intent.Message{Type: everythingType, Bytes: shuffle(t, message.ProtoReflect().Descriptor(), wire)})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := set.Canonical(other); err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("another order of fields gives\n%x, %v, not\n%x", again, err, canonical)
		}
	})
}

func TestAssetsComeBack(t *testing.T) {
	set := everything(t)
	addonTypes := []intent.TypeName{"google.protobuf.Duration", "lehr.intent.v1.Reference", "test.v1.Linked"}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name intent.TypeName) intent.Message {
			message, err := set.New(name)
			if err != nil {
				t.Fatal(err)
			}
			fill(t, set, message.ProtoReflect(), 2)
			packed, err := set.Pack(message)
			if err != nil {
				t.Fatal(err)
			}
			return packed
		}
		id, err := intent.ParseAssetID(rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,5}(/[a-z0-9]{1,5}){0,3}`).Draw(t, "id"))
		if err != nil {
			t.Fatal(err)
		}
		asset := intent.Asset{ID: id, Payload: draw(everythingType)}
		for _, name := range addonTypes {
			if rapid.Bool().Draw(t, string(name)) {
				asset.Addons = append(asset.Addons, draw(name))
			}
		}
		encoded, digest, err := set.Encode(asset)
		if err != nil {
			t.Fatal(err)
		}
		back, err := schema.Decode(encoded)
		if diff := cmp.Diff(asset, back); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		slices.Reverse(asset.Addons)
		if _, again, err := set.Encode(asset); err != nil || again != digest {
			t.Fatalf("another order of addons gives another digest, %v", err)
		}
	})
}

// fill sets some of a message's fields.
func fill(t *rapid.T, set *schema.Set, m protoreflect.Message, depth int) {
	if m.Descriptor().FullName() == "google.protobuf.Any" {
		if depth > 0 {
			fillAny(t, set, m, depth)
		}
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if rapid.IntRange(0, 3).Draw(t, "skip "+string(field.Name())) > 0 {
			continue
		}
		if field.Message() != nil && !field.IsMap() && depth == 0 {
			continue
		}
		switch {
		case field.IsMap():
			if field.MapValue().Message() != nil && depth == 0 {
				continue
			}
			entries := m.Mutable(field).Map()
			for range rapid.IntRange(1, 4).Draw(t, "entries") {
				key := scalar(t, field.MapKey()).MapKey()
				entries.Set(key, element(t, set, field.MapValue(), entries.NewValue, depth))
			}
		case field.IsList():
			list := m.Mutable(field).List()
			for range rapid.IntRange(1, 3).Draw(t, "elements") {
				list.Append(element(t, set, field, list.NewElement, depth))
			}
		default:
			m.Set(field, element(t, set, field, func() protoreflect.Value { return m.NewField(field) }, depth))
		}
	}
}

func fillAny(t *rapid.T, set *schema.Set, m protoreflect.Message, depth int) {
	content, err := set.New(everythingType)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, set, content.ProtoReflect(), depth-1)
	// Canonical, so that proto.Equal, which compares bytes, holds.
	packed, err := set.Pack(content)
	if err != nil {
		t.Fatal(err)
	}
	fields := m.Descriptor().Fields()
	m.Set(fields.ByName("type_url"), protoreflect.ValueOfString("type.googleapis.com/"+everythingType))
	m.Set(fields.ByName("value"), protoreflect.ValueOfBytes(packed.Bytes))
}

func element(t *rapid.T, set *schema.Set, field protoreflect.FieldDescriptor, empty func() protoreflect.Value, depth int) protoreflect.Value {
	if field.Message() == nil {
		return scalar(t, field)
	}
	value := empty()
	fill(t, set, value.Message(), depth-1)
	return value
}

func scalar(t *rapid.T, field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.Int32().Draw(t, "enum")))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.StringN(0, 6, -1).Draw(t, "string"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "bytes"))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(rapid.Float32Range(0.5, math.MaxFloat32).Draw(t, "float"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(-rapid.Float64Range(0.5, math.MaxFloat64).Draw(t, "double"))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "int32"))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int64"))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "uint32"))
	default:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "uint64"))
	}
}

// shuffle puts the fields of a message in another order, at every depth. The
// values of one field keep theirs, but for the entries of a map.
func shuffle(t *rapid.T, descriptor protoreflect.MessageDescriptor, wire []byte) []byte {
	type part struct {
		rank  uint64
		bytes []byte
	}
	var parts []part
	ranks := map[protowire.Number]uint64{}
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeField(wire)
		if n < 0 {
			t.Fatalf("broken wire: %v", protowire.ParseError(n))
		}
		bytes := wire[:n]
		wire = wire[n:]
		field := descriptor.Fields().ByNumber(number)
		if _, ok := ranks[number]; !ok || field.IsMap() {
			ranks[number] = rapid.Uint64().Draw(t, "rank")
		}
		if kind == protowire.BytesType && field.Message() != nil && field.Message().FullName() != "google.protobuf.Any" {
			_, _, tag := protowire.ConsumeTag(bytes)
			content, _ := protowire.ConsumeBytes(bytes[tag:])
			bytes = protowire.AppendBytes(slices.Clone(bytes[:tag]), shuffle(t, field.Message(), content))
		}
		parts = append(parts, part{ranks[number], bytes})
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		if a.rank < b.rank {
			return -1
		}
		if a.rank > b.rank {
			return 1
		}
		return 0
	})
	var out []byte
	for _, p := range parts {
		out = append(out, p.bytes...)
	}
	return out
}
