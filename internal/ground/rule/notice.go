package rule

import (
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// Notice is an expression of a notification. It finds the variable now and, of an asset,
// report and before (lehr.intent.v1.NotedReport), or else partition
// (lehr.intent.v1.NotedPartition).
type Notice struct {
	text    string
	program cel.Program
}

var notices = map[bool]func() (*cel.Env, error){
	false: sync.OnceValues(func() (*cel.Env, error) { return newNotices("report", "before") }),
	true:  sync.OnceValues(func() (*cel.Env, error) { return newNotices("partition") }),
}

func newNotices(names ...string) (*cel.Env, error) {
	report, partition := &intentpb.NotedReport{}, &intentpb.NotedPartition{}
	options := append([]cel.EnvOption{
		cel.Types(report, partition), cel.Variable("now", cel.TimestampType),
		cel.DefaultUTCTimeZone(true), cel.ParserRecursionLimit(maxDepth), cel.ParserErrorRecoveryLimit(4),
		cel.ParserExpressionSizeLimit(maxText), cel.ExpressionNodeLimit(maxNodes),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}, textFunctions()...)
	for _, name := range names {
		objectType := cel.ObjectType(string(report.ProtoReflect().Descriptor().FullName()))
		if name == "partition" {
			objectType = cel.ObjectType(string(partition.ProtoReflect().Descriptor().FullName()))
		}
		options = append(options, cel.Variable(name, objectType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot prepare the expressions of notifications: %w", err)
	}
	return env, nil
}

// NoticeWhen compiles a condition.
func NoticeWhen(text string, ofPartition bool) (*Notice, error) {
	return newNotice(text, ofPartition, cel.BoolType, "a truth value")
}

// NoticeText compiles what gives a text.
func NoticeText(text string, ofPartition bool) (*Notice, error) {
	return newNotice(text, ofPartition, cel.StringType, "a text")
}

func newNotice(text string, ofPartition bool, gives *cel.Type, words string) (*Notice, error) {
	env, err := notices[ofPartition]()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		hint := "it finds report, before and now; of: partition lets it find partition and now"
		if ofPartition {
			hint = "it finds partition and now"
		}
		return nil, fault.New(fault.Invalid, "%.200q is no expression of a notification: %s", text, shorten(issues.Err().Error())).WithHint("%s; docs/operate/notifications.md has their fields", hint)
	}
	if !ast.OutputType().IsExactType(gives) && !ast.OutputType().IsExactType(cel.DynType) {
		return nil, fault.New(fault.Invalid, "%.200q gives %s, not %s", text, ast.OutputType(), words).WithHint("string(…) writes values out, == compares them")
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.CostTracking(costs{}), cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(guard))
	if err != nil {
		return nil, fault.New(fault.Invalid, "%.200q is no expression of a notification: %w", text, err)
	}
	return &Notice{text, program}, nil
}

// Noted is what an expression of a notification is evaluated over.
type Noted struct {
	Report, Before *intentpb.NotedReport
	Partition      *intentpb.NotedPartition
	Now            time.Time
}

// Holds evaluates a condition.
func (n *Notice) Holds(input Noted) (bool, error) {
	value, err := n.evaluate(input)
	truth, ok := value.(bool)
	if err == nil && !ok {
		err = fault.New(fault.Invalid, "%.200q gives %v, not a truth value", n.text, value)
	}
	return truth, err
}

// Text evaluates to a text of one line, shortened to 300 bytes.
func (n *Notice) Text(input Noted) (string, error) {
	value, err := n.evaluate(input)
	text, ok := value.(string)
	if err == nil && !ok {
		err = fault.New(fault.Invalid, "%.200q gives %v, not a text", n.text, value)
	}
	return shorten(intent.Shown(text)), err
}

func (n *Notice) evaluate(input Noted) (any, error) {
	variables := map[string]any{"now": types.Timestamp{Time: input.Now}}
	if input.Partition != nil {
		variables["partition"] = input.Partition
	} else {
		variables["report"], variables["before"] = input.Report, input.Before
		if input.Before == nil {
			variables["before"] = &intentpb.NotedReport{}
		}
	}
	value, _, err := n.program.Eval(variables)
	if err != nil {
		return nil, fault.New(fault.Invalid, "evaluating %.200q: %s", n.text, shorten(reason(err)))
	}
	return value.Value(), nil
}
