package rule

import (
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
)

// maxIndexed bounds paths and values in the index, see schema.Set.Fields.
const maxIndexed = 256

// narrow collects what the conjuncts say that an index knows. The index holds
// one field, one prefix, one type and one reference of a filter; what finds
// no place is evaluated.
func (p *program) narrow() Narrow {
	n := Narrow{Exact: true}
	for _, conjunct := range conjuncts(p.tree.Expr()) {
		if !p.narrowBy(&n, conjunct) {
			n.Exact = false
		}
	}
	return n
}

// narrowBy adds a conjunct, and reports whether all of it is said now.
func (p *program) narrowBy(n *Narrow, conjunct ast.Expr) bool {
	switch conjunct.Kind() {
	case ast.SelectKind: // has(addons.Owner), has(labels.team)
		if !conjunct.AsSelect().IsTestOnly() {
			return false
		}
		return n.field(p.presence(conjunct.AsSelect().Operand(), conjunct.AsSelect().FieldName()), "")
	case ast.CallKind:
		call := conjunct.AsCall()
		switch call.FunctionName() {
		case operators.Equals:
			left, right, _ := comparison(conjunct, operators.Equals)
			return p.narrowEqual(n, left, right)
		case operators.In:
			return p.narrowIn(n, call.Args()[0], call.Args()[1])
		case overloads.StartsWith:
			if !call.IsMemberFunction() || !isVariable(call.Target(), "id") || len(call.Args()) != 1 {
				return false
			}
			prefix, ok := textLiteral(call.Args()[0])
			return ok && n.prefix(prefix)
		}
	}
	return false
}

func (p *program) narrowEqual(n *Narrow, left, right ast.Expr) bool {
	text, isText := textLiteral(right)
	switch {
	case isVariable(left, "type"):
		if !isText || n.Type != "" && n.Type != intent.TypeName(text) {
			return false
		}
		n.Type = intent.TypeName(text)
		return true
	case isVariable(left, "id"):
		if isText {
			n.prefix(text)
		}
		return false // Longer ids have the prefix too.
	case isVariable(left, "owner"):
		return isText && text != "" && n.field(p.path("lehr.intent.v1.Owner.owner"), text)
	}
	path, field := p.indexedField(left)
	if field == nil || right.Kind() != ast.LiteralKind {
		return false
	}
	value, ok := indexedText(field, right)
	if !ok {
		return false
	}
	if value == "" && path != "" {
		// Only the keys of maps are there with an empty value, and with it
		// any value is found.
		n.field(path, "")
		return false
	}
	return n.field(path, value)
}

func (p *program) narrowIn(n *Narrow, left, right ast.Expr) bool {
	text, ok := textLiteral(left)
	if !ok {
		return false
	}
	if isVariable(right, "refs") {
		if n.RefersTo != "" && n.RefersTo != intent.AssetID(text) {
			return false
		}
		n.RefersTo = intent.AssetID(text)
		return true
	}
	return n.field(p.presence(right, text), "")
}

// field sets path and value unless others are set that say as much.
func (n *Narrow) field(path, value string) bool {
	switch {
	case path == "" || len(path) > maxIndexed || len(value) > maxIndexed:
		return false
	case n.Field == "" || n.Field == path && (n.Value == "" || n.Value == value):
		n.Field = path
		if value != "" {
			n.Value = value
		}
		return true
	case n.Value == "" && value != "":
		// A value selects fewer than the presence that was there before. That
		// one is left to evaluate.
		n.Field, n.Value = path, value
	}
	return false
}

func (n *Narrow) prefix(prefix string) bool {
	switch {
	case strings.HasPrefix(prefix, n.Prefix):
		n.Prefix = prefix
		return true
	case strings.HasPrefix(n.Prefix, prefix):
		return true
	}
	return false
}

// presence is the path that every asset has for which a map has the key: that
// of an addon, a label or a scope.
func (p *program) presence(holder ast.Expr, key string) string {
	switch {
	case isVariable(holder, "addons"):
		name, err := p.set.Resolve(key)
		if err != nil {
			return ""
		}
		return string(name)
	default:
		path, _ := p.keyed(holder, key)
		return path
	}
}

// indexedField finds the index's path of a field of payload or an addon, or of
// an entry of a map. field is nil when it is in no index.
func (p *program) indexedField(node ast.Expr) (path string, field protoreflect.FieldDescriptor) {
	var holder ast.Expr
	var key string
	switch node.Kind() {
	case ast.SelectKind:
		if node.AsSelect().IsTestOnly() {
			return "", nil
		}
		holder, key = node.AsSelect().Operand(), node.AsSelect().FieldName()
	case ast.CallKind:
		arguments := node.AsCall().Args()
		if node.AsCall().FunctionName() != operators.Index || len(arguments) != 2 {
			return "", nil
		}
		text, ok := textLiteral(arguments[1])
		if !ok {
			return "", nil
		}
		return p.keyed(arguments[0], text)
	default:
		return "", nil
	}
	if name, ok := p.messageOf(holder); ok {
		descriptor := p.descriptors(name)
		if len(descriptor) == 0 {
			return "", nil
		}
		field := descriptor[0].Fields().ByName(protoreflect.Name(key))
		if field == nil || field.IsMap() || field.IsList() {
			return "", nil
		}
		return p.path(fmt.Sprintf("%s.%s", name, key)), field
	}
	return p.keyed(holder, key)
}

// keyed is the path of an entry of an indexed map.
func (p *program) keyed(node ast.Expr, key string) (path string, field protoreflect.FieldDescriptor) {
	var name intent.TypeName
	var fieldName string
	switch {
	case isVariable(node, "labels"):
		name, fieldName = "lehr.intent.v1.Labels", "labels"
	case isVariable(node, "scopes"):
		name, fieldName = "lehr.intent.v1.ImpactedScope", "scopes"
	case node.Kind() == ast.SelectKind && !node.AsSelect().IsTestOnly():
		messageName, ok := p.messageOf(node.AsSelect().Operand())
		if !ok {
			return "", nil
		}
		name, fieldName = messageName, node.AsSelect().FieldName()
	default:
		return "", nil
	}
	descriptor := p.descriptors(name)
	if len(descriptor) == 0 {
		return "", nil
	}
	field = descriptor[0].Fields().ByName(protoreflect.Name(fieldName))
	if field == nil || !field.IsMap() || field.MapKey().Kind() != protoreflect.StringKind {
		return "", nil
	}
	return p.path(fmt.Sprintf("%s.%s[%s]", name, fieldName, strconv.Quote(key))), field.MapValue()
}

// messageOf is the type of payload, where it is fixed, or of an addon.
func (p *program) messageOf(node ast.Expr) (intent.TypeName, bool) {
	if isVariable(node, "payload") {
		return p.fixed, p.fixed != ""
	}
	if node.Kind() == ast.SelectKind && !node.AsSelect().IsTestOnly() && isVariable(node.AsSelect().Operand(), "addons") {
		name, err := p.set.Resolve(node.AsSelect().FieldName())
		return name, err == nil
	}
	return "", false
}

// path is empty when the field is in no index.
func (p *program) path(name string) string {
	path, err := p.set.FieldPath(name)
	if err != nil {
		return ""
	}
	return path
}

// indexedText is a literal as the index holds a field's value. It is not ok
// for values that the index does not hold: those that a field has when it is
// not set.
func indexedText(field protoreflect.FieldDescriptor, literal ast.Expr) (text string, ok bool) {
	entry := field.ContainingMessage().IsMapEntry()
	switch value := literal.AsLiteral().(type) {
	case types.String:
		return string(value), field.Kind() == protoreflect.StringKind && (value != "" || entry)
	case types.Bool:
		return strconv.FormatBool(bool(value)), field.Kind() == protoreflect.BoolKind && (bool(value) || entry)
	case types.Int:
		return numberText(field, strconv.FormatInt(int64(value), 10), value != 0 || entry)
	case types.Uint:
		return numberText(field, strconv.FormatUint(uint64(value), 10), value != 0 || entry)
	}
	return "", false
}

func numberText(field protoreflect.FieldDescriptor, text string, indexed bool) (string, bool) {
	switch field.Kind() {
	case protoreflect.EnumKind:
		number, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return "", false
		}
		if enumValue := field.Enum().Values().ByNumber(protoreflect.EnumNumber(number)); enumValue != nil {
			text = string(enumValue.Name())
		}
		return text, indexed
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind,
		protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind,
		protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return text, indexed
	}
	return "", false
}
