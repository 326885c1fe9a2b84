// Command protogen compiles proto/ and writes the generated Go code to gen/, or to the
// folder that -to names, by the plugins that go.mod names as tools. Of what plugins in
// Python need it writes proto3 twins and stubs to sdk/python, or to the folder that
// -python names. It is what "make generate" runs.
//
// It stands in for protoc or buf: buf/validate/validate.proto is to be had
// here only as a Go package, which protocompile can resolve imports from
// (docs/decisions/0002).
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	_ "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	to := flag.String("to", "gen", "the folder that is made anew")
	python := flag.String("python", "sdk/python", "the folder for what is Python's")
	flag.Parse()
	if err := run(*to, *python); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(to, python string) error {
	var names []string
	err := fs.WalkDir(os.DirFS("proto"), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".proto") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("listing proto/ (run from the repository's root): %w", err)
	}
	files, err := compile(&protocompile.SourceResolver{ImportPaths: []string{"proto"}}, names...)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate:  names,
		Parameter:       proto.String("paths=source_relative"),
		CompilerVersion: &pluginpb.Version{Major: proto.Int32(6)},
	}
	seen := map[string]bool{}
	for _, file := range files {
		addFile(request, seen, file)
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc", "protoc-gen-connect-go"} {
		if err := generate(plugin, request, to); err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return writeTwins(files, python)
}

// compile reads files, and refuses a call that does not say who may make it.
func compile(sources protocompile.Resolver, names ...string) (linker.Files, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(protocompile.CompositeResolver{sources, protocompile.ResolverFunc(registered)}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := checkAccess(file); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// registered resolves imports from the Go packages linked into this program.
func registered(path string) (protocompile.SearchResult, error) {
	descriptor, err := protoregistry.GlobalFiles.FindFileByPath(path)
	if err != nil {
		return protocompile.SearchResult{}, err
	}
	return protocompile.SearchResult{Desc: descriptor}, nil
}

// addFile appends a file after everything that it imports.
func addFile(request *pluginpb.CodeGeneratorRequest, seen map[string]bool, file protoreflect.FileDescriptor) {
	if seen[file.Path()] {
		return
	}
	seen[file.Path()] = true
	for i := range file.Imports().Len() {
		addFile(request, seen, file.Imports().Get(i).FileDescriptor)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
}

// generate runs one plugin. Each is given only the files it has work in:
// connect for lehr.api, grpc for lehr.plugin, messages for all.
func generate(plugin string, request *pluginpb.CodeGeneratorRequest, to string) error {
	request = proto.CloneOf(request)
	if plugin == "protoc-gen-connect-go" {
		// Handlers and clients take and return plain messages.
		request.Parameter = proto.String(request.GetParameter() + ",simple")
	}
	request.FileToGenerate = slices.DeleteFunc(request.FileToGenerate, func(name string) bool {
		switch plugin {
		case "protoc-gen-connect-go":
			return !strings.HasPrefix(name, "lehr/api/") || !hasService(request, name)
		case "protoc-gen-go-grpc":
			return !strings.HasPrefix(name, "lehr/plugin/")
		}
		return false
	})
	if len(request.FileToGenerate) == 0 {
		return nil
	}
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	command := exec.Command("go", "tool", plugin)
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(output, response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", *response.Error)
	}
	for _, file := range response.File {
		path := filepath.Join(to, file.GetName())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func hasService(request *pluginpb.CodeGeneratorRequest, name string) bool {
	return slices.ContainsFunc(request.ProtoFile, func(f *descriptorpb.FileDescriptorProto) bool {
		return f.GetName() == name && len(f.Service) > 0
	})
}
