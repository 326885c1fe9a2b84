package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
)

// nonsense sends messages that no Lehr sends.
func (s *suite) nonsense(ctx context.Context) error {
	l := s.line
	for _, request := range []*pluginpb.DiffRequest{
		{},
		{Message: &pluginpb.DiffRequest_Content{Content: &pluginpb.Content{Incarnation: "x@1", Assets: []*pluginpb.AssetContent{{Asset: "never asked for", Digest: []byte("short")}}}}},
		{Message: &pluginpb.DiffRequest_Batch{Batch: &pluginpb.DiffBatch{Batch: 1 << 60, Incarnation: "not an incarnation", Assets: []string{"a"}}}},
		{Message: &pluginpb.DiffRequest_Batch{Batch: &pluginpb.DiffBatch{Batch: 1<<60 + 1}}},
		{Message: &pluginpb.DiffRequest_Batch{Batch: &pluginpb.DiffBatch{Batch: 1<<60 + 2, Memos: []*pluginpb.AssetMemo{{}, {Asset: "b", ResourceKey: "k", Memo: make([]byte, 1<<20)}}}}},
	} {
		if err := l.sendDiff(request); err != nil {
			return fmt.Errorf("the stream of diffs broke: %w", err)
		}
	}
	push := &delivery{permit: freely, start: &pluginpb.PushStart{Push: "nonsense", Incarnation: "not an incarnation", Asset: "a", PlanDigest: []byte("short")}}
	for _, request := range []*pluginpb.PushRequest{
		{},
		{Message: &pluginpb.PushRequest_Permit{Permit: &pluginpb.Permit{Request: 1 << 60, Grants: []*pluginpb.PermitGrant{{Push: "none", Granted: true}}}}},
		{Message: &pluginpb.PushRequest_Start{Start: &pluginpb.PushStart{}}},
		{Message: &pluginpb.PushRequest_MemoSaved{MemoSaved: &pluginpb.MemoSaved{Push: "none", Number: 1 << 60}}},
	} {
		if err := l.sendPush(request); err != nil {
			return fmt.Errorf("the stream of pushes broke: %w", err)
		}
	}
	if err := l.deliver(push); err != nil {
		return err
	}
	// It must end the push that it cannot carry out, and go on serving.
	result, err := l.end(ctx, push)
	if err != nil {
		return err
	}
	if endingOf(result).Ending == plugin.Pushed {
		return errors.New("it says that it pushed what nobody could")
	}
	_, err = s.diff(ctx, first)
	// Answers to nonsense are nonsense: no other rule counts them.
	s.line.mutex.Lock()
	s.line.strays = nil
	s.line.mutex.Unlock()
	return err
}

// killed ends the process in the middle of a push: as soon as it is sent, and
// after parts of the time that one takes.
func (s *suite) killed(ctx context.Context) error {
	if !s.endpoint.isOurs() {
		return skipped("it was started by somebody else")
	}
	for _, delay := range []time.Duration{0, s.pushTime / 8, s.pushTime / 4, s.pushTime / 2} {
		baseline, err := s.pendingDifference(ctx)
		if err != nil {
			return err
		}
		push, err := s.delivery(ctx, s.line, baseline)
		if err == nil {
			err = s.line.deliver(push)
		}
		if err == nil {
			err = wait(ctx, delay)
		}
		if err != nil {
			return err
		}
		s.endpoint.kill()
		s.disconnect()
		if err := s.connect(ctx); err != nil {
			return fmt.Errorf("started again after kill -9: %w", err)
		}
		if err := s.recovers(ctx, baseline.Incarnation); err != nil {
			return fmt.Errorf("killed %s after a push was delivered: %w", delay.Round(time.Millisecond), err)
		}
	}
	return nil
}

// recovers looks twice, and pushes what is left to do.
func (s *suite) recovers(ctx context.Context, incarnation intent.IncarnationID) error {
	one, err := s.diff(ctx, incarnation)
	if err != nil {
		return err
	}
	if one.Outcome == intent.InSync {
		return nil
	}
	_, err = s.goTo(ctx, incarnation)
	return err
}

// endsWithParent closes the plugin's input, as the kernel does when Lehr is
// killed.
func (s *suite) endsWithParent(ctx context.Context) error {
	if !s.endpoint.isOurs() {
		return skipped("it was started by somebody else")
	}
	e, err := reach(ctx, s.target, 0, &s.leaks)
	if err != nil {
		return err
	}
	defer e.close()
	e.stdin.Close()
	select {
	case <-e.exited:
		return nil
	case <-time.After(endsWithin):
		return fault.New(fault.Invalid, "%s after the end of its standard input it still runs, and could have effects", endsWithin).
			WithHint("exit when reading standard input returns end of file")
	}
}

// busy looks at the pauses that all answers so far asked for. Nothing of the suite
// can make a target busy, so there may be none.
func (s *suite) busy(context.Context) error {
	pauses := append(slices.Clone(s.pauses), s.line.listPauses()...)
	if len(pauses) == 0 {
		return remark("it asked for none")
	}
	longest := time.Duration(0)
	for _, pause := range pauses {
		if err := pause.CheckValid(); err != nil || pause.AsDuration() <= 0 {
			return fault.New(fault.Invalid, "it is too busy, and asks to be tried again after %d s %d ns, which is no time to come", pause.GetSeconds(), pause.GetNanos()).
				WithHint("leave retry_after unset where nothing is known of when")
		}
		longest = max(longest, pause.AsDuration())
	}
	return remark(fmt.Sprintf("it asked for %d, the longest of %s", len(pauses), longest))
}

// canRemove reports whether the example can be turned down, or why not.
func (s *suite) canRemove(ctx context.Context) (able bool, reason string, err error) {
	d, err := s.look(ctx, s.line, removed, time.Now())
	return err == nil && d.Outcome != intent.Unknown, d.Reason, err
}

// turndown removes the example, and creates it again.
func (s *suite) turndown(ctx context.Context) error {
	if _, err := s.ensure(ctx, first); err != nil {
		return err
	}
	able, reason, err := s.canRemove(ctx)
	if err != nil {
		return err
	}
	if !able {
		return remark("it cannot turn down, and says so: " + reason)
	}
	present, err := s.diff(ctx, removed)
	if err != nil {
		return err
	}
	if present.Outcome != intent.Differs || present.Plan.Action != intent.ActionDelete {
		return fmt.Errorf("the example is there and turned down, and the difference is %q %q: want delete", outcomeName(present.Outcome), present.Plan.Action)
	}
	for _, change := range present.Plan.Changes {
		if !change.Destructive {
			return fmt.Errorf("the field %s is removed, and that is not destructive", change.Path)
		}
	}
	// A creation is not admitted for a turndown, nor the reverse.
	create := present
	create.Plan = intent.Plan{Action: intent.ActionCreate}
	if end, err := s.push(ctx, create, nil); err != nil || end.Ending == plugin.Pushed {
		return errors.Join(err, fmt.Errorf("a push of another plan than the removal ended as %s", end))
	}
	removal, err := s.remove(ctx)
	if err != nil {
		return err
	}
	if end, err := s.push(ctx, removal, nil); err != nil || end.Ending == plugin.Failed {
		return errors.Join(err, fmt.Errorf("a second removal ended as %s", end))
	}
	if err := s.unchanged(ctx, removal, "a second removal"); err != nil {
		return err
	}
	current, err := s.goTo(ctx, first)
	if err == nil && string(current.Current) != string(s.created) {
		err = errors.New("created again, the state differs from the one that the first creation led to")
	}
	return err
}

func outcomeName(outcome intent.Outcome) string {
	return map[intent.Outcome]string{intent.InSync: "in sync", intent.Differs: "differs"}[outcome]
}

// clean removes the example, and reports whether it has gone.
func (s *suite) clean(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.target.Patience)
	defer cancel()
	if s.connect(ctx) != nil {
		return false
	}
	d, err := s.ensure(ctx, removed)
	return err == nil && d.Outcome == intent.InSync
}

// remove pushes the turndown.
func (s *suite) remove(ctx context.Context) (intent.Difference, error) {
	removal, err := s.goTo(ctx, removed)
	if err == nil && len(removal.Current) > 0 {
		err = errors.New("turned down and in sync, and a current state is shown: nothing is there")
	}
	if err != nil {
		return removal, err
	}
	again, err := s.diff(ctx, first)
	if err == nil && again.Outcome != intent.Differs {
		err = errors.New("turned down, and without the addon it is in sync: nothing is there")
	}
	return removal, err
}
