package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"lehr.dev/internal/ground/intent"
)

// outputs looks twice at the example while it is in sync: what a plugin tells others is
// within the limits, and the same, or each look would change what they are to be.
func (s *suite) outputs(ctx context.Context) error {
	at := first
	one, err := s.diff(ctx, at)
	if err == nil && one.Outcome != intent.InSync {
		at = second
		one, err = s.diff(ctx, at)
	}
	if err != nil {
		return err
	}
	if one.Outcome != intent.InSync {
		return errors.New("the example is in sync with none of its two intents")
	}
	repeated, err := s.diff(ctx, at)
	switch {
	case err != nil:
		return err
	case one.OutputProblem != "":
		return errors.New(one.OutputProblem)
	case !slices.EqualFunc(one.Outputs, repeated.Outputs, func(a, b intent.Output) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) }):
		return fmt.Errorf("two looks at what did not change tell the outputs %s, then %s", one.Outputs, repeated.Outputs)
	case len(one.Outputs) == 0:
		return remark("it tells no outputs")
	}
	return nil
}
