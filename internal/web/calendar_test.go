package web

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// TestStateOfDay: a day is open, closed or open in parts, by what is known of it.
func TestStateOfDay(t *testing.T) {
	day := func(n, hour int) time.Time { return time.Date(2026, 11, n, hour, 0, 0, 0, time.UTC) }
	window := func(from, until time.Time) *apipb.CheckWindow {
		return &apipb.CheckWindow{State: "closed", From: timestamppb.New(from), Until: timestamppb.New(until)}
	}
	now := day(10, 12)
	office := []*apipb.CheckWindow{window(day(11, 9), day(11, 17)), window(day(12, 22), day(14, 2))}
	freezes := []*apipb.CheckFreeze{{From: timestamppb.New(day(16, 12)), Until: timestamppb.New(day(18, 0)), Reason: "the sale"}}
	for n, want := range map[int]dayState{
		9: {"past", "past"}, 10: {"closed", "closed"}, 11: {"part", "open 09:00–17:00"}, 12: {"part", "open 22:00–"}, 13: {"open", "open"}, 14: {"part", "open –02:00"}, 15: {"closed", "closed"}, 16: {"freeze", "freeze"}, 17: {"freeze", "freeze"}, 18: {"closed", "closed"},
	} {
		if got := stateOfDay(&apipb.CheckCalendar{Windows: office, Freezes: freezes}, day(n, 0), day(n+1, 0), now); got != want {
			t.Errorf("on day %d: %v, want %v", n, got, want)
		}
	}
	never := []*apipb.CheckWindow{{State: "never"}}
	if got := stateOfDay(&apipb.CheckCalendar{Windows: never}, day(11, 0), day(12, 0), now); got.Class != "closed" {
		t.Errorf("what never opens is %v", got)
	}
	always := []*apipb.CheckWindow{{State: "open", From: timestamppb.New(now)}}
	if got := stateOfDay(&apipb.CheckCalendar{Windows: always}, day(20, 0), day(21, 0), now); got.Class != "open" {
		t.Errorf("what never closes is %v", got)
	}
}
