package schema

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
)

// SourceFile is a .proto file under the path by which others import it.
type SourceFile struct {
	Path string `json:"path"`
	Text []byte `json:"text"`
}

// Compiled is what .proto files give: the built-in types and theirs.
type Compiled struct {
	Set *Set
	// Own are the message types of the files themselves, sorted.
	Own    []intent.TypeName
	places map[protoreflect.FullName]Place
}

// Place is where something is defined, counted from 1.
type Place struct {
	File         string
	Line, Column int
}

// Place of a message, field, enum or extension of the files themselves.
func (c *Compiled) Place(name protoreflect.FullName) Place { return c.places[name] }

// mostProblems of one compilation are told.
const mostProblems = 20

// Compile compiles .proto files beside the built-in types. Findings say what
// is wrong and where; there is no result then. Reserved names the first parts
// of packages that are taken for something else; nil: none.
//
// What the files say is bounded, but the work and the memory it takes are not:
// call it where a process may end, and only hand on what it gave (see
// MaxDefinitions).
func Compile(ctx context.Context, files []SourceFile, reserved func(root string) bool) (*Compiled, []intent.Finding) {
	c := &compilation{texts: map[string][]byte{}, parsed: map[string]*ast.FileNode{}, reserved: reserved, state: map[string]buildState{}}
	for _, file := range files {
		c.parse(file)
	}
	if len(files) == 0 {
		c.add("", ast.SourcePos{}, "there are no .proto files", "write one, or remove types from the definition")
	}
	if len(c.findings) > 0 {
		return nil, c.findings
	}
	linked := c.link(ctx)
	if len(c.findings) > 0 {
		return nil, c.sorted()
	}
	compiled, err := c.finish(linked)
	if err != nil {
		c.add(linked[0].Path(), ast.SourcePos{}, "the types do not go together: "+err.Error(), "")
	}
	if len(c.findings) > 0 {
		return nil, c.sorted()
	}
	return compiled, nil
}

type compilation struct {
	texts    map[string][]byte
	parsed   map[string]*ast.FileNode
	reserved func(root string) bool
	findings []intent.Finding
	// defined counts what the files define.
	defined   int
	linked    linker.File // that is looked at
	places    map[protoreflect.FullName]Place
	own       []intent.TypeName
	referrals []referral
	// state of each file, while they are put in order.
	state map[string]buildState
	order []string
}

func (c *compilation) add(file string, at ast.SourcePos, message, hint string) {
	if len(c.findings) >= mostProblems {
		return
	}
	const longest = 1000
	c.findings = append(c.findings, intent.Finding{
		Rule: "types", Severity: intent.Error, File: file, Line: max(at.Line, 1), Column: max(at.Col, 1),
		Message: strings.ToValidUTF8(message[:min(len(message), longest)], "?"), Hint: hint,
	})
}

func (c *compilation) sorted() []intent.Finding {
	slices.SortStableFunc(c.findings, func(a, b intent.Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return c.findings
}

// reporter takes what the compiler says, until there is enough of it.
func (c *compilation) reporter() reporter.Reporter {
	return reporter.NewReporter(func(err reporter.ErrorWithPos) error {
		at, message := err.GetPosition(), err.Unwrap().Error()
		c.add(at.Filename, at, message, c.hintFor(message))
		if len(c.findings) >= mostProblems {
			return err
		}
		return nil
	}, nil)
}

// hintFor helps with what people get wrong first.
func (c *compilation) hintFor(message string) string {
	switch {
	case strings.Contains(message, "could not resolve path"), strings.Contains(message, "could not find"):
		return "a file imports others by their path from the folder of the types; lehr/intent/v1/options.proto, buf/validate/validate.proto and google/protobuf/*.proto are there without a file"
	case strings.Contains(message, "unknown extension lehr."):
		return `import "lehr/intent/v1/options.proto" and write (lehr.intent.v1.reference) or (lehr.intent.v1.indexed)`
	case strings.Contains(message, "unknown extension buf."):
		return `import "buf/validate/validate.proto"`
	case strings.Contains(message, "unknown type "):
		_, word, _ := strings.Cut(message, "unknown type ")
		return c.typeHint(word)
	case strings.Contains(message, "already defined"):
		return "a name is defined once among all the files"
	}
	return "mend the line"
}

// scalars are the types of fields that need no definition.
var scalars = []string{"bool", "bytes", "double", "fixed32", "fixed64", "float", "int32", "int64", "sfixed32", "sfixed64", "sint32", "sint64", "string", "uint32", "uint64"}

// typeHint names the type that a field was probably meant to have: one of no definition, or
// of a message or enum that the files define.
func (c *compilation) typeHint(word string) string {
	names := slices.Clone(scalars)
	for _, file := range c.parsed {
		for _, declared := range file.Decls {
			switch d := declared.(type) {
			case *ast.MessageNode:
				names = append(names, d.Name.Val)
			case *ast.EnumNode:
				names = append(names, d.Name.Val)
			}
		}
	}
	if suggestion := spell.Nearest(word, names); suggestion != "" {
		return "did you mean " + suggestion + "?"
	}
	return "define the message or enum, import the file that does, and write its package before its name where that is another; of no definition are " + strings.Join(scalars, ", ")
}

// parse reads one file, and holds its path and package to what is free.
func (c *compilation) parse(file SourceFile) {
	if c.texts[file.Path] != nil {
		c.add(file.Path, ast.SourcePos{}, "the file is there twice", "")
		return
	}
	c.texts[file.Path] = file.Text
	if root, _, hasFolder := strings.Cut(file.Path, "/"); hasFolder && builtinRoots[root] || isLinked(file.Path) {
		c.add(file.Path, ast.SourcePos{}, fmt.Sprintf("%s is the path of a built-in file", file.Path), "move the file: paths below lehr/, google/ and buf/ are Lehr's")
		return
	}
	node, err := parser.Parse(file.Path, bytes.NewReader(file.Text), reporter.NewHandler(c.reporter()))
	if err != nil || node == nil {
		c.unreported(file.Path, err)
		return
	}
	c.parsed[file.Path] = node
	for _, element := range node.Decls {
		if named, ok := element.(*ast.PackageNode); ok {
			c.checkPackage(file.Path, string(named.Name.AsIdentifier()), node.NodeInfo(named.Name).Start())
			return
		}
	}
	c.add(file.Path, ast.SourcePos{}, "the file has no package", "write for example: package acme.dns.v1;")
}

var builtinRoots = map[string]bool{"lehr": true, "google": true, "buf": true}

func (c *compilation) checkPackage(file, name string, at ast.SourcePos) {
	root, _, _ := strings.Cut(name, ".")
	switch {
	case builtinRoots[root]:
		c.add(file, at, fmt.Sprintf("the package %s is Lehr's", name), "choose a package of your own, for example acme.dns.v1")
	case c.reserved != nil && c.reserved(root):
		c.add(file, at, fmt.Sprintf("a package cannot begin with %s: in generators that is a word of the language", root), "choose another first part, for example acme."+name)
	}
}

// unreported keeps an error that no reporter was told of.
func (c *compilation) unreported(file string, err error) {
	if err == nil || errors.Is(err, reporter.ErrInvalidSource) || len(c.findings) > 0 {
		return
	}
	var at ast.SourcePos
	if placed, ok := errors.AsType[reporter.ErrorWithPos](err); ok {
		at, err = placed.GetPosition(), placed.Unwrap()
		file = at.Filename
	}
	c.add(file, at, err.Error(), c.hintFor(err.Error()))
}

// finish makes the set that the server, too, will make of the same bytes.
func (c *compilation) finish(linked linker.Files) (*Compiled, error) {
	whole := new(descriptorpb.FileDescriptorSet)
	linkedFiles().RangeFiles(func(file protoreflect.FileDescriptor) bool {
		whole.File = append(whole.File, protodesc.ToFileDescriptorProto(file))
		return true
	})
	for _, file := range linked {
		own := proto.CloneOf(protoutil.ProtoFromFileDescriptor(file))
		own.SourceCodeInfo = nil
		whole.File = append(whole.File, own)
	}
	encoded, err := proto.Marshal(whole)
	if err != nil {
		return nil, err
	}
	// Only what is read back has the options as the types that are linked in.
	files, err := parseFiles(encoded)
	if err != nil {
		return nil, err
	}
	for _, file := range linked {
		own, err := files.FindFileByPath(file.Path())
		if err != nil {
			return nil, err
		}
		c.look(file, own)
	}
	c.referred()
	if len(c.findings) > 0 {
		return nil, nil
	}
	schemas, err := encodedSet(files)
	if err != nil {
		return nil, err
	}
	if len(schemas.Files()) > MaxSetBytes {
		return nil, fault.New(fault.Invalid, "their descriptors have %d bytes, at most %d are allowed", len(schemas.Files()), MaxSetBytes)
	}
	slices.Sort(c.own)
	return &Compiled{Set: schemas, Own: c.own, places: c.places}, nil
}
