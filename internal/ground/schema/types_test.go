package schema_test

import (
	"context"
	"os"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/schema"
)

// compile builds a set of types that no generated code knows, by way of its
// serialized form, as an incarnation's is.
func compile(t testing.TB, sources map[string]string) []byte {
	t.Helper()
	compiler := protocompile.Compiler{
		Resolver: protocompile.CompositeResolver{
			&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(sources)},
			protocompile.WithStandardImports(protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
				file, err := protoregistry.GlobalFiles.FindFileByPath(path)
				return protocompile.SearchResult{Desc: file}, err
			})),
		},
	}
	var names []string
	for name := range sources {
		names = append(names, name)
	}
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		t.Fatal(err)
	}
	set, seen := new(descriptorpb.FileDescriptorSet), map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		descriptor := protodesc.ToFileDescriptorProto(file)
		descriptor.SourceCodeInfo = &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
			{LeadingComments: proto.String("what compilers add"), Span: []int32{0, 0, 1}},
		}}
		set.File = append(set.File, descriptor)
	}
	for _, file := range files {
		add(file)
	}
	serialized, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return serialized
}

// everything is the set of testdata/everything.proto.
func everything(t testing.TB) *schema.Set {
	t.Helper()
	source, err := os.ReadFile("testdata/everything.proto")
	if err != nil {
		t.Fatal(err)
	}
	set, err := schema.FromFiles(compile(t, map[string]string{"everything.proto": string(source)}))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// jobProto is the source of the process plugin's payload.
func jobProto(t testing.TB) string {
	t.Helper()
	source, err := os.ReadFile("../../../proto/lehr/process/v1/job.proto")
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

func jobOf(name string, env map[string]string) *processpb.Job {
	return &processpb.Job{
		Name: name, Replicas: 3, Binary: "/usr/local/bin/frontend", Args: []string{"--port={port}"}, Env: env,
		Version: "1.2.3", BasePort: 8100, Health: &processpb.HealthCheck{Path: "/healthz"},
	}
}

// addonFiles is a serialized set with the addons' file alone: sets may be
// joined by joining their bytes.
func addonFiles(t testing.TB) []byte {
	t.Helper()
	serialized, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(intentpb.File_lehr_intent_v1_addons_proto),
		protodesc.ToFileDescriptorProto(intentpb.File_lehr_intent_v1_options_proto),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return serialized
}
