package workflows

import (
	"testing"
	"time"
)

// TestAClockThatIsSetBackLengthensNoPause: a pause that the Driver chose, and that would take
// longer than any of its kind, was begun by a clock that was ahead.
func TestAClockThatIsSetBackLengthensNoPause(t *testing.T) {
	now := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		next time.Time
		due  bool
	}{
		{"it was never looked at", time.Time{}, true},
		{"within the pause", now.Add(again), false},
		{"within the longest pause after failures", now.Add(maxPause), false},
		{"after the pause", now, true},
		{"the clock was five hours ahead", now.Add(5 * time.Hour), true},
	}
	for _, test := range tests {
		run := &openRun{active: true, next: test.next}
		if due := run.isDue(now); due != test.due {
			t.Errorf("%s: due is %v", test.name, due)
		}
		if pause := run.pause(now); pause < 0 || pause > maxPause {
			t.Errorf("%s: the next look is %s away", test.name, pause)
		}
	}
}
