package main

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// module is a folder, with what it declares.
type module struct {
	folder string
	bodies []*hclsyntax.Body
	// variables are those that are declared; true: each call must give it.
	variables map[string]bool
	locals    map[string]bool
	// declared are resources, as TYPE.NAME, data sources, as data.TYPE.NAME, and calls, as
	// module.NAME.
	declared map[string]place
	calls    []*hclsyntax.Block
	// isBroken: a file cannot be read, so what it declares is not known.
	isBroken bool
}

func newModule(folder string) *module {
	return &module{folder: folder, variables: map[string]bool{}, locals: map[string]bool{}, declared: map[string]place{}}
}

// mostDepth of brackets, since the parser calls itself for each.
const mostDepth = 500

// isNested reports whether a text is nested deeper than anybody writes.
func isNested(text []byte) bool {
	tokens, _ := hclsyntax.LexConfig(text, "", hcl.InitialPos)
	depth, signs, questions := 0, 0, 0
	for _, token := range tokens {
		if token.Type == hclsyntax.TokenBang || token.Type == hclsyntax.TokenMinus {
			signs++
		} else {
			signs = 0
		}
		switch token.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc,
			hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			depth--
		case hclsyntax.TokenQuestion:
			questions++
		}
		if depth > mostDepth || signs > mostDepth || questions > 10*mostDepth {
			return true
		}
	}
	return false
}

// read parses a file, and notes what it declares.
func (c *checker) read(m *module, name string, text []byte) {
	const hint = "mend the file: terraform validate says the same"
	if isNested(text) {
		m.isBroken = true
		c.fail(place{name, 1}, hint, "it is nested deeper than can be read")
		return
	}
	file, diagnostics := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	for _, d := range diagnostics {
		if d.Severity == hcl.DiagError {
			m.isBroken = true
			c.fail(placeOf(d.Subject, name), hint, "%s: %s", d.Summary, d.Detail)
		}
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok || m.isBroken {
		return
	}
	m.bodies = append(m.bodies, body)
	for _, block := range body.Blocks {
		c.declare(m, block)
		if block.Type == "check" { // It may have a data source of its own.
			for _, inner := range block.Body.Blocks {
				c.declare(m, inner)
			}
		}
	}
}

func (c *checker) declare(m *module, block *hclsyntax.Block) {
	labels := map[string]int{"resource": 2, "data": 2, "ephemeral": 2, "variable": 1, "output": 1, "module": 1, "provider": 1}
	at := blockPlace(block)
	if want, ok := labels[block.Type]; ok && len(block.Labels) != want {
		m.isBroken = true
		c.fail(at, "write the labels in quotes", "a block %s has %d labels, and needs %d", block.Type, len(block.Labels), want)
		return
	}
	name := ""
	switch block.Type {
	case "variable":
		_, hasDefault := block.Body.Attributes["default"]
		m.variables[block.Labels[0]] = !hasDefault
		name = "var." + block.Labels[0]
	case "locals":
		for local := range block.Body.Attributes {
			m.locals[local] = true
		}
	case "module":
		m.calls = append(m.calls, block)
		name = "module." + block.Labels[0]
	case "resource":
		name = strings.Join(block.Labels, ".")
	case "data", "ephemeral", "output":
		name = block.Type + "." + strings.Join(block.Labels, ".")
	}
	if name == "" {
		return
	}
	if first, isTwice := m.declared[name]; isTwice {
		c.fail(at, "rename one of them", "%s is declared already at %s", name, first)
		return
	}
	m.declared[name] = at
}

// String is the place as people read it.
func (p place) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

func placeOf(at *hcl.Range, name string) place {
	if at == nil {
		return place{name, 1}
	}
	return place{at.Filename, at.Start.Line}
}

func blockPlace(block *hclsyntax.Block) place {
	at := block.DefRange()
	return placeOf(&at, "")
}
