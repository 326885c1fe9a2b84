package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/intent"
	"lehr.dev/plugin"
)

// harmless runs a push that must change nothing.
func (s *suite) harmless(ctx context.Context, want plugin.Ending, alter func(*delivery)) error {
	before, err := s.diff(ctx, first)
	if err != nil {
		return err
	}
	end, err := s.push(ctx, before, alter)
	if err != nil {
		return err
	}
	// What it did tells more than what it said.
	if err := s.unchanged(ctx, before, fmt.Sprintf("a push that should not have begun (it ended as %s)", end)); err != nil {
		return err
	}
	if end.Ending != want {
		return fmt.Errorf("the push ended as %s, want %s", end, want)
	}
	return nil
}

func (s *suite) stalePlan(ctx context.Context) error {
	other := intent.Sum("a plan of another day")
	return s.harmless(ctx, plugin.Stale, func(push *delivery) { push.start.PlanDigest = other[:] })
}

func (s *suite) movedBase(ctx context.Context) error {
	var asked atomic.Bool
	err := s.harmless(ctx, plugin.Stopped, func(push *delivery) {
		push.start.Base += " of another day"
		push.permit = func(ask *pluginpb.PermitAsk) (answer, grant bool) {
			if ask.Base == push.start.Base {
				return true, true
			}
			asked.Store(true)
			return true, false
		}
	})
	if err == nil && !asked.Load() {
		err = errors.New("it asked for no permit that names the new base")
	}
	return err
}

// expiredPermit starts a push under a permit request of long ago, and gives
// no other.
func (s *suite) expiredPermit(ctx context.Context) error {
	old, err := s.line.newest(ctx, 0)
	if err != nil {
		return err
	}
	if err := wait(ctx, plugin.PermitPeriod+100*time.Millisecond); err != nil {
		return err
	}
	before, err := s.diff(ctx, first)
	if err != nil {
		return err
	}
	end, err := s.push(ctx, before, func(push *delivery) {
		push.start.Permit = old
		push.permit = func(*pluginpb.PermitAsk) (answer, grant bool) { return false, false }
	})
	if err != nil {
		return err
	}
	if err := s.unchanged(ctx, before, fmt.Sprintf("a push without a permit (it ended as %s)", end)); err != nil {
		return err
	}
	if end.Ending == plugin.Pushed {
		return errors.New("it says that it pushed without a permit")
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func (s *suite) create(ctx context.Context) error {
	after, err := s.goTo(ctx, first)
	s.created = after.Current
	if err == nil && len(after.Current) == 0 {
		err = errors.New("in sync, and there is no current state: what was created must be shown")
	}
	if err == nil && after.ResourceKey == "" {
		err = errors.New("it names no resource key: two assets could fight over one thing")
	}
	return err
}

func (s *suite) idempotent(ctx context.Context) error {
	before, err := s.ensure(ctx, first)
	if err != nil {
		return err
	}
	end, err := s.push(ctx, before, nil)
	if err != nil {
		return err
	}
	if end.Ending != plugin.Pushed && end.Ending != plugin.Stale {
		return fmt.Errorf("a push of what is in sync ended as %s", end)
	}
	return s.unchanged(ctx, before, "a push of what is in sync")
}

func (s *suite) update(ctx context.Context) error {
	began := time.Now()
	_, err := s.goTo(ctx, second)
	s.took = time.Since(began)
	return err
}

func (s *suite) repair(ctx context.Context) error {
	after, err := s.goTo(ctx, first)
	if err == nil && !bytes.Equal(after.Current, s.created) {
		err = errors.New("the state differs from the one that the creation from nothing led to")
	}
	return err
}

// twice delivers one push twice at once, and again when it has ended, as after
// a lost reply.
func (s *suite) twice(ctx context.Context) error {
	before, err := s.ensure(ctx, first)
	if err == nil {
		before, err = s.diff(ctx, second)
	}
	if err != nil {
		return err
	}
	push, err := s.delivery(ctx, s.line, before)
	if err != nil {
		return err
	}
	if err := errors.Join(s.line.deliver(push), s.line.again(push)); err != nil {
		return err
	}
	result, err := s.line.end(ctx, push)
	if err != nil {
		return err
	}
	if end := endingOf(result); end.Ending != plugin.Pushed {
		return fmt.Errorf("the push, delivered twice at once, ended as %s", end)
	}
	// If the second delivery is answered as well, that comes before this.
	after, err := s.diff(ctx, second)
	if err == nil && after.Outcome != intent.InSync {
		err = fmt.Errorf("after the push it still differs: %s", fields(after))
	}
	if err != nil {
		return err
	}
	if push.start.Permit, err = s.line.newest(ctx, 0); err != nil {
		return err
	}
	for len(push.results) > 0 {
		<-push.results
	}
	if err := s.line.again(push); err != nil {
		return err
	}
	if _, err := s.line.end(ctx, push); err != nil {
		return fmt.Errorf("delivered again after its end: %w", err)
	}
	return s.unchanged(ctx, after, "a push delivered again after its end")
}

// other is the incarnation that the example is not in sync with.
func (s *suite) other(ctx context.Context) (intent.Difference, error) {
	d, err := s.diff(ctx, second)
	if err == nil && d.Outcome == intent.InSync {
		d, err = s.diff(ctx, first)
	}
	return d, err
}

// withdrawnPermit takes the permit away at the first request.
func (s *suite) withdrawnPermit(ctx context.Context) error {
	before, err := s.other(ctx)
	if err != nil {
		return err
	}
	var refused atomic.Bool
	end, err := s.push(ctx, before, func(push *delivery) {
		push.permit = func(*pluginpb.PermitAsk) (answer, grant bool) {
			refused.Store(true)
			return true, false
		}
	})
	switch {
	case err != nil:
		return err
	case !refused.Load():
		return skipped("the push of the example ends before its permit is asked for again")
	case end.Ending == plugin.Pushed:
		return skipped("the push of the example had ended when its permit was refused")
	case end.Ending != plugin.Stopped:
		return fmt.Errorf("the push ended as %s, want stopped", end)
	}
	return s.rests(ctx, before.Incarnation)
}

// silentPermit renews no permit.
func (s *suite) silentPermit(ctx context.Context) error {
	before, err := s.other(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	end, err := s.push(ctx, before, func(push *delivery) {
		push.permit = func(*pluginpb.PermitAsk) (answer, grant bool) { return false, false }
	})
	took, most := time.Since(began), plugin.PermitPeriod+s.served.LongestEffect+plugin.LockDelayMargin
	switch {
	case err != nil:
		return err
	case took < plugin.PermitPeriod/2:
		return skipped(fmt.Sprintf("the push of the example ends within its first permit, after %s", took.Round(time.Millisecond)))
	case took > most:
		return fmt.Errorf("it went on for %s without a permit; D + E are %s", took.Round(time.Millisecond), plugin.PermitPeriod+s.served.LongestEffect)
	case end.Ending == plugin.Failed:
		return fmt.Errorf("the push ended as %s, want stopped", end)
	}
	return s.rests(ctx, before.Incarnation)
}

// rests fails when production still changes after the end of a push.
func (s *suite) rests(ctx context.Context, incarnation intent.IncarnationID) error {
	before, err := s.diff(ctx, incarnation)
	if err == nil {
		err = wait(ctx, time.Second)
	}
	if err != nil {
		return err
	}
	return s.unchanged(ctx, before, "a push that had ended")
}
