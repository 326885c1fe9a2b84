package scaffold

import (
	"context"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/pluginhost/trial"
	"lehr.dev/internal/pluginhost/twin"
	"lehr.dev/sdk/python"
)

//go:embed python
var pythonTemplates embed.FS

const (
	// compiledTypes is where a plugin in Python reads its types from.
	compiledTypes = "types.binpb"
	// pythonPackage tells a plugin in Python, which has a copy of the SDK.
	pythonPackage = "lehr/serve/__init__.py"
)

// newPython writes a plugin in Python. It needs nothing of Lehr's source: this program
// holds the SDK.
func newPython(ctx context.Context, options Options) ([]string, error) {
	if options.Lehr != "" {
		return nil, fault.New(fault.Invalid, "a plugin in Python builds on no source of Lehr, and %s was named", options.Lehr).WithHint("leave out --lehr")
	}
	filled, err := name(options)
	if err != nil {
		return nil, err
	}
	if slices.Contains([]string{"lehr", "proto"}, options.Name) {
		return nil, fault.New(fault.Invalid, "the name %q is that of a folder which each plugin in Python has", options.Name).WithHint("choose another")
	}
	if err := emptyFolder(options.Folder); err != nil {
		return nil, err
	}
	written, err := writeTemplates(pythonTemplates, "python", filled, options)
	if err != nil {
		return nil, err
	}
	generated, err := generatePython(ctx, options.Folder)
	return slices.Sorted(slices.Values(append(written, generated...))), err
}

func isPython(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, filepath.FromSlash(pythonPackage)))
	return err == nil
}

// generatePython writes the types of the .proto files in the folder "proto" of a plugin,
// and the SDK anew. It needs no other tool.
func generatePython(ctx context.Context, folder string) (written []string, err error) {
	schemas, err := trial.Types(ctx, filepath.Join(folder, "proto"))
	if err != nil {
		return nil, err
	}
	names, err := protoFiles(folder)
	if err != nil {
		return nil, err
	}
	types, err := twins(schemas.Files(), names)
	if err != nil {
		return nil, err
	}
	write := func(name string, content []byte) error {
		name = filepath.Join(folder, filepath.FromSlash(name))
		written = append(written, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		return os.WriteFile(name, content, 0o644)
	}
	err = fs.WalkDir(python.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := python.Files.ReadFile(name)
		if err != nil {
			return err
		}
		return write(name, content)
	})
	if err == nil {
		err = write(compiledTypes, types)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "writing what is generated to %s: %w", folder, err)
	}
	return written, nil
}

// twins returns the files of those names, with what they import and Python's runtime or the
// SDK does not have, as files of proto3: a FileDescriptorSet.
func twins(compiled []byte, names []string) ([]byte, error) {
	all := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(compiled, all); err != nil {
		return nil, fault.New(fault.Internal, "reading the compiled types: %w", err)
	}
	files, err := protodesc.NewFiles(all)
	if err != nil {
		return nil, fault.New(fault.Internal, "reading the compiled types: %w", err)
	}
	made, seen := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	var add func(protoreflect.FileDescriptor) error
	add = func(file protoreflect.FileDescriptor) error {
		if seen[file.Path()] || twin.Omits(file.Path()) || isKnownToPython(file.Path()) {
			return nil
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			if err := add(file.Imports().Get(i).FileDescriptor); err != nil {
				return err
			}
		}
		one, err := twin.Make(file)
		if err != nil {
			return fault.New(fault.Invalid, "%w", err).WithHint("Python's protobuf may be older than editions: it reads what proto3 can say")
		}
		made.File = append(made.File, one)
		return nil
	}
	for _, name := range names {
		file, err := files.FindFileByPath(name)
		if err != nil {
			return nil, fault.New(fault.Internal, "looking for the compiled %s: %w", name, err)
		}
		if err := add(file); err != nil {
			return nil, err
		}
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(made)
}

// isKnownToPython reports whether the runtime or the SDK has the file.
func isKnownToPython(path string) bool {
	if strings.HasPrefix(path, "google/protobuf/") {
		return true
	}
	_, err := fs.Stat(python.Files, strings.TrimSuffix(path, ".proto")+"_pb2.py")
	return err == nil
}
