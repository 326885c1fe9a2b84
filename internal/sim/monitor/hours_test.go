package monitor

import (
	"testing"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// TestHoursOfDaysOnWhichClocksArePut: what they show twice is the first, and what they
// skip is when they are put forward.
func TestHoursOfDaysOnWhichClocksArePut(t *testing.T) {
	london := func(hours string) *intentpb.Calendar {
		return &intentpb.Calendar{Zone: "Europe/London", Open: []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: hours}}}}
	}
	for _, c := range []struct {
		hours, from, until string
	}{
		{"00:30-01:30", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z"}, // It ends where they skip.
		{"01:30-02:20", "2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z"}, // and begins there.
		{"02:40-05:00", "2026-03-29T01:40:00Z", "2026-03-29T04:00:00Z"},
		{"00:30-01:30", "2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z"}, // The first time.
		{"01:30-02:20", "2026-10-25T00:30:00Z", "2026-10-25T02:20:00Z"},
		{"22:00-01:20", "2026-10-24T21:00:00Z", "2026-10-25T00:20:00Z"}, // From the day before.
		{"20:20-00:00", "2026-06-01T19:20:00Z", "2026-06-01T23:00:00Z"},
	} {
		from, err1 := time.Parse(time.RFC3339, c.from)
		until, err2 := time.Parse(time.RFC3339, c.until)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		m := &Monitor{hours: hours{}}
		for at, open := range map[time.Time]bool{from.Add(-time.Second): false, from: true, until.Add(-time.Second): true, until: false} {
			if m.open(london(c.hours), at) != open {
				t.Errorf("%s at %s: open is not %t", c.hours, at, open)
			}
		}
	}
}
