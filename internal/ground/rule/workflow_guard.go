package rule

import (
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/spell"
)

// Scalar is the type of a variable of a guard.
type Scalar string

// Scalars.
const (
	ScalarString Scalar = "string"
	ScalarInt    Scalar = "int"
	ScalarNumber Scalar = "number"
	ScalarBool   Scalar = "bool"
	ScalarTime   Scalar = "time"
)

var scalarTypes = map[Scalar]*cel.Type{
	ScalarString: cel.StringType, ScalarInt: cel.IntType, ScalarNumber: cel.DoubleType, ScalarBool: cel.BoolType, ScalarTime: cel.TimestampType,
}

// Guards compiles truth values over variables that its caller declares. Names of
// variables may have dots ("inputs.version"). It is bounded in cost like every other
// expression, and for concurrent use.
type Guards struct {
	variables map[string]Scalar
	env       *cel.Env
}

// NewGuards declares variables. A time is given as a time.Time, a whole number as an
// int64, a number as a float64.
func NewGuards(variables map[string]Scalar) (*Guards, error) {
	options := append([]cel.EnvOption{
		cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true),
		cel.ParserRecursionLimit(maxDepth), cel.ParserErrorRecoveryLimit(4),
		cel.ParserExpressionSizeLimit(maxText), cel.ExpressionNodeLimit(maxNodes),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}, textFunctions()...)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		options = append(options, cel.Variable(name, scalarTypes[variables[name]]))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot declare the variables of guards: %w", err)
	}
	return &Guards{variables, env}, nil
}

// Guard is a truth value over declared variables.
type Guard struct {
	text    string
	reads   []string
	formula Formula
	program cel.Program
}

// Compile a guard. Invalid says what is wrong, and which name was probably meant.
func (c *Guards) Compile(text string) (*Guard, error) {
	parsed, issues := c.env.Parse(text)
	if hasErrors(issues) {
		return nil, fault.New(fault.Invalid, "%.200q is no guard: %s", text, shorten(issues.Err().Error())).WithHint("write what is true or false, for example a == \"b\" && !c")
	}
	if err := c.checkNames(text, parsed.NativeRep()); err != nil {
		return nil, err
	}
	checked, issues := c.env.Check(parsed)
	if hasErrors(issues) {
		return nil, fault.New(fault.Invalid, "%.200q is no guard: %s", text, shorten(issues.Err().Error())).WithHint("it finds %s", c.list())
	}
	if !checked.OutputType().IsExactType(cel.BoolType) {
		return nil, fault.New(fault.Invalid, "%.200q gives %s, not a truth value", text, checked.OutputType()).WithHint("compare it with ==, !=, < or >")
	}
	// The program is planned of a copy: the optimizer folds constants in its tree.
	tree := checked.NativeRep()
	compiled := &Guard{text: text, reads: c.readsOf(tree), formula: c.normalize(tree)}
	program, err := c.env.Program(checked, cel.CostLimit(maxCost), cel.CostTracking(costs{}), cel.EvalOptions(cel.OptOptimize, cel.OptPartialEval), cel.CustomDecoratorV2(guard))
	if err != nil {
		return nil, fault.New(fault.Invalid, "%.200q is no guard: %s", text, shorten(err.Error()))
	}
	compiled.program = program
	return compiled, nil
}

// list names the variables, for hints.
func (c *Guards) list() string {
	names := slices.Sorted(maps.Keys(c.variables))
	if len(names) == 0 {
		return "no variable"
	}
	return shorten(strings.Join(names, ", "))
}

// checkNames finds paths that begin like a variable and are none. The checker would only
// say that their first part is not declared.
func (c *Guards) checkNames(text string, tree *ast.AST) error {
	roots := map[string]bool{}
	for name := range c.variables {
		root, _, _ := strings.Cut(name, ".")
		roots[root] = true
	}
	var problem error
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		path, ok := pathOf(e)
		root, _, _ := strings.Cut(path, ".")
		if !ok || problem != nil || !roots[root] || c.isPrefix(path) {
			return
		}
		wrong := fault.New(fault.Invalid, "%.200q reads %.100s, which is not declared", text, path)
		if near := spell.Nearest(path, slices.Sorted(maps.Keys(c.variables))); near != "" {
			problem = wrong.WithHint("is %s meant? It finds %s", near, c.list())
		} else {
			problem = wrong.WithHint("it finds %s", c.list())
		}
	}))
	return problem
}

// isPrefix reports whether a path is a variable or leads to one.
func (c *Guards) isPrefix(path string) bool {
	for name := range c.variables {
		if name == path || strings.HasPrefix(name, path+".") {
			return true
		}
	}
	return false
}

// pathOf an expression such as a.b.c.
func pathOf(e ast.Expr) (string, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), true
	case ast.SelectKind:
		operand, ok := pathOf(e.AsSelect().Operand())
		return operand + "." + e.AsSelect().FieldName(), ok
	}
	return "", false
}

func (c *Guards) readsOf(tree *ast.AST) []string {
	found := map[string]bool{}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if path, ok := pathOf(e); ok && c.variables[path] != "" {
			found[path] = true
		}
	}))
	return slices.Sorted(maps.Keys(found))
}

// Text is how it was written.
func (c *Guard) Text() string { return c.text }

// Reads are the variables that it names, sorted.
func (c *Guard) Reads() []string { return c.reads }

// Verdict is what a guard comes to.
type Verdict int

// Verdicts.
const (
	Fails Verdict = iota
	Holds
	// Undecided: it depends on variables that are open.
	Undecided
	// Missing: it reads a variable that has no value. Guard.Evaluate says Fails, and why.
	Missing
)

// Evaluate a guard over values. Variables that are open may yet have any value, so
// Undecided means that some of these could make it hold; their present values do not count.
// An error means that it has no value, as where it reads what is not known.
func (c *Guard) Evaluate(values map[string]any, open []string) (Verdict, error) {
	var patterns []*cel.AttributePatternType
	for _, name := range open {
		patterns = append(patterns, cel.AttributePattern(name))
	}
	vars, err := cel.PartialVars(values, patterns...)
	if err != nil {
		return Fails, fault.New(fault.Internal, "preparing %.200q: %w", c.text, err)
	}
	value, _, err := c.program.Eval(vars)
	switch {
	case value != nil && types.IsUnknown(value):
		return Undecided, nil
	case err != nil:
		return Fails, fault.New(fault.Invalid, "evaluating %.200q: %s", c.text, shorten(reason(err)))
	case value == types.True:
		return Holds, nil
	}
	return Fails, nil
}
