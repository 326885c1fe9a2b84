// Package hclnesting says whether a text of HCL is nested deeper than anybody writes. The parser
// of HCL calls itself for each bracket, and a stack that overflows ends the whole process; reading
// the tokens alone needs no stack. Whoever parses files of others asks it first.
package hclnesting

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Bounds of what the parser is given: brackets or signs within each other, and choices in all.
const (
	mostDepth     = 500
	mostQuestions = 5_000
)

// IsTooDeep reports whether brackets, signs or choices of a file are nested too deep.
func IsTooDeep(text []byte) bool {
	tokens, _ := hclsyntax.LexConfig(text, "", hcl.InitialPos)
	return areTooDeep(tokens)
}

// IsTooDeepJSON reports whether a file of HCL's JSON is no JSON, or is nested too deep: itself, as
// far as encoding/json takes it, or an expression in one of its texts.
func IsTooDeepJSON(text []byte) bool {
	if len(text) <= mostDepth {
		return false
	}
	if !json.Valid(text) {
		return true
	}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		token, err := decoder.Token()
		if err != nil {
			return !errors.Is(err, io.EOF)
		}
		template, ok := token.(string)
		if !ok || len(template) <= mostDepth {
			continue
		}
		if tokens, _ := hclsyntax.LexTemplate([]byte(template), "", hcl.InitialPos); areTooDeep(tokens) {
			return true
		}
	}
}

func areTooDeep(tokens hclsyntax.Tokens) bool {
	depth, signs, questions := 0, 0, 0
	for _, token := range tokens {
		switch token.Type {
		case hclsyntax.TokenBang, hclsyntax.TokenMinus:
			signs++
		default:
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
		if depth > mostDepth || signs > mostDepth || questions > mostQuestions {
			return true
		}
	}
	return false
}
