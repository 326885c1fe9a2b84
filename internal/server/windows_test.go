package server

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// TestWindowsOfACheck: the first row says how it is now.
func TestWindowsOfACheck(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	at := func(day, hour int) time.Time { return time.Date(2026, 11, day, hour, 0, 0, 0, time.UTC) }
	hours := func(text string) []*intentpb.Window {
		return []*intentpb.Window{{When: &intentpb.Window_Hours{Hours: text}}}
	}
	for name, test := range map[string]struct {
		open        []*intentpb.Window
		state, says string
		from, until time.Time
		rows        int
	}{
		"open":   {hours("09:00-17:00"), "open", "", now, at(22, 17), 2},
		"closed": {hours("Mon 09:00-17:00"), "closed", "outside its windows", at(23, 9), at(23, 17), 2},
		"always": {nil, "open", "", now, time.Time{}, 1},
		"never": {[]*intentpb.Window{{When: &intentpb.Window_Rrule{Rrule: "FREQ=DAILY;COUNT=1"}, Start: "2026-01-05T09:00:00", Duration: durationpb.New(time.Hour)}},
			"never", "outside its windows", time.Time{}, time.Time{}, 1},
	} {
		list, err := windows(&intentpb.Check{Name: "office", Kind: &intentpb.Check_Calendar{Calendar: &intentpb.Calendar{Zone: "UTC", Open: test.open}}}, 2, now)
		if err != nil || len(list) != test.rows {
			t.Errorf("%s: %v %v", name, list, err)
			continue
		}
		want := &apipb.CheckWindow{Check: "office", Zone: "UTC", State: test.state, Reason: test.says, From: toTime(test.from), Until: toTime(test.until)}
		if !proto.Equal(list[0], want) {
			t.Errorf("%s: %v", name, list[0])
		}
	}
}
