package addon

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/spell"
)

// Error says what is wrong with an addon as it is written, and what to write.
type Error struct {
	// Line and Column are of the text or file that the node is of, from 1; 0: not known.
	Line, Column int
	// Field is the path within the addon; empty: the whole of it.
	Field         string
	Message, Hint string
}

func (e *Error) Error() string { return e.Message }

// maxText bounds what an annotation may say of an addon, in bytes; deeper and longer
// values are no addon.
const (
	maxText  = 10_000
	maxDepth = 8
)

// FromText reads the text of an annotation: in braces, or of several lines, or where it
// begins with a field's name and a colon, it is YAML or JSON with the addon's fields; else it
// is the value of the one field that a plain text stands for. Source says in the place of a
// reason that a plain text does not give where it was written. The error is an *Error.
func (k Kind) FromText(text, source string) (proto.Message, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil, k.wrong(nil, "", "it is empty")
	case len(text) > maxText:
		return nil, k.wrong(nil, "", "it has %d bytes, and at most %d are read", len(text), maxText)
	case !k.hasFields(text):
		return k.plain(text, source)
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil || len(document.Content) != 1 {
		return nil, k.wrong(nil, "", "it is neither YAML nor JSON")
	}
	return k.FromNode(document.Content[0], source)
}

// hasFields reports whether a text is meant to have fields of the addon.
func (k Kind) hasFields(text string) bool {
	if strings.HasPrefix(text, "{") || strings.Contains(text, "\n") || k.Form.GetText() == "" {
		return true
	}
	key, rest, ok := strings.Cut(text, ":")
	if !ok || rest != "" && !strings.HasPrefix(rest, " ") {
		return false
	}
	return slices.Contains(k.fieldNames(), key)
}

func (k Kind) fieldNames() (names []string) {
	for _, field := range k.Fields() {
		names = append(names, string(field.Name()))
	}
	return names
}

// FromNode reads an addon from YAML: a mapping with its fields, or a plain text. See
// FromText of source. The error is an *Error.
func (k Kind) FromNode(node *yaml.Node, source string) (proto.Message, error) {
	if node.Kind == yaml.ScalarNode && node.Tag != "!!null" {
		m, err := k.plain(node.Value, source)
		if e, ok := err.(*Error); ok {
			e.Line, e.Column = node.Line, node.Column
		}
		return m, err
	}
	m := k.message.New()
	if err := k.fill(m, node, "", 0); err != nil {
		return nil, err
	}
	for _, field := range k.Fields() {
		if Required(field) && !m.Has(field) {
			return nil, k.wrong(node, string(field.Name()), "%s is missing", field.Name())
		}
	}
	return m.Interface(), nil
}

// plain is an addon of one text.
func (k Kind) plain(text, source string) (proto.Message, error) {
	name, inner, _ := strings.Cut(k.Form.GetText(), ".")
	if name == "" {
		return nil, k.wrong(nil, "", "a plain text says nothing of it")
	}
	m := k.message.New()
	field := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if inner == "" {
		value, err := k.scalar(field, &yaml.Node{Kind: yaml.ScalarNode, Value: text}, name)
		if err != nil {
			return nil, err
		}
		m.Set(field, value)
		return m.Interface(), nil
	}
	list := m.Mutable(field).List()
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			return nil, k.wrong(nil, name, "a part between commas is empty")
		}
		element := list.NewElement()
		fields := element.Message().Descriptor().Fields()
		element.Message().Set(fields.ByName(protoreflect.Name(inner)), protoreflect.ValueOfString(part))
		if reason := fields.ByName("reason"); reason != nil {
			element.Message().Set(reason, protoreflect.ValueOfString("as "+source+" says"))
		}
		list.Append(element)
	}
	return m.Interface(), nil
}

// fill sets the fields of a message from a mapping.
func (k Kind) fill(m protoreflect.Message, node *yaml.Node, at string, depth int) error {
	if node.Kind == yaml.AliasNode || depth > maxDepth {
		return k.wrong(node, at, "aliases and deep values are not read")
	}
	if node.Kind != yaml.MappingNode {
		return k.wrong(node, at, "a mapping belongs there")
	}
	fields := m.Descriptor().Fields()
	var names []string
	for i := range fields.Len() {
		names = append(names, string(fields.Get(i).Name()))
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		path := strings.TrimPrefix(at+"."+key.Value, ".")
		field := fields.ByName(protoreflect.Name(key.Value))
		if field == nil {
			err := k.wrong(key, path, "it has no field %.100q", key.Value)
			if suggestion := spell.Nearest(key.Value, names); suggestion != "" {
				err.Hint = "did you mean " + suggestion + "? " + err.Hint
			}
			return err
		}
		if m.Has(field) {
			return k.wrong(key, path, "it has %s twice", path)
		}
		if err := k.set(m, field, value, path, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// set one field.
func (k Kind) set(m protoreflect.Message, field protoreflect.FieldDescriptor, node *yaml.Node, at string, depth int) error {
	switch {
	case field.IsMap():
		return k.setMap(m.Mutable(field).Map(), field, node, at)
	case field.IsList():
		if node.Kind != yaml.SequenceNode {
			return k.wrong(node, at, "%s is a list", at)
		}
		list := m.Mutable(field).List()
		for i, element := range node.Content {
			value, err := k.value(list.NewElement, field, element, fmt.Sprintf("%s[%d]", at, i), depth)
			if err != nil {
				return err
			}
			list.Append(value)
		}
		return nil
	}
	value, err := k.value(func() protoreflect.Value { return m.NewField(field) }, field, node, at, depth)
	if err == nil {
		m.Set(field, value)
	}
	return err
}

// setMap fills a map of texts, the only kind of map that addons have.
func (k Kind) setMap(entries protoreflect.Map, field protoreflect.FieldDescriptor, node *yaml.Node, at string) error {
	if node.Kind != yaml.MappingNode || field.MapKey().Kind() != protoreflect.StringKind {
		return k.wrong(node, at, "%s is a mapping of texts", at)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, path := protoreflect.ValueOfString(node.Content[i].Value).MapKey(), at+"."+node.Content[i].Value
		if entries.Has(key) {
			return k.wrong(node.Content[i], path, "it has %s twice", path)
		}
		value, err := k.scalar(field.MapValue(), node.Content[i+1], path)
		if err != nil {
			return err
		}
		entries.Set(key, value)
	}
	return nil
}

func (k Kind) value(create func() protoreflect.Value, field protoreflect.FieldDescriptor, node *yaml.Node, at string, depth int) (protoreflect.Value, error) {
	if field.Kind() != protoreflect.MessageKind {
		return k.scalar(field, node, at)
	}
	value := create()
	if err := k.fill(value.Message(), node, at, depth); err != nil {
		return value, err
	}
	fields := field.Message().Fields()
	for i := range fields.Len() {
		if inner := fields.Get(i); Required(inner) && !value.Message().Has(inner) {
			return value, k.wrong(node, at+"."+string(inner.Name()), "%s.%s is missing", at, inner.Name())
		}
	}
	return value, nil
}

// scalar reads a text, a number or a name of an enum.
func (k Kind) scalar(field protoreflect.FieldDescriptor, node *yaml.Node, at string) (none protoreflect.Value, _ error) {
	if node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		return none, k.wrong(node, at, "%s must be one value", at)
	}
	value, problem := ParseScalar(field, node.Value)
	if problem != "" {
		return none, k.wrong(node, at, "%s: %s", at, problem)
	}
	return value, nil
}

// ParseScalar reads a value of a field from its text: that of an enum by its short name,
// as observe. The problem says what is wrong with it; empty: nothing.
func ParseScalar(field protoreflect.FieldDescriptor, text string) (value protoreflect.Value, problem string) {
	switch field.Kind() {
	case protoreflect.StringKind:
		if text == "" && Required(field) {
			return value, "it is empty"
		}
		return protoreflect.ValueOfString(text), ""
	case protoreflect.Uint32Kind:
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return value, fmt.Sprintf("%.100q is no whole number from 0", text)
		}
		return protoreflect.ValueOfUint32(uint32(n)), ""
	case protoreflect.BoolKind:
		if text != "true" && text != "false" {
			return value, fmt.Sprintf("%.100q is neither true nor false", text)
		}
		return protoreflect.ValueOfBool(text == "true"), ""
	case protoreflect.EnumKind:
		names := enumNames(field.Enum())
		for name, number := range names {
			if text == name || strings.EqualFold(text, string(field.Enum().Values().ByNumber(number).Name())) {
				return protoreflect.ValueOfEnum(number), ""
			}
		}
		var known []string
		for name := range names {
			known = append(known, name)
		}
		slices.Sort(known)
		return value, fmt.Sprintf("%.100q is not one of %s", text, strings.Join(known, ", "))
	default:
		return value, "a text says nothing of it"
	}
}

// enumNames are the short names of an enum's values but the first, which says nothing:
// ENFORCEMENT_MODE_OBSERVE of EnforcementMode is observe.
func enumNames(enum protoreflect.EnumDescriptor) map[string]protoreflect.EnumNumber {
	names := map[string]protoreflect.EnumNumber{}
	zero := string(enum.Values().Get(0).Name())
	prefix := strings.TrimSuffix(zero, "UNSPECIFIED")
	for i := 1; i < enum.Values().Len(); i++ {
		value := enum.Values().Get(i)
		names[strings.ToLower(strings.TrimPrefix(string(value.Name()), prefix))] = value.Number()
	}
	return names
}

func (k Kind) wrong(node *yaml.Node, at, format string, arguments ...any) *Error {
	e := &Error{Field: at, Message: fmt.Sprintf("the addon %s: ", k.Name) + fmt.Sprintf(format, arguments...), Hint: k.howToWrite()}
	if node != nil {
		e.Line, e.Column = node.Line, node.Column
	}
	return e
}

// howToWrite an addon of the kind.
func (k Kind) howToWrite() string {
	var parts []string
	for _, field := range k.Fields() {
		value := "…"
		switch {
		case field.IsMap():
			value = "{NAME: …}"
		case field.IsList():
			value = "[…]"
		case field.Kind() == protoreflect.EnumKind:
			value = strings.Join(slices.Sorted(maps.Keys(enumNames(field.Enum()))), " or ")
		}
		parts = append(parts, fmt.Sprintf("%s: %s", field.Name(), value))
	}
	hint := "write {" + strings.Join(parts, ", ") + "}"
	if text := k.Form.GetText(); text != "" {
		_, inner, _ := strings.Cut(text, ".")
		if inner == "" {
			inner = text
		}
		hint += ", or the " + inner + " alone"
	}
	return hint
}
