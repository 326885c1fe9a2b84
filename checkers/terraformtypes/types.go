package main

import (
	"path"
	"slices"
	"strings"

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
	for _, file := range m.bodies {
		for _, one := range file.blocks {
			switch one.kind {
			case "resource":
				c.checkType(one, c.known.resources)
			case "data":
				c.checkType(one, c.known.data)
			}
		}
	}
	for _, call := range m.calls {
		c.checkCall(m, call)
	}
	c.checkReferences(m)
}

// checkType holds a resource or a data source to its type's schema.
func (c *checker) checkType(one *block, known map[string]*blockSchema) {
	kind := one.labels[0]
	schema, ok := known[kind]
	if !ok {
		if _, isTold := c.withoutSchema[kind]; !isTold {
			c.withoutSchema[kind] = one.at
		}
		return
	}
	if schema == nil {
		schema = &blockSchema{}
	}
	c.checkBlock(one.body, schema, one.at, one.kind+" "+strings.Join(one.labels, "."), ofTerraform)
}

// checkBlock holds a block to a schema. Names in allowed are Terraform's own.
func (c *checker) checkBlock(content *body, schema *blockSchema, at place, subject string, allowed []string) {
	for name, nested := range schema.Blocks {
		if nested.Mode != "map" { // Those have labels.
			content.takeBlocks(name)
		}
	}
	for _, name := range sortedKeys(content.attributes) {
		attribute := content.attributes[name]
		where := placeOf(&attribute.nameRange, at.file)
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
	if content.end.line > 0 {
		at = content.end
	}
	for _, name := range sortedKeys(schema.Attributes) {
		_, isGiven := content.attributes[name]
		if schema.Attributes[name].Required && !isGiven && !content.hasBlock(name) {
			c.fail(at, hintType, "%s lacks the argument %q, which is required", subject, name)
		}
	}
	c.checkNested(content, schema, at, subject, allowed)
}

func (c *checker) checkNested(content *body, schema *blockSchema, at place, subject string, allowed []string) {
	counts, isDynamic := map[string]int{}, map[string]bool{}
	for _, one := range content.blocks {
		name, inner := one.kind, one.body
		if name == "dynamic" && len(one.labels) == 1 {
			name = one.labels[0]
			isDynamic[name] = true
			inner = contentOf(one)
		}
		counts[name]++
		nested, ok := schema.Blocks[name]
		attribute := schema.Attributes[name]
		switch {
		case slices.Contains(allowed, name), attribute != nil && attribute.isBlocks():
		case !ok:
			c.fail(one.at, hintType, "%s has no block %q%s", subject, name, near(name, schema))
		case inner != nil:
			c.checkBlock(inner, &nested.Block, one.at, subject+": "+name, nil)
		}
	}
	for _, name := range sortedKeys(schema.Blocks) {
		nested := schema.Blocks[name]
		_, isAttribute := content.attributes[name]
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
func contentOf(one *block) *body {
	for _, inner := range one.body.blocks {
		if inner.kind == "content" {
			return inner.body
		}
	}
	return nil
}

// checkValue holds a constant to its type. Of another expression only Terraform knows the value.
func (c *checker) checkValue(one *attribute, known *attributeSchema, subject string) {
	want, ok := known.typeOf()
	value, isConstant := constant(one.expr)
	if !ok || !isConstant {
		return
	}
	at := placeOf(one.expr.Range().Ptr(), "")
	if value.IsNull() {
		if known.Required {
			c.fail(at, hintType, "%s: %s is required, and null", subject, one.name)
		}
		return
	}
	if _, err := convert.Convert(value, want); err != nil {
		// What is written is not said again: it may be a secret.
		c.fail(at, hintType, "%s: %s is no %s: %s", subject, one.name, want.FriendlyName(), convert.MismatchMessage(value.Type(), want))
	}
}

// checkCall holds a call to the variables of a module that lies among the files.
func (c *checker) checkCall(m *module, call *block) {
	at, subject := call.at, "module "+call.labels[0]
	source, ok := call.body.attributes["source"]
	if !ok {
		c.fail(at, "write source = \"…\"", "%s has no source", subject)
		return
	}
	text, ok := constantText(source.expr)
	if !ok {
		c.fail(at, "write source as a text in quotes", "%s has a source that is no constant text", subject)
		return
	}
	if !strings.HasPrefix(text, "./") && !strings.HasPrefix(text, "../") {
		return
	}
	called, ok := c.modules[path.Join(m.folder, text)]
	if !ok || called.isBroken {
		return // The renderer says which files it was not given.
	}
	for _, name := range sortedKeys(call.body.attributes) {
		if _, isDeclared := called.variables[name]; !isDeclared && !slices.Contains(ofCalls, name) {
			c.fail(placeOf(&call.body.attributes[name].nameRange, ""), "declare the variable, or mend the name", "%s has no variable %q", subject, name)
		}
	}
	for _, name := range sortedKeys(called.variables) {
		if _, isGiven := call.body.attributes[name]; called.variables[name] && !isGiven {
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
