package schema_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// Types of people's own come back from the store as they were, options that
// this binary does not know included.
func TestOwnTypesComeBack(t *testing.T) {
	source := `edition = "2023";
		package own;
		import "google/protobuf/descriptor.proto";
		import "lehr/intent/v1/addons.proto";
		extend google.protobuf.FieldOptions { string note = 50001; }
		// Comments do not count.
		message Thing { string name = 1 [(own.note) = "kept"]; lehr.intent.v1.Owner owner = 2; }`
	set, err := schema.FromFiles(compile(t, map[string]string{"own.proto": source}))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(set.Files(), []byte("kept")) {
		t.Error("an option got lost")
	}
	stored, err := schema.FromFiles(set.Files())
	if err != nil || stored.Digest() != set.Digest() {
		t.Errorf("stored: digest %v, %v, want %v", stored.Digest(), err, set.Digest())
	}
	commented, err := schema.FromFiles(compile(t, map[string]string{"own.proto": strings.Replace(source, "Comments do not", "Comments never", 1)}))
	if err != nil || commented.Digest() != set.Digest() {
		t.Error("a comment changes the digest")
	}
	thing := fromJSON(t, stored, "own.Thing", `{"name": "n", "owner": {"owner": "o"}}`)
	if packed := pack(t, stored, thing); len(packed.Bytes) == 0 {
		t.Error("nothing was packed")
	}
	owner, err := stored.New("lehr.intent.v1.Owner")
	if _, generated := owner.(*intentpb.Owner); err != nil || !generated {
		t.Errorf("an imported file that is linked in yields %T, %v", owner, err)
	}
	if name, err := stored.Resolve("Thing"); name != "own.Thing" || err != nil {
		t.Errorf("Resolve(Thing) = %q, %v", name, err)
	}
	if schema.Builtin().Has("own.Thing") || stored.Has("lehr.process.v1.Job") {
		t.Error("sets leak into each other")
	}
}

func TestAmbiguousShortName(t *testing.T) {
	set, err := schema.FromFiles(compile(t, map[string]string{
		"a.proto": `edition = "2023"; package a; message Thing {}`,
		"b.proto": `edition = "2023"; package b; message Thing {}`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = set.Resolve("Thing")
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "a.Thing, b.Thing") {
		t.Errorf("error %v", err)
	}
}

func TestBrokenFiles(t *testing.T) {
	file := func(name string, imports ...string) *descriptorpb.FileDescriptorProto {
		return &descriptorpb.FileDescriptorProto{Name: proto.String(name), Dependency: imports}
	}
	message := func(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
		f.MessageType = []*descriptorpb.DescriptorProto{{Name: proto.String("M")}}
		return f
	}
	for want, files := range map[string][]*descriptorpb.FileDescriptorProto{
		"which the descriptor set lacks": {file("a", "b")},
		"imports itself":                 {file("a", "b"), file("b", "a")},
		"twice":                          {file("a"), file("a")},
		"contradicts another":            {message(file("a")), message(file("b"))},
	} {
		serialized, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := schema.FromFiles(serialized); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := schema.FromFiles([]byte{0xff}); !fault.Is(err, fault.Invalid) {
		t.Errorf("garbage: %v", err)
	}
	empty, err := schema.FromFiles(nil)
	if err != nil || empty.Digest() == (intent.Digest{}) {
		t.Errorf("an empty set: %v", err)
	}
}
