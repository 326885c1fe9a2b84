package main

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	jsonsyntax "github.com/hashicorp/hcl/v2/json"

	"lehr.dev/sdk/generator/hclnesting"
)

// module is a folder, with what it declares.
type module struct {
	folder string
	bodies []*body
	// variables are those that are declared; true: each call must give it.
	variables map[string]bool
	locals    map[string]bool
	// declared are resources, as TYPE.NAME, data sources, as data.TYPE.NAME, and calls, as
	// module.NAME.
	declared map[string]place
	calls    []*block
	// isBroken: a file cannot be read, so what it declares is not known.
	isBroken bool
}

func newModule(folder string) *module {
	return &module{folder: folder, variables: map[string]bool{}, locals: map[string]bool{}, declared: map[string]place{}}
}

// read parses a file, and notes what it declares.
func (c *checker) read(m *module, name string, text []byte) {
	const hint = "mend the file: terraform validate says the same"
	isJSON := strings.HasSuffix(name, ".json")
	if isJSON && hclnesting.IsTooDeepJSON(text) || !isJSON && hclnesting.IsTooDeep(text) {
		m.isBroken = true
		c.fail(place{name, 1}, hint, "it is wrong, or nested deeper than can be read")
		return
	}
	parsed, diagnostics := parse(name, text, isJSON)
	for _, d := range diagnostics {
		if d.Severity == hcl.DiagError {
			m.isBroken = true
			c.fail(placeOf(d.Subject, name), hint, "%s: %s", d.Summary, d.Detail)
		}
	}
	if m.isBroken {
		return
	}
	m.bodies = append(m.bodies, parsed)
	for _, one := range parsed.blocks {
		c.declare(m, one)
		if one.kind == "check" { // It may have a data source of its own.
			for _, inner := range one.body.blocks {
				c.declare(m, inner)
			}
		}
	}
}

func parse(name string, text []byte, isJSON bool) (*body, hcl.Diagnostics) {
	if isJSON {
		file, diagnostics := jsonsyntax.Parse(text, name)
		if diagnostics.HasErrors() {
			return nil, diagnostics
		}
		return bodyOfJSON(file.Body)
	}
	file, diagnostics := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	if diagnostics.HasErrors() {
		return nil, diagnostics
	}
	return bodyOf(file.Body.(*hclsyntax.Body)), nil
}

func (c *checker) declare(m *module, one *block) {
	if want, ok := labelNames[one.kind]; ok && len(one.labels) != len(want) {
		m.isBroken = true
		c.fail(one.at, "write the labels in quotes", "a block %s has %d labels, and needs %d", one.kind, len(one.labels), len(want))
		return
	}
	name := ""
	switch one.kind {
	case "variable":
		_, hasDefault := one.body.attributes["default"]
		m.variables[one.labels[0]] = !hasDefault
		name = "var." + one.labels[0]
	case "locals":
		for local := range one.body.attributes {
			m.locals[local] = true
		}
	case "module":
		m.calls = append(m.calls, one)
		name = "module." + one.labels[0]
	case "resource":
		name = strings.Join(one.labels, ".")
	case "data", "ephemeral", "output":
		name = one.kind + "." + strings.Join(one.labels, ".")
	}
	if name == "" {
		return
	}
	if first, isTwice := m.declared[name]; isTwice {
		c.fail(one.at, "rename one of them", "%s is declared already at %s", name, first)
		return
	}
	m.declared[name] = one.at
}

// String is the place as people read it.
func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

func placeOf(at *hcl.Range, name string) place {
	if at == nil {
		return place{name, 1}
	}
	return place{at.Filename, at.Start.Line}
}
