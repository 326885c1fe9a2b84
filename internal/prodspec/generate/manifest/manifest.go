// Package manifest reads YAML and JSON strictly, into messages, and says of what
// is wrong in which line, column and field it is. What a person may have meant is
// a hint. Starlark's decode and the renderers use it, in limited children.
package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"buf.build/go/protovalidate"
	"buf.build/go/protoyaml"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/ground/spell"
)

// Error is what is wrong with a document.
type Error struct{ Findings []intent.Finding }

func (e *Error) Error() string {
	f := e.Findings[0]
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
}

// Document is one YAML or JSON document with the field path of each of its nodes.
type Document struct {
	File string
	Root *yaml.Node
	text []byte
	// fields by position, and nodes by field path.
	fields map[position]field
	nodes  map[string]*yaml.Node
	// origins of the places of a document that was made of several; nil: it is
	// one file.
	origins map[position]origin
	types   schema.Types
	// Of a part: the path of its root in the whole, and where its text's places
	// are in the file.
	prefix string
	places map[position]position
}

type position struct{ line, column int }

// field is what a place in the document is, when the type is known.
type field struct {
	path string
	// parent is the message that has the field; descriptor is nil when it
	// does not.
	parent     protoreflect.MessageDescriptor
	descriptor protoreflect.FieldDescriptor
	node       *yaml.Node
}

// Decode decodes the document into a message and validates it. What is wrong
// comes back as one Error with all findings, each with line, column and field.
func (d *Document) Decode(message proto.Message, types schema.Types, validator protovalidate.Validator) error {
	descriptor := message.ProtoReflect().Descriptor()
	d.types = types
	d.index(d.Root, d.prefix, descriptor)
	if err := (protoyaml.UnmarshalOptions{Resolver: types}).Unmarshal(d.text, message); err != nil {
		return d.decoding(err, descriptor)
	}
	if err := validator.Validate(message); err != nil {
		return d.validation(err, descriptor)
	}
	return nil
}

// Finding at a node; one that is not in the document is at its first line.
func (d *Document) Finding(line, column int, field, format string, arguments ...any) intent.Finding {
	file, line, column := d.origin(line, column)
	return intent.Finding{
		Rule: "manifest", Severity: intent.Error, Message: fmt.Sprintf(format, arguments...),
		File: file, Line: max(line, 1), Column: max(column, 1), Field: field,
	}
}

var (
	decodeError = regexp.MustCompile(`^:(\d+):(\d+) ([^\n]*)`)
	yamlError   = regexp.MustCompile(`line (\d+): (.*)`)
)

// decoding turns protoyaml's errors into findings.
func (d *Document) decoding(err error, message protoreflect.MessageDescriptor) error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	m := &Error{}
	for _, err := range list {
		match := decodeError.FindStringSubmatch(err.Error())
		if match == nil {
			m.Findings = append(m.Findings, d.Finding(1, 1, "", "%s is not a %s: %s", d.File, message.FullName(), err))
			continue
		}
		line, _ := strconv.Atoi(match[1])
		column, _ := strconv.Atoi(match[2])
		if at, ok := d.places[position{line, column}]; ok {
			line, column = at.line, at.column
		}
		m.Findings = append(m.Findings, d.wrong(line, column, match[3]))
	}
	return m
}

// wrong explains one error of decoding at a place.
func (d *Document) wrong(line, column int, message string) intent.Finding {
	at, ok := d.fields[position{line, column}]
	f := d.Finding(line, column, at.path, "%s", message)
	f.Hint = "mend the manifest"
	if at.path != "" {
		f.Message = at.path + ": " + message
	}
	switch {
	case !ok:
	case at.descriptor == nil && at.parent != nil:
		f.Message = fmt.Sprintf("unknown field %s: a %s has none of that name", at.path, at.parent.FullName())
		f.Hint = nameHint(at.node.Value, fieldNames(at.parent))
	case at.descriptor != nil && at.node.Kind == yaml.ScalarNode && strings.HasPrefix(message, "unknown enum value"):
		f.Message = fmt.Sprintf("%s: %q is not a %s", at.path, at.node.Value, at.descriptor.Enum().FullName())
		f.Hint = nameHint(at.node.Value, enumNames(at.descriptor.Enum()))
	case at.descriptor != nil && at.descriptor.Message() != nil && at.descriptor.Message().FullName() == "google.protobuf.Duration" && at.node.Kind == yaml.ScalarNode:
		f.Message = fmt.Sprintf("%s is not a length of time: %s", at.path, Describe(at.node))
		f.Hint = "write " + string(at.descriptor.Name()) + ": 10s"
	case at.descriptor != nil && at.descriptor.ContainingOneof() != nil && strings.Contains(message, "for oneof"):
		names := strings.Join(oneofNames(at.descriptor.ContainingOneof()), ", ")
		f.Message = fmt.Sprintf("%s is written beside another one of %s", at.path, names)
		f.Hint = "write one of these, and leave the others out: " + names
	case at.descriptor != nil && wantsOther(message):
		f.Message = fmt.Sprintf("%s must be %s, is %s", at.path, kindName(at.descriptor, at.path), Describe(at.node))
		f.Hint = "write " + example(at.descriptor)
	}
	return f
}

// oneofNames lists the fields of which one may be set.
func oneofNames(oneof protoreflect.OneofDescriptor) (names []string) {
	for i := range oneof.Fields().Len() {
		names = append(names, string(oneof.Fields().Get(i).Name()))
	}
	return names
}

func wantsOther(message string) bool {
	return slices.ContainsFunc([]string{"invalid integer", "invalid float", "expected "}, func(prefix string) bool {
		return strings.HasPrefix(message, prefix)
	})
}

// validation turns protovalidate's violations into findings at the nodes they
// are about, or at the nearest node around a field that is missing.
func (d *Document) validation(err error, message protoreflect.MessageDescriptor) error {
	invalid, ok := errors.AsType[*protovalidate.ValidationError](err)
	if !ok {
		return fmt.Errorf("%s cannot be validated as a %s: %w", d.File, message.FullName(), err)
	}
	m := &Error{}
	for _, violation := range invalid.Violations {
		path := Join(d.prefix, protovalidate.FieldPathString(violation.Proto.GetField()))
		node := d.nearest(path)
		subject := path
		if subject == "" {
			subject = "the manifest"
		}
		f := d.Finding(node.Line, node.Column, path, "%s: %s", subject, violation.Proto.GetMessage())
		f.Hint = "mend the field"
		switch {
		case d.nodes[path] == nil:
			f.Message += " (the field is not set)"
			f.Hint = "add the field"
		case node.Kind == yaml.ScalarNode:
			f.Message += ", is " + Describe(node)
		}
		m.Findings = append(m.Findings, f)
	}
	// The entries of a map come in any order.
	slices.SortStableFunc(m.Findings, func(a, b intent.Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Field, b.Field))
	})
	return m
}

func (d *Document) nearest(path string) *yaml.Node {
	for path != "" {
		if node := d.nodes[path]; node != nil {
			return node
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return d.Root
}

// Parse reads exactly one document.
func Parse(file string, text []byte) (*Document, error) {
	d := newDocument(file, nil)
	text = withNewline(text)
	d.text = text
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var node, more yaml.Node
	err := decoder.Decode(&node)
	if errors.Is(err, io.EOF) || err == nil && len(node.Content) == 0 {
		return nil, d.empty()
	}
	if err == nil {
		// Decoding into a value refuses duplicate keys and excessive aliases.
		var value any
		err = node.Decode(&value)
	}
	if err == nil {
		if next := decoder.Decode(&more); next == nil {
			f := d.Finding(more.Line, 1, "", "%s holds more than one document", file)
			f.Hint = "one file holds one document: split it"
			return nil, &Error{Findings: []intent.Finding{f}}
		} else if !errors.Is(next, io.EOF) {
			err = next
		}
	}
	if err != nil {
		return nil, d.syntax(text, err)
	}
	d.Root = node.Content[0]
	if err := d.refuseTags(&node); err != nil {
		return nil, err
	}
	return d, nil
}

// withNewline is text with a newline at its end, so that a block scalar there keeps its own. That
// of UTF-16 has another one, and stays as it is.
func withNewline(text []byte) []byte {
	if len(text) == 0 || text[len(text)-1] == '\n' || bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return text
	}
	return slices.Concat(text, []byte("\n"))
}

// refuseTags refuses values whose tag nobody here knows.
func (d *Document) refuseTags(node *yaml.Node) error {
	tagged, ok := document.UnknownTag(node)
	if !ok {
		return nil
	}
	f := d.Finding(tagged.Line, tagged.Column, "", "the tag %.100s is not known", tagged.Tag)
	f.Hint = "write the value that is meant: nothing here does what a tag asks for"
	return &Error{Findings: []intent.Finding{f}}
}

// Join is the path of a field of what is at a path.
func Join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// anyMessage is what an Any holds, as far as its node says so.
func (d *Document) anyMessage(node *yaml.Node, message protoreflect.MessageDescriptor) protoreflect.MessageDescriptor {
	if message == nil || message.FullName() != "google.protobuf.Any" || d.types == nil {
		return message
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == "@type" {
			if messageType, err := d.types.FindMessageByURL(node.Content[i+1].Value); err == nil {
				return messageType.Descriptor()
			}
		}
	}
	return message
}

// index remembers which field each node is. Without a descriptor the path is
// made of the document's own keys.
func (d *Document) index(node *yaml.Node, path string, message protoreflect.MessageDescriptor) {
	d.setField(node, field{path: path})
	if node.Kind != yaml.MappingNode {
		return
	}
	message = d.anyMessage(node, message)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		descriptor := fieldOf(message, key.Value)
		name := key.Value
		if descriptor != nil {
			name = string(descriptor.Name())
		}
		at := field{path: Join(path, name), parent: message, descriptor: descriptor, node: key}
		d.setField(key, at)
		if descriptor == nil {
			continue
		}
		at.node = value
		d.value(at)
	}
}

// value indexes the value of a known field.
func (d *Document) value(at field) {
	d.setField(at.node, at)
	switch {
	case at.descriptor.IsMap() && at.node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(at.node.Content); i += 2 {
			entry := field{descriptor: at.descriptor.MapValue(), parent: at.parent, node: at.node.Content[i+1]}
			entry.path = fmt.Sprintf("%s[%q]", at.path, at.node.Content[i].Value)
			key := entry
			key.descriptor, key.node = at.descriptor.MapKey(), at.node.Content[i]
			d.setField(key.node, key)
			d.element(entry)
		}
	case at.descriptor.IsList() && at.node.Kind == yaml.SequenceNode:
		for i, node := range at.node.Content {
			d.element(field{path: fmt.Sprintf("%s[%d]", at.path, i), parent: at.parent, descriptor: at.descriptor, node: node})
		}
	case !at.descriptor.IsList() && !at.descriptor.IsMap():
		d.element(at)
	}
}

func (d *Document) element(at field) {
	if message := at.descriptor.Message(); message != nil && !at.descriptor.IsMap() && at.node.Kind == yaml.MappingNode {
		d.index(at.node, at.path, message)
	}
	d.setField(at.node, at)
}

func (d *Document) setField(node *yaml.Node, at field) {
	d.fields[position{node.Line, node.Column}] = at
	if at.node == node || at.node == nil {
		d.nodes[at.path] = node
	}
}

func fieldOf(message protoreflect.MessageDescriptor, key string) protoreflect.FieldDescriptor {
	if message == nil {
		return nil
	}
	if f := message.Fields().ByTextName(key); f != nil {
		return f
	}
	return message.Fields().ByJSONName(key)
}

func fieldNames(message protoreflect.MessageDescriptor) (names []string) {
	for i := range message.Fields().Len() {
		names = append(names, string(message.Fields().Get(i).Name()))
	}
	return names
}

func enumNames(enum protoreflect.EnumDescriptor) (names []string) {
	for i := range enum.Values().Len() {
		names = append(names, string(enum.Values().Get(i).Name()))
	}
	return names
}

func nameHint(name string, allowed []string) string {
	hint := "allowed: " + strings.Join(allowed, ", ")
	if suggestion := spell.Nearest(name, allowed); suggestion != "" {
		return "did you mean " + suggestion + "? " + hint
	}
	return hint
}

// Describe says what a node is, for people.
func Describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if node.Tag == "!!null" {
		return "empty"
	}
	if len(node.Value) > 60 {
		return strconv.Quote(node.Value[:60]) + "…"
	}
	return strconv.Quote(node.Value)
}

// kindName says what a field takes, for people.
func kindName(f protoreflect.FieldDescriptor, path string) string {
	element := strings.HasSuffix(path, "]")
	switch {
	case f.IsMap() && !element:
		return "a mapping"
	case f.IsList() && !element:
		return "a list"
	}
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return "a mapping (" + string(f.Message().FullName()) + ")"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind:
		return "a text"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "a number"
	case protoreflect.BytesKind:
		return "base64 text"
	case protoreflect.EnumKind:
		return "a " + string(f.Enum().FullName())
	default:
		return "a whole number (" + f.Kind().String() + ")"
	}
}

func example(f protoreflect.FieldDescriptor) string {
	name := string(f.Name())
	switch {
	case f.IsMap():
		return name + ": {key: value}"
	case f.IsList():
		return name + ": [a, b]"
	}
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return name + ": {field: value}"
	case protoreflect.BoolKind:
		return name + ": true"
	case protoreflect.StringKind:
		return name + `: "text"`
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return name + ": 0.5"
	default:
		return name + ": 3"
	}
}

// Refuse is an Error about a node.
func (d *Document) Refuse(node *yaml.Node, path, format string, arguments ...any) error {
	f := d.Finding(node.Line, node.Column, path, format, arguments...)
	f.Hint = "mend the manifest"
	return &Error{Findings: []intent.Finding{f}}
}
