package rule

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"lehr.dev/internal/ground/intent"
)

// View is what an expression finds beside the asset.
type View int

const (
	// Alone: nothing.
	Alone View = iota
	// Among: the assets it refers to, as "to", and those that refer to it, as
	// "from". Each has id, type, payload, labels, scopes and owner.
	Among
	// Answered: what something outside said, as "answer".
	Answered
	// Moving: what a push would do, as "diff", and what is known when it is asked
	// for, as "facts". See Push. Such a condition is asked again and again, so it
	// may cost less than others.
	Moving
	// overAll: aggregates, and no asset.
	overAll
)

const (
	neighbourType = "lehr.Neighbour"
	answerType    = "lehr.Answer"
	diffType      = "lehr.Diff"
	changeType    = "lehr.Change"
	factsType     = "lehr.Facts"
)

var textMap = cel.MapType(cel.StringType, cel.StringType)

// structs are the types that views have of their own. Their values are maps.
var structs = map[string]map[string]*cel.Type{
	neighbourType: {
		"id": cel.StringType, "type": cel.StringType, "payload": cel.DynType,
		"labels": textMap, "scopes": textMap, "owner": cel.StringType,
	},
	answerType: {
		"status": cel.IntType, "exit": cel.IntType, "text": cel.StringType,
		"body": cel.DynType, "rows": cel.ListType(cel.MapType(cel.StringType, cel.DynType)),
	},
	diffType: {"action": cel.StringType, "destructive": cel.BoolType, "changes": cel.ListType(cel.ObjectType(changeType))},
	changeType: {
		"path": cel.StringType, "current": cel.StringType, "target": cel.StringType, "reason": cel.StringType, "destructive": cel.BoolType,
	},
	factsType: {
		"now": cel.TimestampType, "incarnation": cel.StringType, "sequence": cel.IntType, "published": cel.TimestampType, "age": cel.DurationType,
		"mode": cel.StringType, "health": cel.StringType, "health_reason": cel.StringType,
	},
}

func viewFields() []string {
	var names []string
	for _, fields := range structs {
		names = slices.AppendSeq(names, maps.Keys(fields))
	}
	slices.Sort(names)
	return names
}

func (v View) names() []string {
	switch v {
	case Among:
		return append([]string{"from", "to"}, variableNames...)
	case Answered:
		return append([]string{"answer"}, variableNames...)
	case Moving:
		return append([]string{"diff", "facts"}, variableNames...)
	case overAll:
		return []string{"key"}
	}
	return variableNames
}

// declares what the view adds to an environment.
func (v View) declares(base *cel.Env) []cel.EnvOption {
	provider := cel.CustomTypeProvider(&withStructs{base.CELTypeProvider()})
	switch v {
	case Among:
		list := cel.ListType(cel.ObjectType(neighbourType))
		return []cel.EnvOption{provider, cel.Variable("to", list), cel.Variable("from", list)}
	case Answered:
		return []cel.EnvOption{provider, cel.Variable("answer", cel.ObjectType(answerType))}
	case Moving:
		return []cel.EnvOption{provider, cel.Variable("diff", cel.ObjectType(diffType)), cel.Variable("facts", cel.ObjectType(factsType))}
	}
	return nil
}

// withStructs knows the types of views too.
type withStructs struct{ types.Provider }

func (w *withStructs) FindStructType(name string) (*types.Type, bool) {
	if structs[name] != nil {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return w.Provider.FindStructType(name)
}

func (w *withStructs) FindStructFieldNames(name string) ([]string, bool) {
	if fields := structs[name]; fields != nil {
		return slices.Sorted(maps.Keys(fields)), true
	}
	return w.Provider.FindStructFieldNames(name)
}

func (w *withStructs) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if fields := structs[name]; fields != nil {
		fieldType := fields[field]
		return &types.FieldType{Type: fieldType}, fieldType != nil
	}
	return w.Provider.FindStructFieldType(name, field)
}

// resolveNeighbours turns the short names of types that neighbours' types are
// compared with into the full ones.
func (p *program) resolveNeighbours(checked *ast.AST) error {
	if p.view != Among {
		return nil
	}
	isType := func(node ast.Expr) bool {
		return node.Kind() == ast.SelectKind && node.AsSelect().FieldName() == "type" &&
			checked.GetType(node.AsSelect().Operand().ID()).TypeName() == neighbourType
	}
	var first error
	ast.PostOrderVisit(checked.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		if first != nil || node.Kind() != ast.CallKind || len(node.AsCall().Args()) != 2 {
			return
		}
		left, right := node.AsCall().Args()[0], node.AsCall().Args()[1]
		literals := []ast.Expr{right}
		switch node.AsCall().FunctionName() {
		case operators.Equals, operators.NotEquals:
			if isType(right) {
				left, literals[0] = right, left
			}
		case operators.In:
			if right.Kind() == ast.ListKind {
				literals = right.AsList().Elements()
			}
		default:
			return
		}
		for _, literal := range literals {
			if first == nil && isType(left) {
				first = p.literal("type", literal)
			}
		}
	}))
	return first
}

// Condition says yes or no of an asset, in a view.
type Condition struct{ *program }

// Condition compiles a condition over assets of one payload type; empty: of
// any. Invalid says where it is wrong, and what may have been meant.
func (e *Environment) Condition(text string, payloadType intent.TypeName, view View) (*Condition, error) {
	p, err := e.program(text, payloadType, view)
	if err != nil {
		return nil, err
	}
	if !p.gives(cel.BoolType) {
		return nil, p.invalid("gives %s, not a truth value", p.output()).
			WithHint("a condition says yes or no, for example: payload.replicas >= 2")
	}
	return &Condition{p}, nil
}

// Added is what a view adds to an asset.
type Added struct {
	To, From []intent.Asset
	Answer   Answer
	Push     Push
}

// Push is what one would do, and what is known when it is asked for.
type Push struct {
	Plan        intent.Plan
	Now         time.Time
	Incarnation intent.IncarnationID
	// Published is when that incarnation was; zero: not known.
	Published time.Time
	Mode      string
	Health    intent.Health
}

func (p Push) diff() map[string]any {
	changes := make([]any, len(p.Plan.Changes))
	for i, c := range p.Plan.Changes {
		changes[i] = map[string]any{"path": c.Path, "current": c.Current, "target": c.Target, "reason": c.Reason, "destructive": c.Destructive}
	}
	return map[string]any{"action": string(p.Plan.Action), "destructive": p.Plan.Destructive(), "changes": changes}
}

// facts leaves out what is not known: whoever asks for it has no answer.
func (p Push) facts() map[string]any {
	facts := map[string]any{
		"now": p.Now, "incarnation": p.Incarnation.String(), "sequence": int64(p.Incarnation.Sequence),
		"mode": p.Mode, "health": string(p.Health.State), "health_reason": p.Health.Reason,
	}
	if !p.Published.IsZero() {
		facts["published"], facts["age"] = p.Published, p.Now.Sub(p.Published)
	}
	return facts
}

// Answer of something outside.
type Answer struct {
	Status, Exit int
	Text         string
	Rows         []map[string]any
}

// body is what the text is in JSON; nil: it is none. It takes many times as much
// memory as the text, and so is made only while a condition looks.
func (a Answer) body() (body any) {
	if json.Unmarshal([]byte(a.Text), &body) != nil {
		return nil
	}
	return body
}

// Holds reports whether the condition is true of an asset. An error means that
// there is no answer, which is neither.
func (c *Condition) Holds(asset intent.Asset, added Added) (bool, error) {
	bindings := map[string]any{}
	switch c.view {
	case Among:
		for name, list := range map[string][]intent.Asset{"to": added.To, "from": added.From} {
			neighbours := make([]any, len(list))
			for i, neighbour := range list {
				neighbours[i] = c.neighbour(neighbour)
			}
			bindings[name] = neighbours
		}
	case Answered:
		bindings["answer"] = map[string]any{
			"status": added.Answer.Status, "exit": added.Answer.Exit, "text": added.Answer.Text,
			"body": added.Answer.body(), "rows": added.Answer.Rows,
		}
	}
	if c.view == Moving {
		bindings["diff"], bindings["facts"] = added.Push.diff(), added.Push.facts()
	}
	value, _, err := c.measured(asset, bindings)
	if err != nil {
		return false, err
	}
	truth, ok := value.(types.Bool)
	if !ok {
		return false, c.failf(asset, "gives %s, not a truth value", value.Type().TypeName())
	}
	return bool(truth), nil
}

// Reads reports whether the condition may look at a field of a variable of its
// view.
func (c *Condition) Reads(variable, field string) bool {
	named, selected, read := 0, 0, false
	ast.PreOrderVisit(c.tree.Expr(), ast.NewExprVisitor(func(node ast.Expr) {
		switch {
		case isVariable(node, variable):
			named++
		case node.Kind() == ast.SelectKind && isVariable(node.AsSelect().Operand(), variable):
			selected++
			read = read || node.AsSelect().FieldName() == field
		}
	}))
	return read || named > selected
}

// neighbour is what is seen of an asset by another.
func (p *program) neighbour(asset intent.Asset) map[string]any {
	visible := map[string]any{}
	vars := &variables{set: p.set, asset: asset}
	for field := range structs[neighbourType] {
		visible[field], _ = vars.ResolveName(field)
	}
	return visible
}

// IsExpression tells CEL from a text for people: one that is not CEL at all, or
// is a single word.
func (e *Environment) IsExpression(text string) bool {
	parsed, err := e.parse(source{text: text})
	return err == nil && parsed.NativeRep().Expr().Kind() != ast.IdentKind
}
