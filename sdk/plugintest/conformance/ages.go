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
// then brings it to the other intent: by another process of the plugin, where one can be
// reached and sees the same production.
func (s *suite) changeElsewhere(ctx context.Context) (elsewhere, error) {
	baseline, err := s.pendingDifference(ctx)
	if err == nil {
		_, err = s.look(ctx, s.line, baseline.Incarnation, time.Time{})
	}
	if err != nil {
		return elsewhere{}, err
	}
	if !s.endpoint.isOurs() && len(s.target.Dial) < 2 {
		return s.changeBy(ctx, s.line, baseline, "measured by a push of its own, for no second process could be reached")
	}
	other, closeOther, err := s.another(ctx)
	if err != nil {
		return elsewhere{}, fmt.Errorf("reaching a second process beside the first: %w", err)
	}
	defer closeOther()
	theirs, err := s.asOfNow(ctx, other, baseline.Incarnation)
	if err != nil {
		return elsewhere{}, err
	}
	if same(baseline, theirs) {
		return s.changeBy(ctx, other, baseline, "")
	}
	// Either each process has a production of its own, or one of them told what is over.
	change, err := s.changeBy(ctx, s.line, baseline, "measured by a push of its own, for a second process sees another production")
	if err != nil {
		return change, err
	}
	theirs, err = s.asOfNow(ctx, other, baseline.Incarnation)
	if err == nil && theirs.Outcome == intent.InSync {
		err = fmt.Errorf("two processes were asked for a fact of now of one production, and one of them told what was so before: %s", fields(baseline))
	}
	return change, err
}

// changeBy pushes the difference by a line, and waits until that says in sync.
func (s *suite) changeBy(ctx context.Context, l *line, baseline intent.Difference, way string) (elsewhere, error) {
	change := elsewhere{incarnation: baseline.Incarnation, way: way}
	push, err := s.delivery(ctx, l, baseline)
	if err != nil {
		return change, err
	}
	end, err := finish(ctx, l, push)
	if err != nil {
		return change, err
	}
	if end.Ending != plugin.Pushed {
		return change, fmt.Errorf("the push ended as %s", end)
	}
	current, err := s.asOfNow(ctx, l, baseline.Incarnation)
	if err == nil && current.Outcome != intent.InSync {
		err = fmt.Errorf("after a push, the process that carried it out says that the example still differs: %s %s", fields(current), current.Reason)
	}
	change.at = time.Now()
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
