package remote

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/pluginhost/plugin"
)

// Checker is a plugin of checks: a child that is started when it is asked first, and
// again when it is asked after it ended. It holds no lock, for it changes nothing.
type Checker struct {
	options Options

	mutex  sync.Mutex
	living *living
	closed bool
}

// living is one life of the child.
type living struct {
	process *process
	conn    *grpc.ClientConn
}

// NewChecker returns a checker of the program in Options.Run, and starts nothing.
func NewChecker(options Options) *Checker { return &Checker{options: options.withDefaults()} }

// Judge asks it. Invalid or Denied: it cannot be asked so, until somebody mends that;
// any other error may end by itself.
func (c *Checker) Judge(ctx context.Context, request *pluginpb.JudgeRequest) (*pluginpb.JudgeResponse, error) {
	l, err := c.life(ctx)
	if err != nil {
		return nil, err
	}
	response, err := pluginpb.NewCheckServiceClient(l.conn).Judge(ctx, request)
	if err != nil {
		return nil, unanswered(err)
	}
	return response, CheckJudgement(request, response)
}

// Select asks it which assets go on. Errors are as of Judge.
func (c *Checker) Select(ctx context.Context, request *pluginpb.SelectRequest) (*pluginpb.SelectResponse, error) {
	l, err := c.life(ctx)
	if err != nil {
		return nil, err
	}
	response, err := pluginpb.NewCheckServiceClient(l.conn).Select(ctx, request)
	if err != nil {
		return nil, unanswered(err)
	}
	return response, CheckSelection(request, response)
}

// Measure asks it for samples of a metric. Errors are as of Judge.
func (c *Checker) Measure(ctx context.Context, request *pluginpb.MeasureRequest) (*pluginpb.MeasureResponse, error) {
	l, err := c.life(ctx)
	if err != nil {
		return nil, err
	}
	response, err := pluginpb.NewCheckServiceClient(l.conn).Measure(ctx, request)
	if err != nil {
		return nil, unanswered(err)
	}
	return response, CheckMeasures(request, response)
}

// unanswered says why there is no answer.
func unanswered(err error) error {
	switch message := printable(status.Convert(err).Message(), maxReason); status.Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.NotFound, codes.Unimplemented:
		return fault.New(fault.Invalid, "it says that it cannot be asked so: %s", message)
	case codes.PermissionDenied, codes.Unauthenticated:
		return fault.New(fault.Denied, "it refuses: %s", message)
	default:
		return fault.New(fault.Unavailable, "it did not answer: %s", message)
	}
}

// CheckSelection says what makes an answer none (S11, S26).
func CheckSelection(request *pluginpb.SelectRequest, response *pluginpb.SelectResponse) error {
	if response.Stage != request.Stage || response.Run != request.Run {
		return fault.New(fault.Unavailable, "it answered for the stage %s of run %d", printable(response.Stage, maxName), response.Run)
	}
	waits := map[string]bool{}
	for _, t := range request.Targets {
		waits[t.Asset] = !t.Selected
	}
	goes := 0
	for _, asset := range response.Assets {
		waiting, ok := waits[asset]
		if !ok {
			return fault.New(fault.Invalid, "it selected %s, which is not of the stage", printable(asset, maxName))
		}
		if waiting {
			goes++
		}
	}
	switch {
	case goes == 0 && response.Reason == "":
		return fault.New(fault.Invalid, "it lets nothing go on, and does not say why")
	case response.Next != nil && !response.Next.IsValid():
		return fault.New(fault.Invalid, "its time when to ask again is none")
	}
	return nil
}

// CheckMeasures says what makes an answer none (S11, S26).
func CheckMeasures(request *pluginpb.MeasureRequest, response *pluginpb.MeasureResponse) error {
	if response.Metric != request.Metric || response.Side != request.Side {
		return fault.New(fault.Unavailable, "it answered for the side %s of the metric %s", printable(response.Side, maxName), printable(response.Metric, maxName))
	}
	if most := int(request.Most); len(response.Samples) > most {
		return fault.New(fault.Invalid, "it gave %d samples, more than %d", len(response.Samples), most).WithHint("aggregate them, as to one for each step")
	}
	for i, s := range response.Samples {
		if s.At == nil || !s.At.IsValid() {
			return fault.New(fault.Invalid, "sample %d has no time", i+1)
		}
		if at := s.At.AsTime(); at.Before(request.Start.AsTime()) || at.After(request.End.AsTime()) {
			return fault.New(fault.Invalid, "sample %d is of %s, which was not asked about", i+1, at.Format(time.RFC3339))
		}
	}
	return nil
}

// CheckJudgement says what makes an answer none (S11, S26).
func CheckJudgement(request *pluginpb.JudgeRequest, response *pluginpb.JudgeResponse) error {
	switch {
	case response.Content != request.Content || response.PlanDigest != request.PlanDigest:
		return fault.New(fault.Unavailable, "it answered for other content, or for another plan: %s", printable(response.PlanDigest, maxName))
	case response.Judgement != pluginpb.JudgeResponse_JUDGEMENT_PASS && response.Judgement != pluginpb.JudgeResponse_JUDGEMENT_BLOCKING:
		return fault.New(fault.Invalid, "its judgement %d is neither pass nor blocking", response.Judgement)
	case response.Until != nil && !response.Until.IsValid():
		return fault.New(fault.Invalid, "its time until when is none")
	}
	return nil
}

// life is the child that lives, started if there is none.
func (c *Checker) life(ctx context.Context) (*living, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return nil, fault.New(fault.Unavailable, "plugin %s was left when lehr ended", c.options.Name)
	}
	if c.living != nil {
		select {
		case <-c.living.process.terminated:
			c.end()
		default:
			return c.living, nil
		}
	}
	path, err := LookUp(c.options.Run[0])
	if err != nil {
		return nil, fault.New(fault.Invalid, "%w", err)
	}
	process, err := spawn(c.options, path, nil)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, process) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.WaitForReady(true)),
	)
	if err != nil {
		process.kill()
		return nil, fault.New(fault.Internal, "dialling plugin %s: %w", c.options.Name, err)
	}
	c.living = &living{process, conn}
	if err := c.describe(ctx); err != nil {
		c.end()
		return nil, err
	}
	return c.living, nil
}

// describe looks at the protocol of one that has just begun.
func (c *Checker) describe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.StartTimeout)
	defer cancel()
	process := c.living.process
	go func() {
		select {
		case <-process.terminated:
			cancel()
		case <-ctx.Done():
		}
	}()
	response, err := pluginpb.NewCheckServiceClient(c.living.conn).DescribeChecks(ctx, &pluginpb.DescribeChecksRequest{Protocol: plugin.Protocol})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return fault.New(fault.Invalid, "plugin %s is no plugin of checks", c.options.Name).WithHint("an asset plugin is named under plugins in lehr.yaml")
	case err != nil:
		select {
		case <-process.terminated:
			return fault.New(fault.Unavailable, "plugin %s (%s) ended while starting: %v; %s", c.options.Name, c.options.Run[0], process.exitErr, process.log.last())
		case <-time.After(100 * time.Millisecond):
		}
		return fault.New(fault.Unavailable, "plugin %s (%s) did not serve: %w; %s", c.options.Name, c.options.Run[0], err, process.log.last())
	case response.Protocol != plugin.Protocol:
		return fault.New(fault.Invalid, "plugin %s speaks protocol %s, this lehr speaks version %d", c.options.Name, fmt.Sprintf("version %d", response.Protocol), plugin.Protocol)
	}
	return nil
}

// end ends the child that lives.
func (c *Checker) end() {
	if c.living == nil {
		return
	}
	c.living.conn.Close()
	c.living.process.kill()
	<-c.living.process.terminated
	c.living = nil
}

// Close ends the child.
func (c *Checker) Close() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.closed = true
	c.end()
}
