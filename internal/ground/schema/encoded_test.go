package schema

import (
	"bytes"
	"testing"

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
