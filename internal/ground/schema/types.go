package schema

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Types finds types by name, URL or number. It is what protojson, protoyaml
// and proto.UnmarshalOptions take as a resolver.
type Types interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
	FindEnumByName(protoreflect.FullName) (protoreflect.EnumType, error)
}

// types prefers generated types for files that are linked in, and makes
// dynamic ones for the rest.
type types struct {
	files    *protoregistry.Files
	messages map[protoreflect.FullName]protoreflect.MessageType
	dynamic  *dynamicpb.Types
}

func newTypes(files *protoregistry.Files) *types {
	t := &types{
		files:    files,
		messages: map[protoreflect.FullName]protoreflect.MessageType{},
		dynamic:  dynamicpb.NewTypes(files),
	}
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		t.add(file.Messages())
		return true
	})
	return t
}

func (t *types) add(messages protoreflect.MessageDescriptors) {
	for i := range messages.Len() {
		message := messages.Get(i)
		if message.IsMapEntry() {
			continue
		}
		t.messages[message.FullName()] = messageType(message)
		t.add(message.Messages())
	}
}

func messageType(message protoreflect.MessageDescriptor) protoreflect.MessageType {
	generated, err := protoregistry.GlobalTypes.FindMessageByName(message.FullName())
	if err == nil && generated.Descriptor() == message {
		return generated
	}
	return dynamicpb.NewMessageType(message)
}

func (t *types) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	if messageType := t.messages[name]; messageType != nil {
		return messageType, nil
	}
	return nil, protoregistry.NotFound
}

func (t *types) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	return t.FindMessageByName(protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:]))
}

func (t *types) FindEnumByName(name protoreflect.FullName) (protoreflect.EnumType, error) {
	return t.dynamic.FindEnumByName(name)
}

func (t *types) FindExtensionByName(name protoreflect.FullName) (protoreflect.ExtensionType, error) {
	linked, err := protoregistry.GlobalTypes.FindExtensionByName(name)
	if err == nil && t.owns(linked) {
		return linked, nil
	}
	return t.dynamic.FindExtensionByName(name)
}

func (t *types) FindExtensionByNumber(message protoreflect.FullName, number protoreflect.FieldNumber) (protoreflect.ExtensionType, error) {
	linked, err := protoregistry.GlobalTypes.FindExtensionByNumber(message, number)
	if err == nil && t.owns(linked) {
		return linked, nil
	}
	return t.dynamic.FindExtensionByNumber(message, number)
}

// owns reports whether a linked extension is the one of this set.
func (t *types) owns(linked protoreflect.ExtensionType) bool {
	own, err := t.files.FindDescriptorByName(linked.TypeDescriptor().FullName())
	return err == nil && own == linked.TypeDescriptor().Descriptor()
}

func sortByPath(files []*descriptorpb.FileDescriptorProto) {
	slices.SortFunc(files, func(a, b *descriptorpb.FileDescriptorProto) int {
		return cmp.Compare(a.GetName(), b.GetName())
	})
}
