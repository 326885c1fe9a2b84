package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// harmless runs a push that must change nothing.
func (s *suite) harmless(ctx context.Context, want plugin.Ending, alter func(*delivery)) error {
	baseline, err := s.diff(ctx, first)
	if err != nil {
		return err
	}
	end, err := s.push(ctx, baseline, alter)
	if err != nil {
		return err
	}
	// What it did tells more than what it said.
	if err := s.unchanged(ctx, baseline, fmt.Sprintf("a push that should not have begun (it ended as %s)", end)); err != nil {
		return err
	}
	if end.Ending != want {
		return fmt.Errorf("the push ended as %s, want %s", end, want)
	}
	return nil
}

func (s *suite) stalePlan(ctx context.Context) error {
	digest := intent.Sum("a plan of another day")
	return s.harmless(ctx, plugin.Stale, func(push *delivery) { push.start.PlanDigest = digest[:] })
}

func (s *suite) movedBase(ctx context.Context) error {
	var requested atomic.Bool
	err := s.harmless(ctx, plugin.Stopped, func(push *delivery) {
		push.start.Base += " of another day"
		push.permit = func(ask *pluginpb.PermitAsk) (answer, grant bool) {
			if ask.Base == push.start.Base {
				return true, true
			}
			requested.Store(true)
			return true, false
		}
	})
	if err == nil && !requested.Load() {
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
	baseline, err := s.diff(ctx, first)
	if err != nil {
		return err
	}
	end, err := s.push(ctx, baseline, func(push *delivery) {
		push.start.Permit = old
		push.permit = func(*pluginpb.PermitAsk) (answer, grant bool) { return false, false }
	})
	if err != nil {
		return err
	}
	if err := s.unchanged(ctx, baseline, fmt.Sprintf("a push without a permit (it ended as %s)", end)); err != nil {
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
	current, err := s.goTo(ctx, first)
	s.created = current.Current
	if err == nil && len(current.Current) == 0 {
		err = errors.New("in sync, and there is no current state: what was created must be shown")
	}
	if err == nil && current.ResourceKey == "" {
		err = errors.New("it names no resource key: two assets could fight over one thing")
	}
	return err
}

func (s *suite) idempotent(ctx context.Context) error {
	baseline, err := s.ensure(ctx, first)
	if err != nil {
		return err
	}
	end, err := s.push(ctx, baseline, nil)
	if err != nil {
		return err
	}
	if end.Ending != plugin.Pushed && end.Ending != plugin.Stale {
		return fmt.Errorf("a push of what is in sync ended as %s", end)
	}
	return s.unchanged(ctx, baseline, "a push of what is in sync")
}

func (s *suite) update(ctx context.Context) error {
	startedAt := time.Now()
	_, err := s.goTo(ctx, second)
	s.pushTime = time.Since(startedAt)
	return err
}

func (s *suite) repair(ctx context.Context) error {
	current, err := s.goTo(ctx, first)
	if err == nil && !bytes.Equal(current.Current, s.created) {
		err = errors.New("the state differs from the one that the creation from nothing led to")
	}
	return err
}

// redelivery delivers one push twice at once, and again when it has ended, as after
// a lost reply.
func (s *suite) redelivery(ctx context.Context) error {
	baseline, err := s.ensure(ctx, first)
	if err == nil {
		baseline, err = s.diff(ctx, second)
	}
	if err != nil {
		return err
	}
	push, err := s.delivery(ctx, s.line, baseline)
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
	current, err := s.diff(ctx, second)
	if err == nil && current.Outcome != intent.InSync {
		err = fmt.Errorf("after the push it still differs: %s", fields(current))
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
	return s.unchanged(ctx, current, "a push delivered again after its end")
}

// pendingDifference is the incarnation that the example is not in sync with.
func (s *suite) pendingDifference(ctx context.Context) (intent.Difference, error) {
	d, err := s.diff(ctx, second)
	if err == nil && d.Outcome == intent.InSync {
		d, err = s.diff(ctx, first)
	}
	return d, err
}

// withdrawnPermit takes the permit away at the first request.
func (s *suite) withdrawnPermit(ctx context.Context) error {
	baseline, err := s.pendingDifference(ctx)
	if err != nil {
		return err
	}
	var refused atomic.Bool
	end, err := s.push(ctx, baseline, func(push *delivery) {
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
	return s.rests(ctx, baseline.Incarnation)
}

// silentPermit renews no permit.
func (s *suite) silentPermit(ctx context.Context) error {
	baseline, err := s.pendingDifference(ctx)
	if err != nil {
		return err
	}
	startedAt := time.Now()
	end, err := s.push(ctx, baseline, func(push *delivery) {
		push.permit = func(*pluginpb.PermitAsk) (answer, grant bool) { return false, false }
	})
	elapsed, most := time.Since(startedAt), plugin.PermitPeriod+s.served.LongestEffect+plugin.LockDelayMargin
	switch {
	case err != nil:
		return err
	case elapsed < plugin.PermitPeriod/2:
		return skipped(fmt.Sprintf("the push of the example ends within its first permit, after %s", elapsed.Round(time.Millisecond)))
	case elapsed > most:
		return fmt.Errorf("it went on for %s without a permit; D + E are %s", elapsed.Round(time.Millisecond), plugin.PermitPeriod+s.served.LongestEffect)
	case end.Ending == plugin.Failed:
		return fmt.Errorf("the push ended as %s, want stopped", end)
	}
	return s.rests(ctx, baseline.Incarnation)
}

// rests fails when production still changes after the end of a push.
func (s *suite) rests(ctx context.Context, incarnation intent.IncarnationID) error {
	baseline, err := s.diff(ctx, incarnation)
	if err == nil {
		err = wait(ctx, time.Second)
	}
	if err != nil {
		return err
	}
	return s.unchanged(ctx, baseline, "a push that had ended")
}
