package schema

import (
	"bytes"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestFilesAreEncodedOneByOne: the encoding of a set is that of its message, though files are
// encoded by themselves and linked ones only once.
func TestFilesAreEncodedOneByOne(t *testing.T) {
	set := new(descriptorpb.FileDescriptorSet)
	Builtin().files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
		return true
	})
	sortByPath(set.File)
	want, err := descriptorEncoder().encode(nil, set)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(Builtin().Files(), want) {
		t.Fatal("the files one by one are encoded in another way than all at once")
	}
}

// TestLinkedFilesAreEncodedOnce: all sets share one encoding.
func TestLinkedFilesAreEncodedOnce(t *testing.T) {
	file := protodesc.ToFileDescriptorProto(descriptorpb.File_google_protobuf_descriptor_proto)
	first, err := encodeFile(file)
	if err != nil {
		t.Fatal(err)
	}
	second, err := encodeFile(proto.CloneOf(file))
	if err != nil {
		t.Fatal(err)
	}
	if &first[0] != &second[0] {
		t.Fatal("a linked file is encoded again")
	}
}

// TestAnotherVersionOfALinkedFile has its own encoding.
func TestAnotherVersionOfALinkedFile(t *testing.T) {
	older := protodesc.ToFileDescriptorProto(descriptorpb.File_google_protobuf_descriptor_proto)
	linked, err := encodeFile(older)
	if err != nil {
		t.Fatal(err)
	}
	older = proto.CloneOf(older)
	older.MessageType = older.MessageType[:1]
	got, err := encodeFile(older)
	if err != nil {
		t.Fatal(err)
	}
	want, err := descriptorEncoder().encode(nil, older)
	if err != nil || !bytes.Equal(got, want) || bytes.Equal(got, linked) {
		t.Fatalf("it is encoded in %d bytes, not in its own %d (the linked one has %d; %v)", len(got), len(want), len(linked), err)
	}
}

// TestSetOfItsOwnFiles: a process that is handed a set's files has the same set, whether it
// encodes them anew or takes them as they are.
func TestSetOfItsOwnFiles(t *testing.T) {
	compiled, findings := Compile(t.Context(), []SourceFile{{Path: "acme/v1/zone.proto", Text: []byte(`syntax = "proto3"; package acme.v1;
import "lehr/intent/v1/options.proto";
message Zone { string name = 1 [(lehr.intent.v1.indexed) = true]; }`)}}, nil)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	set := compiled.Set
	anew, err := FromFiles(set.Files())
	if err != nil {
		t.Fatal(err)
	}
	taken, err := FromSet(set.Files())
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []*Set{anew, taken} {
		if other.Digest() != set.Digest() || !bytes.Equal(other.Files(), set.Files()) || !maps.Equal(other.fileDigests(), set.fileDigests()) {
			t.Error("it is another set")
		}
		if diff := cmp.Diff(set.names, other.names); diff != "" {
			t.Error(diff)
		}
		file, err := other.files.FindFileByPath("lehr/intent/v1/addons.proto")
		linked, linkedErr := linkedFiles().FindFileByPath("lehr/intent/v1/addons.proto")
		if err != nil || linkedErr != nil || file != linked {
			t.Errorf("a linked file that is unchanged is not the linked one: %v %v", err, linkedErr)
		}
	}
}
