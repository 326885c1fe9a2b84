package rule

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
)

// checkFields refuses a field of the payload, or of an addon, that no asset
// can have. cel-go finds those of a payload of a known type too, but does not
// say what may have been meant.
func (p *program) checkFields() error {
	var first error
	ast.PreOrderVisit(p.tree.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		if first == nil && node.Kind() == ast.SelectKind {
			first = p.checkField(node)
		}
	}))
	return first
}

func (p *program) checkField(node ast.Expr) error {
	holders, ok := p.holders(node.AsSelect().Operand())
	if !ok {
		return nil
	}
	field := node.AsSelect().FieldName()
	var names []string
	for _, holder := range holders {
		for i := range holder.Fields().Len() {
			names = append(names, string(holder.Fields().Get(i).Name()))
		}
	}
	if slices.Contains(names, field) {
		return nil
	}
	owner := "any type"
	if len(holders) == 1 {
		owner = string(holders[0].FullName())
	}
	problem := p.at(node, "no field %q of %s", shorten(field), owner)
	if suggestion := spell.Nearest(field, names); suggestion != "" {
		return problem.WithHint("did you mean %s?", suggestion)
	}
	if len(holders) == 1 && len(names) > 0 {
		return problem.WithHint("its fields are %s", shorten(strings.Join(names, ", ")))
	}
	return problem
}

// holders are the messages that a value may be; known is false when it may be
// anything else.
func (p *program) holders(node ast.Expr) (messages []protoreflect.MessageDescriptor, ok bool) {
	if isVariable(node, "payload") {
		if p.fixed != "" {
			messages = p.descriptors(p.fixed)
		} else {
			messages = p.everyMessage()
		}
		return messages, len(messages) > 0
	}
	if node.Kind() != ast.SelectKind || node.AsSelect().IsTestOnly() {
		return nil, false
	}
	selection := node.AsSelect()
	if isVariable(selection.Operand(), "addons") {
		name, err := p.set.Resolve(selection.FieldName())
		if err != nil {
			return nil, false
		}
		messages = p.descriptors(name)
		return messages, len(messages) > 0
	}
	holders, ok := p.holders(selection.Operand())
	if !ok {
		return nil, false
	}
	for _, holder := range holders {
		field := holder.Fields().ByName(protoreflect.Name(selection.FieldName()))
		if field == nil {
			continue
		}
		if field.Message() == nil || field.IsList() || field.IsMap() || strings.HasPrefix(string(field.Message().FullName()), "google.protobuf.") {
			return nil, false
		}
		messages = append(messages, field.Message())
	}
	return messages, len(messages) > 0
}

func (p *program) descriptors(name intent.TypeName) []protoreflect.MessageDescriptor {
	message, err := p.set.New(name)
	if err != nil || strings.HasPrefix(string(name), "google.protobuf.") {
		return nil
	}
	return []protoreflect.MessageDescriptor{message.ProtoReflect().Descriptor()}
}

// everyMessage of the set may be a payload, but for those of others.
func (p *program) everyMessage() (all []protoreflect.MessageDescriptor) {
	p.set.Descriptors().RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(file.Package()), "google.") || strings.HasPrefix(string(file.Package()), "buf.") {
			return true
		}
		messages := file.Messages()
		for i := range messages.Len() {
			all = append(all, messages.Get(i))
		}
		return true
	})
	return all
}
