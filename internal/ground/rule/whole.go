package rule

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// maxAggregates in one condition.
const maxAggregates = 10

// Whole is a condition over aggregates of assets: count(FILTER),
// sum(NUMBER, FILTER), min(NUMBER, FILTER) and max(NUMBER, FILTER), of which
// the last three may do without the filter. A conjunct "TEXT == key" of a
// filter groups the assets by that text; the condition is then judged for each
// key.
type Whole struct {
	*program
	Aggregates []*Aggregate
	// Keyed: it asks for the key.
	Keyed bool
}

// Aggregate says what one asset contributes.
type Aggregate struct {
	// Function is "count", "sum", "min" or "max".
	Function string
	// value, where and by are nil: 1, all, and one group.
	value, filter, grouping *program
}

// Whole compiles a condition over aggregates.
func (e *Environment) Whole(text string) (*Whole, error) {
	key := source{text: text, view: overAll}
	parsed, err := e.parse(key)
	if err != nil {
		return nil, err
	}
	w := &Whole{program: &program{source: key, set: e.set, names: overAll.names(), tree: parsed.NativeRep()}}
	declared := []cel.EnvOption{cel.Variable("key", cel.StringType)}
	var first error
	ast.PreOrderVisit(w.tree.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		w.Keyed = w.Keyed || isVariable(node, "key")
		if first != nil || node.Kind() != ast.CallKind || node.AsCall().IsMemberFunction() || !slices.Contains(aggregating, node.AsCall().FunctionName()) {
			return
		}
		aggregate, err := e.aggregate(w.program, node)
		if err == nil && len(w.Aggregates) == maxAggregates {
			err = w.at(node, "there are more than %d aggregates", maxAggregates).WithHint("write several rules")
		}
		if err != nil {
			first = err
			return
		}
		name, kind := fmt.Sprint("@", len(w.Aggregates)), cel.DoubleType
		if aggregate.Function == "count" {
			kind = cel.IntType
		}
		declared = append(declared, cel.Variable(name, kind))
		w.Aggregates, w.Keyed = append(w.Aggregates, aggregate), w.Keyed || aggregate.grouping != nil
		node.SetKindCase(nodesOf.NewIdent(node.ID(), name))
	}))
	if first != nil {
		return nil, first
	}
	if len(w.Aggregates) == 0 {
		return nil, w.invalid("has no aggregate").WithHint(`write for example count(type == "Job") >= 2`)
	}
	env, err := e.declare(declared...)
	if err != nil {
		return nil, err
	}
	if err := w.resolveNames(); err != nil {
		return nil, err
	}
	if err := w.planIn(env, parsed); err != nil {
		return nil, err
	}
	if !w.gives(cel.BoolType) {
		return nil, w.invalid("gives %s, not a truth value", w.output())
	}
	return w, nil
}

var aggregating = []string{"count", "sum", "min", "max"}

// aggregate compiles a call.
func (e *Environment) aggregate(parent *program, node ast.Expr) (*Aggregate, error) {
	a := &Aggregate{Function: node.AsCall().FunctionName()}
	arguments := node.AsCall().Args()
	most, usage := 2, a.Function+"(payload.replicas, FILTER)"
	if a.Function == "count" {
		most, usage = 1, `count(type == "Job")`
	}
	if len(arguments) == 0 || len(arguments) > most {
		return nil, parent.at(node, "%s has %d arguments", a.Function, len(arguments)).WithHint("write %s", usage)
	}
	var value, filter ast.Expr
	if a.Function == "count" {
		filter = arguments[0]
	} else if value = arguments[0]; len(arguments) == 2 {
		filter = arguments[1]
	}
	var grouping ast.Expr
	var rest []ast.Expr
	if filter != nil {
		for _, conjunct := range conjuncts(filter) {
			left, right, ok := comparison(conjunct, operators.Equals)
			if ok && isVariable(left, "key") {
				left, right = right, left
			}
			if ok && isVariable(right, "key") && grouping == nil {
				grouping = left
				continue
			}
			rest = append(rest, conjunct)
		}
	}
	var err error
	fixed := intent.TypeName("")
	if len(rest) > 0 {
		if a.filter, err = e.part(parent, rest, ""); err != nil {
			return nil, err
		}
		if !a.filter.gives(cel.BoolType) {
			return nil, parent.at(filter, "the filter of %s gives %s, not a truth value", a.Function, a.filter.output()).WithHint("write %s", usage)
		}
		fixed = a.filter.fixed
	}
	if value != nil {
		if a.value, err = e.part(parent, []ast.Expr{value}, fixed); err != nil {
			return nil, err
		}
	}
	if grouping != nil {
		a.grouping, err = e.part(parent, []ast.Expr{grouping}, fixed)
	}
	return a, err
}

// part compiles the conjunction of nodes of an expression as one over assets.
// The text is parsed anew, for a program changes its tree.
func (e *Environment) part(parent *program, nodes []ast.Expr, payloadType intent.TypeName) (*program, error) {
	parsed, err := e.parse(parent.source)
	if err != nil {
		return nil, err
	}
	tree := parsed.NativeRep()
	byID, id := map[int64]ast.Expr{}, ast.MaxID(tree)
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(node ast.Expr) { byID[node.ID()] = node }))
	whole := byID[nodes[0].ID()]
	for _, next := range nodes[1:] {
		id++
		whole = nodesOf.NewCall(id, operators.LogicalAnd, whole, byID[next.ID()])
	}
	p := &program{source: source{text: parent.text, payloadType: payloadType}, set: e.set, names: variableNames, fixed: payloadType, tree: tree}
	tree.Expr().SetKindCase(whole)
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		if err == nil && isVariable(node, "key") {
			err = p.at(node, "key stands for itself, in one conjunct of a filter").WithHint("write for example count(type == \"Job\" && scope == key)")
		}
	}))
	if err != nil {
		return nil, err
	}
	return p, e.plan(p, parsed)
}

// Type that every asset which contributes has; empty: any.
func (a *Aggregate) Type() intent.TypeName {
	if a.filter != nil {
		return a.filter.fixed
	}
	return ""
}

// Grouped reports whether it is counted by key.
func (a *Aggregate) Grouped() bool { return a.grouping != nil }

// Of says what an asset contributes: to which group, and how much. An asset
// that the filter does not match, or that has no key, contributes nothing. An
// error says that it cannot be known: the aggregate has no value then.
func (a *Aggregate) Of(asset intent.Asset) (key string, number float64, contributes bool, err error) {
	if fixed := a.Type(); fixed != "" && asset.Payload.Type != fixed {
		return "", 0, false, nil
	}
	if a.filter != nil {
		value, err := a.filter.evaluate(asset)
		if errors.Is(err, errNoValue) || err == nil && value != types.True {
			return "", 0, false, nil
		}
		if err != nil {
			return "", 0, false, err
		}
	}
	if a.grouping != nil {
		key, err = (&Expression{a.grouping}).Text(asset)
		if errors.Is(err, errNoValue) {
			return "", 0, false, nil
		}
		if err != nil {
			return "", 0, false, err
		}
	}
	number = 1
	if a.value != nil {
		if number, err = (&Expression{a.value}).Number(asset); err != nil {
			return key, 0, false, err
		}
	}
	return key, number, true, nil
}

// Holds judges the condition by the values of its aggregates. NaN is no value.
func (w *Whole) Holds(key string, values []float64) (bool, error) {
	bindings := map[string]any{"key": key}
	for i, a := range w.Aggregates {
		name := fmt.Sprint("@", i)
		switch {
		case math.IsNaN(values[i]):
			bindings[name] = types.NewErr("%s of nothing has no value", a.Function)
		case a.Function == "count":
			bindings[name] = int64(values[i])
		default:
			bindings[name] = values[i]
		}
	}
	value, _, err := w.run.Eval(bindings)
	if err != nil {
		return false, fault.New(fault.Invalid, "expression %.200q %w: %s", w.text, errNoValue, shorten(reason(err))).
			WithHint("min and max of nothing have no value: ask first whether count(…) > 0")
	}
	truth, ok := value.(types.Bool)
	if !ok {
		return false, w.invalid("gives %s, not a truth value", value.Type().TypeName())
	}
	return bool(truth), nil
}

// Told says what the aggregates of a condition came to, for people.
func (w *Whole) Told(values []float64) string {
	var parts []string
	for i, a := range w.Aggregates {
		number := "nothing"
		if !math.IsNaN(values[i]) {
			number = fmt.Sprint(values[i])
		}
		parts = append(parts, a.Function+" "+number)
	}
	return strings.Join(parts, ", ")
}
