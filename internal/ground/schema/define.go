package schema

import (
	"fmt"
	"slices"

	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"lehr.dev/internal/ground/intent"
)

// What .proto files may define in one set.
const (
	// MaxDefinitions bounds messages, fields, enums, their values and
	// extensions together: a set is held in the server's memory.
	MaxDefinitions = 20_000
	// MaxSetBytes bounds the descriptors, the built-in ones included.
	MaxSetBytes = 2_000_000
	maxTypeName = 200
)

// look holds what a file defines to the limits, and its marks to their types.
func (c *compilation) look(linked linker.File, file protoreflect.FileDescriptor) {
	c.linked = linked
	if c.places == nil {
		c.places = map[protoreflect.FullName]Place{}
	}
	c.messages(file.Messages())
	c.enums(file.Enums())
	c.extensions(file.Extensions())
}

func (c *compilation) messages(messages protoreflect.MessageDescriptors) {
	for i := range messages.Len() {
		message := messages.Get(i)
		if message.IsMapEntry() {
			continue
		}
		at := c.define(message)
		if len(message.FullName()) > maxTypeName {
			c.add(at.Filename, at, fmt.Sprintf("the name of a type has %d bytes, at most %d are allowed", len(message.FullName()), maxTypeName), "choose a shorter name")
		}
		c.own = append(c.own, intent.TypeName(message.FullName()))
		for j := range message.Fields().Len() {
			c.field(message.Fields().Get(j))
		}
		c.enums(message.Enums())
		c.extensions(message.Extensions())
		c.messages(message.Messages())
	}
}

// define counts a definition and remembers its place.
func (c *compilation) define(descriptor protoreflect.Descriptor) ast.SourcePos {
	at := ast.SourcePos{Filename: descriptor.ParentFile().Path(), Line: 1, Col: 1}
	if same := c.linked.FindDescriptorByName(descriptor.FullName()); same != nil {
		location := c.linked.SourceLocations().ByDescriptor(same)
		at.Line, at.Col = location.StartLine+1, location.StartColumn+1
	}
	c.places[descriptor.FullName()] = Place{File: at.Filename, Line: at.Line, Column: at.Col}
	c.count(at, 1)
	return at
}

func (c *compilation) count(at ast.SourcePos, more int) {
	previous := c.defined
	if c.defined += more; previous <= MaxDefinitions && c.defined > MaxDefinitions {
		c.add(at.Filename, at, fmt.Sprintf("the types have more than %d messages, fields and values together", MaxDefinitions), "keep data out of types, or split the partition")
	}
}

func (c *compilation) enums(enums protoreflect.EnumDescriptors) {
	for i := range enums.Len() {
		c.count(c.define(enums.Get(i)), enums.Get(i).Values().Len())
	}
}

// extensions must not take the number of one that Lehr reads: options are
// found by number.
func (c *compilation) extensions(extensions protoreflect.ExtensionDescriptors) {
	for i := range extensions.Len() {
		extension := extensions.Get(i)
		at := c.define(extension)
		existing, err := protoregistry.GlobalTypes.FindExtensionByNumber(extension.ContainingMessage().FullName(), extension.Number())
		if err == nil && existing.TypeDescriptor().FullName() != extension.FullName() {
			c.add(at.Filename, at, fmt.Sprintf("number %d of %s is taken by %s", extension.Number(), extension.ContainingMessage().FullName(), existing.TypeDescriptor().FullName()), "choose another number")
		}
	}
}

// field judges the marks of a field.
func (c *compilation) field(field protoreflect.FieldDescriptor) {
	at := c.define(field)
	if reference := mark(field); reference != nil {
		if elementOf(field).Kind() != protoreflect.StringKind {
			c.add(at.Filename, at, fmt.Sprintf("field %s is marked as a reference, but holds no text", field.FullName()), "mark a string, a list of strings, or a map to strings")
		}
		for _, name := range reference.GetTypes() {
			c.referrals = append(c.referrals, referral{field, name, at})
		}
	}
	if isIndexed(field) && !indexable(field) {
		c.add(at.Filename, at, fmt.Sprintf("field %s is marked as indexed, but is no number, bool, enum or text, nor a map from text to these", field.FullName()), "mark another field, or none")
	}
}

// referral is a type that the option of a reference names.
type referral struct {
	field protoreflect.FieldDescriptor
	name  string
	at    ast.SourcePos
}

// referred checks the types that references name, once all files were seen:
// a name needs no import.
func (c *compilation) referred() {
	for _, r := range c.referrals {
		if Builtin().Has(intent.TypeName(r.name)) || slices.Contains(c.own, intent.TypeName(r.name)) {
			continue
		}
		hint := "write the full name of a message type"
		for _, own := range c.own {
			if lastName(string(own)) == lastName(r.name) {
				hint = fmt.Sprintf("did you mean %s?", own)
			}
		}
		c.add(r.at.Filename, r.at, fmt.Sprintf("field %s refers to the type %.200q, which does not exist", r.field.FullName(), r.name), hint)
	}
}
