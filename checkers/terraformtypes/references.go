package main

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// roots are names that are no type of a resource.
var roots = []string{"count", "each", "ephemeral", "path", "self", "terraform"}

// checkReferences finds what is used and not declared.
func (c *checker) checkReferences(m *module) {
	for _, file := range m.bodies {
		for _, one := range file.blocks {
			c.checkUses(m, one.body, skipped(one), nil)
		}
	}
}

// skipped are attributes and blocks in which names are no references, or are Terraform's own.
func skipped(one *block) []string {
	switch one.kind {
	case "variable":
		if one.body.isJSON { // Its texts are no expressions.
			return []string{"type", "default", "description"}
		}
		return []string{"type"}
	case "module":
		return []string{"providers"}
	case "terraform":
		return []string{"backend", "cloud", "required_providers", "provider_meta", "required_version", "experiments"}
	case "moved", "removed":
		return []string{"from", "to"}
	case "import":
		return []string{"to", "provider"}
	}
	return []string{"provider", "lifecycle"}
}

// checkUses follows the expressions of a block; iterators are names of dynamic blocks around it.
func (c *checker) checkUses(m *module, content *body, skip, iterators []string) {
	for _, name := range sortedKeys(content.attributes) {
		if slices.Contains(skip, name) {
			continue
		}
		expr, known := content.attributes[name].expr, iterators
		if content.isJSON {
			known = append(slices.Clone(iterators), iteratorsBelow(expr)...)
		}
		for _, traversal := range expr.Variables() {
			c.checkUse(m, traversal, known)
		}
		if content.isJSON && name == "depends_on" {
			c.checkNames(m, expr)
		}
	}
	for _, one := range content.blocks {
		if slices.Contains(skip, one.kind) {
			continue
		}
		if one.kind != "dynamic" || len(one.labels) != 1 {
			c.checkUses(m, one.body, nil, iterators)
			continue
		}
		c.checkUses(m, one.body, []string{"iterator"}, append(slices.Clone(iterators), iteratorOf(one.labels[0], one.body)))
	}
}

// checkNames follows names that are written as texts, as JSON has them in depends_on.
func (c *checker) checkNames(m *module, list hcl.Expression) {
	for _, item := range itemsOf(list) {
		text, ok := constantText(item)
		if !ok {
			continue
		}
		traversal, diagnostics := hclsyntax.ParseTraversalAbs([]byte(text), item.Range().Filename, item.Range().Start)
		if !diagnostics.HasErrors() {
			c.checkUse(m, traversal, nil)
		}
	}
}

// iteratorOf a dynamic block is the name by which its content has the current one.
func iteratorOf(kind string, dynamic *body) string {
	found, ok := dynamic.attributes["iterator"]
	if !ok {
		return kind
	}
	if text, ok := constantText(found.expr); ok && dynamic.isJSON {
		return text
	}
	return hcl.ExprAsKeyword(found.expr)
}

// iteratorsBelow are those of dynamic blocks in what is written as an attribute of JSON.
func iteratorsBelow(expr hcl.Expression) (names []string) {
	for _, item := range itemsOf(expr) {
		inner, ok := bodyOfPairs(item)
		if !ok {
			continue
		}
		for _, one := range inner.blocks {
			names = append(names, iteratorOf(one.labels[0], one.body))
			for _, content := range one.body.blocks {
				for _, name := range sortedKeys(content.body.attributes) {
					names = append(names, iteratorsBelow(content.body.attributes[name].expr)...)
				}
			}
		}
		for _, name := range sortedKeys(inner.attributes) {
			names = append(names, iteratorsBelow(inner.attributes[name].expr)...)
		}
	}
	return names
}

func (c *checker) checkUse(m *module, traversal hcl.Traversal, iterators []string) {
	root := traversal.RootName()
	if slices.Contains(roots, root) || slices.Contains(iterators, root) {
		return
	}
	names := namesOf(traversal)
	at := placeOf(traversal.SourceRange().Ptr(), "")
	fail := func(what string) {
		c.fail(at, "declare it, or mend the name: terraform validate says the same", "%s is used, and not declared", what)
	}
	switch {
	case root == "var" && len(names) > 1:
		if _, ok := m.variables[names[1]]; !ok {
			fail("var." + names[1])
		}
	case root == "local" && len(names) > 1:
		if !m.locals[names[1]] {
			fail("local." + names[1])
		}
	case root == "module" && len(names) > 1:
		if _, ok := m.declared["module."+names[1]]; !ok {
			fail("module." + names[1])
		}
	case root == "data" && len(names) > 2:
		if _, ok := m.declared["data."+names[1]+"."+names[2]]; !ok {
			fail("data." + names[1] + "." + names[2])
		}
	case len(names) > 1 && root != "var" && root != "local" && root != "module" && root != "data":
		if _, ok := m.declared[root+"."+names[1]]; !ok {
			fail(root + "." + names[1])
		}
	}
}

// namesOf the first steps of a traversal, as far as they are names.
func namesOf(traversal hcl.Traversal) (names []string) {
	for _, step := range traversal {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			names = append(names, step.Name)
		case hcl.TraverseAttr:
			names = append(names, step.Name)
		default:
			return names
		}
	}
	return names
}
