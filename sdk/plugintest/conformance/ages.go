package conformance

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// apart is how long after a change the question about it is asked, so that an answer of
// before the change differs in age from one of now.
const apart = 300 * time.Millisecond

// elsewhere is a change of the example of which the asked process was not told.
type elsewhere struct {
	// incarnation is the one that the example is in sync with since then.
	incarnation intent.IncarnationID
	// at is when production had been changed at the latest.
	at time.Time
	// way says how it was changed, where no second process could do it; else empty.
	way string
}

// changeElsewhere looks at the example, so that whoever keeps what it read has it, and
// then brings it to the other intent by another process of the plugin.
func (s *suite) changeElsewhere(ctx context.Context) (elsewhere, error) {
	var change elsewhere
	baseline, err := s.pendingDifference(ctx)
	if err == nil {
		_, err = s.look(ctx, s.line, baseline.Incarnation, time.Time{})
	}
	if err != nil {
		return change, err
	}
	l := s.line
	if s.endpoint.isOurs() || len(s.target.Dial) > 1 {
		other, closeOther, err := s.another(ctx)
		if err != nil {
			return change, fmt.Errorf("reaching a second process beside the first: %w", err)
		}
		defer closeOther()
		l = other
	} else {
		change.way = "measured by a push of its own, for no second process could be reached"
	}
	push, err := s.delivery(ctx, l, baseline)
	if err != nil {
		return change, err
	}
	end, err := finish(ctx, l, push)
	if err != nil {
		return change, err
	}
	if end.Ending != plugin.Pushed {
		return change, fmt.Errorf("the push of a second process ended as %s", end)
	}
	current, err := s.asOfNow(ctx, l, baseline.Incarnation)
	if err == nil && current.Outcome != intent.InSync {
		err = fmt.Errorf("after its own push a second process says that the example still differs: %s %s", fields(current), current.Reason)
	}
	change.incarnation, change.at = baseline.Incarnation, time.Now()
	return change, err
}

// ages asks for what the plugin has, and holds what it shows against what is so.
func (s *suite) ages(ctx context.Context) error {
	change, err := s.changeElsewhere(ctx)
	if err == nil {
		err = wait(ctx, apart)
	}
	if err != nil {
		return err
	}
	d, err := s.look(ctx, s.line, change.incarnation, time.Time{})
	if err != nil {
		return err
	}
	switch isOld := d.Outcome == intent.Differs; {
	case isOld && d.At.After(change.at):
		return fmt.Errorf("it tells what was so before production was changed, and says that it read this %s after the change", d.At.Sub(change.at).Round(time.Millisecond))
	case isOld:
		return remark("it tells what it had read before, with its age")
	case change.way != "":
		return remark(change.way)
	}
	return nil
}

// readsNow asks for a fact of now about what changed.
func (s *suite) readsNow(ctx context.Context) error {
	change, err := s.changeElsewhere(ctx)
	if err != nil {
		return err
	}
	d, err := s.diff(ctx, change.incarnation)
	switch {
	case err != nil:
		return err
	case d.Outcome != intent.InSync:
		return fmt.Errorf("it was asked for a fact of now after production was changed, and tells what was so before: %s", fields(d))
	case change.way != "":
		return remark(change.way)
	}
	return nil
}
