package schedule

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	processpb "lehr.dev/gen/lehr/process/v1"
)

var midnight = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func hourly(t interface{ Fatal(...any) }, c processpb.Concurrency, within time.Duration) *keeper {
	s := &processpb.Schedule{Name: "a", Cron: "0 * * * *", Concurrency: c}
	if within > 0 {
		s.StartWithin = durationpb.New(within)
	}
	times, err := timesOf(s)
	if err != nil {
		t.Fatal(err)
	}
	return &keeper{schedule: s, times: times}
}

func TestDecide(t *testing.T) {
	const forbid, allow, replace = processpb.Concurrency_CONCURRENCY_FORBID, processpb.Concurrency_CONCURRENCY_ALLOW, processpb.Concurrency_CONCURRENCY_REPLACE
	at := func(d time.Duration) time.Time { return midnight.Add(d) }
	const hour = time.Hour
	for name, c := range map[string]struct {
		concurrency     processpb.Concurrency
		within          time.Duration
		considered, now time.Duration
		running         int
		want            due
	}{
		"nothing":              {forbid, 0, 0, hour - 1, 0, due{considered: midnight}},
		"on time":              {forbid, 0, 0, hour, 0, due{start: at(hour), considered: at(hour)}},
		"a little late":        {forbid, 0, 0, hour + 10*time.Second, 0, due{start: at(hour), considered: at(hour)}},
		"too late":             {forbid, 0, 0, hour + 11*time.Second, 0, due{considered: at(hour), missed: 1, missedLast: at(hour)}},
		"made up for":          {forbid, 30 * time.Minute, 0, hour + 30*time.Minute, 0, due{start: at(hour), considered: at(hour)}},
		"the last of many":     {forbid, 30 * time.Minute, 0, 5*hour + 1, 0, due{start: at(5 * hour), considered: at(5 * hour), missed: 4, missedLast: at(4 * hour)}},
		"none of many":         {forbid, time.Minute, 0, 5*hour + 2*time.Minute, 0, due{considered: at(5 * hour), missed: 5, missedLast: at(5 * hour)}},
		"one is under way":     {forbid, 0, 0, hour, 1, due{considered: at(hour), skipped: 1}},
		"unset forbids":        {0, 0, 0, hour, 1, due{considered: at(hour), skipped: 1}},
		"both":                 {allow, 0, 0, hour, 1, due{start: at(hour), considered: at(hour)}},
		"instead":              {replace, 0, 0, hour, 1, due{start: at(hour), considered: at(hour), replace: true}},
		"nothing to replace":   {replace, 0, 0, hour, 0, due{start: at(hour), considered: at(hour)}},
		"the clock went back":  {forbid, 0, 3 * hour, 2 * hour, 0, due{considered: at(3 * hour)}},
		"the clock was wrong":  {forbid, 0, 100 * hour, hour + 1, 0, due{considered: at(hour + 1)}},
		"more than is counted": {forbid, time.Minute, 0, 5000 * hour, 0, due{start: at(5000 * hour), considered: at(5000 * hour), missed: mostMissed, missedLast: at(mostMissed * hour)}},
	} {
		k := hourly(t, c.concurrency, c.within)
		if got := decide(k.times, k.schedule, at(c.considered), at(c.now), c.running); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// However a keeper is interrupted, no time has two runs, and each is run, missed
// or skipped.
func TestEachTimeCountsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := hourly(t, processpb.Concurrency_CONCURRENCY_FORBID, time.Duration(rapid.IntRange(1, 7200).Draw(t, "within"))*time.Second)
		considered, now := midnight, midnight
		begun, counted := map[time.Time]bool{}, 0
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4*3600).Draw(t, "pause")) * time.Second)
			d := decide(k.times, k.schedule, considered, now, rapid.IntRange(0, 1).Draw(t, "running"))
			if !d.start.IsZero() {
				if begun[d.start] || d.start.After(now) || now.Sub(d.start) > startWithin(k.schedule) {
					t.Fatalf("at %s a run begins for %s", now, d.start)
				}
				begun[d.start] = true
				counted++
			}
			counted += d.missed + d.skipped
			if d.considered.Before(considered) || d.considered.After(now) {
				t.Fatalf("considered went from %s to %s", considered, d.considered)
			}
			considered = d.considered
		}
		if want := int(now.Sub(midnight) / time.Hour); counted != want {
			t.Errorf("%d times of %d", counted, want)
		}
	})
}
