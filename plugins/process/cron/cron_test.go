package cron

import (
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestNext(t *testing.T) {
	const layout = "2006-01-02 15:04 MST"
	for _, c := range []struct {
		text, zone, after string
		want              []string
	}{
		{"30 2 * * *", "UTC", "2026-03-01T00:00:00Z", []string{"2026-03-01 02:30 UTC", "2026-03-02 02:30 UTC"}},
		{"*/20 8-9 * * mon-fri", "UTC", "2026-03-06T09:30:00Z", []string{"2026-03-06 09:40 UTC", "2026-03-09 08:00 UTC", "2026-03-09 08:20 UTC"}},
		{"0 0 29 feb *", "UTC", "2096-03-01T00:00:00Z", []string{"2104-02-29 00:00 UTC"}},
		{"0 0 29 2 1-7", "UTC", "2026-01-01T00:00:00Z", []string{"2026-02-01 00:00 UTC"}}, // Either of the days.
		{"0 0 13 * fri", "UTC", "2026-03-01T00:00:00Z", []string{"2026-03-06 00:00 UTC", "2026-03-13 00:00 UTC"}},
		{"0 0 */2 * 7", "UTC", "2026-03-01T00:00:00Z", []string{"2026-03-15 00:00 UTC"}}, // A star with a step asks for both.
		{"5/25 0 1 1,7 *", "UTC", "2026-03-01T00:00:00Z", []string{"2026-07-01 00:05 UTC", "2026-07-01 00:30 UTC", "2026-07-01 00:55 UTC"}},
		// In London the clocks skip 01:00 to 02:00, and repeat it in autumn.
		{"30 1 * * *", "Europe/London", "2026-03-28T12:00:00Z", []string{"2026-03-29 02:00 BST", "2026-03-30 01:30 BST"}},
		{"30 1 * * *", "Europe/London", "2026-10-24T12:00:00Z", []string{"2026-10-25 01:30 BST", "2026-10-26 01:30 GMT"}},
		{"30 * * * *", "Europe/London", "2026-03-29T00:00:00Z", []string{"2026-03-29 00:30 GMT", "2026-03-29 02:00 BST", "2026-03-29 02:30 BST"}},
		{"30 * * * *", "Europe/London", "2026-10-24T23:45:00Z", []string{"2026-10-25 01:30 BST", "2026-10-25 01:30 GMT", "2026-10-25 02:30 GMT"}},
		// Half an hour in Lord Howe; at midnight in Santiago; a whole day in Apia.
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", []string{"2026-10-04 02:30 +11", "2026-10-05 02:15 +11"}},
		{"0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", []string{"2026-09-06 01:00 -03", "2026-09-07 00:00 -03"}},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", []string{"2011-12-29 12:00 -10", "2011-12-31 00:00 +14", "2011-12-31 12:00 +14"}},
	} {
		times, err := Parse(c.text, zone(t, c.zone))
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if at = times.Next(at); at.In(times.zone).Format(layout) != want {
				t.Errorf("%q in %s: %s, want %s", c.text, c.zone, at.In(times.zone).Format(layout), want)
				break
			}
		}
	}
}

func TestWhatIsNoSchedule(t *testing.T) {
	for text, says := range map[string]string{
		"": "0 fields", "* * * *": "4 fields", "* * * * * *": "6 fields", "60 * * * *": `the minute: "60" is not from 0 to 59`,
		"* 5-3 * * *": "ends before it begins", "* * 0 * *": "day of the month", "* * * foo *": `the month: "foo"`, "* * * * 8": "day of the week",
		"*/0 * * * *": "no step", "*/x * * * *": "no step", "1,,2 * * * *": `"" is not from`, "0 0 30 2 *": "no month has", "1- * * * *": "is not from", "+1 * * * *": "is not from", "-1 * * * *": "is not from",
		"@daily": "1 fields",
	} {
		if _, err := Parse(text, time.UTC); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// texts of schedules, and places and times at which clocks change.
func drawn(t *rapid.T) (*Times, time.Time) {
	part := func(least, most int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			n := rapid.IntRange(least, most).Draw(t, "n")
			return rapid.SampledFrom([]string{"*", fmt.Sprint(n), fmt.Sprintf("%d-%d", least, n), fmt.Sprintf("*/%d", max(n, 1)), fmt.Sprintf("%d,%d", least, n)}).Draw(t, "part")
		})
	}
	text := part(0, 59).Draw(t, "minute") + " " + part(0, 23).Draw(t, "hour") + " * * " + part(0, 6).Draw(t, "weekday")
	z, err := time.LoadLocation(rapid.SampledFrom([]string{"UTC", "Europe/London", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu", "Pacific/Apia"}).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	times, err := Parse(text, z)
	if err != nil {
		t.Fatal(err)
	}
	changes := []string{"2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", "2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z", "2026-10-03T15:30:00Z", "2026-04-04T15:00:00Z", "2026-09-06T04:00:00Z", "2011-12-30T10:00:00Z"}
	at, _ := time.Parse(time.RFC3339, rapid.SampledFrom(changes).Draw(t, "change"))
	return times, at.Add(time.Duration(rapid.IntRange(-3*24*60, 60).Draw(t, "minutes")) * time.Minute)
}

// Of four days around a change of the clocks: times only go forward, are never
// shown twice unless every hour counts, and none that a clock should show is left
// out.
func TestNoTimeIsSkippedOrComesTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times, from := drawn(t)
		until := from.Add(4 * 24 * time.Hour)
		shown, runs := map[string]int{}, map[time.Time]bool{}
		for at := times.Next(from); !at.After(until); {
			if at.IsZero() {
				break
			}
			shown[at.In(times.zone).Format("2006-01-02 15:04")]++
			runs[at.UTC()] = true
			next := times.Next(at)
			if !next.After(at) {
				t.Fatalf("after %s comes %s", at, next)
			}
			if again := times.Next(at.Add(-time.Second)); !again.Equal(at) {
				t.Fatalf("a second before %s comes %s", at, again)
			}
			at = next
		}
		for wall, count := range shown {
			if count > 1 && !times.hourly {
				t.Errorf("%s comes %d times", wall, count)
			}
		}
		// What the clocks of each minute show, one after the other.
		before := map[string]bool{}
		for at := from.Add(-25 * time.Hour); !at.After(from); at = at.Add(time.Minute) {
			before[at.In(times.zone).Format("2006-01-02 15:04")] = true
		}
		for at := from.Truncate(time.Minute).Add(time.Minute); !at.After(until); at = at.Add(time.Minute) {
			clock := at.In(times.zone)
			wall := clock.Format("2006-01-02 15:04")
			day := time.Date(clock.Year(), clock.Month(), clock.Day(), 0, 0, 0, 0, time.UTC)
			due := times.onDay(day) && times.hours>>clock.Hour()&1 == 1 && times.minutes>>clock.Minute()&1 == 1
			repeated := before[wall]
			before[wall] = true
			if due && !runs[at.UTC()] && (!repeated || times.hourly) {
				t.Errorf("%s is left out", at.In(times.zone))
			}
		}
	})
}

// A day on which the schedule names one time has exactly one run, whatever the
// clocks do.
func TestOnceADay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hour, minute := rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute")
		z, err := time.LoadLocation(rapid.SampledFrom([]string{"Europe/London", "America/New_York", "Australia/Lord_Howe", "America/Santiago"}).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		times, err := Parse(fmt.Sprintf("%d %d * * *", minute, hour), z)
		if err != nil {
			t.Fatal(err)
		}
		days, at := map[string]int{}, time.Date(2025, 12, 31, 23, 59, 0, 0, z)
		for at = times.Next(at); at.In(z).Year() < 2027; at = times.Next(at) {
			days[at.In(z).Format("2006-01-02")]++
		}
		if len(days) != 365 {
			t.Errorf("%d days of 365", len(days))
		}
		for day, n := range days {
			if n != 1 {
				t.Errorf("%s: %d runs", day, n)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"* * * * *", "*/15 8-18/2 1,15 jan-mar mon", "0 0 29 2 *", "59 23 31 12 7", "a b c d e", "1-1/1 * * * *"} {
		f.Add(text)
	}
	london, err := time.LoadLocation("Europe/London")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		times, err := Parse(text, london)
		if err != nil {
			return
		}
		from := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
		next := times.Next(from)
		if next.IsZero() || !next.After(from) || next.Second() != 0 {
			t.Errorf("%q: after %s comes %s", text, from, next)
		}
	})
}
