package schema

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	commandpb "lehr.dev/gen/lehr/command/v1"
	httppb "lehr.dev/gen/lehr/http/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	kubernetespb "lehr.dev/gen/lehr/kubernetes/v1"
	modelpb "lehr.dev/gen/lehr/model/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	taskpb "lehr.dev/gen/lehr/task/v1"
	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	workflowpb "lehr.dev/gen/lehr/workflow/v1"
	"lehr.dev/internal/ground/fault"
)

// linkedFiles are the files of the built-in types with all their imports.
var linkedFiles = sync.OnceValue(func() *protoregistry.Files {
	files := new(protoregistry.Files)
	for _, file := range []protoreflect.FileDescriptor{
		intentpb.File_lehr_intent_v1_addons_proto,
		intentpb.File_lehr_intent_v1_outputs_proto,
		intentpb.File_lehr_intent_v1_asset_proto,
		intentpb.File_lehr_intent_v1_options_proto,
		intentpb.File_lehr_intent_v1_policy_proto,
		processpb.File_lehr_process_v1_job_proto,
		processpb.File_lehr_process_v1_schedule_proto,
		commandpb.File_lehr_command_v1_command_proto,
		caddypb.File_lehr_caddy_v1_balancer_proto,
		sqlschemapb.File_lehr_sqlschema_v1_schema_proto,
		httppb.File_lehr_http_v1_resource_proto,
		kubernetespb.File_lehr_kubernetes_v1_object_proto,
		taskpb.File_lehr_task_v1_task_proto,
		terraformpb.File_lehr_terraform_v1_module_proto,
		workflowpb.File_lehr_workflow_v1_procedure_proto,
		modelpb.File_lehr_model_v1_kubernetes_proto,
		modelpb.File_lehr_model_v1_web_service_proto,
		modelpb.File_lehr_model_v1_worker_proto,
		anypb.File_google_protobuf_any_proto,
		durationpb.File_google_protobuf_duration_proto,
		emptypb.File_google_protobuf_empty_proto,
		fieldmaskpb.File_google_protobuf_field_mask_proto,
		structpb.File_google_protobuf_struct_proto,
		timestamppb.File_google_protobuf_timestamp_proto,
		wrapperspb.File_google_protobuf_wrappers_proto,
	} {
		registerAll(files, file)
	}
	return files
})

// isLinked reports whether a path is that of a linked file.
func isLinked(path string) bool {
	_, err := linkedFiles().FindFileByPath(path)
	return err == nil
}

func registerAll(files *protoregistry.Files, file protoreflect.FileDescriptor) {
	if _, err := files.FindFileByPath(file.Path()); err == nil {
		return
	}
	imports := file.Imports()
	for i := range imports.Len() {
		registerAll(files, imports.Get(i).FileDescriptor)
	}
	if err := files.RegisterFile(file); err != nil {
		panic("the linked descriptors contradict each other: " + err.Error())
	}
}

// descriptorEncoder keeps options that this binary does not know.
func descriptorEncoder() *encoder {
	return &encoder{types: protoregistry.GlobalTypes, keepUnknown: true}
}

// serialize writes the files in the order of their paths.
func serialize(files *protoregistry.Files) ([]byte, error) {
	var sorted []protoreflect.FileDescriptor
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		sorted = append(sorted, file)
		return true
	})
	slices.SortFunc(sorted, func(a, b protoreflect.FileDescriptor) int { return strings.Compare(a.Path(), b.Path()) })
	var serialized []byte
	for _, file := range sorted {
		encoded, err := encodeBuilt(file)
		if err != nil {
			return nil, err
		}
		serialized = protowire.AppendTag(serialized, fileOfSet, protowire.BytesType)
		serialized = protowire.AppendBytes(serialized, encoded)
	}
	return serialized, nil
}

// fileOfSet is the number of FileDescriptorSet's only field.
const fileOfSet = 1

// encodeFile returns the canonical encoding of a file's descriptor. Do not modify it: that of
// a linked file is computed once and shared. Every set has all linked files, and they are most
// of its bytes.
func encodeFile(descriptor *descriptorpb.FileDescriptorProto) ([]byte, error) {
	// A set of an older binary may have another version of the file.
	if linked, ok := linkedEncodings()[descriptor.GetName()]; ok && linked.isPlain(descriptor) {
		return linked.canonical()
	}
	return descriptorEncoder().encode(nil, descriptor)
}

// encodeBuilt is encodeFile of a file that has been built: of a linked one there is nothing to compare.
func encodeBuilt(file protoreflect.FileDescriptor) ([]byte, error) {
	if linked, ok := linkedEncodings()[file.Path()]; ok && linked.file == file {
		return linked.canonical()
	}
	return encodeFile(protodesc.ToFileDescriptorProto(file))
}

// linkedEncoding has a linked file's canonical encoding, which takes ten times as long as its
// plain one: a file with the same plain encoding has the same canonical one. Each is computed
// when it is first needed, since a generator's process needs few.
type linkedEncoding struct {
	file      protoreflect.FileDescriptor
	plain     func() []byte // nil when there is none
	canonical func() ([]byte, error)
}

// isPlain reports whether a descriptor is that of the linked file, by their plain encodings.
func (l linkedEncoding) isPlain(descriptor *descriptorpb.FileDescriptorProto) bool {
	plain, err := plainly(descriptor)
	return err == nil && bytes.Equal(plain, l.plain())
}

// describes reports whether a descriptor is that of the linked file.
func (l linkedEncoding) describes(descriptor *descriptorpb.FileDescriptorProto) (bool, error) {
	if l.isPlain(descriptor) {
		return true, nil
	}
	encoded, err := descriptorEncoder().encode(nil, descriptor)
	if err != nil {
		return false, err
	}
	canonical, err := l.canonical()
	return bytes.Equal(encoded, canonical), err
}

func plainly(descriptor *descriptorpb.FileDescriptorProto) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(descriptor)
}

// linkedEncodings returns the encodings of the linked files by path.
var linkedEncodings = sync.OnceValue(func() map[string]linkedEncoding {
	all := map[string]linkedEncoding{}
	linkedFiles().RangeFiles(func(file protoreflect.FileDescriptor) bool {
		descriptor := sync.OnceValue(func() *descriptorpb.FileDescriptorProto { return protodesc.ToFileDescriptorProto(file) })
		all[file.Path()] = linkedEncoding{
			file: file,
			plain: sync.OnceValue(func() []byte {
				plain, err := plainly(descriptor())
				if err != nil {
					return nil // Whoever encodes the file canonically meets the error.
				}
				return plain
			}),
			canonical: sync.OnceValues(func() ([]byte, error) { return descriptorEncoder().encode(nil, descriptor()) }),
		}
		return true
	})
	return all
})

// parseFiles builds descriptors. Options are decoded by the linked extension
// types, so that marks such as lehr.intent.v1.reference are extensions and
// not unknown fields, which is what they are to a decoder without a resolver.
func parseFiles(serialized []byte) (*protoregistry.Files, error) {
	set := new(descriptorpb.FileDescriptorSet)
	options := proto.UnmarshalOptions{Resolver: protoregistry.GlobalTypes, RecursionLimit: maxDepth}
	if err := options.Unmarshal(serialized, set); err != nil {
		return nil, fault.New(fault.Invalid, "cannot read the descriptor set of %d bytes: %w", len(serialized), err)
	}
	building := builder{
		files:  new(protoregistry.Files),
		parsed: make(map[string]*descriptorpb.FileDescriptorProto, len(set.File)),
		state:  make(map[string]buildState, len(set.File)),
	}
	for _, file := range set.File {
		file.SourceCodeInfo = nil
		if building.parsed[file.GetName()] != nil {
			return nil, fault.New(fault.Invalid, "the descriptor set has the file %.200q twice", file.GetName())
		}
		building.parsed[file.GetName()] = file
	}
	sortByPath(set.File)
	for _, file := range set.File {
		if err := building.build(file.GetName(), file.GetName()); err != nil {
			return nil, err
		}
	}
	return building.files, nil
}

type buildState uint8

const (
	unvisited buildState = iota
	visiting
	built
	// builtLinked: unchanged with all its imports, so the linked one is used.
	builtLinked
)

// builder registers files after their imports.
type builder struct {
	files  *protoregistry.Files
	parsed map[string]*descriptorpb.FileDescriptorProto
	state  map[string]buildState
}

func (b *builder) build(path, importer string) error {
	switch b.state[path] {
	case visiting:
		return fault.New(fault.Invalid, "the file %.200q imports itself by way of %.200q", path, importer)
	case built, builtLinked:
		return nil
	}
	parsed := b.parsed[path]
	if parsed == nil {
		return fault.New(fault.Invalid, "the file %.200q imports %.200q, which the descriptor set lacks", importer, path)
	}
	b.state[path] = visiting
	linked := true
	for _, dependency := range parsed.Dependency {
		if err := b.build(dependency, path); err != nil {
			return err
		}
		linked = linked && b.state[dependency] == builtLinked
	}
	file, err := b.file(path, parsed, linked)
	if err != nil {
		return err
	}
	if err := b.files.RegisterFile(file); err != nil {
		return fault.New(fault.Invalid, "the file %.200q contradicts another: %w", path, err)
	}
	return nil
}

func (b *builder) file(path string, parsed *descriptorpb.FileDescriptorProto, linked bool) (protoreflect.FileDescriptor, error) {
	if encoding, ok := linkedEncodings()[path]; ok && linked {
		same, err := encoding.describes(parsed)
		if err != nil {
			return nil, err
		}
		if same {
			b.state[path] = builtLinked
			return encoding.file, nil
		}
	}
	b.state[path] = built
	file, err := protodesc.NewFile(parsed, b.files)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the file %.200q is not a valid descriptor: %w", path, err)
	}
	return file, nil
}
