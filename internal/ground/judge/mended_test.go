package judge_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"lehr.dev/internal/ground/judge"
)

// TestMended: what the judge once got wrong, each with how often it did. Seeds are fixed, so
// that each holds each time or never.
func TestMended(t *testing.T) {
	const trials = 150
	sharp := func(mode string, before, after int, data string, alike float64) cell {
		return cell{mode: mode, before: before, after: after, data: data, alike: alike, metrics: 1, looks: 1}
	}
	for name, c := range map[string]cell{
		"before is shorter than after (79%)":          sharp("before", 24, 120, "normal", 0),
		"before is much shorter (96%)":                sharp("before", 20, 200, "normal", 0),
		"as long (10%)":                               sharp("before", 240, 240, "normal", 0),
		"what grew before goes on (100%)":             sharp("before", 60, 60, "drift", 0),
		"a time of day (70%)":                         sharp("before", 60, 60, "season", 0),
		"neighbours are alike (19%)":                  sharp("before", 60, 60, "normal", 0.8),
		"neighbours are very alike (28%)":             sharp("before", 60, 60, "normal", 0.95),
		"few, and alike, beside a control (28%)":      sharp("control", 10, 10, "normal", 0.8),
		"few, very alike, beside a control (35%)":     sharp("control", 10, 10, "normal", 0.95),
		"of events in bursts that are alike (16%)":    sharp("control", 60, 60, "counts", 0.8),
		"no more than is tolerated, mostly equal":     {mode: "untimed", before: 60, after: 60, data: "mostly-zero", metrics: 1, looks: 1, borne: true},
		"no more than is tolerated, beside a control": {mode: "control", before: 120, after: 120, data: "mostly-zero", metrics: 1, looks: 1, borne: true},
	} {
		if m := c.measure(46, trials, c.none()); m.failed() > atMost(claimed, trials) {
			t.Errorf("%s: %.3f fail", name, m.failed())
		}
	}
	for name, c := range map[string]cell{
		"scatter goes with a level that moves slowly (8%)": sharp("before", 40, 40, "lognormal", 0.95),
		"the same beside a control (8%)":                   sharp("control", 40, 40, "lognormal", 0.95),
		"the chance of events hides their likeness (11%)":  sharp("control", 20, 20, "counts", 0.95),
		"no variance (9%)":                                 sharp("before", 8, 8, "heavy", 0.95),
		"no variance, beside a control (10%)":              sharp("control", 10, 10, "heavy", 0.95),
		"skewed without end, very alike (15%)":             sharp("before", 8, 8, "lognormal", 0.95),
		"0 or 1 (34%)":                                     sharp("before", 8, 8, "jumps", 0.95),
		"0 or 1, beside a control (37%)":                   sharp("control", 14, 14, "jumps", 0.9),
		"0 or 1, longer (30%)":                             sharp("before", 30, 30, "jumps", 0.9),
	} {
		if m := c.measure(7, 2*trials, c.none()); m.failed() > 0.06 {
			t.Errorf("%s: %.3f fail", name, m.failed())
		}
	}
	if m := sharp("control", 60, 60, "counts", 0.95).measure(77, 4*trials, harm{}); m.failed() > 0.06 {
		t.Errorf("bursts that are very alike, beside a control (8%%): %.3f fail", m.failed())
	}
	for name, c := range map[string]cell{
		"few among many, skewed without end (9%)":       sharp("untimed", 100, 10, "heavy", 0),
		"fewer among many, skewed without end (9%)":     sharp("untimed", 100, 8, "heavy", 0),
		"a quarter of the others, skewed without end":   sharp("untimed", 40, 10, "heavy", 0),
		"few after many that were skewed, in time (5%)": sharp("before", 200, 10, "heavy", 0),
	} {
		if m := c.measure(77, 8*trials, harm{}); m.failed() > 0.06 {
			t.Errorf("%s: %.3f fail", name, m.failed())
		}
	}
	usual := func(mode string, before, after int, data string) cell {
		return cell{mode: mode, before: before, after: after, data: data, metrics: 1, looks: 1, usual: true}
	}
	for name, test := range map[string]struct {
		cell  cell
		harm  harm
		found float64
	}{
		"three times the scatter, beside a control": {usual("control", 60, 60, "normal"), harm{spread: 3}, 0.97},
		"a third more, beside a control":            {usual("control", 60, 60, "normal"), harm{shift: 0.35}, 0.95},
		"a third more than before":                  {usual("before", 60, 60, "normal"), harm{shift: 0.35}, 0.9},
		"twice as much, beside a control":           {usual("control", 60, 60, "lognormal"), harm{shift: 1}, 0.95},
	} {
		if m := test.cell.measure(47, trials, test.harm); m.failed() < test.found {
			t.Errorf("%s is found in %.3f", name, m.failed())
		}
	}
	// What was seen and may be chance is no pass.
	spikes := usual("control", 60, 60, "normal")
	if m := spikes.measure(48, trials, harm{spikes: 0.05}); m.passed() > 0.08 {
		t.Errorf("5%% that are ten times as large pass in %.3f", m.passed())
	}
}

// TestASideHidesNothingOfTheOther: a constant control, and sides that lie apart, at the same
// time.
func TestASideHidesNothingOfTheOther(t *testing.T) {
	random := rand.New(rand.NewPCG(49, 0))
	constant := judge.Series{Metric: "a", Control: drawn(monday, 60, normal(random, 0.05, 0)), Experiment: drawn(monday, 60, normal(random, 0.05, 0.01))}
	if m := judged(t, judge.Settings{}, constant).Metrics[0]; m.Verdict != judge.Fail {
		t.Errorf("%s: %s", m.Verdict, m.Why)
	}
	// Of ten each it is often not known whether neighbours are alike, and of twenty it is.
	for n, least := range map[int]int{10: 25, 20: 80} {
		found := 0
		for range 100 {
			apart := judge.Series{Metric: "a", Control: drawn(monday, n, normal(random, 100, 1)), Experiment: drawn(monday, n, normal(random, 150, 1))}
			result := judged(t, judge.Settings{}, apart)
			if shift := result.Metrics[0].Tests[0]; shift.P <= 0.05 {
				found++
			}
			if result.Verdict == judge.Pass {
				t.Errorf("sides of %d that lie apart pass", n)
			}
		}
		if found < least {
			t.Errorf("sides of %d that lie apart are found in %d of 100", n, found)
		}
	}
}

// TestDoubts: why a test is inconclusive is a field.
func TestDoubts(t *testing.T) {
	random := rand.New(rand.NewPCG(50, 0))
	minute := func(i int) float64 { return 100 + float64(i)/2 + 5*random.NormFloat64() }
	for name, test := range map[string]struct {
		series judge.Series
		doubt  judge.Doubt
	}{
		"what grew before goes on": {judge.Series{Control: drawn(monday, 60, minute), Experiment: drawn(monday.Add(60*60e9), 60, func(i int) float64 { return minute(i + 60) })}, judge.DoubtTime},
		"too few":                  {judge.Series{Control: drawn(monday, 6, minute), Experiment: drawn(monday.Add(6*60e9), 6, minute)}, judge.DoubtDependent},
		"one of two values":        {judge.Series{Control: drawn(monday, 8, func(int) float64 { return 0 }), Experiment: drawn(monday, 8, func(int) float64 { return 1 })}, judge.DoubtStates},
		"noisy":                    {judge.Series{Control: without(drawn(monday, 12, normal(random, 100, 60))), Experiment: without(drawn(monday, 12, normal(random, 100, 60)))}, judge.DoubtWide},
	} {
		test.series.Metric = "a"
		result := judged(t, judge.Settings{}, test.series)
		shift := result.Metrics[0].Tests[0]
		if shift.Verdict != judge.Inconclusive || shift.Doubt != test.doubt {
			t.Errorf("%s: %s, %q: %s", name, shift.Verdict, shift.Doubt, shift.Why)
		}
		if saysHowMany := test.doubt == judge.DoubtDependent || test.doubt == judge.DoubtStates; saysHowMany != (shift.Wanted > 0) {
			t.Errorf("%s: %d samples are wanted", name, shift.Wanted)
		}
	}
	good := judged(t, judge.Settings{}, judge.Series{Metric: "a", Control: drawn(monday, 120, normal(random, 100, 5)), Experiment: drawn(monday, 120, normal(random, 100, 5))})
	for _, test := range good.Metrics[0].Tests[:2] {
		if test.Doubt != "" || test.Power != 0.9 || !(test.Detectable >= test.Matters) || math.IsInf(float64(test.Detectable), 0) {
			t.Errorf("%s: %+v", test.Kind, test)
		}
	}
}

// TestAsManyAsAreWantedTell: a constant that is another after the change fails from so many samples
// on as the verdict of fewer of them asks for.
func TestAsManyAsAreWantedTell(t *testing.T) {
	judgeOf := func(n int) judge.Test {
		series := judge.Series{Metric: "up", Control: drawn(monday, n, func(int) float64 { return 1 }), Experiment: drawn(monday, n, func(int) float64 { return 0 })}
		return judged(t, judge.Settings{}, series).Metrics[0].Tests[0]
	}
	few := judgeOf(8)
	if few.Verdict != judge.Inconclusive || few.Wanted <= 8 || few.Wanted > 60 {
		t.Fatalf("%s: %d wanted: %s", few.Verdict, few.Wanted, few.Why)
	}
	if m := judgeOf(few.Wanted - 1); m.Verdict != judge.Inconclusive {
		t.Errorf("%d samples: %s: %s", few.Wanted-1, m.Verdict, m.Why)
	}
	if m := judgeOf(few.Wanted); m.Verdict != judge.Fail {
		t.Errorf("%d samples: %s: %s", few.Wanted, m.Verdict, m.Why)
	}
}

// TestTiesAreCountedOut: all ways to choose the experiment's values out of both sides.
func TestTiesAreCountedOut(t *testing.T) {
	// Of the ways to choose 2 of 1 1 2 2, that of both twos alone sums to as much: 1 of 6.
	said := judge.MannWhitney([]float64{1, 1}, []float64{2, 2}, 0)
	checkClose(t, "p", said.P, 1.0/6, 1e-12)
	// 1 2 2 and 2 3 3: ranks 1 3 3 and 3 5.5 5.5, which sum to 14 or more in 3 of 20 ways.
	said = judge.MannWhitney([]float64{1, 2, 2}, []float64{2, 3, 3}, 0)
	checkClose(t, "p of ties", said.P, 3.0/20, 1e-12)
	if !said.Exact {
		t.Error("small samples with ties are counted out")
	}
}

// TestFewSamplesAreDecided where they lie so far apart, or so close, that no slow change does it.
func TestFewSamplesAreDecided(t *testing.T) {
	random := rand.New(rand.NewPCG(51, 0))
	steady := func(v float64) func(int) float64 { return func(int) float64 { return v } }
	after := monday.Add(8 * 60e9)
	absolute := func(tolerated, matters float64) judge.Metric {
		return judge.Metric{Name: "a", Worse: judge.Higher, Tolerance: &judge.Band{Absolute: tolerated}, Matters: &judge.Band{Absolute: matters}}
	}
	for name, test := range map[string]struct {
		metric  judge.Metric
		series  judge.Series
		verdict judge.Verdict
		kind    string // of the test that fails, or is asked first
	}{
		"errors in 1 of 20 beside none": {absolute(0.005, 0.02), judge.Series{Control: counts(random, monday, 8, 600, 0), Experiment: counts(random, monday, 8, 66, 0.05)}, judge.Fail, "rate"},
		"errors in 1 of 20 after none":  {absolute(0.005, 0.02), judge.Series{Control: counts(random, monday, 8, 200, 0), Experiment: counts(random, after, 8, 200, 0.05)}, judge.Fail, "rate"},
		"as few errors as others":       {absolute(0.005, 0.02), judge.Series{Control: counts(random, monday, 8, 2000, 0.001), Experiment: counts(random, monday, 8, 2000, 0.001)}, judge.Pass, "rate"},
		"one error more than none":      {absolute(0.005, 0.02), judge.Series{Control: counts(random, monday, 8, 2000, 0), Experiment: counts(random, monday, 8, 2000, 0.0002)}, judge.Pass, "rate"},
		"a leak beside a control":       {absolute(0.005, 0.01), judge.Series{Control: drawn(monday, 8, normal(random, 5e-5, 1e-5)), Experiment: drawn(monday, 8, func(i int) float64 { return 0.01 * float64(i) })}, judge.Fail, "trend"},
		"growth beside a control":       {judge.Metric{}, judge.Series{Control: drawn(monday, 8, normal(random, 100, 1)), Experiment: drawn(monday, 8, func(i int) float64 { return 100 + 5*float64(i) + random.NormFloat64() })}, judge.Fail, "trend"},
		"growth after none":             {judge.Metric{}, judge.Series{Control: drawn(monday, 8, normal(random, 100, 1)), Experiment: drawn(after, 8, func(i int) float64 { return 100 + 5*float64(i) + random.NormFloat64() })}, judge.Fail, "trend"},
		"nine times as much":            {judge.Metric{}, judge.Series{Control: drawn(monday, 8, func(i int) float64 { return 10 + float64(i%3) }), Experiment: drawn(after, 10, steady(90))}, judge.Fail, "shift"},
		"as much as before it jumped":   {judge.Metric{}, judge.Series{Control: drawn(monday, 8, func(i int) float64 { return 10 + 80*float64(i/7) }), Experiment: drawn(after, 10, steady(90))}, judge.Inconclusive, "shift"},
		"a constant beside another":     {judge.Metric{}, judge.Series{Control: drawn(monday, 8, steady(100)), Experiment: drawn(monday, 8, steady(101))}, judge.Pass, "shift"},
		"a constant after the same":     {judge.Metric{}, judge.Series{Control: drawn(monday, 8, steady(3)), Experiment: drawn(after, 8, steady(3))}, judge.Pass, "shift"},
		"a constant after a lesser one": {judge.Metric{}, judge.Series{Control: drawn(monday, 8, steady(3)), Experiment: drawn(after, 8, steady(4))}, judge.Inconclusive, "shift"},
		"so for as long as tells":       {judge.Metric{}, judge.Series{Control: drawn(monday, 70, steady(3)), Experiment: drawn(monday.Add(70*60e9), 70, steady(4))}, judge.Fail, "shift"},
		"hardly any noise":              {judge.Metric{}, judge.Series{Control: drawn(monday, 8, normal(random, 100, 1)), Experiment: drawn(monday, 8, normal(random, 100, 1))}, judge.Pass, "shift"},
		"half as much again":            {judge.Metric{}, judge.Series{Control: drawn(monday, 8, normal(random, 100, 1)), Experiment: drawn(after, 8, normal(random, 150, 1))}, judge.Fail, "shift"},
		"ten times the scatter":         {judge.Metric{}, judge.Series{Control: drawn(monday, 12, normal(random, 100, 1)), Experiment: drawn(monday, 12, normal(random, 100, 30))}, judge.Fail, "spread"},
	} {
		test.series.Metric, test.metric.Name = "a", "a"
		m := judged(t, judge.Settings{Metrics: []judge.Metric{test.metric}}, test.series).Metrics[0]
		if m.Verdict != test.verdict {
			t.Errorf("%s: %s: %s", name, m.Verdict, m.Why)
		}
		for _, asked := range m.Tests {
			if asked.Kind == test.kind && asked.Verdict != test.verdict {
				t.Errorf("%s: the %s is %s: %s", name, asked.Kind, asked.Verdict, asked.Why)
			}
		}
	}
}

// TestTooFewEventsTellNothing: of so few samples that it is not known at all how alike they are,
// events that are seen are no pass.
func TestTooFewEventsTellNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(52, 0))
	s := judge.Series{Metric: "a", Control: counts(random, monday, 5, 100, 0.1), Experiment: counts(random, monday, 5, 100, 0.2)}
	if m := judged(t, judge.Settings{}, s).Metrics[0]; m.Verdict != judge.Inconclusive || m.Tests[0].Doubt != judge.DoubtDependent {
		t.Errorf("%s: %s", m.Verdict, m.Why)
	}
}

// TestPermutationsDoNotDependOnOrder: of few values after many, the p of scatter comes from
// random draws, and is the same whatever order values are given in.
func TestPermutationsDoNotDependOnOrder(t *testing.T) {
	drawn := 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := cell{mode: "untimed", before: 60, after: 10, data: "heavy"}.series(random, "latency", harm{spread: 3})
		judged := func() judge.Test {
			result, err := judge.Judge(judge.Settings{}, []judge.Series{s})
			if err != nil {
				t.Fatal(err)
			}
			return *spreadOf(t, result)
		}
		want := judged()
		if want.Method != "Brown-Forsythe and permutations" {
			t.Fatalf("seed %d: the method is %q", seed, want.Method)
		}
		if want.P < 0.05 {
			drawn++
		}
		for _, samples := range [][]judge.Sample{s.Control, s.Experiment} {
			random.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
		}
		if got := judged(); got.P != want.P {
			t.Errorf("seed %d: p is %v, and %v in another order", seed, want.P, got.P)
		}
	}
	if drawn < 5 {
		t.Errorf("only %d of 60 have a p that permutations decide", drawn)
	}
}

// spreadOf returns the test of scatter of the only metric.
func spreadOf(t *testing.T, result judge.Result) *judge.Test {
	t.Helper()
	for i, test := range result.Metrics[0].Tests {
		if test.Kind == "spread" {
			return &result.Metrics[0].Tests[i]
		}
	}
	t.Fatalf("no test of scatter: %+v", result.Metrics[0])
	return nil
}
