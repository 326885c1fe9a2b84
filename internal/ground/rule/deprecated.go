package rule

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"lehr.dev/internal/ground/intent"
)

// IsDeprecated reports whether a field has the option deprecated.
func IsDeprecated(field protoreflect.FieldDescriptor) bool {
	options, _ := field.Options().(*descriptorpb.FieldOptions)
	return options.GetDeprecated()
}

// Deprecated lists the deprecated fields that an expression over assets of a type
// reads, by their full names; empty: of the type that it asks for, as far as it
// does. What is no expression reads none.
func (e *Environment) Deprecated(text string, payloadType intent.TypeName) (names []string) {
	parsed, err := e.parse(source{text: text, payloadType: payloadType})
	if err != nil {
		return nil
	}
	p := &program{source: source{text: text, payloadType: payloadType}, set: e.set, names: variableNames, fixed: payloadType, tree: parsed.NativeRep()}
	_ = p.resolveNames() // What it cannot resolve is of no known type.
	ast.PreOrderVisit(p.tree.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		left, right, ok := comparison(node, operators.Equals)
		if p.fixed != "" || !ok || !isVariable(left, "type") {
			return
		}
		name, _ := textLiteral(right)
		p.fixed = intent.TypeName(name)
	}))
	ast.PreOrderVisit(p.tree.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		if node.Kind() != ast.SelectKind {
			return
		}
		holders, _ := p.holders(node.AsSelect().Operand())
		var fields []protoreflect.FieldDescriptor
		for _, holder := range holders {
			if field := holder.Fields().ByName(protoreflect.Name(node.AsSelect().FieldName())); field != nil {
				fields = append(fields, field)
			}
		}
		// Of an asset of any type it is one only if it is one of all.
		if len(fields) == 0 || slices.ContainsFunc(fields, func(f protoreflect.FieldDescriptor) bool { return !IsDeprecated(f) }) {
			return
		}
		if name := string(fields[0].FullName()); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}))
	return names
}
