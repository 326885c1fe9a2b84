package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
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
		w, counts := Counts(limited(3, time.Hour, test.by, test.scope), content, map[string]string{"cluster": "a"})
		if counts != (test.key != "") || counts && w.Key != test.key {
			t.Errorf("%s %s: %v %q", test.by, test.scope, counts, w.Key)
		}
	}
	if _, counts := Counts(&intentpb.Check{Name: "soak", Kind: &intentpb.Check_MinAge{}}, content, nil); counts {
		t.Error("another check counts")
	}
}

func TestRateSaysWhenTheNextMayBegin(t *testing.T) {
	c := Configure(limited(2, time.Hour, intentpb.Rate_BY_ASSET, ""), builtin)
	window := Window{Check: "hourly", By: "asset", Key: "hourly asset=web", What: "of web", Known: true}
	begun := func(minutes ...int) []time.Time {
		var list []time.Time
		for _, m := range minutes {
			list = append(list, now.Add(-time.Duration(m)*time.Minute))
		}
		return list
	}
	for name, test := range map[string]struct {
		begun  []time.Time
		asked  int
		answer intent.Answer
		says   string
		until  time.Time
	}{
		"none":                  {nil, 0, intent.Pass, "", time.Time{}},
		"one":                   {begun(10), 0, intent.Pass, "", time.Time{}},
		"two":                   {begun(59, 10), 0, intent.Wait, "2 of 2 pushes of web began within 1h0m0s; the next may begin at 2026-03-01T12:01:00Z", now.Add(time.Minute)},
		"three, of a higher":    {begun(59, 30, 10), 0, intent.Wait, "3 of 2 pushes", now.Add(30 * time.Minute)},
		"just lapsed":           {begun(60, 10), 0, intent.Pass, "", time.Time{}},
		"one is being asked":    {begun(10), 1, intent.Wait, "2 of 2", now.Add(50 * time.Minute)},
		"two are being asked":   {nil, 2, intent.Wait, "2 of 2", now.Add(time.Hour)},
		"of a time to come":     {begun(10, -600), 0, intent.Pass, "", time.Time{}},
		"long ago and just now": {begun(600, 0), 0, intent.Pass, "", time.Time{}},
	} {
		w := window
		w.Begun, w.Asked = test.begun, test.asked
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
		count := func(at time.Time) (n int) {
			for _, other := range w.Begun {
				if at.Sub(other) < period {
					n++
				}
			}
			return n
		}
		at := now
		for range 40 {
			at = at.Add(time.Duration(rapid.IntRange(0, 5).Draw(r, "pause")) * time.Second)
			next := c.Next(w, at)
			if free := count(at) < limit; free != next.IsZero() {
				r.Fatalf("%d of %d began within %s, and the next may begin at %s", count(at), limit, period, next)
			}
			if next.IsZero() {
				w.Begun = append(w.Begun, at)
				continue
			}
			if count(next) >= limit || count(next.Add(-1)) < limit {
				r.Fatalf("the next may not begin just at %s: %v", next, w.Begun)
			}
			if told, places := c.Opens(w, at); !told.Equal(next) || places != limit-count(next) {
				r.Fatalf("%d may begin at %s, told were %d at %s", limit-count(next), next, places, told)
			}
		}
	})
}

// TestWhatIsLetPastCountsAllTheSame: the admission counts it, and does not ask.
func TestWhatIsLetPastCountsAllTheSame(t *testing.T) {
	f := Facts{Now: now, Mode: Enforce, Asset: "web", Checks: []Required{{Configured: Configure(limited(1, time.Hour, intentpb.Rate_BY_ASSET, ""), builtin)}},
		Windows: []Window{{Check: "hourly", By: "asset", Key: "k", Known: true, Begun: []time.Time{now}}}}
	if Decide(f).Push() {
		t.Fatal("it passes")
	}
	f.Allowed, f.Overrides = []string{"hourly"}, []intent.Override{{Check: "hourly", Until: now.Add(time.Minute)}}
	want := []Use{{Key: "k", Period: time.Hour}}
	if got := f.Rates(); !Decide(f).Push() || !slices.Equal(got, want) {
		t.Errorf("counted as %+v", got)
	}
	f.Windows[0].Begun = nil
	want[0].Limit = 1
	if got := f.Rates(); !slices.Equal(got, want) {
		t.Errorf("counted as %+v", got)
	}
}
