package rule

import (
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// NoticeSubject is what a notification is about.
type NoticeSubject int

// Subjects of notifications.
const (
	NoticeOfAssets NoticeSubject = iota
	NoticeOfPartition
	NoticeOfDelivery
	NoticeOfWorkflow
	// NoticeOfReport is the fact of a workflow: of an asset's present report alone, so that it
	// changes only with that.
	NoticeOfReport
)

// SubjectOf a notification.
func SubjectOf(n *intentpb.Notification) NoticeSubject {
	switch {
	case n.GetOfPartition():
		return NoticeOfPartition
	case n.GetOfDelivery():
		return NoticeOfDelivery
	case n.GetOfWorkflow():
		return NoticeOfWorkflow
	}
	return NoticeOfAssets
}

// Notice is an expression of a notification. It finds the variable now and, of an asset,
// report and before (lehr.intent.v1.NotedReport), or partition (NotedPartition), or delivery
// (NotedDelivery), or workflow (NotedWorkflow).
type Notice struct {
	text    string
	program cel.Program
}

var notices = map[NoticeSubject]func() (*cel.Env, error){
	NoticeOfAssets:    sync.OnceValues(func() (*cel.Env, error) { return newNotices(&intentpb.NotedReport{}, "report", "before", "now") }),
	NoticeOfPartition: sync.OnceValues(func() (*cel.Env, error) { return newNotices(&intentpb.NotedPartition{}, "partition", "now") }),
	NoticeOfDelivery:  sync.OnceValues(func() (*cel.Env, error) { return newNotices(&intentpb.NotedDelivery{}, "delivery", "now") }),
	NoticeOfWorkflow:  sync.OnceValues(func() (*cel.Env, error) { return newNotices(&intentpb.NotedWorkflow{}, "workflow", "now") }),
	NoticeOfReport:    sync.OnceValues(func() (*cel.Env, error) { return newNotices(&intentpb.NotedReport{}, "report") }),
}

// noticeFinds says what expressions find, by subject.
var noticeFinds = map[NoticeSubject]string{
	NoticeOfAssets:    "it finds report, before and now; of: partition lets it find partition and now, of: delivery delivery and now, of: workflow workflow and now",
	NoticeOfPartition: "it finds partition and now", NoticeOfDelivery: "it finds delivery and now",
	NoticeOfWorkflow: "it finds workflow and now",
	NoticeOfReport:   "a fact finds report",
}

func newNotices(subject proto.Message, names ...string) (*cel.Env, error) {
	options := append([]cel.EnvOption{
		cel.Types(subject),
		cel.DefaultUTCTimeZone(true), cel.ParserRecursionLimit(maxDepth), cel.ParserErrorRecoveryLimit(4),
		cel.ParserExpressionSizeLimit(maxText), cel.ExpressionNodeLimit(maxNodes),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}, textFunctions()...)
	for _, name := range names {
		if name == "now" {
			options = append(options, cel.Variable(name, cel.TimestampType))
			continue
		}
		options = append(options, cel.Variable(name, cel.ObjectType(string(subject.ProtoReflect().Descriptor().FullName()))))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot prepare the expressions of notifications: %w", err)
	}
	return env, nil
}

// NoticeWhen compiles a condition.
func NoticeWhen(text string, subject NoticeSubject) (*Notice, error) {
	return newNotice(text, subject, cel.BoolType, "a truth value")
}

// NoticeText compiles what gives a text.
func NoticeText(text string, subject NoticeSubject) (*Notice, error) {
	return newNotice(text, subject, cel.StringType, "a text")
}

func newNotice(text string, subject NoticeSubject, gives *cel.Type, words string) (*Notice, error) {
	env, err := notices[subject]()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, fault.New(fault.Invalid, "%.200q is no expression of a notification: %s", text, shorten(issues.Err().Error())).WithHint("%s; docs/operate/notifications.md has their fields", noticeFinds[subject])
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
	Delivery       *intentpb.NotedDelivery
	Workflow       *intentpb.NotedWorkflow
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
	switch {
	case input.Partition != nil:
		variables["partition"] = input.Partition
	case input.Delivery != nil:
		variables["delivery"] = input.Delivery
	case input.Workflow != nil:
		variables["workflow"] = input.Workflow
	default:
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
