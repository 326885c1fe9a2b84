package rule

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// What an expression may be and cost.
const (
	maxText  = 10_000 // bytes
	maxNodes = 5_000  // with macros expanded
	maxDepth = 60
	maxCost  = 200_000 // about 25 ms
	// maxMoving is maxCost of conditions over what moves.
	maxMoving = 20_000
	// maxRounds of mixNumbers, each of which takes a check.
	maxRounds = 3
)

// program is an expression that was compiled.
type program struct {
	source
	set *schema.Set
	// names are the variables that it may use.
	names []string
	// fixed is the type that every asset it is true of, or is evaluated for,
	// has; empty: any.
	fixed  intent.TypeName
	run    cel.Program
	tree   *ast.AST
	reads  reads
	result *cel.Type
}

// newBase declares the functions, the types of the set, and all variables of an
// asset but its payload.
func (e *Environment) newBase() (*cel.Env, error) {
	texts := cel.MapType(cel.StringType, cel.StringType)
	return e.declare(
		cel.Variable("id", cel.StringType),
		cel.Variable("type", cel.StringType),
		cel.Variable("scopes", texts),
		cel.Variable("scope", cel.StringType),
		cel.Variable("labels", texts),
		cel.Variable("owner", cel.StringType),
		cel.Variable("addons", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("refs", cel.ListType(cel.StringType)),
	)
}

// declare makes an environment with the functions, the types and the limits.
func (e *Environment) declare(variables ...cel.EnvOption) (*cel.Env, error) {
	env, err := cel.NewEnv(append(append([]cel.EnvOption{
		cel.TypeDescs(e.set.Descriptors()),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserRecursionLimit(maxDepth),
		cel.ParserErrorRecoveryLimit(4),
		cel.ParserExpressionSizeLimit(maxText),
		cel.ExpressionNodeLimit(maxNodes),
		cel.EagerlyValidateDeclarations(true),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
		orderFunction(),
	}, textFunctions()...), variables...)...)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot prepare expressions over the types of this schema: %w", err)
	}
	return env, nil
}

// environment has a payload of the type, and what the view adds.
func (e *Environment) environment(payloadType intent.TypeName, view View) (*cel.Env, error) {
	base, err := e.base()
	if err != nil {
		return nil, err
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	key := source{payloadType: payloadType, view: view}
	if cached := e.environments[key]; cached != nil {
		return cached, nil
	}
	payload := cel.DynType
	if payloadType != "" {
		if _, err := e.set.New(payloadType); err != nil {
			return nil, err
		}
		payload = cel.ObjectType(string(payloadType))
	}
	env, err := base.Extend(append(view.declares(base), cel.Variable("payload", payload))...)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot prepare expressions over assets of type %q: %w", payloadType, err)
	}
	e.environments[key] = env
	return env, nil
}

// program finds or compiles.
func (e *Environment) program(text string, payloadType intent.TypeName, view View) (*program, error) {
	key := source{text, payloadType, view}
	e.lock.Lock()
	cached := e.compiled.get(key)
	e.lock.Unlock()
	if cached != nil {
		return cached, nil
	}
	compiled, err := e.compile(key)
	if err != nil {
		return nil, err
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	e.compiled.put(compiled)
	return compiled, nil
}

// compile turns a text into a program.
func (e *Environment) compile(key source) (*program, error) {
	parsed, err := e.parse(key)
	if err != nil {
		return nil, err
	}
	p := &program{source: key, set: e.set, names: key.view.names(), fixed: key.payloadType, tree: parsed.NativeRep()}
	return p, e.plan(p, parsed)
}

func (e *Environment) parse(key source) (*cel.Ast, error) {
	if len(key.text) > maxText {
		return nil, fault.New(fault.Invalid, "an expression has %d bytes, at most %d are allowed", len(key.text), maxText)
	}
	base, err := e.base()
	if err != nil {
		return nil, err
	}
	parsed, issues := base.Parse(key.text)
	if hasErrors(issues) {
		return nil, (&program{source: key, names: key.view.names()}).explain(issues)
	}
	return parsed, nil
}

// plan makes what was parsed ready to run: resolve the names of types, find
// which type the payload has, check, and plan.
func (e *Environment) plan(p *program, parsed *cel.Ast) error {
	if err := p.resolveNames(); err != nil {
		return err
	}
	if p.fixed == "" {
		p.fixed = fixedType(p.tree.Expr())
	}
	if err := p.checkFields(); err != nil {
		return err
	}
	env, err := e.environment(p.fixed, p.view)
	if err != nil {
		return err
	}
	return p.planIn(env, parsed)
}

// planIn checks and plans in an environment.
func (p *program) planIn(env *cel.Env, parsed *cel.Ast) error {
	checked, issues := env.Check(parsed)
	// A check tells of 100 mistakes at most.
	for attempt := 0; hasErrors(issues); attempt++ {
		if attempt == maxRounds || !p.mixNumbers(issues) {
			return p.explain(issues)
		}
		checked, issues = env.Check(parsed)
	}
	if err := p.resolveNeighbours(checked.NativeRep()); err != nil {
		return err
	}
	p.result = checked.OutputType()
	limit := uint64(maxCost)
	if p.view == Moving {
		limit = maxMoving
	}
	var err error
	p.run, err = env.PlanProgram(ordering(checked.NativeRep()),
		cel.CostLimit(limit), cel.CostTracking(costs{}), cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(guard))
	if err != nil {
		return p.invalid("%s", shorten(err.Error()))
	}
	return nil
}

// hasErrors does without issues.Err, which renders all of them.
func hasErrors(issues *cel.Issues) bool { return issues != nil && len(issues.Errors()) > 0 }

// fixedType is the type that a conjunct requires; empty: none does.
func fixedType(tree ast.Expr) intent.TypeName {
	for _, conjunct := range conjuncts(tree) {
		left, right, ok := comparison(conjunct, operators.Equals)
		if ok && isVariable(left, "type") {
			if name, ok := textLiteral(right); ok {
				return intent.TypeName(name)
			}
		}
	}
	return ""
}

// conjuncts are the parts of which each must be true.
func conjuncts(tree ast.Expr) []ast.Expr {
	if tree.Kind() == ast.CallKind && tree.AsCall().FunctionName() == operators.LogicalAnd {
		var parts []ast.Expr
		for _, argument := range tree.AsCall().Args() {
			parts = append(parts, conjuncts(argument)...)
		}
		return parts
	}
	return []ast.Expr{tree}
}

// comparison is a call of a binary operator; the literal, if there is one, is
// on the right.
func comparison(tree ast.Expr, operator string) (left, right ast.Expr, ok bool) {
	if tree.Kind() != ast.CallKind || tree.AsCall().FunctionName() != operator || len(tree.AsCall().Args()) != 2 {
		return nil, nil, false
	}
	left, right = tree.AsCall().Args()[0], tree.AsCall().Args()[1]
	if left.Kind() == ast.LiteralKind && operator == operators.Equals {
		left, right = right, left
	}
	return left, right, true
}

func isVariable(tree ast.Expr, name string) bool {
	return tree.Kind() == ast.IdentKind && tree.AsIdent() == name
}

func textLiteral(tree ast.Expr) (string, bool) {
	if tree.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := tree.AsLiteral().(types.String)
	return string(text), ok
}
