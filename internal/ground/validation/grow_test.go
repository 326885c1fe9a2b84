package validation_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
	"lehr.dev/test/detector"
)

// hole is a time without samples, since the change.
type hole struct{ from, until time.Duration }

// without samples within some holes.
func without(samples []judge.Sample, holes ...hole) []judge.Sample {
	return slices.DeleteFunc(slices.Clone(samples), func(s judge.Sample) bool {
		at := s.At.Sub(changed)
		return slices.ContainsFunc(holes, func(h hole) bool { return at >= h.from && at < h.until })
	})
}

// long is a reading that goes on for a time after the change, on both sides.
func long(lasts time.Duration, before, after func(time.Duration) float64) validation.Reading {
	return validation.Reading{
		Metric:     "latency",
		Control:    validation.Side{Samples: drawn(changed.Add(-30*time.Minute), changed.Add(lasts), 15*time.Second, before)},
		Experiment: validation.Side{Samples: drawn(changed, changed.Add(lasts), 15*time.Second, after)},
	}
}

// at a time it knows what there was by then.
func at(t rapid.TB, s validation.Settings, after time.Duration, reading validation.Reading) validation.Assessment {
	t.Helper()
	reading.Control.Samples = only(reading.Control.Samples, changed.Add(after))
	reading.Experiment.Samples = only(reading.Experiment.Samples, changed.Add(after))
	a, err := validation.Assess(s, validation.Change{Done: changed}, []validation.Reading{reading}, changed.Add(after))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestTimeWithoutSamplesDoesNotCount, wherever it is and on whichever side: the last look
// takes in so much more.
func TestTimeWithoutSamplesDoesNotCount(t *testing.T) {
	r := noise(20)
	whole := long(2*time.Hour, normal(r, 100, 10), normal(r, 100, 10))
	type step struct {
		after   time.Duration
		verdict validation.Verdict
		why     string
		next    time.Duration
	}
	for name, test := range map[string]struct {
		holes   []hole
		control bool
		steps   []step
	}{
		"one that is fresh enough": {[]hole{{12 * time.Minute, 13 * time.Minute}}, false, []step{{end, validation.Good, "", 0}}},
		"in the middle": {[]hole{{12 * time.Minute, 22 * time.Minute}}, false, []step{
			{25 * time.Minute, validation.Waiting, "look 2 of 3 shows no harm", end},
			{end, validation.Waiting, "samples are missing: since 2026-03-02T08:05:00Z it has seen 19m45s of the 30m0s that it is to look at, which shows no harm; the next look is at 2026-03-02T08:45:00Z", 45 * time.Minute},
			{45*time.Minute - time.Second, validation.Waiting, "it has seen 19m45s", 45 * time.Minute},
			{45 * time.Minute, validation.Waiting, "it has seen 29m45s", 55 * time.Minute},
			{55 * time.Minute, validation.Good, "", 0},
			{2 * time.Hour, validation.Good, "", 0},
		}},
		"in the middle, of the control": {[]hole{{12 * time.Minute, 22 * time.Minute}}, true, []step{
			{end, validation.Waiting, "it has seen 19m45s", 45 * time.Minute}, {55 * time.Minute, validation.Good, "", 0},
		}},
		"at the end": {[]hole{{30 * time.Minute, 50 * time.Minute}}, false, []step{
			{end, validation.Broken, "its newest sample is of 2026-03-02T08:29:45Z, 5m15s before the end", end + time.Minute},
			{45 * time.Minute, validation.Broken, "15m15s before the end", 46 * time.Minute},
			{55 * time.Minute, validation.Waiting, "it has seen 29m45s", 65 * time.Minute},
			{65 * time.Minute, validation.Good, "", 0},
		}},
		"twice": {[]hole{{0, 15 * time.Minute}, {20 * time.Minute, 35 * time.Minute}}, false, []step{
			{15 * time.Minute, validation.Waiting, "look 1 of 3", 25 * time.Minute},
			{25 * time.Minute, validation.Broken, "its newest sample", 26 * time.Minute},
			{end, validation.Waiting, "it has seen 4m45s", 45 * time.Minute},
			{65 * time.Minute, validation.Good, "", 0},
		}},
		"where the look grows to": {[]hole{{12 * time.Minute, 17 * time.Minute}, {42 * time.Minute, 47 * time.Minute}}, false, []step{
			{end, validation.Waiting, "it has seen 24m45s", 45 * time.Minute},
			{45 * time.Minute, validation.Good, "", 0},
		}},
		"from the beginning": {[]hole{{0, 40 * time.Minute}}, false, []step{
			{15 * time.Minute, validation.Broken, "it has no samples", 16 * time.Minute},
			{end, validation.Broken, "it has no samples", end + time.Minute},
			{75 * time.Minute, validation.Good, "", 0},
		}},
	} {
		s, read := usual(measure("latency")), whole
		read.Experiment.Samples = without(whole.Experiment.Samples, test.holes...)
		if test.control {
			s.Compare = validation.Control
			read.Experiment, read.Control.Samples = whole.Experiment, without(whole.Control.Samples, test.holes...)
		}
		for _, step := range test.steps {
			a, next := at(t, s, step.after, read), changed.Add(step.next)
			if step.next == 0 {
				next = time.Time{}
			}
			if a.Verdict != step.verdict || !strings.Contains(a.Why, step.why) || !a.Next.Equal(next) {
				t.Errorf("%s, after %s: %s, next %s: %s", name, step.after, a.Verdict, a.Next, a.Why)
			}
		}
	}
}

// TestHarmAfterTheLastLook is found by those that came for what was missing, also where it
// went away again.
func TestHarmAfterTheLastLook(t *testing.T) {
	r := noise(21)
	worse := func(from, until time.Duration) validation.Reading {
		read := long(2*time.Hour, normal(r, 100, 10), func(at time.Duration) float64 {
			if at > from && at < until {
				return 300
			}
			return 100 + 10*r.NormFloat64()
		})
		read.Experiment.Samples = without(read.Experiment.Samples, hole{7 * time.Minute, 27 * time.Minute})
		return read
	}
	if a := at(t, usual(measure("latency")), end, worse(36*time.Minute, 2*time.Hour)); a.Verdict != validation.Waiting {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	if a := at(t, usual(measure("latency")), 55*time.Minute, worse(36*time.Minute, 2*time.Hour)); a.Verdict != validation.Bad {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	passing := usual(measure("latency"))
	passing.Intervals, passing.Interval, passing.Before = 7, 4*time.Minute, 30*time.Minute
	passing.Metrics[0].Judge.Matters = &judge.Band{Relative: 0.1}
	if a := at(t, passing, 61*time.Minute, worse(45*time.Minute, 49*time.Minute)); a.Verdict != validation.Bad || !strings.HasPrefix(a.Why, "interval 11 of 1") {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
}

// TestASourceThatIsGoneForEver is left to a person in the end, and one that does not answer
// is asked for ever, for it may remember all of it.
func TestASourceThatIsGoneForEver(t *testing.T) {
	r := noise(22)
	read := reading("latency", normal(r, 100, 10), normal(r, 100, 10))
	read.Experiment.Samples = without(read.Experiment.Samples, hole{17 * time.Minute, time.Hour})
	s := usual(measure("latency"))
	last := end + validation.MostGrowth*10*time.Minute
	if a := at(t, s, last-time.Second, read); a.Verdict != validation.Broken || !a.Next.Equal(changed.Add(last)) {
		t.Errorf("%s, next %s: %s", a.Verdict, a.Next, a.Why)
	}
	want := "samples are missing: since 2026-03-02T08:05:00Z it has seen 11m45s of the 30m0s that it is to look at; a person decides"
	for _, after := range []time.Duration{last, last + 1000*time.Hour} {
		if a := at(t, s, after, read); a.Verdict != validation.Inconclusive || a.Why != want || !a.Next.IsZero() {
			t.Errorf("%s, next %s: %s", a.Verdict, a.Next, a.Why)
		}
	}
	silent := read
	silent.Experiment = validation.Side{Failed: "it did not answer"}
	if a := at(t, s, last+1000*time.Hour, silent); a.Verdict != validation.Broken || !strings.Contains(a.Why, "it did not answer") {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	// Harm is harm, however little was seen.
	read.Experiment.Samples = drawn(changed, changed.Add(17*time.Minute), 15*time.Second, normal(r, 200, 10))
	if a := at(t, s, last, read); a.Verdict != validation.Bad {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
	if a := at(t, s, 2*time.Hour, read); a.Verdict != validation.Bad {
		t.Errorf("after the last look, %s: %s", a.Verdict, a.Why)
	}
	// Where there is no place for more samples it gives up at once.
	s.Step, s.Interval, s.Every, s.Intervals = time.Second, 4990*time.Second, 4990*time.Second, 1
	read.Experiment.Samples = drawn(changed, changed.Add(17*time.Minute), 15*time.Second, normal(r, 100, 10))
	if a := at(t, s, 3*time.Hour, read); a.Verdict != validation.Inconclusive || !strings.Contains(a.Why, "samples are missing") {
		t.Errorf("%s: %s", a.Verdict, a.Why)
	}
}

// TestAWindowHasWhatIsLookedAt, and not much more than each side may have.
func TestAWindowHasWhatIsLookedAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := usual(measure("latency"))
		s.Step = rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Second, 15 * time.Second}).Draw(t, "step")
		s.Every = rapid.SampledFrom([]time.Duration{30 * time.Second, 7 * time.Minute, 10 * time.Minute}).Draw(t, "every")
		after := time.Duration(rapid.IntRange(0, 100_000).Draw(t, "after")) * time.Second
		w, err := s.Window(validation.Change{Done: changed}, changed.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		read := validation.Reading{Metric: "latency", Control: validation.Side{Samples: []judge.Sample{{At: changed, Value: 1}}}}
		a, err := validation.Assess(s, validation.Change{Done: changed}, []validation.Reading{read}, changed.Add(after))
		if err != nil || a.Look > 0 && !a.Until.Equal(w.Until) {
			t.Fatalf("%v: until %s, of %s", err, w.Until, a.Until)
		}
		if n := int(w.Until.Sub(w.From)/s.Step) + 1; n > s.MostOfSide() {
			t.Fatalf("%d samples, of %d", n, s.MostOfSide())
		}
	})
}

// TestTheEndDoesNotDependOnWhenItIsAsked: what is found once is found ever after.
func TestTheEndDoesNotDependOnWhenItIsAsked(t *testing.T) {
	detector.SkipSequential(t)
	rapid.Check(t, func(t *rapid.T) {
		r := noise(uint64(rapid.IntRange(0, 1_000_000).Draw(t, "seed")))
		const lasts = 4 * time.Hour
		read := long(lasts, normal(r, 100, 10), normal(r, rapid.SampledFrom([]float64{100, 105, 110}).Draw(t, "middle"), 10))
		for range rapid.IntRange(0, 4).Draw(t, "holes") {
			from := time.Duration(rapid.IntRange(0, 90).Draw(t, "from")) * time.Minute
			read.Experiment.Samples = without(read.Experiment.Samples, hole{from, from + time.Duration(rapid.IntRange(1, 40).Draw(t, "long"))*time.Minute})
		}
		s := usual(measure("latency"))
		s.Every = time.Duration(rapid.IntRange(3, 10).Draw(t, "every")) * time.Minute
		over := func(v validation.Verdict) bool { return v == validation.Good || v == validation.Inconclusive }
		var found validation.Assessment
		for _, minute := range slices.Sorted(slices.Values(append(rapid.SliceOfN(rapid.IntRange(15, 230), 10, 10).Draw(t, "asked"), 240))) {
			after := time.Duration(minute) * time.Minute
			switch a := at(t, s, after, read); {
			case a.Verdict == validation.Bad:
				return // It is asked no more.
			case over(found.Verdict) && (a.Verdict != found.Verdict || !a.Until.Equal(found.Until) || a.Why != found.Why):
				t.Fatalf("%s until %s: %s\nbecame %s until %s: %s", found.Verdict, found.Until, found.Why, a.Verdict, a.Until, a.Why)
			case over(a.Verdict):
				found = a
			}
		}
		if !over(found.Verdict) {
			t.Fatal("it never ends")
		}
	})
}

// TestHolesFindNothing that is not there: over all looks, also those that came for what
// was missing, nothing is found more often than alpha.
func TestHolesFindNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("judges 150 times")
	}
	const trials, alpha = 150, 0.05
	s := validation.Settings{WarmUp: 5 * time.Minute, Interval: 10 * time.Minute, Intervals: 3, Metrics: []validation.Measure{measure("latency")}}
	s.Compare = validation.Control
	bad, good := 0.0, 0.0
	for seed := range uint64(trials) {
		r := noise(seed)
		around := func(at time.Duration) float64 {
			return 100 + 30*math.Sin(at.Minutes()/40) + 15*r.NormFloat64()
		}
		read := long(4*time.Hour, around, around)
		for range 3 {
			from := time.Duration(5+r.IntN(60)) * time.Minute
			read.Experiment.Samples = without(read.Experiment.Samples, hole{from, from + time.Duration(2+r.IntN(20))*time.Minute})
		}
		verdict := validation.Waiting
		for after := 15 * time.Minute; verdict == validation.Waiting || verdict == validation.Broken; after += 10 * time.Minute {
			if after > 4*time.Hour {
				t.Fatalf("with seed %d it never ends: %s", seed, verdict)
			}
			verdict = at(t, s, after, read).Verdict
		}
		switch verdict {
		case validation.Bad:
			bad += 1.0 / trials
		case validation.Good:
			good += 1.0 / trials
		}
	}
	t.Logf("bad %.3f, good %.3f", bad, good)
	if most := alpha + 4*math.Sqrt(alpha*(1-alpha)/trials); bad > most {
		t.Errorf("harm is found in %.3f where there is none", bad)
	}
	if good < 0.8 {
		t.Errorf("good is found in %.3f", good)
	}
}

// TestAnOutageSpendsNoAlpha: the same samples with hours of silence in their midst tell
// about as much as without.
func TestAnOutageSpendsNoAlpha(t *testing.T) {
	r := noise(21)
	s, whole := usual(measure("latency")), long(30*time.Minute+5*time.Minute, normal(r, 100, 10), normal(r, 108, 10))
	p := func(silence time.Duration) float64 {
		read := whole
		read.Experiment.Samples = slices.Clone(whole.Experiment.Samples)
		for i, sample := range read.Experiment.Samples {
			if sample.At.Sub(changed) > 12*time.Minute {
				read.Experiment.Samples[i].At = sample.At.Add(silence)
			}
		}
		a := at(t, s, end+silence, read)
		if len(a.Metrics) != 1 || len(a.Metrics[0].Judged.Tests) == 0 {
			t.Fatalf("after a silence of %s: %+v", silence, a)
		}
		return float64(a.Metrics[0].Judged.Tests[0].P)
	}
	without, with := p(0), p(10*time.Hour)
	if without <= 0 || with > 3*without {
		t.Errorf("p is %g, and %g with an outage", without, with)
	}
}
