package main

import (
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// ofTerraform are attributes and blocks that Terraform itself reads, of every resource, and
// ofCalls those of every call of a module.
var (
	ofTerraform = []string{"count", "for_each", "depends_on", "provider", "lifecycle", "provisioner", "connection"}
	ofCalls     = []string{"source", "version", "count", "for_each", "depends_on", "providers"}
)

const hintType = "mend it: the provider's documentation says what the type has, and terraform validate says the same"

// checkModule holds a module to the schemas, to the modules that it calls, and to itself.
func (c *checker) checkModule(m *module) {
	if m.isBroken {
		return // What was not read would be missed.
	}
	for _, body := range m.bodies {
		for _, block := range body.Blocks {
			switch block.Type {
			case "resource":
				c.checkType(block, c.known.resources)
			case "data":
				c.checkType(block, c.known.data)
			}
		}
	}
	for _, call := range m.calls {
		c.checkCall(m, call)
	}
	c.checkReferences(m)
}

// checkType holds a resource or a data source to its type's schema.
func (c *checker) checkType(block *hclsyntax.Block, known map[string]*blockSchema) {
	kind := block.Labels[0]
	schema, ok := known[kind]
	if !ok {
		if _, isTold := c.withoutSchema[kind]; !isTold {
			c.withoutSchema[kind] = blockPlace(block)
		}
		return
	}
	if schema == nil {
		schema = &blockSchema{}
	}
	c.checkBlock(block.Body, schema, blockPlace(block), block.Type+" "+strings.Join(block.Labels, "."), ofTerraform)
}

// checkBlock holds a block to a schema. Names in allowed are Terraform's own.
func (c *checker) checkBlock(body *hclsyntax.Body, schema *blockSchema, at place, subject string, allowed []string) {
	for _, name := range sortedKeys(body.Attributes) {
		attribute := body.Attributes[name]
		where := placeOf(&attribute.NameRange, at.file)
		known, ok := schema.Attributes[name]
		_, isBlock := schema.Blocks[name]
		switch {
		case !ok && slices.Contains(allowed, name):
		case !ok && isBlock:
			// Some blocks may be written as attributes.
		case !ok:
			c.fail(where, hintType, "%s has no argument %q%s", subject, name, near(name, schema))
		case known.Computed && !known.Optional && !known.Required:
			c.fail(where, hintType, "%s: %s is told by the provider, and cannot be set", subject, name)
		default:
			c.checkValue(attribute, known, subject)
		}
	}
	for _, name := range sortedKeys(schema.Attributes) {
		_, isGiven := body.Attributes[name]
		isBlock := slices.ContainsFunc(body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == name })
		if schema.Attributes[name].Required && !isGiven && !isBlock {
			c.fail(at, hintType, "%s lacks the argument %q, which is required", subject, name)
		}
	}
	c.checkNested(body, schema, at, subject, allowed)
}

func (c *checker) checkNested(body *hclsyntax.Body, schema *blockSchema, at place, subject string, allowed []string) {
	counts, isDynamic := map[string]int{}, map[string]bool{}
	for _, block := range body.Blocks {
		name, inner := block.Type, block.Body
		if name == "dynamic" && len(block.Labels) == 1 {
			name = block.Labels[0]
			isDynamic[name] = true
			inner = contentOf(block)
		}
		counts[name]++
		nested, ok := schema.Blocks[name]
		attribute := schema.Attributes[name]
		switch {
		case slices.Contains(allowed, name), attribute != nil && attribute.isBlocks():
		case !ok:
			c.fail(blockPlace(block), hintType, "%s has no block %q%s", subject, name, near(name, schema))
		case inner != nil:
			c.checkBlock(inner, &nested.Block, blockPlace(block), subject+": "+name, nil)
		}
	}
	for _, name := range sortedKeys(schema.Blocks) {
		nested := schema.Blocks[name]
		_, isAttribute := body.Attributes[name]
		if isDynamic[name] || isAttribute {
			continue
		}
		if counts[name] < nested.Least {
			c.fail(at, hintType, "%s has %d blocks %s, and needs %d", subject, counts[name], name, nested.Least)
		}
		if most := nested.Most; most > 0 && counts[name] > most {
			c.fail(at, hintType, "%s has %d blocks %s, and may have %d", subject, counts[name], name, most)
		}
	}
}

// contentOf a dynamic block is what it repeats; nil: it has none.
func contentOf(block *hclsyntax.Block) *hclsyntax.Body {
	for _, inner := range block.Body.Blocks {
		if inner.Type == "content" {
			return inner.Body
		}
	}
	return nil
}

// checkValue holds a constant to its type. Of another expression only Terraform knows the value.
func (c *checker) checkValue(attribute *hclsyntax.Attribute, known *attributeSchema, subject string) {
	want, ok := known.typeOf()
	value, diagnostics := attribute.Expr.Value(nil)
	if !ok || diagnostics.HasErrors() || !value.IsWhollyKnown() {
		return
	}
	at := placeOf(attribute.Expr.Range().Ptr(), "")
	if value.IsNull() {
		if known.Required {
			c.fail(at, hintType, "%s: %s is required, and null", subject, attribute.Name)
		}
		return
	}
	if _, err := convert.Convert(value, want); err != nil {
		// What is written is not said again: it may be a secret.
		c.fail(at, hintType, "%s: %s is no %s: %s", subject, attribute.Name, want.FriendlyName(), convert.MismatchMessage(value.Type(), want))
	}
}

// checkCall holds a call to the variables of a module that lies among the files.
func (c *checker) checkCall(m *module, call *hclsyntax.Block) {
	at, subject := blockPlace(call), "module "+call.Labels[0]
	source, ok := call.Body.Attributes["source"]
	if !ok {
		c.fail(at, "write source = \"…\"", "%s has no source", subject)
		return
	}
	value, diagnostics := source.Expr.Value(nil)
	if diagnostics.HasErrors() || value.Type() != cty.String || !value.IsKnown() || value.IsNull() {
		c.fail(at, "write source as a text in quotes", "%s has a source that is no constant text", subject)
		return
	}
	text := value.AsString()
	if !strings.HasPrefix(text, "./") && !strings.HasPrefix(text, "../") {
		return
	}
	called, ok := c.modules[path.Join(m.folder, text)]
	if !ok || called.isBroken {
		return // The renderer says which files it was not given.
	}
	for _, name := range sortedKeys(call.Body.Attributes) {
		if _, isDeclared := called.variables[name]; !isDeclared && !slices.Contains(ofCalls, name) {
			c.fail(placeOf(&call.Body.Attributes[name].NameRange, ""), "declare the variable, or mend the name", "%s has no variable %q", subject, name)
		}
	}
	for _, name := range sortedKeys(called.variables) {
		if _, isGiven := call.Body.Attributes[name]; called.variables[name] && !isGiven {
			c.fail(at, "give it, or write a default", "%s lacks the variable %q, which has no default", subject, name)
		}
	}
}

// near is a name that was probably meant.
func near(name string, schema *blockSchema) string {
	for _, known := range append(sortedKeys(schema.Attributes), sortedKeys(schema.Blocks)...) {
		if isNear(name, known) {
			return "; did you mean " + known + "?"
		}
	}
	return ""
}

// isNear reports whether two names differ by one letter that is missing, added or another, or
// by two that are exchanged.
func isNear(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	start := 0
	for start < len(a) && a[start] == b[start] {
		start++
	}
	switch len(b) - len(a) {
	case 0:
		restA, restB := a[start:], b[start:]
		isExchanged := len(restA) > 1 && restA[0] == restB[1] && restA[1] == restB[0] && restA[2:] == restB[2:]
		return isExchanged || len(restA) > 0 && restA[1:] == restB[1:]
	case 1:
		return a[start:] == b[start+1:]
	}
	return false
}
