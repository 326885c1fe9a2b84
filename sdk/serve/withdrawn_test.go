package serve

import (
	"context"
	"errors"
	"testing"

	processpb "lehr.dev/gen/lehr/process/v1"
)

// hurried is a production that is being read while the permit is withdrawn.
type hurried struct {
	*shelf
	withdraw func()
}

func (h *hurried) Read(ctx context.Context, assets []Asset[*processpb.Job]) ([]State[*processpb.Job], error) {
	h.withdraw()
	return nil, ctx.Err()
}

// TestAReadThatThePermitEndedIsStopped, not failed: nothing is wrong with production.
func TestAReadThatThePermitEndedIsStopped(t *testing.T) {
	ctx, withdraw := context.WithCancelCause(t.Context())
	kind := For(&hurried{shelf: &shelf{}, withdraw: func() { withdraw(errNoPermit) }}, Serving{})
	outcome := kind.Push(ctx, Push{Asset: jobIntent(t, &processpb.Job{Name: "a"})}, nil)
	if outcome.Ending != Stopped || outcome.Reason != errNoPermit.Error() {
		t.Errorf("%+v", outcome)
	}

	broken := For(&shelf{err: errors.New("no answer")}, Serving{})
	if outcome := broken.Push(t.Context(), Push{Asset: jobIntent(t, &processpb.Job{Name: "a"})}, nil); outcome.Ending != Failed || !outcome.Retryable {
		t.Errorf("a read that failed by itself: %+v", outcome)
	}
}
