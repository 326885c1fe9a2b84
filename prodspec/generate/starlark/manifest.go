package starlark

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
	starlarkpb "go.starlark.net/lib/proto"
	"go.starlark.net/starlark"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/intent"
	"lehr.dev/prodspec/definition"
)

// document is one YAML or JSON file with the field path of each of its nodes.
type document struct {
	file string
	text []byte
	root *yaml.Node
	// fields by position, and nodes by field path.
	fields map[position]field
	nodes  map[string]*yaml.Node
	// origins of the places of a document that was made of several; nil: it is
	// one file.
	origins map[position]place
}

type position struct{ line, column int }

// field is what a place in the document is, when the type is known.
type field struct {
	path string
	// within is the message that has the field; descriptor is nil when it
	// does not.
	within     protoreflect.MessageDescriptor
	descriptor protoreflect.FieldDescriptor
	node       *yaml.Node
}

// decode is decode(type, path): a manifest of a message type, checked. Of a list
// of paths, each is laid over those before it.
func decode(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var of, path starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "type", &of, "path", &path); err != nil {
		return nil, err
	}
	paths, err := pathsOf(path)
	if err != nil {
		return nil, err
	}
	r := current(thread)
	message, err := r.empty(of)
	if err != nil {
		return nil, err
	}
	d, err := r.layered(paths)
	if err != nil {
		return nil, err
	}
	if err := r.manifest(d, message); err != nil {
		return nil, err
	}
	r.decoded = d
	return wrap(message)
}

// empty takes a type by name, full or short, or by its descriptor.
func (r *run) empty(of starlark.Value) (proto.Message, error) {
	name := ""
	switch of := of.(type) {
	case starlark.String:
		name = string(of)
	case starlarkpb.MessageDescriptor:
		name = string(of.Desc.FullName())
	default:
		return nil, fmt.Errorf("decode: a type is its name or lehr.model.v1.WebService, not %s", of.Type())
	}
	full, err := r.schema.Resolve(name)
	if err != nil {
		return nil, err
	}
	return r.schema.New(full)
}

// manifest decodes and validates. What is wrong comes back as one error with
// all findings, each with line, column and field.
func (r *run) manifest(d *document, message proto.Message) error {
	descriptor := message.ProtoReflect().Descriptor()
	d.index(d.root, "", descriptor)
	err := (protoyaml.UnmarshalOptions{Resolver: r.schema.Types()}).Unmarshal(d.text, message)
	if err != nil {
		return d.decoding(err, descriptor)
	}
	validator, err := r.validator()
	if err != nil {
		return err
	}
	if err := validator.Validate(message); err != nil {
		return d.validation(err, descriptor)
	}
	return nil
}

// finding at a node; one that is not in the document is at its first line.
func (d *document) finding(line, column int, field, format string, arguments ...any) intent.Finding {
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
func (d *document) decoding(err error, message protoreflect.MessageDescriptor) error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	m := &manifest{}
	for _, err := range list {
		match := decodeError.FindStringSubmatch(err.Error())
		if match == nil {
			m.findings = append(m.findings, d.finding(1, 1, "", "%s is not a %s: %s", d.file, message.FullName(), err))
			continue
		}
		line, _ := strconv.Atoi(match[1])
		column, _ := strconv.Atoi(match[2])
		m.findings = append(m.findings, d.wrong(line, column, match[3]))
	}
	return m
}

// wrong explains one error of decoding at a place.
func (d *document) wrong(line, column int, message string) intent.Finding {
	at, known := d.fields[position{line, column}]
	f := d.finding(line, column, at.path, "%s", message)
	f.Hint = "mend the manifest"
	if at.path != "" {
		f.Message = at.path + ": " + message
	}
	switch {
	case !known:
	case at.descriptor == nil && at.within != nil:
		f.Message = fmt.Sprintf("unknown field %s: a %s has none of that name", at.path, at.within.FullName())
		f.Hint = meant(at.node.Value, fieldNames(at.within))
	case at.descriptor != nil && at.node.Kind == yaml.ScalarNode && strings.HasPrefix(message, "unknown enum value"):
		f.Message = fmt.Sprintf("%s: %q is not a %s", at.path, at.node.Value, at.descriptor.Enum().FullName())
		f.Hint = meant(at.node.Value, enumNames(at.descriptor.Enum()))
	case at.descriptor != nil && at.descriptor.Message() != nil && at.descriptor.Message().FullName() == "google.protobuf.Duration" && at.node.Kind == yaml.ScalarNode:
		f.Message = fmt.Sprintf("%s is not a length of time: %s", at.path, describe(at.node))
		f.Hint = "write " + string(at.descriptor.Name()) + ": 10s"
	case at.descriptor != nil && wantsOther(message):
		f.Message = fmt.Sprintf("%s must be %s, is %s", at.path, kindName(at.descriptor, at.path), describe(at.node))
		f.Hint = "write " + example(at.descriptor)
	}
	return f
}

func wantsOther(message string) bool {
	return slices.ContainsFunc([]string{"invalid integer", "invalid float", "expected "}, func(prefix string) bool {
		return strings.HasPrefix(message, prefix)
	})
}

// validation turns protovalidate's violations into findings at the nodes they
// are about, or at the nearest node around a field that is missing.
func (d *document) validation(err error, message protoreflect.MessageDescriptor) error {
	invalid, ok := errors.AsType[*protovalidate.ValidationError](err)
	if !ok {
		return fmt.Errorf("%s cannot be validated as a %s: %w", d.file, message.FullName(), err)
	}
	m := &manifest{}
	for _, violation := range invalid.Violations {
		path := protovalidate.FieldPathString(violation.Proto.GetField())
		node := d.nearest(path)
		subject := path
		if subject == "" {
			subject = "the manifest"
		}
		f := d.finding(node.Line, node.Column, path, "%s: %s", subject, violation.Proto.GetMessage())
		f.Hint = "mend the field"
		switch {
		case d.nodes[path] == nil:
			f.Message += " (the field is not set)"
			f.Hint = "add the field"
		case node.Kind == yaml.ScalarNode:
			f.Message += ", is " + describe(node)
		}
		m.findings = append(m.findings, f)
	}
	// The entries of a map come in any order.
	slices.SortStableFunc(m.findings, func(a, b intent.Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Field, b.Field))
	})
	return m
}

func (d *document) nearest(path string) *yaml.Node {
	for path != "" {
		if node := d.nodes[path]; node != nil {
			return node
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return d.root
}

// parse reads exactly one document.
func parse(file string, text []byte) (*document, error) {
	d := &document{file: file, text: text, fields: map[position]field{}, nodes: map[string]*yaml.Node{}}
	refuse := func(line, column int, hint, format string, arguments ...any) error {
		f := d.finding(line, column, "", format, arguments...)
		f.Hint = hint
		return &manifest{findings: []intent.Finding{f}}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var node, more yaml.Node
	err := decoder.Decode(&node)
	if errors.Is(err, io.EOF) || err == nil && len(node.Content) == 0 {
		return nil, refuse(1, 1, "restore its content; to take something away, remove it by name", "%s is empty", file)
	}
	if err == nil {
		// Decoding into a value refuses duplicate keys and excessive aliases.
		var value any
		err = node.Decode(&value)
	}
	if err == nil {
		if next := decoder.Decode(&more); next == nil {
			return nil, refuse(more.Line, 1, "one file holds one document: split it", "%s holds more than one document", file)
		} else if !errors.Is(next, io.EOF) {
			err = next
		}
	}
	if err != nil {
		message, line := err.Error(), 1
		if match := yamlError.FindStringSubmatch(message); match != nil {
			line, _ = strconv.Atoi(match[1])
			message = match[2]
		}
		return nil, refuse(line, 1, "mend the line, or the one before it", "not valid YAML: %s", strings.TrimPrefix(message, "yaml: "))
	}
	d.root = node.Content[0]
	return d, nil
}

// index remembers which field each node is. Without a descriptor the path is
// made of the document's own keys.
func (d *document) index(node *yaml.Node, path string, message protoreflect.MessageDescriptor) {
	d.put(node, field{path: path})
	if node.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		descriptor := fieldOf(message, key.Value)
		name := key.Value
		if descriptor != nil {
			name = string(descriptor.Name())
		}
		if path != "" {
			name = path + "." + name
		}
		at := field{path: name, within: message, descriptor: descriptor, node: key}
		d.put(key, at)
		if descriptor == nil {
			continue
		}
		at.node = value
		d.value(at)
	}
}

// value indexes the value of a known field.
func (d *document) value(at field) {
	d.put(at.node, at)
	switch {
	case at.descriptor.IsMap() && at.node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(at.node.Content); i += 2 {
			entry := field{descriptor: at.descriptor.MapValue(), within: at.within, node: at.node.Content[i+1]}
			entry.path = fmt.Sprintf("%s[%q]", at.path, at.node.Content[i].Value)
			key := entry
			key.descriptor, key.node = at.descriptor.MapKey(), at.node.Content[i]
			d.put(key.node, key)
			d.element(entry)
		}
	case at.descriptor.IsList() && at.node.Kind == yaml.SequenceNode:
		for i, node := range at.node.Content {
			d.element(field{path: fmt.Sprintf("%s[%d]", at.path, i), within: at.within, descriptor: at.descriptor, node: node})
		}
	case !at.descriptor.IsList() && !at.descriptor.IsMap():
		d.element(at)
	}
}

func (d *document) element(at field) {
	if message := at.descriptor.Message(); message != nil && !at.descriptor.IsMap() && at.node.Kind == yaml.MappingNode {
		d.index(at.node, at.path, message)
	}
	d.put(at.node, at)
}

func (d *document) put(node *yaml.Node, at field) {
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

func meant(name string, allowed []string) string {
	hint := "allowed: " + strings.Join(allowed, ", ")
	if near := definition.Nearest(name, allowed); near != "" {
		return "did you mean " + near + "? " + hint
	}
	return hint
}
