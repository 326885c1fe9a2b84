package validation_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

var changed = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func noise(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 48)) }

// drawn samples at each step from one time to another, both included.
func drawn(from, until time.Time, step time.Duration, draw func(at time.Duration) float64) (samples []judge.Sample) {
	for at := from; !at.After(until); at = at.Add(step) {
		samples = append(samples, judge.Sample{At: at, Value: judge.Number(draw(at.Sub(changed)))})
	}
	return samples
}

func normal(r *rand.Rand, middle, deviation float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return middle + deviation*r.NormFloat64() }
}

// usual: three intervals of ten minutes after a warm-up of five, a sample each 15 s.
func usual(metrics ...validation.Measure) validation.Settings {
	return validation.Settings{WarmUp: 5 * time.Minute, Interval: 10 * time.Minute, Intervals: 3, Metrics: metrics}
}

func measure(name string) validation.Measure {
	return validation.Measure{Judge: judge.Metric{Name: name, Worse: judge.Higher}}
}

// reading of a metric whose values before and after are drawn.
func reading(name string, before, after func(time.Duration) float64) validation.Reading {
	return validation.Reading{
		Metric:     name,
		Control:    validation.Side{Samples: drawn(changed.Add(-30*time.Minute), changed, 15*time.Second, before)},
		Experiment: validation.Side{Samples: drawn(changed, changed.Add(35*time.Minute), 15*time.Second, after)},
	}
}

// assess what was read by then.
func assess(t testing.TB, s validation.Settings, after time.Duration, readings ...validation.Reading) validation.Assessment {
	t.Helper()
	for i := range readings {
		if after < end {
			readings[i].Control.Samples = only(readings[i].Control.Samples, changed.Add(after))
			readings[i].Experiment.Samples = only(readings[i].Experiment.Samples, changed.Add(after))
		}
	}
	a, err := validation.Assess(s, validation.Change{Done: changed}, readings, changed.Add(after))
	if err != nil {
		t.Fatal(err)
	}
	if a.Why == "" {
		t.Fatal("it does not say why")
	}
	return a
}

// TestWhileItChanges is neither before nor after: a release with which a stage of some waves
// became slower is bad, though it was so already when the last wave came.
func TestWhileItChanges(t *testing.T) {
	s := usual(measure("latency"))
	began, r := changed.Add(-time.Hour), noise(3)
	read := validation.Reading{
		Metric: "latency",
		Control: validation.Side{Samples: slices.Concat(
			drawn(began.Add(-35*time.Minute), began, 15*time.Second, normal(r, 100, 10)), drawn(began, changed, 15*time.Second, normal(r, 150, 10)))},
		Experiment: validation.Side{Samples: drawn(changed, changed.Add(35*time.Minute), 15*time.Second, normal(r, 150, 10))},
	}
	for _, test := range []struct {
		began, before, until time.Time
		verdict              validation.Verdict
	}{
		{began, began.Add(-30 * time.Minute), began, validation.Bad},
		{time.Time{}, changed.Add(-30 * time.Minute), changed, validation.Good},
		{changed.Add(time.Hour), changed.Add(-30 * time.Minute), changed, validation.Good},
	} {
		change, now := validation.Change{Began: test.began, Done: changed}, changed.Add(end)
		if w, err := s.Window(change, now); err != nil || !w.Before.Equal(test.before) || !w.Began.Equal(test.until) || w.From.Before(changed) {
			t.Errorf("began at %s: samples are needed of %+v, %v", test.began, w, err)
		}
		record, _, err := validation.NewRecord("web", s, change, []validation.Reading{read}, now)
		if err != nil || record.Assessment.Verdict != test.verdict {
			t.Errorf("began at %s: %v, %+v", test.began, err, record.Assessment)
		}
		if a, _, differs, err := record.Again(); err != nil || a.Verdict != test.verdict || len(differs) > 0 {
			t.Errorf("began at %s, judged again: %v, %+v, differs: %q", test.began, err, a, differs)
		}
	}
}

func only(samples []judge.Sample, until time.Time) (kept []judge.Sample) {
	for _, s := range samples {
		if !s.At.After(until) {
			kept = append(kept, s)
		}
	}
	return kept
}

const end = 35 * time.Minute

// TestTheTimeOfAValidation: it waits for its warm-up, looks at each interval, is good only
// at its end, and between looks says what it said.
func TestTheTimeOfAValidation(t *testing.T) {
	r := noise(1)
	good := reading("latency", normal(r, 100, 10), normal(r, 100, 10))
	for _, test := range []struct {
		after   time.Duration
		verdict validation.Verdict
		look    int
		next    time.Duration
	}{
		{-time.Hour, validation.Waiting, 0, 15 * time.Minute},
		{0, validation.Waiting, 0, 15 * time.Minute},
		{14*time.Minute + 59*time.Second, validation.Waiting, 0, 15 * time.Minute},
		{15 * time.Minute, validation.Waiting, 1, 25 * time.Minute},
		{24 * time.Minute, validation.Waiting, 1, 25 * time.Minute},
		{25 * time.Minute, validation.Waiting, 2, 35 * time.Minute},
		{35 * time.Minute, validation.Good, 3, 0},
		{24 * time.Hour, validation.Good, 3, 0},
	} {
		a := assess(t, usual(measure("latency")), test.after, good)
		next := changed.Add(test.next)
		if test.next == 0 {
			next = time.Time{}
		}
		if a.Verdict != test.verdict || a.Look != test.look || a.Looks != 3 || !a.Next.Equal(next) {
			t.Errorf("after %s: %s at look %d, next %s: %s", test.after, a.Verdict, a.Look, a.Next, a.Why)
		}
	}
	s := usual(measure("latency"))
	s.Every = 4 * time.Minute // 30 minutes are 7 looks and a half
	if a := assess(t, s, end, good); a.Verdict != validation.Good || a.Look != 8 || a.Looks != 8 || len(a.Intervals) != 3 {
		t.Errorf("%+v", a)
	}
	if a := assess(t, s, end-time.Second, good); a.Verdict != validation.Waiting || !a.Next.Equal(changed.Add(end)) {
		t.Errorf("%s, next %s", a.Verdict, a.Next)
	}
}

// TestHarmIsBadAtOnce, at the first look that shows it, and that which went away is not
// forgotten.
func TestHarmIsBadAtOnce(t *testing.T) {
	r := noise(2)
	worse := reading("latency", normal(r, 100, 10), normal(r, 150, 10))
	if a := assess(t, usual(measure("latency")), 15*time.Minute, worse); a.Verdict != validation.Bad || !strings.Contains(a.Why, "latency: ") {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	passing := reading("latency", normal(r, 100, 10), func(at time.Duration) float64 {
		if at > 16*time.Minute && at < 19*time.Minute {
			return 300
		}
		return 100 + 10*r.NormFloat64()
	})
	first := usual(measure("latency"))
	first.Metrics[0].Judge.Matters = &judge.Band{Relative: 0.1}
	first.Interval = 4 * time.Minute
	first.Intervals = 7
	first.Before = 30 * time.Minute
	a := assess(t, first, 33*time.Minute, passing)
	if a.Verdict != validation.Bad || !strings.HasPrefix(a.Why, "interval 3 of 7: ") {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
}

// TestNothingIsLeftToCompareWith: what is compared with before, though with a control was asked
// for, says so.
func TestNothingIsLeftToCompareWith(t *testing.T) {
	r := noise(2)
	read := reading("latency", normal(r, 100, 10), normal(r, 150, 10))
	s := usual(measure("latency"))
	s.Metrics[0].Alone = true
	a := assess(t, s, 15*time.Minute, read)
	if m := a.Metrics[0]; !m.Alone || m.Compared != validation.Before || !strings.Contains(m.Why, "nothing is left that did not change") || !strings.Contains(a.Why, "nothing is left that did not change") {
		t.Errorf("%+v: %s", m, a.Why)
	}
}

// TestControl compares with what did not change at the same time: what moves both is no
// harm.
func TestControl(t *testing.T) {
	r := noise(3)
	day := func(at time.Duration) float64 { return 100 + 60*math.Sin(at.Minutes()/20) + 5*r.NormFloat64() }
	m := measure("latency")
	m.Compare = validation.Control
	both := reading("latency", day, day)
	both.Control.Samples = drawn(changed, changed.Add(end), 15*time.Second, day)
	if a := assess(t, usual(m), end, both); a.Verdict != validation.Good {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	both.Experiment.Samples = drawn(changed, changed.Add(end), 15*time.Second, func(at time.Duration) float64 { return day(at) + 40 })
	if a := assess(t, usual(m), 15*time.Minute, both); a.Verdict != validation.Bad {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
}

// TestLimits need nothing to compare with.
func TestLimits(t *testing.T) {
	limit := func(allow, newest int) validation.Measure {
		return validation.Measure{Judge: judge.Metric{Name: "queue", Limit: &judge.Limit{Above: new(500.0), Allow: allow, Of: newest}}, Compare: validation.None}
	}
	read := func(over ...time.Duration) validation.Reading {
		return validation.Reading{Metric: "queue", Experiment: validation.Side{Samples: drawn(changed, changed.Add(end), 15*time.Second, func(at time.Duration) float64 {
			if slices.Contains(over, at) {
				return 501
			}
			return 500
		})}}
	}
	for _, test := range []struct {
		measure validation.Measure
		reading validation.Reading
		after   time.Duration
		want    validation.Verdict
	}{
		{limit(0, 0), read(), end, validation.Good},
		{limit(0, 0), read(), 20 * time.Minute, validation.Waiting},
		{limit(0, 0), read(10 * time.Minute), 15 * time.Minute, validation.Bad},
		{limit(0, 0), read(time.Minute), end, validation.Good}, // while it warms up
		{limit(1, 10), read(10 * time.Minute), end, validation.Good},
		{limit(1, 10), read(14*time.Minute, 14*time.Minute+15*time.Second), 15 * time.Minute, validation.Bad},
	} {
		if a := assess(t, usual(test.measure), test.after, test.reading); a.Verdict != test.want {
			t.Errorf("%+v after %s: %s: %s", test.measure.Judge.Limit, test.after, a.Verdict, a.Why)
		}
	}
}

// TestWhatIsBrokenIsNeitherGoodNorBad (S11): it says of what, and is asked again.
func TestWhatIsBrokenIsNeitherGoodNorBad(t *testing.T) {
	r := noise(4)
	fine := func() validation.Reading { return reading("latency", normal(r, 100, 10), normal(r, 100, 10)) }
	for words, spoil := range map[string]func(*validation.Reading){
		"latency: it did not answer": func(r *validation.Reading) { r.Experiment = validation.Side{Failed: "it did not answer"} },
		"latency: before the change, which began at 2026-03-02T08:00:00Z, it was refused": func(r *validation.Reading) { r.Control = validation.Side{Failed: "it was refused"} },
		"latency: it has no samples": func(r *validation.Reading) { r.Experiment = validation.Side{} },
		"latency: before the change, which began at 2026-03-02T08:00:00Z, it has no samples": func(r *validation.Reading) { r.Control = validation.Side{} },
		"latency: its newest sample is of 2026-03-02T08:":                                    func(r *validation.Reading) { r.Experiment.Samples = r.Experiment.Samples[:100] },
		"120 of 120 samples are no numbers": func(r *validation.Reading) {
			for i := range r.Control.Samples {
				r.Control.Samples[i].Value = judge.Number(math.NaN())
			}
			r.Control.Samples = r.Control.Samples[1:]
		},
		"20 of 121 samples are no numbers": func(r *validation.Reading) {
			for i := range 20 {
				r.Experiment.Samples[20+6*i].Value = judge.Number(math.Inf(1))
			}
		},
		"which is yet to come": func(r *validation.Reading) {
			last := &r.Experiment.Samples[len(r.Experiment.Samples)-1]
			last.At = last.At.Add(2 * time.Minute)
		},
		"a sample has no time":     func(r *validation.Reading) { r.Experiment.Samples[5].At = time.Time{} },
		"latency: it was not read": func(r *validation.Reading) { r.Metric = "other" },
	} {
		spoilt := fine()
		spoil(&spoilt)
		other := reading("other metric", normal(r, 100, 10), normal(r, 100, 10))
		a := assess(t, usual(measure("latency"), measure("other metric")), end, spoilt, other)
		rest := validation.Good
		if spoilt.Experiment.Failed == "" && len(spoilt.Experiment.Samples) < 121 {
			rest = validation.Waiting // There may be samples yet.
		}
		if a.Verdict != validation.Broken || !strings.Contains(a.Why, words) || !a.Next.Equal(changed.Add(end+time.Minute)) || a.Metrics[0].Verdict != validation.Broken || a.Metrics[1].Verdict != rest {
			t.Errorf("%s: %s: %s", words, a.Verdict, a.Why)
		}
		// What is bad beside it is bad.
		worse := reading("other metric", normal(r, 100, 10), normal(r, 200, 10))
		if a := assess(t, usual(measure("latency"), measure("other metric")), end, spoilt, worse); a.Verdict != validation.Bad {
			t.Errorf("%s, and something bad: %s: %s", words, a.Verdict, a.Why)
		}
	}
}

// TestNothingIsKnownOfAnInterval: then a person decides.
func TestNothingIsKnownOfAnInterval(t *testing.T) {
	r := noise(5)
	gap := reading("latency", normal(r, 100, 10), normal(r, 100, 10))
	var kept []judge.Sample
	for _, s := range gap.Experiment.Samples {
		if at := s.At.Sub(changed); at < 15*time.Minute || at >= 25*time.Minute {
			kept = append(kept, s)
		}
	}
	gap.Experiment.Samples = kept
	s := usual(measure("latency"))
	s.Metrics[0].Fresh = 15 * time.Minute // else it would wait for more
	a := assess(t, s, end, gap)
	if a.Verdict != validation.Inconclusive || a.Why != "interval 2 of 3: there are no samples of latency" || !a.Next.IsZero() {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
}

// TestFewSamples are inconclusive at the end, and are waited for before.
func TestFewSamples(t *testing.T) {
	r := noise(6)
	s := usual(measure("latency"))
	s.Step = 5 * time.Minute
	s.Metrics[0].Fresh = time.Hour
	few := validation.Reading{
		Metric:     "latency",
		Control:    validation.Side{Samples: drawn(changed.Add(-30*time.Minute), changed, 5*time.Minute, normal(r, 100, 10))},
		Experiment: validation.Side{Samples: drawn(changed.Add(end), changed.Add(end), 5*time.Minute, normal(r, 100, 10))},
	}
	s.Intervals, s.Interval = 1, 30*time.Minute
	if a := assess(t, s, end, few); a.Verdict != validation.Inconclusive || !strings.Contains(a.Why, "the experiment has 1 sample, fewer than 5") {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	// A constant is no trouble.
	if a := assess(t, usual(measure("latency")), end, reading("latency", normal(r, 7, 0), normal(r, 7, 0))); a.Verdict != validation.Good {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	if a := assess(t, usual(measure("latency")), end, reading("latency", normal(r, 7, 0), normal(r, 9, 0))); a.Verdict != validation.Bad {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
}

// TestAbsenceAsZero: an outage does not look like no errors, a source that is well does;
// and what came late is zero before.
func TestAbsenceAsZero(t *testing.T) {
	r := noise(7)
	errors := validation.Measure{Judge: judge.Metric{Name: "errors", Worse: judge.Higher, Matters: &judge.Band{Absolute: 1}, Tolerance: &judge.Band{}}, Absent: validation.AbsentZero}
	none := validation.Reading{Metric: "errors"}
	traffic := reading("traffic", normal(r, 100, 10), normal(r, 100, 10))
	if a := assess(t, usual(errors, measure("traffic")), end, none, traffic); a.Verdict != validation.Good || a.Metrics[0].Judged.Experiment.Samples != 121 {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	if a := assess(t, usual(errors, measure("traffic")), end, none); a.Verdict != validation.Broken {
		t.Errorf("an outage: %s: %s", a.Verdict, a.Why)
	}
	if a := assess(t, usual(errors), end, none); a.Verdict != validation.Broken {
		t.Errorf("alone: %s: %s", a.Verdict, a.Why)
	}
	elsewhere := measure("traffic")
	elsewhere.Source.Prometheus = "another"
	if a := assess(t, usual(errors, elsewhere), end, none, traffic); a.Verdict != validation.Broken {
		t.Errorf("of another source: %s: %s", a.Verdict, a.Why)
	}
	shadow := measure("traffic")
	shadow.Judge.Shadow = true
	if a := assess(t, usual(errors, shadow), end, none, traffic); a.Verdict != validation.Broken {
		t.Errorf("of a shadow: %s: %s", a.Verdict, a.Why)
	}
	late := validation.Reading{Metric: "errors", Experiment: validation.Side{Samples: drawn(changed.Add(20*time.Minute), changed.Add(end), 15*time.Second, normal(r, 8, 1))}}
	if a := assess(t, usual(errors, measure("traffic")), end, late, traffic); a.Verdict != validation.Bad || a.Metrics[0].Judged.Experiment.Samples != 121 {
		t.Errorf("errors that came late: %s: %s", a.Verdict, a.Why)
	}
	late.Experiment = validation.Side{Failed: "it did not answer"}
	if a := assess(t, usual(errors, measure("traffic")), end, late, traffic); a.Verdict != validation.Broken {
		t.Errorf("errors that could not be read: %s: %s", a.Verdict, a.Why)
	}
}

// TestEvents: few errors of many requests are found, with trials asked for apart, and
// where there were none yet.
func TestEvents(t *testing.T) {
	r := noise(8)
	errors := validation.Measure{Judge: judge.Metric{Name: "errors"}, Absent: validation.AbsentZero, Source: validation.Source{Of: "requests"}}
	sparse := func(rate float64) func(time.Duration) float64 {
		return func(time.Duration) (events float64) {
			for range 200 {
				if r.Float64() < rate {
					events++
				}
			}
			return events
		}
	}
	read := func(rate float64) validation.Reading {
		read := reading("errors", sparse(0.001), sparse(rate))
		for _, side := range []*validation.Side{&read.Control, &read.Experiment} {
			var events []judge.Sample
			for _, s := range side.Samples {
				if s.Value > 0 {
					events = append(events, s)
				}
				s.Value = 200
				side.Trials = append(side.Trials, s)
			}
			side.Samples = events
		}
		return read
	}
	if a := assess(t, usual(errors), end, read(0.006)); a.Verdict != validation.Bad || a.Metrics[0].Judged.Experiment.Of < 20_000 {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	if a := assess(t, usual(errors), end, read(0)); a.Verdict != validation.Good {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	lost := read(0)
	lost.Experiment.Trials = nil
	if a := assess(t, usual(errors), end, lost); a.Verdict != validation.Broken {
		t.Errorf("without requests: %s: %s", a.Verdict, a.Why)
	}
}

// TestNaN follows its rule.
func TestNaN(t *testing.T) {
	r := noise(9)
	half := func(at time.Duration) float64 {
		if at/time.Minute%2 == 0 {
			return math.NaN()
		}
		return 100 + 5*r.NormFloat64()
	}
	for rule, want := range map[validation.NaN]validation.Verdict{"": validation.Broken, validation.NaNIgnore: validation.Good, validation.NaNZero: validation.Good} {
		m := measure("share")
		m.NaN = rule
		a := assess(t, usual(m), end, reading("share", half, half))
		if least := a.Metrics[0].Judged.Experiment.Least; a.Verdict != want || rule == validation.NaNZero && least != 0 || rule == validation.NaNIgnore && least < 50 {
			t.Errorf("%s: %s: %s, least %v", rule, a.Verdict, a.Why, least)
		}
	}
	m := measure("share")
	m.NaN = validation.NaNIgnore
	none := func(time.Duration) float64 { return math.NaN() }
	if a := assess(t, usual(m), end, reading("share", half, none)); a.Verdict != validation.Broken {
		t.Errorf("nothing but NaN: %s: %s", a.Verdict, a.Why)
	}
}

// TestNaNIsBad: of what changed it is beyond the limit, as one of those that may be, and nothing waits for a number.
func TestNaNIsBad(t *testing.T) {
	none, well := func(time.Duration) float64 { return math.NaN() }, normal(noise(9), 100, 5)
	once := func(at time.Duration) float64 {
		if at == 20*time.Minute {
			return math.NaN()
		}
		return 100
	}
	limited := func(allow int, compare validation.Comparison) validation.Measure {
		m := measure("share")
		m.NaN, m.Compare, m.Judge.Limit = validation.NaNBad, compare, &judge.Limit{Above: new(500.0), Allow: allow}
		return m
	}
	for name, test := range map[string]struct {
		metric        validation.Measure
		before, after func(time.Duration) float64
		want          validation.Verdict
	}{
		"one":                    {limited(0, validation.None), well, once, validation.Bad},
		"one that may be":        {limited(1, validation.None), well, once, validation.Good},
		"all":                    {limited(0, validation.None), well, none, validation.Bad},
		"all that may be":        {limited(1000, validation.None), well, none, validation.Good},
		"no sample":              {limited(0, validation.None), well, nil, validation.Broken},
		"compared with NaN":      {limited(0, validation.Before), none, well, validation.Broken},
		"one, beside what was":   {limited(0, validation.Before), well, once, validation.Bad},
		"none, beside what was":  {limited(0, validation.Before), well, normal(noise(8), 100, 5), validation.Good},
		"a source without limit": {limited(0, validation.None), well, func(time.Duration) float64 { return 501 }, validation.Bad},
	} {
		r := reading("share", test.before, none)
		if r.Experiment.Samples = nil; test.after != nil {
			r = reading("share", test.before, test.after)
		}
		if a := assess(t, usual(test.metric), end, r); a.Verdict != test.want {
			t.Errorf("%s: %s: %s", name, a.Verdict, a.Why)
		}
	}
}

// TestSettingsThatMakeNoSense are Invalid, and say what to write.
func TestSettingsThatMakeNoSense(t *testing.T) {
	for words, spoil := range map[string]func(*validation.Settings){
		"warm_up is":                     func(s *validation.Settings) { s.WarmUp = -1 },
		"intervals is 25":                func(s *validation.Settings) { s.Intervals = 25 },
		"all together may be as long as": func(s *validation.Settings) { s.Interval = 20 * 24 * time.Hour },
		"every is":                       func(s *validation.Settings) { s.Every = time.Second },
		"step is":                        func(s *validation.Settings) { s.Step = time.Hour },
		"before is":                      func(s *validation.Settings) { s.Before = time.Second },
		"compare is":                     func(s *validation.Settings) { s.Metrics[0].Compare = "after" },
		"has no limit":                   func(s *validation.Settings) { s.Compare = validation.None },
		"every metric is a sha":          func(s *validation.Settings) { s.Metrics[0].Judge.Shadow = true },
		"there are 0 metrics":            func(s *validation.Settings) { s.Metrics = nil },
		"is there twice":                 func(s *validation.Settings) { s.Metrics = append(s.Metrics, s.Metrics[0]) },
		"absent is":                      func(s *validation.Settings) { s.Metrics[0].Absent = "x" },
		"nan is bad, and":                func(s *validation.Settings) { s.Metrics[0].NaN = validation.NaNBad },
		"nan is":                         func(s *validation.Settings) { s.Metrics[0].NaN = "x" },
		"no_data is":                     func(s *validation.Settings) { s.Metrics[0].Judge.NoData = judge.NoDataPasses },
		"values have no trials":          func(s *validation.Settings) { s.Metrics[0].Judge.Kind, s.Metrics[0].Source.Of = judge.Values, "x" },
		"alpha is":                       func(s *validation.Settings) { s.Alpha = 0.7 },
		"marginal is":                    func(s *validation.Settings) { s.Marginal = 101 },
		"has no metric":                  func(s *validation.Settings) { s.Groups = map[string]float64{"x": 1} },
	} {
		s := usual(measure("latency"))
		spoil(&s)
		_, err := validation.Assess(s, validation.Change{Done: changed}, nil, changed)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
	if _, err := validation.Assess(usual(measure("a")), validation.Change{Done: changed}, make([]validation.Reading, 2), changed.Add(end)); err == nil {
		t.Error("two readings of one metric are taken")
	}
}

// TestBetweenTwoLimits: a critical metric with a wider limit and another with a narrower one, of which all should pass and none must:
// what is beyond the narrower alone asks a person once the time is over, and what is beyond both is bad at once.
func TestBetweenTwoLimits(t *testing.T) {
	wide, narrow := 0.5, 0.05
	began := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		value  float64
		looked time.Duration
		want   validation.Verdict
	}{
		{0.01, 2 * time.Minute, validation.Waiting}, {0.01, 10 * time.Minute, validation.Good},
		{0.07, 2 * time.Minute, validation.Waiting}, {0.07, 10 * time.Minute, validation.Inconclusive},
		{0.7, 2 * time.Minute, validation.Bad}, {0.7, 10 * time.Minute, validation.Bad},
	} {
		source := validation.Source{HTTP: "main", Query: "q"}
		settings := validation.Settings{
			Name: "errors", Interval: 10 * time.Minute, Intervals: 1, Every: time.Minute, Step: 30 * time.Second, Compare: validation.None, Pass: 100, Marginal: 1,
			Metrics: []validation.Measure{
				{Judge: judge.Metric{Name: "errors", Critical: true, Least: 1, Limit: &judge.Limit{Above: &wide}}, Compare: validation.None, Source: source},
				{Judge: judge.Metric{Name: "errors-wanted", Least: 1, Limit: &judge.Limit{Above: &narrow}}, Compare: validation.None, Source: source},
			},
		}
		var side validation.Side
		for i := range int(test.looked / (30 * time.Second)) {
			side.Samples = append(side.Samples, judge.Sample{At: began.Add(time.Duration(i) * 30 * time.Second), Value: judge.Number(test.value)})
		}
		readings := []validation.Reading{{Metric: "errors", Experiment: side}, {Metric: "errors-wanted", Experiment: side}}
		record, _, err := validation.NewRecord("x", settings, validation.Change{Began: began.Add(-time.Minute), Done: began}, readings, began.Add(test.looked))
		if err != nil || record.Assessment.Verdict != test.want {
			t.Errorf("%g after %s is %s (%s), want %s: %v", test.value, test.looked, record.Assessment.Verdict, record.Assessment.Why, test.want, err)
		}
	}
}
