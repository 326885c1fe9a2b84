package tfroots

import (
	"encoding/json"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Bounds of what the parser, which calls itself for what is nested, is given.
const (
	mostDepth     = 500
	mostQuestions = 5_000
)

// isNested reports whether brackets, signs or choices are nested deeper than anybody writes:
// the parser's stack would overflow. Reading the tokens alone needs no stack.
func isNested(text []byte) bool {
	tokens, _ := hclsyntax.LexConfig(text, "", hcl.InitialPos)
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

// isNestedJSON reports whether a text is no JSON, or JSON that is nested deeper than
// encoding/json takes.
func isNestedJSON(text []byte) bool { return len(text) > mostDepth && !json.Valid(text) }
