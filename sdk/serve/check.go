package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/pluginhost/plugin"
)

// Check is a plugin of checks: it says whether a push may be, or a version come to an environment, which assets of a rollout's
// stage go on, or what was measured of them. Its main is
//
//	os.Exit(serve.MainCheck(serve.Check{Name: "quiet", Version: "1", Judge: judge}))
type Check struct {
	// Name and Version are for people.
	Name, Version string
	// Judge is asked by many goroutines at once. It must end with its context, and
	// change nothing. An error is no answer; one of Misconfigured says that it will
	// stay so until somebody mends it.
	Judge func(ctx context.Context, request *pluginpb.JudgeRequest) (Judgement, error)
	// Select says which assets of a stage may go on now, as Judge is asked. It may be
	// nil, and so may the others.
	Select func(ctx context.Context, request *pluginpb.SelectRequest) (Selection, error)
	// Measure gives samples of a metric for the time that is asked about, as Judge is
	// asked; none: there are none.
	Measure func(ctx context.Context, request *pluginpb.MeasureRequest) ([]Sample, error)
}

// Sample of a metric.
type Sample struct {
	At time.Time
	// Value; NaN: there was no number. Of events, how many of the trials.
	Value float64
	// Of is how many trials there were, of events; nil: it is no count of events.
	Of *float64
}

// Selection of assets that may go on.
type Selection struct {
	Assets []string
	// Reason why the others wait, for people; required when none may go on.
	Reason string
	// Next is when to ask again though nothing changed; zero: soon.
	Next time.Time
}

// Judgement of a push or a promotion; the zero one is none.
type Judgement struct {
	pass, blocks bool
	reason       string
	until        time.Time
}

// Pass lets it be, for that reason, which may be empty.
func Pass(reason string) Judgement { return Judgement{pass: true, reason: reason} }

// Blocking says no, for a reason that people read.
func Blocking(reason string) Judgement { return Judgement{blocks: true, reason: reason} }

// Until is when a pass ends, or when a no may.
func (j Judgement) Until(at time.Time) Judgement {
	j.until = at
	return j
}

// misconfigured is an error that somebody must mend.
type misconfigured struct{ error }

// Misconfigured says that it cannot be asked so, until somebody mends what is wrong.
func Misconfigured(format string, arguments ...any) error {
	return misconfigured{fmt.Errorf(format, arguments...)}
}

// MainCheck serves the plugin to the Lehr that started it until that ends, and returns
// the exit code. Run by hand it says what it is.
func MainCheck(c Check) int {
	socket := os.Getenv(plugin.SocketVariable)
	if socket == "" {
		fmt.Fprintf(os.Stderr, "%s %s is a plugin of checks for Lehr, which starts it.\n\nWhoever runs the server lists it, in the file of --external-checks:\n  plugins:\n    - {name: %s, run: [/path/to/%s], partitions: [\"*\"]}\n\nHold it to the protocol:\n  lehr plugin test --checks -- %s\n", c.Name, c.Version, c.Name, c.Name, c.Name)
		return 2
	}
	ctx, cancel := signal.NotifyContext(context.Background(), unix.SIGTERM, os.Interrupt)
	defer cancel()
	if err := c.serve(ctx, socket); err != nil {
		fmt.Fprintln(os.Stderr, c.Name+":", err)
		return 1
	}
	return 0
}

func (c Check) serve(ctx context.Context, socket string) error {
	if err := os.Unsetenv(plugin.SocketVariable); err != nil {
		return err
	}
	go exitWithParent()
	old := unix.Umask(0o177)
	listener, err := net.Listen("unix", socket)
	unix.Umask(old)
	if err != nil {
		return fmt.Errorf("listening for Lehr on %s: %w", socket, err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	pluginpb.RegisterCheckServiceServer(server, checkService{check: c})
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	return server.Serve(listener)
}

// checkService answers Lehr.
type checkService struct {
	pluginpb.UnimplementedCheckServiceServer
	check Check
}

func (s checkService) DescribeChecks(context.Context, *pluginpb.DescribeChecksRequest) (*pluginpb.DescribeChecksResponse, error) {
	return &pluginpb.DescribeChecksResponse{Protocol: plugin.Protocol, Name: s.check.Name, Version: s.check.Version}, nil
}

func (s checkService) Judge(ctx context.Context, request *pluginpb.JudgeRequest) (*pluginpb.JudgeResponse, error) {
	if s.check.Judge == nil {
		return nil, status.Error(codes.Unimplemented, "it judges no pushes")
	}
	if request.Phase == "promotion" {
		if request.Content == "" || request.Version == "" || request.Environment == "" || request.Application == "" {
			return nil, status.Error(codes.InvalidArgument, "it was asked about no version, environment or application")
		}
	} else if request.Content == "" || request.PlanDigest == "" || request.Asset == "" || request.Phase == "" {
		return nil, status.Error(codes.InvalidArgument, "it was asked about no asset, content, plan or phase")
	}
	judged, err := s.check.Judge(ctx, request)
	if err != nil {
		return nil, unanswered(err)
	}
	response := &pluginpb.JudgeResponse{Content: request.Content, PlanDigest: request.PlanDigest, Reason: judged.reason}
	switch {
	case judged.blocks:
		response.Judgement = pluginpb.JudgeResponse_JUDGEMENT_BLOCKING
	case judged.pass:
		response.Judgement = pluginpb.JudgeResponse_JUDGEMENT_PASS
	default:
		return nil, status.Error(codes.Internal, "the plugin neither passed the push nor blocked it")
	}
	if !judged.until.IsZero() {
		response.Until = timestamppb.New(judged.until)
	}
	return response, nil
}

func (s checkService) Select(ctx context.Context, request *pluginpb.SelectRequest) (*pluginpb.SelectResponse, error) {
	if s.check.Select == nil {
		return nil, status.Error(codes.Unimplemented, "it selects for no rollout")
	}
	if request.Stage == "" || request.Run == 0 {
		return nil, status.Error(codes.InvalidArgument, "it was asked about no stage of no run")
	}
	selected, err := s.check.Select(ctx, request)
	if err != nil {
		return nil, unanswered(err)
	}
	response := &pluginpb.SelectResponse{Stage: request.Stage, Run: request.Run, Assets: selected.Assets, Reason: selected.Reason}
	if !selected.Next.IsZero() {
		response.Next = timestamppb.New(selected.Next)
	}
	return response, nil
}

func (s checkService) Measure(ctx context.Context, request *pluginpb.MeasureRequest) (*pluginpb.MeasureResponse, error) {
	if s.check.Measure == nil {
		return nil, status.Error(codes.Unimplemented, "it measures nothing")
	}
	if request.Metric == "" || request.Side == "" || request.Start == nil || request.End == nil {
		return nil, status.Error(codes.InvalidArgument, "it was asked about no metric, side or time")
	}
	samples, err := s.check.Measure(ctx, request)
	if err != nil {
		return nil, unanswered(err)
	}
	response := &pluginpb.MeasureResponse{Metric: request.Metric, Side: request.Side}
	for _, one := range samples {
		response.Samples = append(response.Samples, &pluginpb.MeasuredSample{At: timestamppb.New(one.At), Value: one.Value, Of: one.Of})
	}
	return response, nil
}

// unanswered is the status of an error of the plugin's own.
func unanswered(err error) error {
	if wrong, ok := errors.AsType[misconfigured](err); ok {
		return status.Error(codes.FailedPrecondition, wrong.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}
