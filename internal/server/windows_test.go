package server

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/loop"
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

// stoppedClock is a runtime in which it is always the same time.
type stoppedClock struct {
	loop.Runtime
	now time.Time
}

func (c stoppedClock) Now() time.Time { return c.now }

// TestEqualCalendarsAreListedOnce: a calendar is listed once with all of its partitions, with its freezes that are not
// over; one that differs in anything is listed apart.
func TestEqualCalendarsAreListedOnce(t *testing.T) {
	check := func(zone string, freezes ...*intentpb.Freeze) *intentpb.Check {
		return &intentpb.Check{Name: "office", Kind: &intentpb.Check_Calendar{Calendar: &intentpb.Calendar{Zone: zone, Freezes: freezes}}}
	}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	freeze := func(reason string, begin, end time.Duration) *intentpb.Freeze {
		return &intentpb.Freeze{From: toTime(now.Add(begin)), Until: toTime(now.Add(end)), Reason: reason}
	}
	s := &Server{runtime: stoppedClock{loop.Real(), now}}
	listed := s.toCalendar(check("UTC", freeze("later", time.Hour, 2*time.Hour), freeze("over", -2*time.Hour, -time.Hour), freeze("now", -time.Hour, time.Hour)), 3)
	if len(listed.Freezes) != 2 || listed.Freezes[0].Reason != "now" || listed.Freezes[1].Reason != "later" || listed.Problem != "" {
		t.Errorf("listed is %v", listed)
	}
	if broken := s.toCalendar(check("Nowhere/AtAll"), 3); broken.Problem == "" || len(broken.Windows) != 0 {
		t.Errorf("of a calendar that cannot be read is listed %v", broken)
	}
	one, err := calendarKey(check("UTC"))
	same, sameErr := calendarKey(check("UTC"))
	other, otherErr := calendarKey(check("Europe/Berlin"))
	if err != nil || sameErr != nil || otherErr != nil || one != same || one == other {
		t.Errorf("the keys are %q, %q and %q: %v, %v, %v", one, same, other, err, sameErr, otherErr)
	}
}
