package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

const (
	// unknownRequest is a permit request that no plugin has made: a push that
	// names it waits for a permit before its first effect.
	unknownRequest = 1 << 40
	// readsWithin is what a push is given to read production before another
	// one may have an effect.
	readsWithin = 300 * time.Millisecond
	// rounds of a race.
	rounds = 3
)

// guarantee measures the class, with two processes of the plugin at once: what
// only one of them remembers is no guarantee.
func (s *suite) guarantee(ctx context.Context) error {
	if s.served.Guarantee == plugin.Unguarded {
		s.report.Measured = plugin.Unguarded
		return remark("class N, as declared: nothing but permits and the lock delay bounds a late push")
	}
	if !s.endpoint.isOurs() && len(s.target.Dial) < 2 {
		return skipped(fmt.Sprintf("class %s is declared; it is measured with two processes at once, and this one was started by somebody else: give --dial twice", s.served.Guarantee))
	}
	problem := s.measure(ctx)
	if _, weak := errors.AsType[weaker](problem); problem != nil && !weak {
		return problem
	}
	if s.report.Measured != s.served.Guarantee {
		return fmt.Errorf("class %s is declared, class %s was measured: %w", s.served.Guarantee, s.report.Measured, problem)
	}
	return remark(fmt.Sprintf("class %s, as declared", s.report.Measured))
}

// weaker says why a plugin is not of a class.
type weaker string

func (w weaker) Error() string { return string(w) }

// measure finds the class, and says why it is not a stronger one.
func (s *suite) measure(ctx context.Context) error {
	rival, close, err := s.another(ctx)
	if err != nil {
		return fmt.Errorf("reaching a second process beside the first: %w", err)
	}
	defer close()
	var problem error
	if s.served.Guarantee == plugin.Fenced {
		problem = s.fences(ctx, rival)
		if s.report.Measured = plugin.Fenced; problem == nil {
			return nil
		}
	}
	tests := []func(context.Context, *line) error{s.replay, s.lostUpdate, s.race}
	for _, test := range tests {
		if _, weak := errors.AsType[weaker](problem); problem != nil && !weak {
			return problem
		}
		if err := test(ctx, rival); err != nil {
			s.report.Measured = plugin.Unguarded
			return errors.Join(problem, err)
		}
	}
	s.report.Measured = plugin.CompareAndSet
	return problem
}

// fences pushes with a token, and then with lower ones: through a process that
// never saw the higher one, and through the one that did.
func (s *suite) fences(ctx context.Context, rival *line) error {
	s.token += 100
	baseline, err := s.pendingDifference(ctx)
	if err == nil {
		_, err = s.goTo(ctx, baseline.Incarnation)
	}
	if err != nil {
		return err
	}
	for name, route := range map[string]*line{"another process": rival, "the same process": s.line} {
		late, err := s.pendingDifference(ctx)
		if err != nil {
			return err
		}
		push, err := s.delivery(ctx, route, late)
		if err != nil {
			return err
		}
		push.start.FencingToken = s.token - 50
		end, err := finish(ctx, route, push)
		if err != nil {
			return err
		}
		current, err := s.diff(ctx, late.Incarnation)
		if err != nil {
			return err
		}
		if end.Ending == plugin.Pushed || !same(late, current) {
			return weaker(fmt.Sprintf("through %s, a push with a lower fencing token than one before took effect (it ended as %s)", name, end))
		}
	}
	return nil
}

func finish(ctx context.Context, l *line, push *delivery) (ending, error) {
	if err := l.deliver(push); err != nil {
		return ending{}, err
	}
	result, err := l.end(ctx, push)
	return endingOf(result), err
}

// replay goes from one intent to the other and back, and then delivers the
// first push again, with the base of then. No other base is permitted.
func (s *suite) replay(ctx context.Context, _ *line) error {
	_, err := s.ensure(ctx, first)
	if err != nil {
		return err
	}
	old, err := s.diff(ctx, second)
	if err == nil {
		_, err = s.goTo(ctx, second)
	}
	if err == nil {
		_, err = s.goTo(ctx, first)
	}
	if err != nil {
		return err
	}
	baseline, err := s.diff(ctx, second)
	if err != nil {
		return err
	}
	end, err := s.push(ctx, old, func(push *delivery) {
		push.permit = func(ask *pluginpb.PermitAsk) (answer, grant bool) { return true, ask.Base == old.Base }
	})
	if err != nil {
		return err
	}
	current, err := s.diff(ctx, second)
	if err == nil && !same(baseline, current) {
		err = weaker(fmt.Sprintf("after production had gone from A to B and back to A, a push with the base of the first A took effect (it ended as %s): the token is used again", end))
	}
	return err
}

// gate lets a push wait for its first permit until it is opened.
type gate struct{ open atomic.Bool }

func (g *gate) permit(*pluginpb.PermitAsk) (answer, grant bool) { return g.open.Load(), true }

// gated delivers a push, and returns when it is under way and waits.
func (s *suite) gated(ctx context.Context, l *line, d intent.Difference, g *gate) (*delivery, error) {
	push, err := s.delivery(ctx, l, d)
	if err != nil {
		return nil, err
	}
	push.start.Permit, push.permit = unknownRequest, g.permit
	if err := l.deliver(push); err != nil {
		return nil, err
	}
	select {
	case <-push.started:
		return push, wait(ctx, readsWithin)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: a push without a permit asked for none", context.Cause(ctx))
	}
}

// lostUpdate lets two pushes read production, then one have its effect, and
// then the other.
func (s *suite) lostUpdate(ctx context.Context, rival *line) error {
	if _, err := s.ensure(ctx, first); err != nil {
		return err
	}
	plan, err := s.diff(ctx, second)
	if err != nil {
		return err
	}
	var now, later gate
	one, err := s.gated(ctx, s.line, plan, &now)
	if err != nil {
		return err
	}
	rivalPush, err := s.gated(ctx, rival, plan, &later)
	if err != nil {
		return err
	}
	now.open.Store(true)
	result, err := s.line.end(ctx, one)
	if err != nil {
		return err
	}
	if end := endingOf(result); end.Ending != plugin.Pushed {
		return fmt.Errorf("the first of two pushes from one base ended as %s", end)
	}
	baseline, err := s.diff(ctx, second)
	if err != nil {
		return err
	}
	later.open.Store(true)
	if result, err = rival.end(ctx, rivalPush); err != nil {
		return err
	}
	current, err := s.diff(ctx, second)
	if err == nil && !same(baseline, current) {
		err = weaker(fmt.Sprintf("of two pushes that had read the same base, the second took effect as well (it ended as %s)", endingOf(result)))
	}
	return err
}

// race lets two processes create the example at the same moment, each as
// another intent says: one of them wins.
func (s *suite) race(ctx context.Context, rival *line) error {
	able, _, err := s.canRemove(ctx)
	if err != nil || !able {
		return err
	}
	for range rounds {
		if _, err := s.ensure(ctx, first); err != nil {
			return err
		}
		if _, err := s.remove(ctx); err != nil {
			return err
		}
		if err := s.raceOnce(ctx, rival); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) raceOnce(ctx context.Context, rival *line) error {
	var start gate
	lines, incarnations := []*line{s.line, rival}, []intent.IncarnationID{first, second}
	pushes := make([]*delivery, len(lines))
	for i, l := range lines {
		plan, err := s.diff(ctx, incarnations[i])
		if err == nil {
			pushes[i], err = s.gated(ctx, l, plan, &start)
		}
		if err != nil {
			return err
		}
	}
	start.open.Store(true)
	var winner intent.IncarnationID
	for i, l := range lines {
		result, err := l.end(ctx, pushes[i])
		if err != nil {
			return err
		}
		if endingOf(result).Ending != plugin.Pushed {
			continue
		}
		if winner.Sequence != 0 {
			return weaker("two processes created the resource at the same moment, each as another intent says, and both succeeded")
		}
		winner = incarnations[i]
	}
	if winner.Sequence == 0 {
		return nil
	}
	d, err := s.diff(ctx, winner)
	if err == nil && d.Outcome != intent.InSync {
		err = weaker("of two processes that created the resource at the same moment one succeeded, and the other one's intent is in place")
	}
	return err
}
