// Package twin makes proto3 files of edition 2023 files, for runtimes that are older than
// editions, such as the protobuf of Debian's Python. A twin has the same names, numbers
// and bytes on the wire. What has no twin is refused. It leaves out the options that only
// Lehr's own build reads. protogen calls it for the protocol, package scaffold for the
// types of a plugin's author.
package twin

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Rules is the package of the rules that values are validated by: Lehr reads them when it
// builds, a plugin never.
const Rules = "buf.validate"

// omitted are files that a twin does not import: they hold options that it does not have.
var omitted = []string{
	"buf/validate/validate.proto", "google/protobuf/cpp_features.proto", "google/protobuf/go_features.proto", "google/protobuf/java_features.proto",
}

// Omits reports whether twins do without the file of that path.
func Omits(path string) bool { return slices.Contains(omitted, path) }

// Make returns the twin of a file, without comments. A file of proto2 or proto3 is its
// own, but for the options that are left out.
func Make(file protoreflect.FileDescriptor) (*descriptorpb.FileDescriptorProto, error) {
	made := protodesc.ToFileDescriptorProto(file)
	made.SourceCodeInfo = nil
	made.Dependency = slices.DeleteFunc(made.Dependency, Omits)
	if len(made.Dependency) < file.Imports().Len() && len(made.PublicDependency)+len(made.WeakDependency) > 0 {
		return nil, fmt.Errorf("%s imports %s beside a public or weak import, and has no proto3 twin: leave out the one or the other", file.Path(), strings.Join(omitted, " or "))
	}
	t := twinner{isEdition: made.GetSyntax() == "editions"}
	if t.isEdition {
		made.Syntax, made.Edition = proto.String("proto3"), nil
	}
	if isAnyBytes(made.GetOptions().GetFeatures()) {
		t.refuse(file, "has strings that need not be UTF-8")
	}
	clean(made.Options)
	t.messages(made.MessageType, file.Messages())
	t.enums(made.EnumType, file.Enums())
	t.fields(made.Extension, file.Extensions(), nil)
	for _, service := range made.Service {
		clean(service.Options)
		for _, method := range service.Method {
			clean(method.Options)
		}
	}
	if t.problem != nil {
		return nil, fmt.Errorf("%s has no proto3 twin: %w", file.Path(), t.problem)
	}
	prune(made.ProtoReflect())
	return made, nil
}

// twinner keeps the first thing that has no twin.
type twinner struct {
	isEdition bool
	problem   error
}

func (t *twinner) refuse(descriptor protoreflect.Descriptor, reason string) {
	if t.problem == nil && t.isEdition {
		t.problem = fmt.Errorf("%s %s", descriptor.FullName(), reason)
	}
}

func (t *twinner) messages(made []*descriptorpb.DescriptorProto, messages protoreflect.MessageDescriptors) {
	for i, one := range made {
		message := messages.Get(i)
		if message.ExtensionRanges().Len() > 0 {
			t.refuse(message, "may be extended")
		}
		clean(one.Options)
		for _, oneof := range one.OneofDecl {
			clean(oneof.Options)
		}
		t.fields(one.Field, message.Fields(), one)
		t.fields(one.Extension, message.Extensions(), nil)
		t.messages(one.NestedType, message.Messages())
		t.enums(one.EnumType, message.Enums())
	}
}

func (t *twinner) enums(made []*descriptorpb.EnumDescriptorProto, enums protoreflect.EnumDescriptors) {
	for i, one := range made {
		if enums.Get(i).IsClosed() {
			t.refuse(enums.Get(i), "is a closed enum")
		}
		clean(one.Options)
		for _, value := range one.Value {
			clean(value.Options)
		}
	}
}

// fieldList is what messages and files have.
type fieldList interface {
	Len() int
	Get(i int) protoreflect.FieldDescriptor
}

// extensionList makes a fieldList of extensions.
type extensionList struct {
	protoreflect.ExtensionDescriptors
}

func (e extensionList) Get(i int) protoreflect.FieldDescriptor { return e.ExtensionDescriptors.Get(i) }

// fields makes fields; parent is nil for extensions.
func (t *twinner) fields(made []*descriptorpb.FieldDescriptorProto, list any, parent *descriptorpb.DescriptorProto) {
	fields, ok := list.(fieldList)
	if !ok {
		fields = extensionList{list.(protoreflect.ExtensionDescriptors)}
	}
	for i, one := range made {
		if isAnyBytes(one.GetOptions().GetFeatures()) {
			t.refuse(fields.Get(i), "is a string that need not be UTF-8")
		}
		clean(one.Options)
		if t.isEdition {
			t.field(one, fields.Get(i), parent)
		}
	}
}

func (t *twinner) field(made *descriptorpb.FieldDescriptorProto, field protoreflect.FieldDescriptor, parent *descriptorpb.DescriptorProto) {
	switch {
	case field.Cardinality() == protoreflect.Required:
		t.refuse(field, "is required")
	case field.Kind() == protoreflect.GroupKind:
		t.refuse(field, "is a delimited message")
	case field.HasDefault():
		t.refuse(field, "has a default value")
	case field.IsExtension() && !strings.HasPrefix(string(field.ContainingMessage().FullName()), "google.protobuf."):
		t.refuse(field, "extends what is no option")
	}
	made.DefaultValue = nil
	if packable(field) && !field.IsPacked() {
		if made.Options == nil {
			made.Options = &descriptorpb.FieldOptions{}
		}
		made.Options.Packed = proto.Bool(false)
	}
	if parent == nil || field.Message() != nil || !field.HasPresence() || field.ContainingOneof() != nil || field.ContainingMessage().IsMapEntry() {
		return
	}
	// Presence in proto3 is a oneof of a single field, after all others.
	name := "_" + string(field.Name())
	for isTaken(parent, name) {
		name = "X" + name
	}
	made.Proto3Optional, made.OneofIndex = proto.Bool(true), proto.Int32(int32(len(parent.OneofDecl)))
	parent.OneofDecl = append(parent.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String(name)})
}

// isAnyBytes reports whether texts need not be UTF-8: fields and files may say so.
func isAnyBytes(features *descriptorpb.FeatureSet) bool {
	return features.GetUtf8Validation() == descriptorpb.FeatureSet_NONE
}

func isTaken(message *descriptorpb.DescriptorProto, name string) bool {
	return slices.ContainsFunc(message.Field, func(f *descriptorpb.FieldDescriptorProto) bool { return f.GetName() == name }) ||
		slices.ContainsFunc(message.OneofDecl, func(o *descriptorpb.OneofDescriptorProto) bool { return o.GetName() == name })
}

func packable(field protoreflect.FieldDescriptor) bool {
	switch field.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return false
	}
	return field.IsList()
}

// clean takes features, which the twin's syntax says, and rules of validation out of
// options; options may be nil.
func clean(options proto.Message) {
	message := options.ProtoReflect()
	if !message.IsValid() {
		return
	}
	message.Range(func(option protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if option.FullName().Parent() == Rules || option.Message() != nil && option.Message().FullName() == "google.protobuf.FeatureSet" {
			message.Clear(option)
		}
		return true
	})
}

// prune takes out options in which nothing is left.
func prune(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil || field.IsMap():
		case field.IsList():
			for i := range value.List().Len() {
				prune(value.List().Get(i).Message())
			}
		case field.Name() == "options" && proto.Size(value.Message().Interface()) == 0:
			message.Clear(field)
		}
		return true
	})
}
