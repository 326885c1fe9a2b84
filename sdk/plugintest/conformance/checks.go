package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
)

// judgesWithin is how long a plugin of checks may take for an answer: as long as a
// protection waits that says nothing else.
const judgesWithin = 4 * time.Second

// CheckRule is one rule of the protocol of plugins of checks.
type CheckRule struct {
	Name, Says string
	run        func(*checkSuite, context.Context) error
}

// CheckRules in the order in which they are tried.
var CheckRules = []CheckRule{
	{"describe", "It says within 10 s what it is: protocol 1, and a name.", (*checkSuite).describe},
	{"answers", "Before, during and after a push, and before the promotion of a version, it says pass or blocking within 4 s, or why it cannot; a no has a reason.", (*checkSuite).answers},
	{"answers are about what was asked", "Of many questions at once each has its own answer, for its content and its plan.", (*checkSuite).own},
	{"nothing is passed unasked", "A question without asset, content, plan or phase is not passed, and none about a promotion without application, environment, version or content.", (*checkSuite).nothing},
	{"an answer that nobody waits for holds up no other", "After questions that were given up it answers the next one in time.", (*checkSuite).givenUp},
	{"asking changes nothing", "The same question twice has the same answer, after kill -9 too.", (*checkSuite).again},
	{"selects of what it is offered", "Asked which assets of a stage go on, within 4 s, it names some of them, or says why none; or that it selects for no rollout.", (*checkSuite).selects},
	{"measures what it is asked", "Asked for samples of an hour, within 4 s, it gives such as are of that hour and not too many, or says why it cannot; or that it measures nothing.", (*checkSuite).measures},
	{"ends with its parent", "It ends when its standard input does.", (*checkSuite).endsWithParent},
}

// checkSuite is one run.
type checkSuite struct {
	run      []string
	endpoint *endpoint
	client   pluginpb.CheckServiceClient
	report   Report
}

// CheckChecks holds a plugin of checks to the protocol. It is asked about assets that
// are not there, and is to change nothing.
func CheckChecks(ctx context.Context, run []string, tell func(Result)) Report {
	s := &checkSuite{run: run}
	s.report.Type = "checks"
	defer s.close()
	for i, rule := range CheckRules {
		result := Result{Name: rule.Name, Outcome: Skipped, Detail: "the plugin did not come up"}
		if i == 0 || s.report.Plugin != "" {
			result = s.try(ctx, rule)
		}
		s.report.Results = append(s.report.Results, result)
		if tell != nil {
			tell(result)
		}
	}
	return s.report
}

func (s *checkSuite) try(ctx context.Context, rule CheckRule) Result {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not done within a minute"))
	defer cancel()
	err := s.connect()
	if err == nil {
		err = rule.run(s, ctx)
	}
	switch note, ok := errors.AsType[remark](err); {
	case err == nil:
		return Result{Name: rule.Name, Outcome: Passed}
	case ok:
		return Result{Name: rule.Name, Outcome: Passed, Detail: note.Error()}
	}
	return Result{Name: rule.Name, Outcome: Failed, Detail: err.Error()}
}

// connect starts the plugin, unless it lives.
func (s *checkSuite) connect() error {
	if s.endpoint != nil {
		select {
		case <-s.endpoint.exited:
			s.close()
		default:
			return nil
		}
	}
	e := &endpoint{exited: make(chan struct{}), words: &tail{}}
	socket, err := e.start(s.run)
	if err != nil {
		return err
	}
	s.endpoint = e
	dial := unixSocket(socket)
	e.conn, err = grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err == nil {
		s.client = pluginpb.NewCheckServiceClient(e.conn)
	}
	return err
}

func (s *checkSuite) close() {
	if s.endpoint != nil {
		s.endpoint.close()
	}
	s.endpoint = nil
}

// describe waits until it says what it is.
func (s *checkSuite) describe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	for {
		response, err := s.client.DescribeChecks(ctx, &pluginpb.DescribeChecksRequest{Protocol: plugin.Protocol})
		switch {
		case err == nil && response.Protocol != plugin.Protocol:
			return fmt.Errorf("it speaks protocol version %d, want %d", response.Protocol, plugin.Protocol)
		case err == nil && response.Name == "":
			return errors.New("it gives no name")
		case err == nil:
			s.report.Plugin, s.report.Version = response.Name, response.Version
			return nil
		}
		s.endpoint.conn.ResetConnectBackoff()
		select {
		case <-ctx.Done():
			return fmt.Errorf("it did not serve within %s: %w%s", startsWithin, err, s.endpoint.last())
		case <-s.endpoint.exited:
			return fmt.Errorf("it ended while starting: %s%s", s.endpoint.command.ProcessState, s.endpoint.last())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// promotion is the phase of questions about versions.
const promotion = "promotion"

// sound is a question of the nth asset in a phase, or of the nth version.
func sound(phase string, nth int) *pluginpb.JudgeRequest {
	if phase == promotion {
		version := fmt.Sprintf("1.%d.0", nth)
		return &pluginpb.JudgeRequest{
			Incarnation: "conformance@1", Protection: "conformance", Phase: phase, Partition: "conformance", Home: "conformance",
			Application: "example", Environment: "production", Version: version, Content: version, Commit: strings.Repeat("c0ffee00", 5),
		}
	}
	digest := func(text string) string { return strings.Repeat(fmt.Sprintf("%02x", nth+len(text)), 32) }
	request := &pluginpb.JudgeRequest{
		Incarnation: "conformance@1", Protection: "conformance", Phase: phase, Partition: "conformance", Asset: fmt.Sprintf("example/%d", nth),
		Type: "lehr.process.v1.Job", Content: digest("c"), PlanDigest: digest("plan"), Changes: 1,
		Plan: &pluginpb.JudgedPlan{Action: "update", Changes: []*pluginpb.JudgedChange{{Path: "version", Current: "v1", Target: "v2"}}},
	}
	if phase != "before" {
		request.Push = fmt.Sprintf("conformance/1-%d", nth)
	}
	if phase == "after" {
		request.Plan, request.Changes = nil, 0
	}
	return request
}

// ask asks within the time, and looks at the answer. A plugin may say that it cannot
// answer: that is no pass.
func (s *checkSuite) ask(ctx context.Context, request *pluginpb.JudgeRequest) (*pluginpb.JudgeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, judgesWithin)
	defer cancel()
	response, err := s.client.Judge(ctx, request, grpc.WaitForReady(true))
	switch {
	case ctx.Err() != nil || status.Code(err) == codes.DeadlineExceeded:
		return nil, fmt.Errorf("%s: there was no answer within %s", request.Phase, judgesWithin)
	case err != nil:
		return nil, refusal{err}
	}
	if err := remote.CheckJudgement(request, response); err != nil {
		return nil, fmt.Errorf("%s: %w", request.Phase, err)
	}
	switch {
	case !utf8.ValidString(response.Reason):
		return nil, fmt.Errorf("%s: its reason is no text", request.Phase)
	case response.Judgement == pluginpb.JudgeResponse_JUDGEMENT_BLOCKING && response.Reason == "":
		return nil, fmt.Errorf("%s: it says no, and not why", request.Phase)
	case response.Until != nil && !response.Until.AsTime().After(time.Now()):
		return nil, fmt.Errorf("%s: its answer ended at %s, before it was given", request.Phase, response.Until.AsTime().Format(time.RFC3339))
	}
	return response, nil
}

// refusal is an answer of a plugin that it cannot judge.
type refusal struct{ error }

func (s *checkSuite) answers(ctx context.Context) error {
	var replies []string
	for _, phase := range []string{"before", "during", "after", promotion} {
		response, err := s.ask(ctx, sound(phase, 1))
		if cannot, ok := errors.AsType[refusal](err); ok {
			replies = append(replies, phase+": it cannot answer: "+cannot.Error())
			continue
		}
		if err != nil {
			return err
		}
		replies = append(replies, phase+": "+strings.ToLower(strings.TrimPrefix(response.Judgement.String(), "JUDGEMENT_"))+" "+response.Reason)
	}
	return remark(strings.Join(replies, "; "))
}

// own asks many at once.
func (s *checkSuite) own(ctx context.Context) error {
	const many = 32
	var waiting sync.WaitGroup
	wrong := make([]error, many)
	for i := range many {
		waiting.Go(func() { _, wrong[i] = s.ask(ctx, sound("before", i)) })
	}
	waiting.Wait()
	for _, err := range wrong {
		if _, ok := errors.AsType[refusal](err); err != nil && !ok {
			return err
		}
	}
	return nil
}

func (s *checkSuite) nothing(ctx context.Context) error {
	expectNoPass := func(phase, part string, remove func(*pluginpb.JudgeRequest)) error {
		about := "push"
		if phase == promotion {
			about = promotion
		}
		request := sound(phase, 1)
		remove(request)
		response, err := s.ask(ctx, request)
		if err == nil && response.Judgement == pluginpb.JudgeResponse_JUDGEMENT_PASS {
			return fmt.Errorf("it passed a question about a %s without %s", about, part)
		}
		return nil
	}
	return errors.Join(
		expectNoPass("before", "anything", func(r *pluginpb.JudgeRequest) { proto.Reset(r) }),
		expectNoPass("before", "an asset", func(r *pluginpb.JudgeRequest) { r.Asset = "" }),
		expectNoPass("before", "a content", func(r *pluginpb.JudgeRequest) { r.Content = "" }),
		expectNoPass("before", "a plan", func(r *pluginpb.JudgeRequest) { r.PlanDigest = "" }),
		expectNoPass("before", "a phase", func(r *pluginpb.JudgeRequest) { r.Phase = "" }),
		expectNoPass(promotion, "an application", func(r *pluginpb.JudgeRequest) { r.Application = "" }),
		expectNoPass(promotion, "an environment", func(r *pluginpb.JudgeRequest) { r.Environment = "" }),
		expectNoPass(promotion, "a version", func(r *pluginpb.JudgeRequest) { r.Version = "" }),
		expectNoPass(promotion, "a content", func(r *pluginpb.JudgeRequest) { r.Content = "" }),
	)
}

// selects asks as a stage goes on: of nothing let go on, until all are.
func (s *checkSuite) selects(ctx context.Context) error {
	request := &pluginpb.SelectRequest{Partition: "conformance", Rollout: "conformance", Run: 1, Stage: "rest", Incarnation: "conformance@2"}
	for i := range 8 {
		request.Targets = append(request.Targets, &pluginpb.SelectedTarget{
			Asset: fmt.Sprintf("example/%d", i), Type: "lehr.process.v1.Job", Scopes: map[string]string{"cluster": fmt.Sprint(i % 4)}, Labels: map[string]string{"tier": "web"},
		})
	}
	var selected []string
	for range request.Targets {
		bounded, cancel := context.WithTimeout(ctx, judgesWithin)
		response, err := s.client.Select(bounded, request, grpc.WaitForReady(true))
		late := bounded.Err() != nil || status.Code(err) == codes.DeadlineExceeded
		cancel()
		switch {
		case status.Code(err) == codes.Unimplemented:
			return remark("it selects for no rollout")
		case late:
			return fmt.Errorf("there was no answer within %s", judgesWithin)
		case err != nil:
			return remark("it cannot answer: " + status.Convert(err).Message())
		}
		if err := remote.CheckSelection(request, response); err != nil {
			return err
		}
		count := len(selected)
		for _, t := range request.Targets {
			if !t.Selected && slices.Contains(response.Assets, t.Asset) {
				t.Selected, t.InSync, t.Well, t.Healthy = true, true, true, durationpb.New(time.Hour)
				selected = append(selected, t.Asset)
			}
		}
		if len(selected) == count {
			return remark(fmt.Sprintf("after %d of %d it waits: %s", len(selected), len(request.Targets), response.Reason))
		}
		if len(selected) == len(request.Targets) {
			break
		}
	}
	return remark("in this order: " + strings.Join(selected, ", "))
}

// measures asks as a validation does, for the hour before now.
func (s *checkSuite) measures(ctx context.Context) error {
	const most = 1000
	now := time.Now().Truncate(time.Second)
	var counts []string
	for _, side := range []string{"experiment", "control"} {
		request := &pluginpb.MeasureRequest{
			Validation: "conformance", Metric: "conformance", Partition: "conformance", Side: side, Assets: []string{"example/1"}, Most: most,
			Scopes: map[string]*pluginpb.ScopeValues{"cluster": {Values: []string{"a"}}},
			Start:  timestamppb.New(now.Add(-time.Hour)), End: timestamppb.New(now), Step: durationpb.New(time.Minute),
		}
		bounded, cancel := context.WithTimeout(ctx, judgesWithin)
		response, err := s.client.Measure(bounded, request, grpc.WaitForReady(true))
		late := bounded.Err() != nil || status.Code(err) == codes.DeadlineExceeded
		cancel()
		switch {
		case status.Code(err) == codes.Unimplemented:
			return remark("it measures nothing")
		case late:
			return fmt.Errorf("there was no answer within %s", judgesWithin)
		case err != nil:
			return remark("it cannot answer: " + status.Convert(err).Message())
		}
		if err := remote.CheckMeasures(request, response); err != nil {
			return err
		}
		counts = append(counts, fmt.Sprintf("%s: %d samples", side, len(response.Samples)))
	}
	return remark(strings.Join(counts, "; "))
}

func (s *checkSuite) givenUp(ctx context.Context) error {
	for i := range 64 {
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		_, _ = s.client.Judge(short, sound("during", i))
		cancel()
	}
	_, err := s.ask(ctx, sound("before", 1))
	if _, ok := errors.AsType[refusal](err); ok {
		return nil
	}
	return err
}

func (s *checkSuite) again(ctx context.Context) error {
	word := func() (string, error) {
		response, err := s.ask(ctx, sound("before", 1))
		if _, ok := errors.AsType[refusal](err); ok {
			return "it cannot answer", nil
		}
		if err != nil {
			return "", err
		}
		return response.Judgement.String(), nil
	}
	first, err := word()
	if err != nil {
		return err
	}
	for _, moment := range []string{"at once", "after kill -9"} {
		if moment != "at once" {
			s.endpoint.kill()
			if err := s.connect(); err != nil {
				return err
			}
			if err := s.describe(ctx); err != nil {
				return err
			}
		}
		next, err := word()
		if err != nil {
			return err
		}
		if next != first {
			return fmt.Errorf("it said %s first and %s %s", first, next, moment)
		}
	}
	return nil
}

func (s *checkSuite) endsWithParent(ctx context.Context) error {
	s.endpoint.stdin.Close()
	select {
	case <-s.endpoint.exited:
		return nil
	case <-time.After(endsWithin):
		return fmt.Errorf("it still runs %s after its standard input ended", endsWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
}
