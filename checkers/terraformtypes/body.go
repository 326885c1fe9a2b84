package main

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// body is what a block holds, in either syntax of Terraform's language.
type body struct {
	attributes map[string]*attribute
	blocks     []*block
	// isJSON: of what is written as an attribute only a schema tells whether it is a block.
	isJSON bool
	// end is where Terraform says of JSON that something is missing; without a line: at the block.
	end place
}

type attribute struct {
	name      string
	nameRange hcl.Range
	expr      hcl.Expression
}

type block struct {
	kind   string
	labels []string
	at     place
	body   *body
}

func newBody(isJSON bool) *body { return &body{attributes: map[string]*attribute{}, isJSON: isJSON} }

// bodyOf converts one of the native syntax.
func bodyOf(native *hclsyntax.Body) *body {
	b := newBody(false)
	for name, one := range native.Attributes {
		b.attributes[name] = &attribute{name, one.NameRange, one.Expr}
	}
	for _, one := range native.Blocks {
		at := one.DefRange()
		b.blocks = append(b.blocks, &block{one.Type, one.Labels, placeOf(&at, ""), bodyOf(one.Body)})
	}
	return b
}

// labelNames are the blocks of a file, with the labels that each has.
var labelNames = map[string][]string{
	"resource": {"type", "name"}, "data": {"type", "name"}, "ephemeral": {"type", "name"},
	"variable": {"name"}, "output": {"name"}, "module": {"name"}, "provider": {"name"}, "check": {"name"},
	"terraform": nil, "locals": nil, "moved": nil, "removed": nil, "import": nil,
}

// bodyOfJSON converts a file of JSON. What Terraform would not read is an error.
func bodyOfJSON(file hcl.Body) (*body, hcl.Diagnostics) {
	schema := &hcl.BodySchema{}
	for _, kind := range sortedKeys(labelNames) {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: kind, LabelNames: labelNames[kind]})
	}
	content, diagnostics := file.Content(schema)
	b := newBody(true)
	for _, one := range content.Blocks {
		inner, d := innerOfJSON(one)
		diagnostics = append(diagnostics, d...)
		b.blocks = append(b.blocks, &block{one.Type, one.Labels, placeOf(&one.DefRange, ""), inner})
	}
	return b, diagnostics
}

func innerOfJSON(one *hcl.Block) (*body, hcl.Diagnostics) {
	b := newBody(true)
	if one.Type == "check" {
		content, rest, diagnostics := one.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "data", LabelNames: labelNames["data"]}}})
		for _, data := range content.Blocks {
			inner, d := innerOfJSON(data)
			diagnostics = append(diagnostics, d...)
			b.blocks = append(b.blocks, &block{data.Type, data.Labels, placeOf(&data.DefRange, ""), inner})
		}
		one = &hcl.Block{Body: rest}
		inner, d := innerOfJSON(one)
		b.attributes = inner.attributes
		return b, append(diagnostics, d...)
	}
	b.end = placeOf(one.Body.MissingItemRange().Ptr(), "")
	attributes, diagnostics := one.Body.JustAttributes()
	for name, found := range attributes {
		b.attributes[name] = &attribute{name, found.NameRange, found.Expr}
	}
	b.addDynamic()
	return b, diagnostics
}

// bodyOfPairs converts an object within a body of JSON; false: it is no object.
func bodyOfPairs(expr hcl.Expression) (*body, bool) {
	pairs, diagnostics := hcl.ExprMap(expr)
	if diagnostics.HasErrors() {
		return nil, false
	}
	b := newBody(true)
	b.end = place{expr.Range().Filename, expr.Range().End.Line}
	for _, pair := range pairs {
		if name, ok := constantText(pair.Key); ok && name != "//" {
			b.attributes[name] = &attribute{name, pair.Key.Range(), pair.Value}
		}
	}
	b.addDynamic()
	return b, true
}

// addDynamic makes dynamic blocks of the attribute of that name.
func (b *body) addDynamic() {
	found, ok := b.attributes["dynamic"]
	if !ok {
		return
	}
	kinds, ok := bodyOfPairs(found.expr)
	if !ok {
		return
	}
	delete(b.attributes, "dynamic")
	for _, kind := range sortedKeys(kinds.attributes) {
		for _, expr := range itemsOf(kinds.attributes[kind].expr) {
			inner, ok := bodyOfPairs(expr)
			if !ok {
				continue
			}
			inner.takeBlocks("content")
			b.blocks = append(b.blocks, &block{"dynamic", []string{kind}, placeOf(expr.Range().Ptr(), ""), inner})
		}
	}
}

// takeBlocks makes blocks of an attribute of JSON: of an object, or of each in a list.
func (b *body) takeBlocks(name string) {
	found, ok := b.attributes[name]
	if !ok || !b.isJSON {
		return
	}
	var blocks []*block
	for _, expr := range itemsOf(found.expr) {
		inner, ok := bodyOfPairs(expr)
		if !ok {
			return // An expression: Terraform knows what it is.
		}
		blocks = append(blocks, &block{name, nil, placeOf(expr.Range().Ptr(), ""), inner})
	}
	delete(b.attributes, name)
	b.blocks = append(b.blocks, blocks...)
}

// itemsOf a list; of anything else, itself.
func itemsOf(expr hcl.Expression) []hcl.Expression {
	if items, diagnostics := hcl.ExprList(expr); !diagnostics.HasErrors() {
		return items
	}
	return []hcl.Expression{expr}
}

// hasBlock reports whether a block of the kind is written.
func (b *body) hasBlock(kind string) bool {
	return slices.ContainsFunc(b.blocks, func(one *block) bool { return one.kind == kind })
}

// constant is the value of an expression without references; false: only Terraform knows it.
func constant(expr hcl.Expression) (cty.Value, bool) {
	// With a context, since a text of JSON is no expression without one.
	value, diagnostics := expr.Value(&hcl.EvalContext{})
	return value, !diagnostics.HasErrors() && value.IsWhollyKnown()
}

func constantText(expr hcl.Expression) (string, bool) {
	value, ok := constant(expr)
	if !ok || value.IsNull() || value.Type() != cty.String {
		return "", false
	}
	return value.AsString(), true
}
