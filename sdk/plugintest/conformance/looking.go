package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
)

func (s *suite) production(ctx context.Context) (string, error) {
	if s.target.Production == nil {
		return "", nil
	}
	state, err := s.target.Production(ctx)
	if err != nil {
		err = fmt.Errorf("looking at production: %w", err)
	}
	return state, err
}

func (s *suite) looking(ctx context.Context) error {
	baseline, err := s.production(ctx)
	if err != nil {
		return err
	}
	one, err := s.diff(ctx, first)
	if err != nil {
		return err
	}
	if one.Outcome != intent.Differs {
		return errors.New("the example exists already: the checks begin with none")
	}
	repeated, err := s.diff(ctx, first)
	if err != nil {
		return err
	}
	if !same(one, repeated) {
		return fmt.Errorf("two diffs in a row say %s at base %q, then %s at base %q", one.Plan.Digest().Short(), one.Base, repeated.Plan.Digest().Short(), repeated.Base)
	}
	current, err := s.production(ctx)
	if err == nil && baseline != current {
		err = fmt.Errorf("production was %q before a diff and %q after it", baseline, current)
	}
	return err
}

// answersOnce asks about several assets at once. A second batch follows, so
// that what the first one brings too much has been seen.
func (s *suite) answersOnce(ctx context.Context) error {
	for range 2 {
		b, err := s.line.ask(first, example, "missing/one", "missing/two")
		if err == nil {
			err = s.line.await(ctx, b)
		}
		if err != nil {
			return err
		}
		for _, missing := range []string{"missing/one", "missing/two"} {
			if b.answers[missing].GetUnknown() == nil {
				return fmt.Errorf("the asset %q has no content, and its difference is not unknown", missing)
			}
		}
	}
	return s.line.stray()
}

// independent lets one call wait for content that never comes.
func (s *suite) independent(ctx context.Context) error {
	s.contents.silence(garbled, "silent")
	waiting, err := s.line.ask(garbled, "silent")
	if err != nil {
		return err
	}
	if _, err := s.diff(ctx, first); err != nil {
		return fmt.Errorf("beside a call that waits for content: %w", err)
	}
	select {
	case <-waiting.done:
		if waiting.answers["silent"].GetUnknown() == nil {
			return errors.New("it tells a difference of intent that it was never given")
		}
	default:
	}
	return nil
}

// garbage gives it an intent that cannot be read, beside a good one.
func (s *suite) garbage(ctx context.Context) error {
	s.contents.put(garbled, "garbled", []byte("\xff\xff\xff\xff\xff not an asset"))
	s.contents.put(garbled, "empty", nil)
	foreign := proto.Message(&intentpb.Owner{Owner: "nobody"})
	if err := errors.Join(s.contents.putPayload(garbled, "foreign", foreign), s.contents.putPayload(garbled, example, s.target.First)); err != nil {
		return err
	}
	b, err := s.line.ask(garbled, "garbled", "empty", "foreign", "missing", example)
	if err == nil {
		err = s.line.await(ctx, b)
	}
	if err != nil {
		return err
	}
	for asset, answer := range b.answers {
		d := intent.Difference{At: time.Now()}
		remote.CheckDifference(answer, &d, time.Time{}, s.served.Cadence)
		if (d.Outcome == intent.Unknown) == (asset == example) {
			return fmt.Errorf("the asset %q has outcome %d (%.200s): only what cannot be read is unknown", asset, d.Outcome, d.Reason)
		}
	}
	return nil
}

// absence asks about the example, and pushes it, as of an incarnation that
// does not have it (S5).
func (s *suite) absence(ctx context.Context) error {
	baseline, err := s.ensure(ctx, first)
	if err != nil {
		return err
	}
	d, err := s.look(ctx, s.line, absent, time.Now())
	if err != nil {
		return err
	}
	if d.Outcome != intent.Unknown {
		return fmt.Errorf("the incarnation does not have the asset, and a push would %s it: want unknown", d.Plan.Action)
	}
	for _, action := range []intent.Action{"", intent.ActionDelete} {
		d.Plan, d.Base = intent.Plan{Action: action}, baseline.Base
		end, err := s.push(ctx, d, nil)
		if err != nil {
			return err
		}
		if end.Ending == plugin.Pushed {
			return errors.New("it says that it pushed what it was given no intent for")
		}
	}
	return s.unchanged(ctx, baseline, "an incarnation without the asset")
}
