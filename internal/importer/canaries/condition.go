package canaries

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// limits are what a sample must be within. Conditions say below and at most alike: a sample that is
// the limit itself is within.
type limits struct {
	atLeast, atMost *float64
	// emptyPasses and nanPasses say that no value, and no number, is as good as one within;
	// nanFails, that no number is as bad as one that is not.
	emptyPasses, nanPasses, nanFails bool
	// emptyFails says that no value is as bad, too.
	emptyFails bool
}

// otherwise stands for default, which is a keyword of Go.
const otherwise = "otherwise"

// readCondition reads what a measurement must be, as "result[0] >= 0.95", or, of a condition of
// failure, what it must not be. The syntax that such conditions need is Go's, too.
func readCondition(text string, isFailure bool) (limits, error) {
	var l limits
	expression, err := parser.ParseExpr(strings.NewReplacer(" and ", " && ", " or ", " || ", "not ", "!", "default(", otherwise+"(").Replace(text))
	if err != nil {
		return l, fmt.Errorf("it is no comparison")
	}
	joined, apart := token.LAND, token.LOR
	if isFailure {
		joined, apart = token.LOR, token.LAND
	}
	if err := l.read(expression, isFailure, joined, apart); err != nil {
		return l, err
	}
	// NaN fulfils no comparison: it is no success, and no failure.
	if isFailure {
		l.nanPasses = !l.nanFails
	} else {
		l.nanFails = !l.nanPasses
	}
	return l, nil
}

func (l *limits) read(expression ast.Expr, isFailure bool, joined, apart token.Token) error {
	switch e := expression.(type) {
	case *ast.ParenExpr:
		return l.read(e.X, isFailure, joined, apart)
	case *ast.BinaryExpr:
		switch e.Op {
		case joined:
			for _, side := range []ast.Expr{e.X, e.Y} {
				// That there is a value is asked in any case: what is missing is waited for.
				var asked limits
				if asked.readExemption(side, !isFailure) {
					l.nanFails = l.nanFails || asked.nanPasses
					continue
				}
				if err := l.read(side, isFailure, joined, apart); err != nil {
					return err
				}
			}
			return nil
		case apart:
			if l.readExemption(e.X, isFailure) {
				return l.read(e.Y, isFailure, joined, apart)
			}
			if l.readExemption(e.Y, isFailure) {
				return l.read(e.X, isFailure, joined, apart)
			}
			return fmt.Errorf("one limit or another is no limit")
		}
		return l.readComparison(e, isFailure)
	}
	return fmt.Errorf("it is no comparison of result with a number")
}

// readExemption reads what lets a measurement pass that is none: len(result) == 0, isNaN(result[0]).
// In a condition of failure it is the contrary that is written: !isNaN(result[0]), len(result) > 0.
func (l *limits) readExemption(expression ast.Expr, isFailure bool) bool {
	for {
		paren, ok := expression.(*ast.ParenExpr)
		if !ok {
			break
		}
		expression = paren.X
	}
	if not, ok := expression.(*ast.UnaryExpr); ok && not.Op == token.NOT && isFailure {
		return l.readNaN(not.X)
	}
	if compared, ok := expression.(*ast.BinaryExpr); ok && isCall(compared.X, "len") && isZero(compared.Y) {
		fits := compared.Op == token.EQL && !isFailure || (compared.Op == token.GTR || compared.Op == token.NEQ) && isFailure
		l.emptyPasses = l.emptyPasses || fits
		return fits
	}
	return !isFailure && l.readNaN(expression)
}

func (l *limits) readNaN(expression ast.Expr) bool {
	fits := isCall(expression, "isNaN")
	l.nanPasses = l.nanPasses || fits
	return fits
}

func isCall(expression ast.Expr, name string) bool {
	call, ok := expression.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 || !isResult(call.Args[0]) {
		return false
	}
	called, ok := call.Fun.(*ast.Ident)
	return ok && called.Name == name
}

func isZero(expression ast.Expr) bool {
	n, ok := number(expression)
	return ok && n == 0
}

// isResult reports whether it is the measurement: result, result[0], asFloat(result).
func isResult(expression ast.Expr) bool {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name == "result"
	case *ast.IndexExpr:
		return isResult(e.X) && isZero(e.Index)
	case *ast.ParenExpr:
		return isResult(e.X)
	case *ast.CallExpr:
		called, ok := e.Fun.(*ast.Ident)
		return ok && len(e.Args) == 1 && (called.Name == "asFloat" || called.Name == "asInt") && isResult(e.Args[0])
	}
	return false
}

// number is one that is written out.
func number(expression ast.Expr) (float64, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseFloat(e.Value, 64)
		return n, err == nil
	case *ast.UnaryExpr:
		n, ok := number(e.X)
		return -n, ok && e.Op == token.SUB
	case *ast.ParenExpr:
		return number(e.X)
	}
	return 0, false
}

// turned is the operator with its sides exchanged, negated that of the contrary.
var (
	turned  = map[token.Token]token.Token{token.LSS: token.GTR, token.LEQ: token.GEQ, token.GTR: token.LSS, token.GEQ: token.LEQ, token.EQL: token.EQL, token.NEQ: token.NEQ}
	negated = map[token.Token]token.Token{token.LSS: token.GEQ, token.LEQ: token.GTR, token.GTR: token.LEQ, token.GEQ: token.LSS, token.EQL: token.NEQ, token.NEQ: token.EQL}
)

func (l *limits) readComparison(e *ast.BinaryExpr, isFailure bool) error {
	measured, compared, operator := e.X, e.Y, e.Op
	if _, ok := number(measured); ok {
		measured, compared, operator = e.Y, e.X, turned[e.Op]
	}
	if isFailure {
		operator = negated[operator]
	}
	limit, ok := number(compared)
	if called, isCalled := measured.(*ast.CallExpr); isCalled && len(called.Args) == 2 && isResult(called.Args[0]) {
		// default(result, 0): a measurement without a value is that number.
		if name, ok := called.Fun.(*ast.Ident); ok && name.Name == otherwise {
			if instead, ok := number(called.Args[1]); ok {
				measured, l.emptyPasses = called.Args[0], holds(instead, operator, limit)
			}
		}
	}
	if !ok || !isResult(measured) {
		return fmt.Errorf("it is no comparison of result with a number")
	}
	switch operator {
	case token.LSS, token.LEQ:
		l.atMost = &limit
	case token.GTR, token.GEQ:
		l.atLeast = &limit
	case token.EQL:
		l.atLeast, l.atMost = &limit, &limit
	default:
		return fmt.Errorf("that it is not a number is no limit")
	}
	return nil
}

func holds(value float64, operator token.Token, limit float64) bool {
	switch operator {
	case token.LSS:
		return value < limit
	case token.LEQ:
		return value <= limit
	case token.GTR:
		return value > limit
	case token.GEQ:
		return value >= limit
	}
	return value == limit
}
