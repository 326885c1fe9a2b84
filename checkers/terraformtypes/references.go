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
	for _, body := range m.bodies {
		for _, block := range body.Blocks {
			c.checkUses(m, block.Body, skipped(block.Type), nil)
		}
	}
}

// skipped are attributes and blocks in which names are no references, or are Terraform's own.
func skipped(kind string) []string {
	switch kind {
	case "variable":
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
func (c *checker) checkUses(m *module, body *hclsyntax.Body, skip, iterators []string) {
	for _, name := range sortedKeys(body.Attributes) {
		if slices.Contains(skip, name) {
			continue
		}
		for _, traversal := range body.Attributes[name].Expr.Variables() {
			c.checkUse(m, traversal, iterators)
		}
	}
	for _, block := range body.Blocks {
		if slices.Contains(skip, block.Type) {
			continue
		}
		if block.Type != "dynamic" || len(block.Labels) != 1 {
			c.checkUses(m, block.Body, nil, iterators)
			continue
		}
		iterator := block.Labels[0]
		if attribute, ok := block.Body.Attributes["iterator"]; ok {
			iterator = hcl.ExprAsKeyword(attribute.Expr)
		}
		c.checkUses(m, block.Body, []string{"iterator"}, append(slices.Clone(iterators), iterator))
	}
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
