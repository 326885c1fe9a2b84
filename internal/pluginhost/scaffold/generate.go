package scaffold

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/pluginhost/trial"
)

// generator is run within the plugin's own module, which requires it.
const generator = "google.golang.org/protobuf/cmd/protoc-gen-go"

// Generate writes what is generated of the .proto files in the folder "proto" of a plugin.
// For a plugin in Go it is their code, beside them, and it needs no other tool than Go. For
// one in Python it is their compiled types and the SDK.
func Generate(ctx context.Context, folder string) error {
	if isPython(folder) {
		_, err := generatePython(ctx, folder)
		return err
	}
	_, err := generateGo(ctx, folder)
	return err
}

// generateGo returns the files that it wrote.
func generateGo(ctx context.Context, folder string) ([]string, error) {
	root := filepath.Join(folder, "proto")
	schemas, err := trial.Types(ctx, root)
	if err != nil {
		return nil, err
	}
	all := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(schemas.Files(), all); err != nil {
		return nil, fault.New(fault.Internal, "reading the compiled types of %s: %w", root, err)
	}
	files := map[string]*descriptorpb.FileDescriptorProto{}
	for _, file := range all.File {
		files[file.GetName()] = file
	}
	names, err := protoFiles(folder)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{Parameter: proto.String("paths=source_relative"), FileToGenerate: names}
	for _, name := range names {
		addFile(request, files, name)
	}
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, fault.New(fault.Internal, "asking for the code of %s: %w", root, err)
	}
	var problems strings.Builder
	command := exec.CommandContext(ctx, "go", "run", generator)
	command.Dir, command.Stdin, command.Stderr = folder, bytes.NewReader(input), &problems
	output, err := command.Output()
	if err != nil {
		return nil, fault.New(fault.Unavailable, "generating the Go code of %s by %s: %w: %s", root, generator, err, strings.TrimSpace(problems.String())).
			WithHint("Go must be installed, and the module's requirements must be to be had")
	}
	return writeGenerated(root, output)
}

// protoFiles lists the .proto files of a plugin, from its folder "proto".
func protoFiles(folder string) (names []string, err error) {
	root := filepath.Join(folder, "proto")
	err = filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".proto" {
			relative, _ := filepath.Rel(root, name)
			names = append(names, filepath.ToSlash(relative))
		}
		return err
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, "listing %s: %w", root, err)
	}
	return names, nil
}

// addFile appends a file after all that it imports, once.
func addFile(request *pluginpb.CodeGeneratorRequest, files map[string]*descriptorpb.FileDescriptorProto, name string) {
	file := files[name]
	if file == nil || slices.Contains(request.ProtoFile, file) {
		return
	}
	for _, imported := range file.Dependency {
		addFile(request, files, imported)
	}
	request.ProtoFile = append(request.ProtoFile, file)
}

func writeGenerated(root string, output []byte) (written []string, err error) {
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(output, response); err != nil {
		return nil, fault.New(fault.Internal, "reading what %s generated: %w", generator, err)
	}
	if response.Error != nil {
		return nil, fault.New(fault.Invalid, "generating the Go code of %s: %s", root, response.GetError())
	}
	for _, file := range response.File {
		name := filepath.Join(root, filepath.FromSlash(file.GetName()))
		if err := os.WriteFile(name, []byte(file.GetContent()), 0o644); err != nil {
			return nil, fault.New(fault.Unavailable, "writing generated code: %w", err)
		}
		written = append(written, name)
	}
	return written, nil
}
