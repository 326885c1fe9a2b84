package schema

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"lehr.dev/internal/ground/fault"
)

// maxDepth is how deeply messages may nest, content of Any included.
const maxDepth = 100

const anyPrefix = "type.googleapis.com/"

// Canonical returns the canonical bytes of a message, which are valid
// protobuf wire of its type:
//
//   - fields by number, members of a oneof too; a list in its order, packed
//     where the descriptor says so; map entries by key, each with key and value;
//   - what has no presence and its default value is left out;
//   - an Any is decoded by its type and its content encoded canonically, under
//     the prefix type.googleapis.com;
//   - negative zero becomes zero.
//
// Refused are unknown fields, NaN (it equals nothing, so no difference could
// be told), text that is not UTF-8, missing required fields, and nesting
// deeper than 100 messages.
func (s *Set) Canonical(m proto.Message) ([]byte, error) { return s.encoding.encode(nil, m) }

// encoder writes canonical bytes. It is safe for concurrent use.
type encoder struct {
	types interface {
		protoregistry.MessageTypeResolver
		protoregistry.ExtensionTypeResolver
	}
	keepUnknown bool
	plans       sync.Map // protoreflect.MessageDescriptor → *plan
}

// refusal says which field cannot be encoded.
type refusal struct {
	path   []string // innermost first
	reason string
}

func (r *refusal) Error() string {
	if len(r.path) == 0 {
		return r.reason
	}
	path := slices.Clone(r.path)
	slices.Reverse(path)
	return "field " + strings.ReplaceAll(strings.Join(path, "."), ".[", "[") + ": " + r.reason
}

func refuse(format string, arguments ...any) error {
	return &refusal{reason: fmt.Sprintf(format, arguments...)}
}

func addPathElement(element string, err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		r.path = append(r.path, element)
	}
	return err
}

func (e *encoder) encode(b []byte, m proto.Message) ([]byte, error) {
	reflected := m.ProtoReflect()
	b, err := e.message(b, reflected, 1)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot encode a %s: %w", reflected.Descriptor().FullName(), err)
	}
	return b, nil
}

func (e *encoder) message(b []byte, m protoreflect.Message, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, refuse("messages are nested more than %d deep", maxDepth)
	}
	if unknown := m.GetUnknown(); len(unknown) > 0 && !e.keepUnknown {
		number, _, _ := protowire.ConsumeTag(unknown)
		return nil, refuse("%s has no field number %d", m.Descriptor().FullName(), number)
	}
	plan := e.plan(m.Descriptor())
	if plan.isAny && !e.keepUnknown {
		return e.any(b, m, plan, depth)
	}
	fields := plan.fields
	if plan.extensible {
		fields = plan.withExtensions(m)
	}
	var err error
	for i := range fields {
		field := &fields[i]
		if !m.Has(field.descriptor) {
			if field.required {
				return nil, addPathElement(field.name(), refuse("a required field is missing"))
			}
			continue
		}
		if b, err = e.field(b, field, m.Get(field.descriptor), depth); err != nil {
			return nil, addPathElement(field.name(), err)
		}
	}
	if e.keepUnknown {
		b = append(b, m.GetUnknown()...)
	}
	return b, nil
}

func (e *encoder) field(b []byte, f *fieldPlan, v protoreflect.Value, depth int) ([]byte, error) {
	switch f.shape {
	case shapeList:
		return e.list(b, f, v.List(), depth)
	case shapePacked:
		return e.packed(b, f, v.List())
	case shapeMap:
		return e.entries(b, f, v.Map(), depth)
	}
	if f.implicit && isFloat(f.kind) && v.Float() == 0 {
		return b, nil
	}
	return e.value(protowire.AppendVarint(b, f.tag), f, v, depth)
}

func (e *encoder) list(b []byte, f *fieldPlan, list protoreflect.List, depth int) (_ []byte, err error) {
	for i := range list.Len() {
		b, err = e.value(protowire.AppendVarint(b, f.tag), f, list.Get(i), depth)
		if err != nil {
			return nil, addPathElement(fmt.Sprintf("[%d]", i), err)
		}
	}
	return b, nil
}

func (e *encoder) packed(b []byte, f *fieldPlan, list protoreflect.List) (_ []byte, err error) {
	b = append(protowire.AppendVarint(b, f.tag), 0)
	start := len(b)
	for i := range list.Len() {
		if b, err = e.value(b, f, list.Get(i), 0); err != nil {
			return nil, addPathElement(fmt.Sprintf("[%d]", i), err)
		}
	}
	return withLength(b, start), nil
}

func (e *encoder) entries(b []byte, f *fieldPlan, entries protoreflect.Map, depth int) (_ []byte, err error) {
	keys := make([]protoreflect.MapKey, 0, entries.Len())
	entries.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, f.compareKeys)
	for _, key := range keys {
		b = append(protowire.AppendVarint(b, f.tag), 0)
		start := len(b)
		b, err = e.value(protowire.AppendVarint(b, f.key.tag), f.key, key.Value(), depth)
		if err == nil {
			b, err = e.value(protowire.AppendVarint(b, f.element.tag), f.element, entries.Get(key), depth)
		}
		if err != nil {
			return nil, addPathElement(fmt.Sprintf("[%.80q]", key.String()), err)
		}
		b = withLength(b, start)
	}
	return b, nil
}

// value writes one value without its tag.
func (e *encoder) value(b []byte, f *fieldPlan, v protoreflect.Value, depth int) (_ []byte, err error) {
	switch f.kind {
	case protoreflect.StringKind:
		text := v.String()
		if !utf8.ValidString(text) {
			return nil, refuse("the text is not valid UTF-8")
		}
		return protowire.AppendString(b, text), nil
	case protoreflect.BytesKind:
		return protowire.AppendBytes(b, v.Bytes()), nil
	case protoreflect.MessageKind:
		b = append(b, 0)
		start := len(b)
		if b, err = e.message(b, v.Message(), depth+1); err != nil {
			return nil, err
		}
		return withLength(b, start), nil
	case protoreflect.GroupKind:
		if b, err = e.message(b, v.Message(), depth+1); err != nil {
			return nil, err
		}
		return protowire.AppendTag(b, f.descriptor.Number(), protowire.EndGroupType), nil
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return appendFloat(b, f.kind, v.Float())
	default:
		return appendInteger(b, f.kind, v), nil
	}
}

func appendFloat(b []byte, kind protoreflect.Kind, number float64) ([]byte, error) {
	if math.IsNaN(number) {
		return nil, refuse("NaN is not a value that production can be compared with")
	}
	if number == 0 {
		number = 0 // negative zero too
	}
	if kind == protoreflect.FloatKind {
		return protowire.AppendFixed32(b, math.Float32bits(float32(number))), nil
	}
	return protowire.AppendFixed64(b, math.Float64bits(number)), nil
}

func appendInteger(b []byte, kind protoreflect.Kind, v protoreflect.Value) []byte {
	switch kind {
	case protoreflect.BoolKind:
		return protowire.AppendVarint(b, protowire.EncodeBool(v.Bool()))
	case protoreflect.EnumKind:
		return protowire.AppendVarint(b, uint64(v.Enum()))
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return protowire.AppendVarint(b, uint64(v.Int()))
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.AppendVarint(b, protowire.EncodeZigZag(v.Int()))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return protowire.AppendVarint(b, v.Uint())
	case protoreflect.Fixed32Kind:
		return protowire.AppendFixed32(b, uint32(v.Uint()))
	case protoreflect.Fixed64Kind:
		return protowire.AppendFixed64(b, v.Uint())
	case protoreflect.Sfixed32Kind:
		return protowire.AppendFixed32(b, uint32(v.Int()))
	default: // protoreflect.Sfixed64Kind
		return protowire.AppendFixed64(b, uint64(v.Int()))
	}
}

// any encodes the content of an Any anew: what somebody else marshalled is
// not canonical. An empty Any stays empty.
func (e *encoder) any(b []byte, m protoreflect.Message, plan *plan, depth int) ([]byte, error) {
	url := m.Get(plan.fields[0].descriptor).String()
	content := m.Get(plan.fields[1].descriptor).Bytes()
	if url == "" {
		if len(content) > 0 {
			return nil, refuse("an Any has content but no type")
		}
		return b, nil
	}
	name := url[strings.LastIndexByte(url, '/')+1:]
	messageType, err := e.types.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		return nil, refuse("an Any has the type %.120q, which the schema does not know", name)
	}
	return e.content(b, messageType, content, depth+1)
}

// content writes the two fields of an Any with content of a type.
func (e *encoder) content(b []byte, messageType protoreflect.MessageType, wire []byte, depth int) ([]byte, error) {
	name := messageType.Descriptor().FullName()
	if depth > maxDepth {
		return nil, refuse("messages are nested more than %d deep", maxDepth)
	}
	message := messageType.New()
	options := proto.UnmarshalOptions{RecursionLimit: maxDepth, Resolver: e.types}
	if err := options.Unmarshal(wire, message.Interface()); err != nil {
		return nil, refuse("the bytes are not a %s: %v", name, err)
	}
	b = append(b, 0x0a)
	b = protowire.AppendVarint(b, uint64(len(anyPrefix)+len(name)))
	b = append(append(b, anyPrefix...), name...)
	offset := len(b)
	b = append(b, 0x12, 0)
	start := len(b)
	b, err := e.message(b, message, depth)
	if err != nil {
		return nil, addPathElement("("+string(name)+")", err)
	}
	if len(b) == start {
		return b[:offset], nil
	}
	return withLength(b, start), nil
}

// withLength writes the length of what follows start into the byte before
// start, and makes room when it needs more than one.
func withLength(b []byte, start int) []byte {
	length := len(b) - start
	if length < 0x80 {
		b[start-1] = byte(length)
		return b
	}
	more := protowire.SizeVarint(uint64(length)) - 1
	for range more {
		b = append(b, 0)
	}
	copy(b[start+more:], b[start:start+length])
	protowire.AppendVarint(b[:start-1], uint64(length))
	return b
}

func isFloat(kind protoreflect.Kind) bool {
	return kind == protoreflect.FloatKind || kind == protoreflect.DoubleKind
}
