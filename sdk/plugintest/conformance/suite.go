package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
)

// suite is one run over a target.
type suite struct {
	*shared
	target Target
	report Report
	served plugin.Served

	endpoint *endpoint
	line     *line
	// token is the highest fencing token given so far; pushes counts.
	token  uint64
	pushes int
	// created is the state after the creation from nothing, took how long a
	// push to another intent takes.
	created  []byte
	pushTime time.Duration
	// pauses are those asked for on lines before.
	pauses []*durationpb.Duration
	// secret as it was; nil: the target has none.
	secret *keptSecret
}

// connect reaches the plugin, unless it is.
func (s *suite) connect(ctx context.Context) error {
	if s.line != nil && !s.line.isBroken() {
		return nil
	}
	s.disconnect()
	var err error
	if s.endpoint, err = reach(ctx, s.target, 0, &s.leaks); err != nil {
		return err
	}
	s.line, err = openLine(s.endpoint, s.shared)
	return err
}

func (s *suite) disconnect() {
	if s.line != nil {
		s.pauses = append(s.pauses, s.line.listPauses()...)
		s.line.cancel()
	}
	if s.endpoint != nil {
		s.endpoint.close()
	}
	s.line, s.endpoint = nil, nil
}

// another reaches a second process of the plugin.
func (s *suite) another(ctx context.Context) (*line, func(), error) {
	e, err := reach(ctx, s.target, 1, &s.leaks)
	if err != nil {
		return nil, nil, err
	}
	if mine, theirs := s.endpoint.description.Instance, e.description.Instance; mine != "" && mine == theirs {
		e.close()
		return nil, nil, errors.New("both addresses lead to one and the same process")
	}
	l, err := openLine(e, s.shared)
	if err != nil {
		e.close()
		return nil, nil, err
	}
	return l, func() {
		l.cancel()
		e.close()
	}, nil
}

// describe looks at what it serves.
func (s *suite) describe(context.Context) error {
	description, err := remote.CheckDescription(s.endpoint.description)
	if err != nil {
		return err
	}
	s.report.Plugin, s.report.Version = description.Name, description.Version
	switch {
	case s.endpoint.description.Protocol != plugin.Protocol:
		return fmt.Errorf("it speaks protocol version %d, want %d", s.endpoint.description.Protocol, plugin.Protocol)
	case description.Name == "":
		return errors.New("it gives no name")
	case s.target.First == nil || s.target.Second == nil:
		return errors.New("there is no example to check it with: give two intents for one resource")
	}
	s.report.Type = intent.TypeName(s.target.First.ProtoReflect().Descriptor().FullName())
	if secondType := intent.TypeName(s.target.Second.ProtoReflect().Descriptor().FullName()); secondType != s.report.Type {
		return fmt.Errorf("the example is a %s at first and then a %s: both are of one type", s.report.Type, secondType)
	}
	for _, served := range description.Types {
		if served.Type == s.report.Type {
			s.served, s.report.Declared = served, served.Guarantee
			return errors.Join(
				s.keepSecret(),
				s.contents.putPayload(first, example, s.target.First),
				s.contents.putPayload(second, example, s.target.Second),
				s.contents.putPayload(removed, example, s.target.First, &intentpb.Turndown{Reason: "the conformance suite removes its example"}),
			)
		}
	}
	return fmt.Errorf("it does not serve %s, the type of the example", s.report.Type)
}

// diff returns the difference of the example as of now, once nothing is pending. One that is
// unknown is an error.
func (s *suite) diff(ctx context.Context, incarnation intent.IncarnationID) (intent.Difference, error) {
	d, err := s.asOfNow(ctx, s.line, incarnation)
	if err == nil && d.Outcome == intent.Unknown {
		err = fmt.Errorf("the difference of the example is unknown: %s", d.Reason)
	}
	return d, err
}

// asOfNow returns the difference of the example as of when it is called or later, once
// nothing is pending. What is pending is asked again as of when it was asked first.
func (s *suite) asOfNow(ctx context.Context, l *line, incarnation intent.IncarnationID) (intent.Difference, error) {
	start := time.Now()
	d, err := s.look(ctx, l, incarnation, start)
	for err == nil && d.Outcome == intent.Pending {
		reason := d.Reason
		if err = wait(ctx, betweenLooks); err == nil {
			d, err = s.look(ctx, l, incarnation, start)
		}
		// The time may run out between two looks or within one.
		if err != nil && ctx.Err() != nil {
			return d, fmt.Errorf("%w: the example is pending still: %s", err, reason)
		}
	}
	return d, err
}

// look returns the difference of the example, by the line, read since then; zero: as long
// ago as the cadence allows.
func (s *suite) look(ctx context.Context, l *line, incarnation intent.IncarnationID, start time.Time) (intent.Difference, error) {
	d := intent.Difference{Asset: example, Incarnation: incarnation, At: time.Now()}
	var maxAge *durationpb.Duration
	if !start.IsZero() {
		maxAge = durationpb.New(max(0, d.At.Sub(start)))
	}
	b, err := l.askWithin(incarnation, maxAge, example)
	if err == nil {
		err = l.await(ctx, b)
	}
	if err != nil {
		return d, err
	}
	if remote.CheckDifference(b.answers[example], &d, start, s.served.Cadence) {
		return d, errors.New(d.Reason)
	}
	current := s.target.First.ProtoReflect().New()
	if err := proto.Unmarshal(d.Current, current.Interface()); err != nil {
		return d, fmt.Errorf("its current state is no %s: %w", s.report.Type, err)
	}
	if len(current.GetUnknown()) > 0 {
		return d, fmt.Errorf("its current state is no %s: it has fields that this type does not have", s.report.Type)
	}
	return d, nil
}

// freely answers every request for a permit with one.
func freely(*pluginpb.PermitAsk) (answer, grant bool) { return true, true }

// delivery of what a difference says, under the newest permit request.
func (s *suite) delivery(ctx context.Context, l *line, d intent.Difference) (*delivery, error) {
	request, err := l.newest(ctx, 0)
	if err != nil {
		return nil, err
	}
	s.pushes++
	digest := d.Plan.Digest()
	return &delivery{permit: freely, start: &pluginpb.PushStart{
		Push: fmt.Sprintf("plugintest-%d-%d", time.Now().UnixNano(), s.pushes), Partition: string(d.Incarnation.Partition),
		Incarnation: d.Incarnation.String(), Asset: string(d.Asset), PlanDigest: digest[:], Base: d.Base,
		FencingToken: s.token, Permit: request, Memos: s.memos.handed(string(d.Asset)),
	}}, nil
}

// push pushes what a difference says, and waits for the end.
func (s *suite) push(ctx context.Context, d intent.Difference, alter func(*delivery)) (ending, error) {
	push, err := s.delivery(ctx, s.line, d)
	if err != nil {
		return ending{}, err
	}
	if alter != nil {
		alter(push)
	}
	if err := s.line.deliver(push); err != nil {
		return ending{}, err
	}
	result, err := s.line.end(ctx, push)
	return endingOf(result), err
}

// ending is how a push ended.
type ending struct {
	plugin.Ending
	reason string
}

func (e ending) String() string {
	if e.reason == "" {
		return string(e.Ending)
	}
	return fmt.Sprintf("%s (%.500s)", e.Ending, intent.Shown(e.reason))
}

func endingOf(result *pluginpb.PushResult) ending {
	switch outcome := result.GetOutcome().(type) {
	case *pluginpb.PushResult_Pushed:
		return ending{plugin.Pushed, ""}
	case *pluginpb.PushResult_Stale:
		return ending{plugin.Stale, outcome.Stale.GetReason()}
	case *pluginpb.PushResult_Stopped:
		return ending{plugin.Stopped, outcome.Stopped.GetReason()}
	case *pluginpb.PushResult_Failed:
		return ending{plugin.Failed, outcome.Failed.GetReason()}
	}
	return ending{"", "the plugin did not say how"}
}

// goTo pushes until in sync with an incarnation, once.
func (s *suite) goTo(ctx context.Context, incarnation intent.IncarnationID) (intent.Difference, error) {
	baseline, err := s.diff(ctx, incarnation)
	if err != nil {
		return baseline, err
	}
	if baseline.Outcome != intent.Differs {
		return baseline, errors.New("nothing differs, although another intent was pushed before: the two intents of the example must differ in what the plugin manages")
	}
	end, err := s.push(ctx, baseline, nil)
	if err != nil {
		return baseline, err
	}
	if end.Ending != plugin.Pushed {
		return baseline, fmt.Errorf("the push ended as %s", end)
	}
	current, err := s.diff(ctx, incarnation)
	if err == nil && current.Outcome != intent.InSync {
		err = fmt.Errorf("after the push it still differs: %s", fields(current))
	}
	return current, err
}

// betweenLooks at what is pending.
const betweenLooks = 50 * time.Millisecond

// ensure brings the example to an incarnation, if it is not there.
func (s *suite) ensure(ctx context.Context, incarnation intent.IncarnationID) (intent.Difference, error) {
	d, err := s.diff(ctx, incarnation)
	if err != nil || d.Outcome == intent.InSync {
		return d, err
	}
	return s.goTo(ctx, incarnation)
}

func fields(d intent.Difference) string {
	var paths []string
	for _, change := range d.Plan.Changes {
		paths = append(paths, fmt.Sprintf("%s: %.80s → %.80s", change.Path, change.Current, change.Target))
	}
	return string(d.Plan.Action) + " " + strings.Join(paths[:min(len(paths), 10)], ", ")
}

// same reports whether two looks at one intent found the same production.
func same(one, other intent.Difference) bool {
	return one.Outcome == other.Outcome && one.Base == other.Base && one.Plan.Digest() == other.Plan.Digest() && string(one.Current) == string(other.Current)
}

// unchanged fails when a look no longer finds what was found before.
func (s *suite) unchanged(ctx context.Context, baseline intent.Difference, event string) error {
	current, err := s.diff(ctx, baseline.Incarnation)
	if err == nil && !same(baseline, current) {
		err = fmt.Errorf("%s changed production: %s at base %q, now %s at base %q", event, fields(baseline), baseline.Base, fields(current), current.Base)
	}
	return err
}
