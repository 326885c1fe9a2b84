package app

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/store"
)

// TestTheLastFailuresOfAnOutageBeginNone: whoever met one may log it after another found the
// database there again. What fails later than that begins an outage.
func TestTheLastFailuresOfAnOutageBeginNone(t *testing.T) {
	var told strings.Builder
	now := time.Date(2026, 11, 27, 2, 0, 0, 0, time.UTC)
	outage := newOutage(slog.New(slog.NewTextHandler(&told, nil)), func() time.Time { return now })
	log := slog.New(outage)
	away := fault.New(fault.Unavailable, "reading: %w", store.ErrAway)
	const begins, ends = "the database cannot be used", "the database can be used again"
	for _, step := range []struct {
		wait        time.Duration
		isRenewed   bool
		begun, over int
	}{
		{wait: 0, begun: 1, over: 0},
		{wait: 2 * time.Second, begun: 1, over: 0},
		{wait: 0, isRenewed: true, begun: 1, over: 1},
		{wait: lateFailure / 2, begun: 1, over: 1},
		{wait: lateFailure, begun: 2, over: 1},
		{wait: 0, isRenewed: true, begun: 2, over: 2},
	} {
		now = now.Add(step.wait)
		if step.isRenewed {
			outage.end(context.Background())
		} else {
			log.Warn("a round failed", "error", away)
		}
		if begun, over := strings.Count(told.String(), begins), strings.Count(told.String(), ends); begun != step.begun || over != step.over {
			t.Errorf("after %+v: %d outages began and %d ended:\n%s", step, begun, over, told.String())
		}
	}
	if strings.Contains(told.String(), "a round failed") {
		t.Errorf("a failure was told by itself:\n%s", told.String())
	}
}
