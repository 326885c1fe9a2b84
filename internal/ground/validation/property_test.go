package validation_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

// situation is a validation with what was read, some of it missing or broken.
type situation struct {
	settings validation.Settings
	readings []validation.Reading
	after    time.Duration
}

var situations = rapid.Custom(func(t *rapid.T) situation {
	s := situation{settings: usual(), after: rapid.SampledFrom([]time.Duration{10 * time.Minute, 15 * time.Minute, 27 * time.Minute, end, time.Hour}).Draw(t, "after")}
	s.settings.Pass = rapid.SampledFrom([]float64{0, 50, 90}).Draw(t, "pass")
	s.settings.Intervals = rapid.IntRange(1, 3).Draw(t, "intervals")
	s.settings.Interval = 30 * time.Minute / time.Duration(s.settings.Intervals)
	if s.settings.Step = time.Minute; rapid.Bool().Draw(t, "often") {
		s.settings.Every = 7 * time.Minute
	}
	r := noise(uint64(rapid.IntRange(0, 1_000_000).Draw(t, "seed")))
	for i := range rapid.IntRange(1, 4).Draw(t, "metrics") {
		m := measure(fmt.Sprintf("m%d", i))
		m.Judge.Critical = rapid.IntRange(0, 4).Draw(t, "critical") == 0
		m.Compare = rapid.SampledFrom([]validation.Comparison{validation.Before, validation.Control, validation.None}).Draw(t, "compare")
		if m.Compare == validation.None || rapid.Bool().Draw(t, "limited") {
			m.Judge.Limit = &judge.Limit{Above: new(rapid.SampledFrom([]float64{110, 130, 200}).Draw(t, "limit")), Allow: 5}
		}
		s.settings.Metrics = append(s.settings.Metrics, m)
		now := changed.Add(s.after)
		read := validation.Reading{Metric: m.Judge.Name}
		more := rapid.SampledFrom([]float64{100, 100, 110, 130}).Draw(t, "more")
		read.Experiment.Samples = only(drawn(changed, changed.Add(end), time.Minute, normal(r, more, 10)), now)
		switch m.Compare {
		case validation.Before:
			read.Control.Samples = drawn(changed.Add(-30*time.Minute), changed, time.Minute, normal(r, 100, 10))
		case validation.Control:
			read.Control.Samples = only(drawn(changed, changed.Add(end), time.Minute, normal(r, 100, 10)), now)
		}
		if rapid.IntRange(0, 3).Draw(t, "spoil") == 0 {
			spoil(t, &read.Experiment)
		}
		s.readings = append(s.readings, read)
	}
	return s
})

// spoil a side, so that what it holds is no answer.
func spoil(t *rapid.T, side *validation.Side) {
	switch rapid.IntRange(0, 4).Draw(t, "how") {
	case 0:
		side.Failed = "it did not answer"
	case 1:
		side.Samples = nil
	case 2:
		for i := range side.Samples {
			side.Samples[i].Value = judge.Number(math.NaN())
		}
	case 3:
		side.Samples = append(side.Samples, judge.Sample{At: changed.Add(100 * time.Hour), Value: 1})
	case 4:
		side.Samples = side.Samples[:min(3, len(side.Samples))]
	}
}

func (s situation) assess(t *rapid.T) validation.Assessment {
	t.Helper()
	a, err := validation.Assess(s.settings, validation.Change{Done: changed}, s.readings, changed.Add(s.after))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// copied, so that what is changed of it leaves the other as it is.
func (s situation) copied() situation {
	s.readings = slices.Clone(s.readings)
	s.settings.Metrics = slices.Clone(s.settings.Metrics)
	return s
}

func textOf(t *rapid.T, a validation.Assessment) string {
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOrderDoesNotMatter: of metrics, readings and samples.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := situations.Draw(t, "situation")
		want := textOf(t, s.assess(t))
		other := s.copied()
		other.settings.Metrics = rapid.Permutation(s.settings.Metrics).Draw(t, "metrics")
		other.readings = rapid.Permutation(s.readings).Draw(t, "readings")
		for i := range other.readings {
			samples := slices.Clone(other.readings[i].Experiment.Samples)
			slices.Reverse(samples)
			other.readings[i].Experiment.Samples = samples
		}
		if got := textOf(t, other.assess(t)); got != want {
			t.Fatalf("%s\n%s", want, got)
		}
	})
}

// TestAShadowNeverChangesTheVerdict, whatever it shows, and the reason neither.
func TestAShadowNeverChangesTheVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := situations.Draw(t, "situation")
		want := s.assess(t)
		more := situations.Draw(t, "more")
		for i := range more.settings.Metrics {
			m := &more.settings.Metrics[i]
			m.Judge.Name = "shadow " + m.Judge.Name
			m.Judge.Shadow, m.Judge.Critical = true, false
			read := more.readings[i]
			read.Metric = m.Judge.Name
			s.settings.Metrics, s.readings = append(s.settings.Metrics, *m), append(s.readings, read)
		}
		if got := s.assess(t); got.Verdict != want.Verdict || got.Why != want.Why || got.Score != want.Score || !got.Next.Equal(want.Next) {
			t.Fatalf("%s: %s\nbecame %s: %s", want.Verdict, want.Why, got.Verdict, got.Why)
		}
	})
}

// TestMissingDataNeverBecomesGoodOrBad (S11): what is taken away, or spoilt, turns no other
// verdict into good or bad.
func TestMissingDataNeverBecomesGoodOrBad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := situations.Draw(t, "situation")
		whole := s.assess(t)
		less := s.copied()
		read := &less.readings[rapid.IntRange(0, len(less.readings)-1).Draw(t, "which")]
		side := &read.Experiment
		if read.Control.Samples != nil && rapid.Bool().Draw(t, "control") {
			side = &read.Control
		}
		*side = validation.Side{}
		if rapid.Bool().Draw(t, "failed") {
			side.Failed = "it did not answer"
		}
		got := less.assess(t)
		switch got.Verdict {
		case validation.Good:
			t.Fatalf("%s became good: %s", whole.Verdict, got.Why)
		case validation.Bad:
			// A look at another time may find what that one did not.
			if whole.Verdict != validation.Bad && got.Until.Equal(whole.Until) {
				t.Fatalf("%s became bad: %s", whole.Verdict, got.Why)
			}
		}
	})
}

// TestNothingAtAllIsNeverGoodOrBad.
func TestNothingAtAllIsNeverGoodOrBad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := situations.Draw(t, "situation")
		for i := range s.readings {
			s.readings[i].Experiment.Samples = nil
		}
		if a := s.assess(t); a.Verdict != validation.Broken && a.Verdict != validation.Waiting {
			t.Fatalf("%s: %s", a.Verdict, a.Why)
		}
	})
}

// badness of a verdict, where nothing is broken.
var badness = map[validation.Verdict]int{validation.Good: 0, validation.Waiting: 1, validation.Inconclusive: 1, validation.Bad: 2}

// TestMonotone: what bears more is never worse, and data are the same.
func TestMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := situations.Draw(t, "situation")
		strict := s.assess(t)
		loose := s.copied()
		m := &loose.settings.Metrics[rapid.IntRange(0, len(loose.settings.Metrics)-1).Draw(t, "which")]
		if m.Judge.Limit != nil && rapid.Bool().Draw(t, "by its limit") {
			limit := *m.Judge.Limit
			limit.Above, limit.Allow = new(*limit.Above+rapid.Float64Range(0, 50).Draw(t, "above")), limit.Allow+rapid.IntRange(0, 9).Draw(t, "allow")
			m.Judge.Limit = &limit
		} else {
			share := rapid.Float64Range(0.2, 0.9).Draw(t, "matters")
			m.Judge.Matters, m.Judge.Tolerance = &judge.Band{Relative: share}, &judge.Band{Relative: 0.05}
		}
		if loose.settings.Pass > 0 && rapid.Bool().Draw(t, "by the score") {
			loose.settings.Pass -= 10
		}
		got := loose.assess(t)
		if got.Verdict == validation.Broken || strict.Verdict == validation.Broken {
			// What is broken stays so, unless the rest is bad.
			if got.Verdict != strict.Verdict && strict.Verdict != validation.Bad {
				t.Fatalf("%s became %s", strict.Verdict, got.Verdict)
			}
			return
		}
		if badness[got.Verdict] > badness[strict.Verdict] {
			t.Fatalf("%s: %s\nbecame %s: %s", strict.Verdict, strict.Why, got.Verdict, got.Why)
		}
	})
}

// TestNextIsTold: unless it is over, it says when to look again, later than now.
func TestNextIsTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := situations.Draw(t, "situation")
		a := s.assess(t)
		over := a.Verdict == validation.Good || a.Verdict == validation.Bad || a.Verdict == validation.Inconclusive
		if a.Next.IsZero() != over || !over && !a.Next.After(changed.Add(s.after)) {
			t.Fatalf("%s, next %s", a.Verdict, a.Next)
		}
		if over && a.Verdict != validation.Bad && a.Look != a.Looks {
			t.Fatalf("%s at look %d of %d", a.Verdict, a.Look, a.Looks)
		}
		if !slices.Contains(validation.Verdicts(), a.Verdict) {
			t.Fatalf("%q is no verdict", a.Verdict)
		}
	})
}
