package calendar

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

func hoursOf(texts ...string) (windows []*intentpb.Window) {
	for _, text := range texts {
		windows = append(windows, &intentpb.Window{When: &intentpb.Window_Hours{Hours: text}})
	}
	return windows
}

func recurs(text, start string, long time.Duration) *intentpb.Window {
	return &intentpb.Window{When: &intentpb.Window_Rrule{Rrule: text}, Start: start, Duration: durationpb.New(long)}
}

// moment reads a local time, with its offset where clocks show it twice.
func moment(t *testing.T, zone, text string) time.Time {
	t.Helper()
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04", text, loc)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestWindows(t *testing.T) {
	const london, york, howe = "Europe/London", "America/New_York", "Australia/Lord_Howe"
	office := hoursOf("Mon-Fri 09:00-17:00")
	frozen := []*intentpb.Freeze{{
		From: timestamppb.New(time.Date(2026, 12, 21, 0, 0, 0, 0, time.UTC)), Until: timestamppb.New(time.Date(2027, 1, 4, 12, 0, 0, 0, time.UTC)), Reason: "nobody is here",
	}}
	for name, test := range map[string]struct {
		zone     string
		windows  []*intentpb.Window
		freezes  []*intentpb.Freeze
		holidays string
		now      string
		// want are the next windows, from the one that is open now.
		want []string
		why  string
	}{
		"open":                 {london, office, nil, "", "2026-11-20 16:59", []string{"2026-11-20 16:59 2026-11-20 17:00", "2026-11-23 09:00 2026-11-23 17:00"}, ""},
		"closes":               {london, office, nil, "", "2026-11-20 17:00", []string{"2026-11-23 09:00 2026-11-23 17:00"}, "outside"},
		"over midnight":        {london, hoursOf("Sat 22:00-02:00"), nil, "", "2026-11-22 01:00", []string{"2026-11-22 01:00 2026-11-22 02:00", "2026-11-28 22:00 2026-11-29 02:00"}, ""},
		"days over a weekend":  {london, hoursOf("Fri-Mon 00:00-24:00"), nil, "", "2026-11-24 12:00", []string{"2026-11-27 00:00 2026-12-01 00:00"}, "outside"},
		"several that touch":   {london, hoursOf("Mon 09:00-12:00", "Mon 12:00-13:00", "Mon 11:00-11:30"), nil, "", "2026-11-22 00:00", []string{"2026-11-23 09:00 2026-11-23 13:00"}, "outside"},
		"holidays":             {london, office, nil, "GB", "2026-12-24 17:00", []string{"2026-12-29 09:00 2026-12-29 17:00"}, "outside"},
		"on a holiday":         {london, office, nil, "GB", "2026-12-25 12:00", []string{"2026-12-29 09:00 2026-12-29 17:00"}, "closed for Christmas Day"},
		"kept in another year": {york, office, nil, "US", "2021-12-31 12:00", []string{"2022-01-03 09:00 2022-01-03 17:00"}, "closed for New Year's Day"},
		"frozen":               {london, office, frozen, "GB", "2026-12-22 12:00", []string{"2027-01-04 12:00 2027-01-04 17:00"}, "frozen until Mon 2027-01-04 12:00:00 GMT: nobody is here"},
		"only a freeze":        {london, nil, frozen, "", "2026-12-20 12:00", []string{"2026-12-20 12:00 2026-12-21 00:00"}, ""},
		// In spring clocks go from 01:00 to 02:00 in London, 02:00 to 03:00 in New
		// York, and 02:00 to 02:30 on Lord Howe.
		"gap in London":      {london, hoursOf("01:30-03:00"), nil, "", "2026-03-28 12:00", []string{"2026-03-29 02:00 2026-03-29 03:00"}, "outside"},
		"gap in New York":    {york, hoursOf("Sun 02:30-04:00"), nil, "", "2026-03-08 00:00", []string{"2026-03-08 03:00 2026-03-08 04:00"}, "outside"},
		"gap on Lord Howe":   {howe, hoursOf("Sun 02:15-03:00"), nil, "", "2026-10-04 00:00", []string{"2026-10-04 02:30 2026-10-04 03:00"}, "outside"},
		"only the gap":       {york, hoursOf("Sun 02:15-02:45"), nil, "", "2026-03-08 00:00", []string{"2026-03-15 02:15 2026-03-15 02:45"}, "outside"},
		"gap while it opens": {london, hoursOf("00:30-02:30"), nil, "", "2026-03-28 12:00", []string{"2026-03-29 00:30 2026-03-29 02:30"}, "outside"},
		// In autumn the hour, or half hour, before is shown twice: the first counts.
		"overlap in London":    {london, hoursOf("Sun 01:30-03:00"), nil, "", "2026-10-25 00:00", []string{"2026-10-25T01:30:00+01:00 2026-10-25T03:00:00Z"}, "outside"},
		"overlap that closes":  {york, hoursOf("Sun 00:00-01:30"), nil, "", "2026-10-31 12:00", []string{"2026-11-01T00:00:00-04:00 2026-11-01T01:30:00-04:00"}, "outside"},
		"overlap on Lord Howe": {howe, hoursOf("Sun 01:45-03:00"), nil, "", "2026-04-05 00:00", []string{"2026-04-05T01:45:00+11:00 2026-04-05T03:00:00+10:30"}, "outside"},
		"recurring": {london, []*intentpb.Window{recurs("FREQ=MONTHLY;BYDAY=1TU", "2026-01-06T22:00:00", 4*time.Hour)}, nil, "", "2026-11-22 00:00",
			[]string{"2026-12-01 22:00 2026-12-02 02:00", "2027-01-05 22:00 2027-01-06 02:00"}, "outside"},
		"recurring over a gap": {york, []*intentpb.Window{recurs("FREQ=WEEKLY;BYDAY=SU", "2026-01-04T01:00:00", 2*time.Hour)}, nil, "", "2026-03-08 00:00",
			[]string{"2026-03-08T01:00:00-05:00 2026-03-08T04:00:00-04:00"}, "outside"},
		"recurring in a gap": {york, []*intentpb.Window{recurs("FREQ=WEEKLY;BYDAY=SU", "2026-01-04T02:30:00", time.Hour)}, nil, "", "2026-03-08 00:00",
			[]string{"2026-03-08 03:00 2026-03-08 04:00"}, "outside"},
		"every other week": {london, []*intentpb.Window{recurs("FREQ=WEEKLY;INTERVAL=2", "2026-11-02T09:00:00", time.Hour)}, nil, "", "2026-11-22 00:00",
			[]string{"2026-11-30 09:00 2026-11-30 10:00"}, "outside"},
		"over":        {london, []*intentpb.Window{recurs("FREQ=DAILY;COUNT=2", "2026-01-05T09:00:00", time.Hour)}, nil, "", "2026-11-22 00:00", nil, "outside"},
		"a lost day":  {"Pacific/Apia", hoursOf("Fri 00:00-24:00"), nil, "", "2011-12-29 12:00", []string{"2012-01-06 00:00 2012-01-07 00:00"}, "outside"},
		"no midnight": {"America/Sao_Paulo", hoursOf("Sun 00:00-02:00"), nil, "", "2018-11-03 12:00", []string{"2018-11-04 01:00 2018-11-04 02:00"}, "outside"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(&intentpb.Calendar{Zone: test.zone, Open: test.windows, Freezes: test.freezes, Holidays: test.holidays})
			if err != nil {
				t.Fatal(err)
			}
			now := moment(t, test.zone, test.now)
			got := c.Next(now, max(1, len(test.want)))
			if len(got) != len(test.want) {
				t.Fatalf("windows %v, want %v", got, test.want)
			}
			for i, want := range test.want {
				half := len(want) / 2
				if strings.Contains(want, "T") {
					half = strings.Index(want, " ")
				}
				start, end := moment(t, test.zone, want[:half]), moment(t, test.zone, want[half+1:])
				if !got[i].Start.Equal(start) || !got[i].End.Equal(end) {
					t.Errorf("window %d is %s to %s, want %s", i, c.Time(got[i].Start), c.Time(got[i].End), want)
				}
			}
			answer := c.At(now)
			if answer.Open != (test.why == "") || !strings.Contains(answer.Why, test.why) {
				t.Errorf("%+v", answer)
			}
		})
	}
}

// draw is any calendar.
func draw(t *rapid.T) *intentpb.Calendar {
	said := &intentpb.Calendar{
		Zone:     rapid.SampledFrom([]string{"Europe/London", "America/New_York", "Australia/Lord_Howe", "UTC", "Pacific/Kiritimati"}).Draw(t, "zone"),
		Holidays: rapid.SampledFrom([]string{"", "GB", "US", "DE"}).Draw(t, "holidays"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "windows") {
		open := rapid.IntRange(0, 47).Draw(t, "opens") * 30
		shut := open
		for shut == open {
			shut = rapid.IntRange(0, 48).Draw(t, "shuts") * 30
		}
		days := rapid.SampledFrom([]string{"", "Mon-Fri ", "Sat-Sun ", "Wed,Fri-Mon "}).Draw(t, "days")
		said.Open = append(said.Open, hoursOf(fmt.Sprintf("%s%02d:%02d-%02d:%02d", days, open/60, open%60, shut/60, shut%60))...)
	}
	if rapid.Bool().Draw(t, "recurs") && len(said.Open) > 0 {
		said.Open = append(said.Open, recurs("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU", "2026-01-06T01:30:00", time.Duration(rapid.IntRange(1, 40).Draw(t, "hours"))*time.Hour))
	}
	if rapid.Bool().Draw(t, "frozen") {
		from := time.Unix(1_767_225_600+rapid.Int64Range(0, 400*86400).Draw(t, "from"), 0)
		said.Freezes = append(said.Freezes, &intentpb.Freeze{From: timestamppb.New(from), Until: timestamppb.New(from.Add(time.Duration(rapid.IntRange(1, 1000).Draw(t, "long")) * time.Hour)), Reason: "quiet"})
	}
	return said
}

// TestAnAnswerHoldsUntilItSays: up to its end, and not a nanosecond longer;
// whatever was asked before.
func TestAnAnswerHoldsUntilItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		said := draw(t)
		c, err := New(said)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1_767_225_600+rapid.Int64Range(0, 400*86400).Draw(t, "now"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"))
		for range 4 {
			answer := c.At(now)
			if answer.Until.IsZero() {
				return
			}
			if !answer.Until.After(now) {
				t.Fatalf("at %s it says until %s", c.Time(now), c.Time(answer.Until))
			}
			fresh, _ := New(said)
			between := now.Add(time.Duration(rapid.Int64Range(0, int64(answer.Until.Sub(now)-1)).Draw(t, "between")))
			for _, at := range []time.Time{answer.Until.Add(-1), between} {
				for _, asked := range []*Calendar{c, fresh} {
					if again := asked.At(at); again.Open != answer.Open || !again.Until.Equal(answer.Until) {
						t.Fatalf("at %s it is open %t until %s, at %s open %t until %s", c.Time(now), answer.Open, c.Time(answer.Until), c.Time(at), again.Open, c.Time(again.Until))
					}
				}
			}
			if next := c.At(answer.Until); next.Open == answer.Open {
				t.Fatalf("at %s nothing changes", c.Time(answer.Until))
			}
			now = answer.Until
		}
	})
}

// TestOpenIsWhatClocksShow: away from the edges of daylight-saving time, it is
// open when the local clock is within the hours of a day.
func TestOpenIsWhatClocksShow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"Europe/London", "America/New_York", "Australia/Lord_Howe"}).Draw(t, "zone")
		open := rapid.IntRange(0, 23).Draw(t, "opens")
		shut := rapid.IntRange(1, 24).Filter(func(h int) bool { return h != open }).Draw(t, "shuts")
		c, err := New(&intentpb.Calendar{Zone: zone, Open: hoursOf(fmt.Sprintf("Mon-Thu %02d:00-%02d:00", open, shut))})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(1_767_225_600+rapid.Int64Range(0, 400*86400).Draw(t, "at"), 0)
		local := at.In(c.zone)
		_, before := at.Add(-5 * time.Hour).In(c.zone).Zone()
		if _, after := at.Add(5 * time.Hour).In(c.zone).Zone(); before != after {
			return
		}
		works := func(d time.Weekday) bool { return d >= time.Monday && d <= time.Thursday }
		yesterday := (local.Weekday() + 6) % 7
		want := works(local.Weekday()) && local.Hour() >= open && (shut < open || local.Hour() < shut) || works(yesterday) && shut < open && local.Hour() < shut
		if got := c.At(at).Open; got != want {
			t.Fatalf("at %s open is %t, want %t", c.Time(at), got, want)
		}
	})
}

// TestAWindowIsWhole: freezes and holidays do not split it, midnight and a clock that is put
// back do not, and its ends are the same wherever in it somebody asks.
func TestAWindowIsWhole(t *testing.T) {
	frozen := &intentpb.Freeze{From: timestamppb.New(time.Date(2026, 10, 26, 12, 0, 0, 0, time.UTC)), Until: timestamppb.New(time.Date(2026, 10, 26, 13, 0, 0, 0, time.UTC)), Reason: "lunch"}
	for _, test := range []struct {
		zone, open, at, want string
	}{
		{"Europe/London", "Mon-Fri 09:00-17:00", "2026-10-26T16:30:00Z", "2026-10-26T09:00:00Z 2026-10-26T17:00:00Z"},
		{"Europe/London", "Mon-Fri 09:00-17:00", "2026-10-26T17:00:00Z", ""},
		{"Europe/London", "Sat 22:00-04:00", "2026-10-25T01:30:00Z", "2026-10-24T21:00:00Z 2026-10-25T04:00:00Z"},
		{"UTC", "Mon 09:00-12:00;Mon 12:00-14:00", "2026-10-26T13:59:59Z", "2026-10-26T09:00:00Z 2026-10-26T14:00:00Z"},
	} {
		c, err := New(&intentpb.Calendar{Zone: test.zone, Open: hoursOf(strings.Split(test.open, ";")...), Freezes: []*intentpb.Freeze{frozen}})
		if err != nil {
			t.Fatal(err)
		}
		at, _ := time.Parse(time.RFC3339, test.at)
		window, ok := c.Window(at)
		got := ""
		if ok {
			got = window.Start.UTC().Format(time.RFC3339) + " " + window.End.UTC().Format(time.RFC3339)
		}
		if got != test.want {
			t.Errorf("%s at %s: %s, want %s", test.open, test.at, got, test.want)
		}
		if !c.Shuts(at) {
			t.Errorf("%s ends", test.open)
		}
	}
	always, _ := New(&intentpb.Calendar{Zone: "UTC", Open: hoursOf("00:00-24:00")})
	if always.Shuts(time.Unix(1_800_000_000, 0)) {
		t.Error("a window without a break ends")
	}
	rapid.Check(t, func(t *rapid.T) {
		said := draw(t)
		c, err := New(said)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(1_767_225_600+rapid.Int64Range(0, 400*86400).Draw(t, "at"), 0)
		window, ok := c.Window(at)
		if open := c.At(at).Open; open && !ok {
			t.Fatalf("it is open at %s, which lies in no window", c.Time(at))
		}
		if !ok || !c.Shuts(at) {
			return
		}
		other := window.Start.Add(time.Duration(rapid.Int64Range(0, int64(window.End.Sub(window.Start)-1)).Draw(t, "other")))
		if again, ok := c.Window(other); !ok || !again.Start.Equal(window.Start) || !again.End.Equal(window.End) {
			t.Fatalf("at %s it is %+v, at %s %+v", c.Time(at), window, c.Time(other), again)
		}
	})
}

func TestBadCalendars(t *testing.T) {
	const start = "2026-01-05T09:00:00"
	for says, said := range map[string]*intentpb.Calendar{
		"no time zone \"Europe/Londn\"":  {Zone: "Europe/Londn"},
		"no time zone \"\"":              {},
		"no time zone \"Local\"":         {Zone: "Local"},
		"days are Mon":                   {Zone: "UTC", Open: hoursOf("Mo-Fr 09:00-17:00")},
		"not days and times":             {Zone: "UTC", Open: hoursOf("Mon-Fri 9-17")},
		"times are from 00:00":           {Zone: "UTC", Open: hoursOf("09:00-25:00")},
		"two of them differ":             {Zone: "UTC", Open: hoursOf("09:00-09:00")},
		"\"XX\" are not known":           {Zone: "UTC", Holidays: "XX"},
		"more often than by days":        {Zone: "UTC", Open: []*intentpb.Window{recurs("FREQ=MINUTELY", start, time.Hour)}},
		"how long it is open":            {Zone: "UTC", Open: []*intentpb.Window{recurs("FREQ=DAILY", start, 0)}},
		"no local time":                  {Zone: "UTC", Open: []*intentpb.Window{recurs("FREQ=DAILY", "", time.Hour)}},
		"not open within five years":     {Zone: "UTC", Open: []*intentpb.Window{recurs("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", start, time.Hour)}},
		"no single RRULE":                {Zone: "UTC", Open: []*intentpb.Window{recurs("DTSTART=20260105T090000Z;FREQ=DAILY", start, time.Hour)}},
		"FREQ=OFTEN":                     {Zone: "UTC", Open: []*intentpb.Window{recurs("FREQ=OFTEN", start, time.Hour)}},
		"a freeze ends before it begins": {Zone: "UTC", Freezes: []*intentpb.Freeze{{From: timestamppb.New(time.Unix(9, 0)), Until: timestamppb.New(time.Unix(9, 0))}}},
		"at most 20 windows":             {Zone: "UTC", Open: hoursOf(strings.Split(strings.Repeat("09:00-10:00;", 21), ";")...)},
	} {
		if _, err := New(said); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}
