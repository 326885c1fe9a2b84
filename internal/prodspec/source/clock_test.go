package source_test

import (
	"testing"
	"time"

	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/source"
)

// settable is a runtime whose wall clock can be set.
type settable struct {
	loop.Runtime
	now time.Time
}

func (s *settable) Now() time.Time { return s.now }

// TestClockSetBackDelaysNoLook: what was looked at while the clock was ahead
// is looked at again soon after it was set right.
func TestClockSetBackDelaysNoLook(t *testing.T) {
	right := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := &settable{Runtime: loop.Real(), now: right.AddDate(1, 0, 0)}
	notices := source.NewNotices(clock)
	if !notices.Changes().All || notices.Changes().All {
		t.Fatal("all is looked at first, and only then")
	}
	clock.now = right
	if !notices.Changes().All {
		t.Error("all is not looked at for a year")
	}
	if notices.Changes().All {
		t.Error("all is looked at each time")
	}
}
