package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"lehr.dev/internal/pluginhost/twin"
)

// twinned are the files that a plugin in Python needs: the protocol, and what it reads of
// an asset beside the payload.
var twinned = []string{"lehr/intent/v1/addons.proto", "lehr/intent/v1/asset.proto", "lehr/intent/v1/options.proto", "lehr/intent/v1/outputs.proto", "lehr/intent/v1/secret.proto", "lehr/plugin/v1/plugin.proto"}

// writeTwins writes the proto3 twins, as text for those whose compilers are older than
// editions, and their stubs in Python.
func writeTwins(files linker.Files, to string) error {
	for _, folder := range []string{"proto", "lehr/intent", "lehr/plugin"} {
		if err := os.RemoveAll(filepath.Join(to, folder)); err != nil {
			return err
		}
	}
	texts, made := map[string]string{}, map[string]*descriptorpb.FileDescriptorProto{}
	for _, name := range twinned {
		file := files.FindFileByPath(name)
		if file == nil {
			return fmt.Errorf("proto/%s is not there, of which a twin is to be made", name)
		}
		var err error
		if made[name], err = twin.Make(file); err != nil {
			return err
		}
		source, err := os.ReadFile(filepath.Join("proto", name))
		if err != nil {
			return err
		}
		if texts[name], err = rewrite(file, source); err != nil {
			return err
		}
	}
	if err := compareTwins(texts, made); err != nil {
		return err
	}
	for name, text := range texts {
		if err := writeFile(filepath.Join(to, "proto", name), text); err != nil {
			return err
		}
	}
	return writePython(to, made)
}

// rewrite makes the text of a twin of that of a file: what the syntax of proto3 says
// otherwise is replaced, and what a twin does without is left out. Comments stay.
func rewrite(file protoreflect.FileDescriptor, source []byte) (string, error) {
	tree, err := parser.Parse(file.Path(), bytes.NewReader(source), reporter.NewHandler(nil))
	if err != nil {
		return "", err
	}
	r := rewriter{tree: tree, source: source}
	err = ast.Walk(tree, &ast.SimpleVisitor{
		DoVisitEditionNode: func(node *ast.EditionNode) error {
			r.replace(node, `syntax = "proto3";`)
			return nil
		},
		DoVisitImportNode: func(node *ast.ImportNode) error {
			if twin.Omits(node.Name.AsString()) {
				r.replace(node, "")
			}
			return nil
		},
		DoVisitOptionNode: func(node *ast.OptionNode) error {
			if node.Keyword != nil && r.isOmitted(node) {
				r.replace(node, "")
			}
			return nil
		},
		DoVisitCompactOptionsNode: r.compactOptions,
		DoVisitFieldNode: func(node *ast.FieldNode) error {
			if hasOptional(file, node) {
				r.replaceAt(r.offset(node.FldType), r.offset(node.FldType), "optional ")
			}
			return nil
		},
	})
	return r.text(), err
}

// rewriter collects what is replaced.
type rewriter struct {
	tree   *ast.FileNode
	source []byte
	edits  []edit
}

type edit struct {
	start, end int
	text       string
}

func (r *rewriter) offset(node ast.Node) int { return r.tree.NodeInfo(node).Start().Offset }

func (r *rewriter) raw(node ast.Node) string { return r.tree.NodeInfo(node).RawText() }

// replace replaces a node; what is left out takes its line along.
func (r *rewriter) replace(node ast.Node, text string) {
	start := r.offset(node)
	end := start + len(r.raw(node))
	if text == "" {
		for start > 0 && (r.source[start-1] == ' ' || r.source[start-1] == '\t') {
			start--
		}
		if end < len(r.source) && r.source[end] == '\n' && start > 0 && r.source[start-1] == '\n' {
			end++
		}
	}
	r.replaceAt(start, end, text)
}

func (r *rewriter) replaceAt(start, end int, text string) {
	r.edits = append(r.edits, edit{start, end, text})
}

func (r *rewriter) isOmitted(option *ast.OptionNode) bool {
	name := strings.TrimPrefix(r.raw(option.Name), "(")
	return strings.HasPrefix(name, "features.") || strings.HasPrefix(name, twin.Rules+".")
}

// compactOptions leaves out options in brackets, and the brackets when nothing is left.
func (r *rewriter) compactOptions(node *ast.CompactOptionsNode) error {
	var kept []string
	for _, option := range node.Options {
		if !r.isOmitted(option) {
			kept = append(kept, r.raw(option))
		}
	}
	switch {
	case len(kept) == 0:
		r.replace(node, "")
	case len(kept) < len(node.Options):
		r.replace(node, "["+strings.Join(kept, ", ")+"]")
	}
	return nil
}

// text is the source with all replaced, and no two empty lines in a row.
func (r *rewriter) text() string {
	slices.SortFunc(r.edits, func(a, b edit) int { return a.start - b.start })
	var text strings.Builder
	done := 0
	for _, e := range r.edits {
		text.Write(r.source[done:e.start])
		text.WriteString(e.text)
		done = e.end
	}
	text.Write(r.source[done:])
	whole := text.String()
	for strings.Contains(whole, "\n\n\n") {
		whole = strings.ReplaceAll(whole, "\n\n\n", "\n\n")
	}
	return strings.ReplaceAll(whole, "{\n\n", "{\n")
}

// hasOptional reports whether the field, found by its number and name, has a presence that
// proto3 must be told of.
func hasOptional(file protoreflect.FileDescriptor, node *ast.FieldNode) bool {
	if node.Extendee != nil || node.Label.IsPresent() {
		return false
	}
	var search func(protoreflect.MessageDescriptors) bool
	search = func(messages protoreflect.MessageDescriptors) bool {
		for i := range messages.Len() {
			field := messages.Get(i).Fields().ByName(protoreflect.Name(node.Name.Val))
			if field != nil && uint64(field.Number()) == node.Tag.Val && field.Message() == nil && field.HasPresence() && field.ContainingOneof() == nil {
				return true
			}
			if search(messages.Get(i).Messages()) {
				return true
			}
		}
		return false
	}
	return search(file.Messages())
}

// compareTwins compiles the texts, and fails unless they are the twins that were made of
// the descriptors: the one is shown to people, stubs are made of the other.
func compareTwins(texts map[string]string, made map[string]*descriptorpb.FileDescriptorProto) error {
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(texts)})}
	for name, want := range made {
		compiled, err := compiler.Compile(context.Background(), name)
		if err != nil {
			return fmt.Errorf("compiling the proto3 twin of %s: %w", name, err)
		}
		got, err := twin.Make(compiled[0])
		if err != nil {
			return err
		}
		if !sameBytes(got, want) {
			return fmt.Errorf("the text of the proto3 twin of %s is another file than its descriptor: write the .proto file so that both are found, for example the option field_presence at the top alone or at single fields", name)
		}
	}
	return nil
}

// sameBytes compares what is encoded: options may be of other Go types.
func sameBytes(one, other proto.Message) bool {
	first, err := proto.MarshalOptions{Deterministic: true}.Marshal(one)
	if err != nil {
		return false
	}
	second, err := proto.MarshalOptions{Deterministic: true}.Marshal(other)
	return err == nil && bytes.Equal(first, second)
}

func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
