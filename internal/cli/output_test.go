package cli

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestEnds: what ended is listed until it is taken away, and ends "now" no more.
func TestEnds(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := &session{now: func() time.Time { return at }}
	for offset, want := range map[time.Duration]string{2 * time.Hour: "in 2h00m", 0: "ended 0s ago", -time.Hour: "ended 1h00m ago"} {
		if got := s.ends(timestamppb.New(at.Add(offset))); got != want {
			t.Errorf("%s from now: %q, want %q", offset, got, want)
		}
	}
	if got := s.ends(nil); got != "" {
		t.Errorf("without an end: %q", got)
	}
}
