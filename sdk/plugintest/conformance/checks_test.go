package conformance

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/serve"
)

// checker is a plugin of checks that is honest but for one lie, and does not use the
// SDK, which would keep it from lying.
type checker struct {
	pluginpb.UnimplementedCheckServiceServer
	lie   string
	mutex sync.Mutex
	asked int
	first *pluginpb.JudgeRequest
}

func runChecker(lie string) int {
	if lie == "honest" {
		return serve.MainCheck(serve.Check{Name: "honest", Version: "1", Judge: func(_ context.Context, asked *pluginpb.JudgeRequest) (serve.Judgement, error) {
			switch asked.Phase {
			case "before":
				return serve.Pass("all green").Until(time.Now().Add(time.Hour)), nil
			case "during":
				return serve.Blocking("errors rise"), nil
			case promotion:
				return serve.Blocking(asked.Version + " of " + asked.Application + " has no ticket for " + asked.Environment), nil
			}
			return serve.Judgement{}, serve.Misconfigured("it is not meant to be asked after a push")
		}})
	}
	listener, err := net.Listen("unix", os.Getenv(plugin.SocketVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if lie != "outlives its parent" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	server := grpc.NewServer()
	pluginpb.RegisterCheckServiceServer(server, &checker{lie: lie})
	_ = server.Serve(listener)
	return 0
}

func (c *checker) DescribeChecks(context.Context, *pluginpb.DescribeChecksRequest) (*pluginpb.DescribeChecksResponse, error) {
	said := &pluginpb.DescribeChecksResponse{Protocol: plugin.Protocol, Name: "liar", Version: "1"}
	switch c.lie {
	case "speaks another protocol":
		said.Protocol = 7
	case "has no name":
		said.Name = ""
	}
	return said, nil
}

func (c *checker) Judge(ctx context.Context, asked *pluginpb.JudgeRequest) (*pluginpb.JudgeResponse, error) {
	c.mutex.Lock()
	c.asked++
	nth := c.asked
	if c.first == nil {
		c.first = asked
	}
	first := c.first
	c.mutex.Unlock()
	isWhole := asked.Asset != "" && asked.Content != "" && asked.PlanDigest != "" && asked.Phase != ""
	if asked.Phase == promotion {
		isWhole = asked.Application != "" && asked.Environment != "" && asked.Version != "" && asked.Content != ""
	}
	if !isWhole && c.lie != "passes nothing" && (c.lie != "passes any version" || asked.Phase != promotion) {
		return nil, status.Error(codes.InvalidArgument, "asked about nothing")
	}
	said := &pluginpb.JudgeResponse{Content: asked.Content, PlanDigest: asked.PlanDigest, Judgement: pluginpb.JudgeResponse_JUDGEMENT_PASS}
	switch c.lie {
	case "says nothing":
		said.Judgement = pluginpb.JudgeResponse_JUDGEMENT_UNSPECIFIED
	case "says something else":
		said.Judgement = 9
	case "says no and not why":
		said.Judgement = pluginpb.JudgeResponse_JUDGEMENT_BLOCKING
	case "answers of yesterday":
		said.Until = timestamppb.New(time.Now().Add(-time.Hour))
	case "remembers the first plan":
		said.PlanDigest, said.Content = first.PlanDigest, first.Content
	case "hangs":
		<-ctx.Done()
	case "holds up others":
		c.mutex.Lock()
		time.Sleep(time.Second)
		c.mutex.Unlock()
	case "changes its mind":
		if nth%2 == 0 {
			said.Judgement, said.Reason = pluginpb.JudgeResponse_JUDGEMENT_BLOCKING, "on second thoughts"
		}
	}
	return said, nil
}

func (c *checker) Select(_ context.Context, asked *pluginpb.SelectRequest) (*pluginpb.SelectResponse, error) {
	said := &pluginpb.SelectResponse{Stage: asked.Stage, Run: asked.Run}
	switch c.lie {
	case "selects what it was not offered":
		said.Assets = []string{"example/99"}
	case "selects for another stage":
		said.Stage, said.Reason = "canary", "wait"
	case "selects nothing and not why":
	default:
		return nil, status.Error(codes.Unimplemented, "it selects for no rollout")
	}
	return said, nil
}

func (c *checker) Measure(_ context.Context, asked *pluginpb.MeasureRequest) (*pluginpb.MeasureResponse, error) {
	said := &pluginpb.MeasureResponse{Metric: asked.Metric, Side: asked.Side}
	switch c.lie {
	case "measures another side":
		said.Side = "before"
	case "measures more than it was asked":
		said.Samples = slices.Repeat([]*pluginpb.MeasuredSample{{At: asked.Start}}, int(asked.Most)+1)
	case "measures yesterday":
		said.Samples = []*pluginpb.MeasuredSample{{At: timestamppb.New(asked.Start.AsTime().Add(-24 * time.Hour))}}
	default:
		return nil, status.Error(codes.Unimplemented, "it measures nothing")
	}
	return said, nil
}

func checkChecker(t *testing.T, lie string) Report {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return CheckChecks(t.Context(), []string{program, "checks", lie}, nil)
}

// TestAnHonestPluginOfChecksConforms, by the SDK.
func TestAnHonestPluginOfChecksConforms(t *testing.T) {
	notShort(t)
	report := checkChecker(t, "honest")
	if report.Failed() || report.Plugin != "honest" || len(report.Results) != len(CheckRules) {
		t.Errorf("%+v", report)
	}
	answers := report.result(t, "answers").Detail
	for _, told := range []string{"before: pass all green", "during: blocking errors rise", "after: it cannot answer: ", "not meant to be asked after", "promotion: blocking 1.1.0 of example has no ticket for production"} {
		if !strings.Contains(answers, told) {
			t.Errorf("the answers are told as %s", answers)
		}
	}
}

// TestLyingPluginsOfChecksAreCaught.
func TestLyingPluginsOfChecksAreCaught(t *testing.T) {
	notShort(t)
	for _, c := range []struct{ lie, rule, says string }{
		{"speaks another protocol", "describe", "protocol version 7"},
		{"has no name", "describe", "no name"},
		{"says nothing", "answers", "neither pass nor blocking"},
		{"says something else", "answers", "judgement 9"},
		{"says no and not why", "answers", "not why"},
		{"answers of yesterday", "answers", "before it was given"},
		{"remembers the first plan", "answers are about what was asked", "another plan"},
		{"hangs", "answers", "no answer within"},
		{"holds up others", "answers are about what was asked", "no answer within"},
		{"passes nothing", "nothing is passed unasked", "it passed a question about a push without"},
		{"passes any version", "nothing is passed unasked", "it passed a question about a promotion without a version"},
		{"changes its mind", "asking changes nothing", "it said"},
		{"selects what it was not offered", "selects of what it is offered", "example/99, which is not of the stage"},
		{"selects for another stage", "selects of what it is offered", "the stage canary"},
		{"selects nothing and not why", "selects of what it is offered", "does not say why"},
		{"measures another side", "measures what it is asked", "for the side before"},
		{"measures more than it was asked", "measures what it is asked", "1001 samples, more than 1000"},
		{"measures yesterday", "measures what it is asked", "which was not asked about"},
		{"outlives its parent", "ends with its parent", "still runs"},
	} {
		t.Run(strings.ReplaceAll(c.lie, " ", "-"), func(t *testing.T) {
			t.Parallel()
			result := checkChecker(t, c.lie).result(t, c.rule)
			if result.Outcome != Failed || !strings.Contains(result.Detail, c.says) {
				t.Errorf("%s: %s: %s", c.rule, result.Outcome, result.Detail)
			}
		})
	}
}
