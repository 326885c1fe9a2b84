package rule

import (
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// FormulaKind of a part of a guard.
type FormulaKind int

// Kinds.
const (
	// Constant is true or false (Value).
	Constant FormulaKind = iota
	// All and Any hold as their parts do, Not as its one part does not.
	All
	Any
	Not
	// Equal: the variable Name has the value Literal, written as CEL writes it.
	Equal
	// Less: the variable Name is a whole number below Bound.
	Less
	// Opaque is any other truth value. Equal texts have equal values.
	Opaque
)

// Formula is a guard as the truth values that it is made of, so that a search can try
// each of them both ways. Comparisons are in one form: a != b is Not of a == b, a >= 3 is
// Not of a < 3.
type Formula struct {
	Kind  FormulaKind
	Parts []Formula
	Value bool
	Name  string
	// Literal of Equal; of a text it has no quotes.
	Literal string
	Bound   int64
	// Text and Reads of what is opaque.
	Text  string
	Reads []string
}

// Formula of a guard.
func (c *Guard) Formula() Formula { return c.formula }

// Evaluate a formula over the verdicts of its leaves, as Guard.Evaluate does over values:
// what decides by itself counts, whatever is undecided or missing beside it.
func (f Formula) Evaluate(verdict func(leaf Formula) Verdict) Verdict {
	switch f.Kind {
	case Constant:
		return verdictOf(f.Value)
	case Not:
		switch v := f.Parts[0].Evaluate(verdict); v {
		case Holds:
			return Fails
		case Fails:
			return Holds
		default:
			return v
		}
	case All:
		return decide(f.Parts, verdict, Fails, Holds)
	case Any:
		return decide(f.Parts, verdict, Holds, Fails)
	}
	return verdict(f)
}

// decide finds a part that decides; without one, what is undecided counts before what is
// missing, and the rest is what remains.
func decide(parts []Formula, verdict func(leaf Formula) Verdict, decisive, rest Verdict) Verdict {
	result := rest
	for _, part := range parts {
		switch v := part.Evaluate(verdict); {
		case v == decisive:
			return decisive
		case v == Undecided, v == Missing && result != Undecided:
			result = v
		}
	}
	return result
}

func verdictOf(truth bool) Verdict {
	if truth {
		return Holds
	}
	return Fails
}

// Leaves calls visit with each leaf.
func (f Formula) Leaves(visit func(leaf Formula)) {
	switch f.Kind {
	case All, Any, Not:
		for _, part := range f.Parts {
			part.Leaves(visit)
		}
	case Equal, Less, Opaque:
		visit(f)
	}
}

func negate(f Formula) Formula { return Formula{Kind: Not, Parts: []Formula{f}} }

// normalize a tree that was checked.
func (c *Guards) normalize(tree *ast.AST) Formula { return c.normalizeNode(tree.Expr(), tree) }

func (c *Guards) normalizeNode(e ast.Expr, tree *ast.AST) Formula {
	if e.Kind() == ast.LiteralKind {
		return Formula{Kind: Constant, Value: e.AsLiteral() == types.True}
	}
	if path, ok := pathOf(e); ok && c.variables[path] == ScalarBool {
		return Formula{Kind: Equal, Name: path, Literal: "true"}
	}
	if e.Kind() != ast.CallKind {
		return c.opaque(e, tree)
	}
	call := e.AsCall()
	arguments := call.Args()
	nested := func(i int) Formula { return c.normalizeNode(arguments[i], tree) }
	switch call.FunctionName() {
	case operators.LogicalAnd:
		return Formula{Kind: All, Parts: []Formula{nested(0), nested(1)}}
	case operators.LogicalOr:
		return Formula{Kind: Any, Parts: []Formula{nested(0), nested(1)}}
	case operators.LogicalNot:
		return negate(nested(0))
	case operators.Conditional:
		return Formula{Kind: Any, Parts: []Formula{
			{Kind: All, Parts: []Formula{nested(0), nested(1)}}, {Kind: All, Parts: []Formula{negate(nested(0)), nested(2)}},
		}}
	case operators.Equals:
		return c.equality(e, tree)
	case operators.NotEquals:
		return negate(c.equality(e, tree))
	case operators.In:
		return c.membership(e, tree)
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return c.order(e, tree)
	}
	return c.opaque(e, tree)
}

// equality of a variable and a literal, whichever comes first.
func (c *Guards) equality(e ast.Expr, tree *ast.AST) Formula {
	left, right := e.AsCall().Args()[0], e.AsCall().Args()[1]
	if left.Kind() == ast.LiteralKind {
		left, right = right, left
	}
	if f, ok := c.equal(left, right); ok {
		return f
	}
	return c.opaqueCall(operators.Equals, e, tree)
}

func (c *Guards) equal(variable, literal ast.Expr) (Formula, bool) {
	path, ok := pathOf(variable)
	if !ok || c.variables[path] == "" || literal.Kind() != ast.LiteralKind {
		return Formula{}, false
	}
	switch value := literal.AsLiteral().(type) {
	case types.String:
		return Formula{Kind: Equal, Name: path, Literal: string(value)}, true
	case types.Int:
		return Formula{Kind: Equal, Name: path, Literal: strconv.FormatInt(int64(value), 10)}, true
	case types.Bool:
		f := Formula{Kind: Equal, Name: path, Literal: "true"}
		if value == types.False {
			return negate(f), true
		}
		return f, true
	}
	return Formula{}, false
}

// membership of a variable in a list of literals.
func (c *Guards) membership(e ast.Expr, tree *ast.AST) Formula {
	element, list := e.AsCall().Args()[0], e.AsCall().Args()[1]
	if list.Kind() != ast.ListKind {
		return c.opaque(e, tree)
	}
	either := Formula{Kind: Any}
	for _, literal := range list.AsList().Elements() {
		f, ok := c.equal(element, literal)
		if !ok {
			return c.opaque(e, tree)
		}
		either.Parts = append(either.Parts, f)
	}
	return either
}

// order of a whole number and a literal; anything else is opaque, of which a <= b and
// b < a are still known to exclude each other.
func (c *Guards) order(e ast.Expr, tree *ast.AST) Formula {
	function := e.AsCall().FunctionName()
	left, right := e.AsCall().Args()[0], e.AsCall().Args()[1]
	if left.Kind() == ast.LiteralKind {
		left, right = right, left
		function = map[string]string{
			operators.Less: operators.Greater, operators.LessEquals: operators.GreaterEquals,
			operators.Greater: operators.Less, operators.GreaterEquals: operators.LessEquals,
		}[function]
	}
	path, ok := pathOf(left)
	if !ok || c.variables[path] != ScalarInt || right.Kind() != ast.LiteralKind {
		return c.opaqueCall(e.AsCall().FunctionName(), e, tree)
	}
	bound, ok := right.AsLiteral().(types.Int)
	if !ok {
		return c.opaqueCall(e.AsCall().FunctionName(), e, tree)
	}
	switch function {
	case operators.Less:
		return Formula{Kind: Less, Name: path, Bound: int64(bound)}
	case operators.LessEquals:
		return Formula{Kind: Less, Name: path, Bound: int64(bound) + 1}
	case operators.Greater:
		return negate(Formula{Kind: Less, Name: path, Bound: int64(bound) + 1})
	}
	return negate(Formula{Kind: Less, Name: path, Bound: int64(bound)})
}

// opaqueCall is what compares anything: greater and less are one another's contrary.
func (c *Guards) opaqueCall(function string, e ast.Expr, tree *ast.AST) Formula {
	arguments := e.AsCall().Args()
	left, right := writeExpression(arguments[0], tree), writeExpression(arguments[1], tree)
	f := Formula{Kind: Opaque, Reads: c.readsOfNode(e)}
	switch function {
	case operators.Greater:
		f.Text = right + " < " + left
	case operators.GreaterEquals:
		f.Text = left + " < " + right
		return negate(f)
	case operators.LessEquals:
		f.Text = right + " < " + left
		return negate(f)
	case operators.Less:
		f.Text = left + " < " + right
	default:
		f.Text = min(left, right) + " == " + max(left, right)
	}
	return f
}

func (c *Guards) opaque(e ast.Expr, tree *ast.AST) Formula {
	return Formula{Kind: Opaque, Text: writeExpression(e, tree), Reads: c.readsOfNode(e)}
}

func (c *Guards) readsOfNode(e ast.Expr) []string {
	return c.readsOf(ast.NewAST(e, nil))
}

// writeExpression writes an expression as CEL writes it, so that spaces do not matter.
func writeExpression(e ast.Expr, tree *ast.AST) string {
	text, err := cel.ExprToString(e, tree.SourceInfo())
	if err != nil {
		return strconv.FormatInt(e.ID(), 10)
	}
	return text
}
