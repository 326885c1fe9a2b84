package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

func limited(most uint32, per time.Duration, by intentpb.Rate_By, scope string) *intentpb.Check {
	return &intentpb.Check{Name: "hourly", Kind: &intentpb.Check_Rate{Rate: &intentpb.Rate{AtMost: most, Per: durationpb.New(per), By: by, Scope: scope}}}
}

// TestWhatARateCounts: by asset, type, scope or all; a new name, and what it
// counts by, begin a new count.
func TestWhatARateCounts(t *testing.T) {
	content := intent.Asset{ID: "web", Payload: intent.Message{Type: "x.Job"}}
	for _, test := range []struct {
		by    intentpb.Rate_By
		scope string
		key   string
	}{
		{intentpb.Rate_BY_ASSET, "", "hourly asset=web"},
		{intentpb.Rate_BY_TYPE, "", "hourly type=x.Job"},
		{intentpb.Rate_BY_PARTITION, "", "hourly partition="},
		{intentpb.Rate_BY_SCOPE, "cluster", "hourly scope cluster=a"},
		{intentpb.Rate_BY_SCOPE, "site", ""},
	} {
		w, counts := Counts(limited(3, time.Hour, test.by, test.scope), content, map[string]string{"cluster": "a"}, false)
		if counts != (test.key != "") || counts && w.Key != test.key {
			t.Errorf("%s %s: %v %q", test.by, test.scope, counts, w.Key)
		}
		if back, counts := Counts(limited(3, time.Hour, test.by, test.scope), content, map[string]string{"cluster": "a"}, true); counts && back.Key != w.Key+" going back" {
			t.Errorf("%s %s: what goes back counts under %q", test.by, test.scope, back.Key)
		}
	}
	if _, counts := Counts(&intentpb.Check{Name: "soak", Kind: &intentpb.Check_MinAge{}}, content, nil, false); counts {
		t.Error("another check counts")
	}
}

func TestRateSaysWhenTheNextMayBegin(t *testing.T) {
	c := Configure(limited(2, time.Hour, intentpb.Rate_BY_ASSET, ""), builtin)
	window := Window{Check: "hourly", By: "asset", Key: "hourly asset=web", What: "of web", Known: true}
	ended := func(minutes ...int) []time.Time {
		var list []time.Time
		for _, m := range minutes {
			list = append(list, now.Add(-time.Duration(m)*time.Minute))
		}
		return list
	}
	for name, test := range map[string]struct {
		ended  []time.Time
		open   int
		answer intent.Answer
		says   string
		until  time.Time
	}{
		"none":                  {nil, 0, intent.Pass, "", time.Time{}},
		"one":                   {ended(10), 0, intent.Pass, "", time.Time{}},
		"two":                   {ended(59, 10), 0, intent.Wait, "2 of 2 pushes of web were under way within 1h0m0s; the next may begin at 2026-03-01T12:01:00Z", now.Add(time.Minute)},
		"three, of a higher":    {ended(59, 30, 10), 0, intent.Wait, "3 of 2 pushes", now.Add(30 * time.Minute)},
		"just lapsed":           {ended(60, 10), 0, intent.Pass, "", time.Time{}},
		"one is under way":      {ended(10), 1, intent.Wait, "2 of 2 pushes of web were under way within 1h0m0s, 1 of them now;", now.Add(50 * time.Minute)},
		"two are under way":     {nil, 2, intent.Wait, "2 of 2", now.Add(time.Hour)},
		"more than two are":     {ended(10), 3, intent.Wait, "4 of 2", now.Add(time.Hour)},
		"of a time to come":     {ended(10, -600), 0, intent.Pass, "", time.Time{}},
		"long ago and just now": {ended(600, 0), 0, intent.Pass, "", time.Time{}},
	} {
		w := window
		w.Ended, w.Open = test.ended, test.open
		v := c.judge(Facts{Now: now, Windows: []Window{w, {Check: "daily", By: "asset"}, {Check: "hourly", By: "type"}}})
		if v.Answer != test.answer || !strings.Contains(v.Waiting.Reason, test.says) || !v.Waiting.Until.Equal(test.until) || !v.Until.IsZero() {
			t.Errorf("%s: %+v", name, v)
		}
	}
	window.Known = false
	if v := c.judge(Facts{Now: now, Windows: []Window{window}}); v.Answer != intent.Broken {
		t.Errorf("what is not known passes (S11): %+v", v)
	}
}

// TestRateIsAnExactSlidingWindow: against counting one by one, and at the moment
// that it tells.
func TestRateIsAnExactSlidingWindow(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limit, period := rapid.IntRange(1, 4).Draw(r, "limit"), time.Duration(rapid.IntRange(1, 20).Draw(r, "period"))*time.Second
		c := Configure(limited(uint32(limit), period, intentpb.Rate_BY_PARTITION, ""), builtin)
		w := Window{Check: "hourly", By: "partition", Known: true}
		at := now
		var ends []time.Time // of those under way, the soonest first
		count := func(when time.Time) (n int) {
			// What is under way ends now at the earliest.
			for _, other := range append(slices.Repeat([]time.Time{at}, w.Open), w.Ended...) {
				if when.Sub(other) < period {
					n++
				}
			}
			return n
		}
		for range 40 {
			at = at.Add(time.Duration(rapid.IntRange(0, 5).Draw(r, "pause")) * time.Second)
			for ; len(ends) > 0 && !ends[0].After(at); ends = ends[1:] {
				w.Ended, w.Open = append(w.Ended, ends[0]), w.Open-1
			}
			next := c.Next(w, at)
			if free := count(at) < limit; free != next.IsZero() {
				r.Fatalf("%d of %d were under way within %s, and the next may begin at %s", count(at), limit, period, next)
			}
			if next.IsZero() {
				w.Open++
				ends = append(ends, at.Add(time.Duration(rapid.IntRange(0, 8).Draw(r, "takes"))*time.Second))
				slices.SortFunc(ends, time.Time.Compare)
				continue
			}
			if count(next) >= limit || count(next.Add(-1)) < limit {
				r.Fatalf("the next may not begin just at %s: %d open, ended %v", next, w.Open, w.Ended)
			}
			told, places := c.Opens(w, at)
			if free := limit - count(next); !told.Equal(next) || places < 1 || places > free || w.Open == 0 && places != free {
				r.Fatalf("%d may begin at %s, told were %d at %s", free, next, places, told)
			}
		}
	})
}

// TestWhatIsLetPastCountsAllTheSame: the admission counts it, and does not ask.
func TestWhatIsLetPastCountsAllTheSame(t *testing.T) {
	f := Facts{Now: now, Mode: Enforce, Asset: "web", Checks: []Required{{Configured: Configure(limited(1, time.Hour, intentpb.Rate_BY_ASSET, ""), builtin)}},
		Windows: []Window{{Check: "hourly", By: "asset", Key: "k", Known: true, Ended: []time.Time{now}}}}
	if Decide(f).Push() {
		t.Fatal("it passes")
	}
	f.Allowed, f.Overrides = []string{"hourly"}, []intent.Override{{Check: "hourly", Until: now.Add(time.Minute)}}
	want := []Use{{Key: "k", Period: time.Hour}}
	if got := f.Rates(); !Decide(f).Push() || !slices.Equal(got, want) {
		t.Errorf("counted as %+v", got)
	}
	f.Windows[0].Ended = nil
	want[0].Limit = 1
	if got := f.Rates(); !slices.Equal(got, want) {
		t.Errorf("counted as %+v", got)
	}
}
