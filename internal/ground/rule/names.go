package rule

import (
	"regexp"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"lehr.dev/internal/ground/intent"
)

// variableNames are what an expression finds.
var variableNames = []string{"addons", "id", "labels", "owner", "payload", "refs", "scope", "scopes", "type"}

// reads says what of an asset an expression looks at.
type reads struct {
	// content: more than its id and its type.
	content bool
}

var nodesOf = ast.NewExprFactory()

// resolveNames checks what is written as a literal, and turns the short names
// of types into the full ones. The first error is returned.
func (p *program) resolveNames() error {
	var first error
	ast.PreOrderVisit(p.tree.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		if first == nil {
			first = p.resolveNode(node)
		}
	}))
	return first
}

func (p *program) resolveNode(node ast.Expr) error {
	switch node.Kind() {
	case ast.IdentKind:
		if slices.Contains(p.names, node.AsIdent()) && node.AsIdent() != "id" && node.AsIdent() != "type" {
			p.reads.content = true
		}
	case ast.ComprehensionKind:
		loop := node.AsComprehension()
		for _, name := range []string{loop.IterVar(), loop.IterVar2()} {
			if slices.Contains(p.names, name) {
				return p.at(node, "%s is the asset's, and cannot name an element too", name).WithHint("choose another name")
			}
		}
	case ast.SelectKind:
		if selection := node.AsSelect(); isVariable(selection.Operand(), "addons") {
			key, err := p.addon(node, selection.FieldName())
			if err != nil || key == selection.FieldName() {
				return err
			}
			node.SetKindCase(selected(node.ID(), selection, key))
		}
	case ast.CallKind:
		return p.resolveCall(node, node.AsCall())
	}
	return nil
}

func selected(id int64, selection ast.SelectExpr, field string) ast.Expr {
	if selection.IsTestOnly() {
		return nodesOf.NewPresenceTest(id, selection.Operand(), field)
	}
	return nodesOf.NewSelect(id, selection.Operand(), field)
}

func (p *program) resolveCall(node ast.Expr, call ast.CallExpr) error {
	arguments := call.Args()
	if call.FunctionName() == overloads.Matches {
		return p.checkPattern(node, arguments)
	}
	if len(arguments) != 2 || call.IsMemberFunction() {
		return nil
	}
	left, right := arguments[0], arguments[1]
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals:
		if left.Kind() == ast.LiteralKind {
			left, right = right, left
		}
		if left.Kind() == ast.IdentKind {
			return p.literal(left.AsIdent(), right)
		}
	case operators.In:
		switch {
		case isVariable(right, "addons"), isVariable(right, "refs"):
			return p.literal(right.AsIdent(), left)
		case left.Kind() == ast.IdentKind && right.Kind() == ast.ListKind:
			for _, element := range right.AsList().Elements() {
				if err := p.literal(left.AsIdent(), element); err != nil {
					return err
				}
			}
		}
	case operators.Index:
		name, ok := textLiteral(right)
		if !ok || !isVariable(left, "addons") {
			return nil
		}
		key, err := p.addon(right, name)
		if err == nil {
			node.SetKindCase(nodesOf.NewSelect(node.ID(), left, key))
		}
		return err
	}
	return nil
}

// numbers are how a check names an equality of numbers of different kinds.
var numbers = regexp.MustCompile(`^found no matching overload for '(_==_|_!=_|@in)' applied to '\((int|uint|double), (list\()?(int|uint|double)\)?\)'$`)

// mixNumbers lets numbers of different kinds be equal, as they are when they
// are evaluated, where a check said that they cannot be. It reports whether it
// changed anything.
func (p *program) mixNumbers(issues *cel.Issues) bool {
	wrong := map[int64]bool{}
	for _, issue := range issues.Errors() {
		if numbers.MatchString(issue.Message) {
			wrong[issue.ExprID] = true
		}
	}
	if len(wrong) == 0 {
		return false
	}
	changed, id := false, ast.MaxID(p.tree)
	ast.PostOrderVisit(p.tree.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		if !wrong[node.ID()] || node.Kind() != ast.CallKind || len(node.AsCall().Args()) != 2 {
			return
		}
		call := node.AsCall()
		id++
		left := nodesOf.NewCall(id, overloads.TypeConvertDyn, call.Args()[0])
		node.SetKindCase(nodesOf.NewCall(node.ID(), call.FunctionName(), left, call.Args()[1]))
		changed = true
	}))
	return changed
}

// literal checks a text that a variable is compared with, or looked up by.
func (p *program) literal(variable string, node ast.Expr) error {
	text, ok := textLiteral(node)
	if !ok {
		return nil
	}
	switch variable {
	case "type":
		name, err := p.set.Resolve(text)
		if err != nil {
			return p.wrap(node, err)
		}
		node.SetKindCase(nodesOf.NewLiteral(node.ID(), types.String(name)))
	case "addons":
		key, err := p.addon(node, text)
		if err != nil {
			return err
		}
		node.SetKindCase(nodesOf.NewLiteral(node.ID(), types.String(key)))
	case "id", "refs":
		if _, err := intent.ParseAssetID(text); err != nil {
			return p.wrap(node, err)
		}
	}
	return nil
}

// addon is the key in addons of the type that a name means.
func (p *program) addon(node ast.Expr, name string) (string, error) {
	resolved, err := p.set.Resolve(name)
	if err != nil {
		return "", p.wrap(node, err)
	}
	return addonKey(p.set, resolved), nil
}

// checkPattern refuses patterns that are found, or grow, while evaluating.
func (p *program) checkPattern(node ast.Expr, arguments []ast.Expr) error {
	if len(arguments) == 0 {
		return nil
	}
	pattern := arguments[len(arguments)-1]
	text, ok := textLiteral(pattern)
	if !ok {
		return p.at(pattern, "the pattern of matches must be a literal text")
	}
	size, err := patternSize(text)
	if err != nil {
		return p.at(pattern, "%s", shorten(err.Error()))
	}
	if size > maxPattern {
		return p.at(pattern, "the pattern is too large: it has about %d parts with its repetitions, at most %d are allowed", size, maxPattern)
	}
	return nil
}
