package judge_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/judge"
)

// noise of a seed: the same each time.
func noise(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 42)) }

var monday = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// drawn samples, one a minute from a time on.
func drawn(from time.Time, n int, draw func(minute int) float64) []judge.Sample {
	samples := make([]judge.Sample, n)
	for i := range samples {
		samples[i] = judge.Sample{At: from.Add(time.Duration(i) * time.Minute), Value: judge.Number(draw(i))}
	}
	return samples
}

// without times.
func without(samples []judge.Sample) []judge.Sample {
	bare := make([]judge.Sample, len(samples))
	for i, s := range samples {
		s.At = time.Time{}
		bare[i] = s
	}
	return bare
}

// counts of events of so many trials a minute.
func counts(random *rand.Rand, from time.Time, n int, of, rate float64) []judge.Sample {
	return counted(drawn(from, n, func(int) float64 {
		events := 0.0
		for range int(of) {
			if random.Float64() < rate {
				events++
			}
		}
		return events
	}), of)
}

func counted(samples []judge.Sample, of float64) []judge.Sample {
	for i := range samples {
		samples[i].Of = new(judge.Number(of))
	}
	return samples
}

func judged(t *testing.T, settings judge.Settings, data ...judge.Series) judge.Result {
	t.Helper()
	result, err := judge.Judge(settings, data)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// normal is a draw around a middle.
func normal(random *rand.Rand, middle, deviation float64) func(int) float64 {
	return func(int) float64 { return middle + deviation*random.NormFloat64() }
}

// TestVerdicts of one metric, each with the words that say why.
func TestVerdicts(t *testing.T) {
	random := noise(1)
	flat := drawn(monday, 60, normal(random, 100, 10))
	nan := func(n int) []judge.Sample {
		broken := drawn(monday, 60, normal(random, 100, 10))
		for i := range n {
			broken[i*2].Value = judge.Number(math.NaN())
		}
		return broken
	}
	limit := func(above float64, allow, of int) *judge.Limit {
		return &judge.Limit{Above: &above, Allow: allow, Of: of}
	}
	withNaN := func(m *judge.Limit) *judge.Limit {
		m.NaN = true
		return m
	}
	shareOfNothing := counted(drawn(monday, 10, func(int) float64 { return 1 }), 100)
	shareOfNothing[4].Value = judge.Number(math.NaN())
	infinite := drawn(monday, 10, func(int) float64 { return math.Inf(1) })
	hundredth := func(i int) float64 { return 1 + float64(i)/100 }
	mostlySlow := func(i int) float64 { return map[bool]float64{true: 1, false: 100}[i%10 < 3] + float64(i)/100 + 0.005 }
	none := judge.Metric{Unit: "ms", Worse: judge.Higher}
	with := func(change func(*judge.Metric)) judge.Metric {
		m := none
		change(&m)
		return m
	}
	for name, test := range map[string]struct {
		metric              judge.Metric
		control, experiment []judge.Sample
		verdict             judge.Verdict
		says                string
	}{
		"the same":                                 {none, flat, drawn(monday, 60, normal(random, 100, 10)), judge.Pass, "ms that matters"},
		"much slower":                              {none, flat, drawn(monday, 60, normal(random, 130, 10)), judge.Fail, "ms matters, and p is"},
		"much slower, which is no harm":            {with(func(m *judge.Metric) { m.Worse = judge.Lower }), flat, drawn(monday, 60, normal(random, 130, 10)), judge.Pass, "less than"},
		"much faster, and either is":               {with(func(m *judge.Metric) { m.Worse = judge.Either }), flat, drawn(monday, 60, normal(random, 70, 10)), judge.Fail, "changed by -"},
		"slower by less than matters":              {none, flat, drawn(monday, 60, normal(random, 110, 10)), judge.Pass, "less than"},
		"slower by less than is tolerated":         {with(func(m *judge.Metric) { m.Tolerance, m.Matters = &judge.Band{Absolute: 40}, &judge.Band{Absolute: 60} }), flat, drawn(monday, 60, normal(random, 130, 10)), judge.Pass, "less than the 60 ms"},
		"few and noisy":                            {none, without(drawn(monday, 6, normal(random, 100, 60))), without(drawn(monday, 6, normal(random, 100, 60))), judge.Inconclusive, "not ruled out; more samples would tell"},
		"too few to know how alike neighbours are": {none, drawn(monday, 6, normal(random, 100, 10)), drawn(monday, 6, normal(random, 130, 10)), judge.Inconclusive, "independent samples, fewer than 5"},
		"few, and far apart":                       {none, drawn(monday, 6, normal(random, 100, 1)), drawn(monday, 6, normal(random, 200, 1)), judge.Fail, "20.1"},
		"few, and as near as matters little":       {with(func(m *judge.Metric) { m.Matters = &judge.Band{Relative: 5}; m.Spread = 1000 }), drawn(monday, 6, normal(random, 100, 10)), drawn(monday, 6, normal(random, 100, 10)), judge.Pass, "less than"},
		"wider":                                    {none, flat, drawn(monday, 60, normal(random, 100, 40)), judge.Fail, "times as far, and 2 times matters"},
		"no control":                               {none, nil, flat, judge.Inconclusive, "the control has no data"},
		"no experiment":                            {none, flat, nil, judge.Inconclusive, "the experiment has no data"},
		"no data fails":                            {with(func(m *judge.Metric) { m.NoData = judge.NoDataFails }), flat, nil, judge.Fail, "which counts as a failure"},
		"no data passes":                           {with(func(m *judge.Metric) { m.NoData = judge.NoDataPasses }), flat, nil, judge.Pass, "which counts as a pass"},
		"too few":                                  {none, flat, flat[:4], judge.Inconclusive, "the experiment has 4 samples, fewer than 5"},
		"some broken":                              {none, flat, nan(5), judge.Pass, "less than"},
		"too many broken":                          {none, flat, nan(7), judge.Inconclusive, "7 of the experiment's 60 samples cannot be used"},
		"all broken":                               {none, flat, nan(30)[:1], judge.Inconclusive, "cannot be used"},
		"constant":                                 {none, drawn(monday, 60, normal(random, 5, 0)), drawn(monday, 60, normal(random, 5, 0)), judge.Pass, "changed by 0 ms (0 to 0"},
		"constants that differ":                    {none, drawn(monday, 60, normal(random, 5, 0)), drawn(monday, 60, normal(random, 9, 0)), judge.Fail, "changed by 4 ms"},
		"mostly zero, and then often not": {none, drawn(monday, 60, func(i int) float64 { return float64(i % 20 / 19) }),
			drawn(monday, 60, func(i int) float64 { return float64(i % 3 / 2) }), judge.Fail, "on average"},
		"beyond a limit":                        {with(func(m *judge.Metric) { m.Limit = limit(110, 0, 0) }), flat, drawn(monday, 60, normal(random, 100, 10)), judge.Fail, "samples are above 110 ms, and 0 may be"},
		"within a limit, alone":                 {with(func(m *judge.Metric) { m.Limit = limit(500, 0, 0) }), nil, flat, judge.Pass, "0 of 60 samples are above 500 ms"},
		"within a limit, alone, and too few":    {with(func(m *judge.Metric) { m.Limit = limit(500, 0, 0) }), nil, flat[:3], judge.Inconclusive, "the experiment has 3 samples, fewer than 5"},
		"the newest of a limit":                 {with(func(m *judge.Metric) { m.Limit = limit(50, 2, 10) }), nil, drawn(monday, 60, func(i int) float64 { return 100 - 1.2*float64(i) }), judge.Pass, "0 of 10 samples"},
		"no number, which is beyond a limit":    {with(func(m *judge.Metric) { m.Limit = withNaN(limit(500, 0, 0)) }), nil, nan(3), judge.Fail, "3 of 60 samples are above 500 ms or no number, and 0 may be"},
		"no number, of the allowed":             {with(func(m *judge.Metric) { m.Limit = withNaN(limit(500, 20, 0)) }), nil, nan(20), judge.Pass, "20 of 60 samples"},
		"no number, of the older":               {with(func(m *judge.Metric) { m.Limit = withNaN(limit(500, 0, 10)) }), nil, nan(20), judge.Pass, "0 of 10 samples"},
		"nothing but no number":                 {with(func(m *judge.Metric) { m.Limit = withNaN(limit(500, 0, 0)) }), nil, nan(30)[:1], judge.Fail, "1 of 1 sample is above 500 ms or no number"},
		"nothing but no number, of the allowed": {with(func(m *judge.Metric) { m.Limit, m.Least = withNaN(limit(500, 1, 0)), 1 }), nil, nan(30)[:1], judge.Pass, "1 of 1 sample"},
		"no number beside a control":            {with(func(m *judge.Metric) { m.Limit = withNaN(limit(500, 30, 0)) }), flat, nan(3), judge.Pass, "less than"},
		"an event that is no number":            {judge.Metric{Limit: withNaN(limit(0.5, 0, 0))}, nil, shareOfNothing, judge.Fail, "1 of 10 samples is above 0.5 or no number"},
		"infinite, and at least is asked":       {with(func(m *judge.Metric) { m.Limit = &judge.Limit{Below: new(5.0), NaN: true} }), nil, infinite, judge.Pass, "0 of 10 samples"},
		"infinite, and at most is asked":        {with(func(m *judge.Metric) { m.Limit = withNaN(limit(500, 0, 0)) }), nil, infinite, judge.Fail, "10 of 10 samples"},
		"a limit beside no data":                {with(func(m *judge.Metric) { m.Limit = limit(110, 0, 0) }), nan(60 / 2), nan(30), judge.Fail, "cannot be used"},
		"7 of 10 a hundred times as slow":       {none, without(drawn(monday, 10, hundredth)), without(drawn(monday, 10, mostlySlow)), judge.Inconclusive, "it may be chance"},
		"21 of 30 a hundred times as slow":      {none, without(drawn(monday, 30, hundredth)), without(drawn(monday, 30, mostlySlow)), judge.Fail, "changed by 98.9"},
		"no errors":                             {judge.Metric{}, counts(random, monday, 60, 1000, 0), counts(random, monday, 60, 1000, 0), judge.Pass, "0 of 60000"},
		"sparse errors":                         {judge.Metric{}, counts(random, monday, 60, 100, 0.0005), counts(random, monday, 60, 100, 0.01), judge.Fail, "times matters, and p is"},
		"errors, and none before":               {judge.Metric{}, counts(random, monday, 60, 100, 0), counts(random, monday, 60, 100, 0.005), judge.Fail, "infinity times the rate"},
		"one error":                             {judge.Metric{}, counts(random, monday, 60, 100, 0), counted(drawn(monday, 60, func(i int) float64 { return float64(i / 59) }), 100), judge.Inconclusive, "it may be chance"},
		"one error, which is few":               {judge.Metric{Matters: &judge.Band{Absolute: 0.01}}, counts(random, monday, 60, 100, 0), counted(drawn(monday, 60, func(i int) float64 { return float64(i / 59) }), 100), judge.Pass, "less than matters (a change by 0.01)"},
		"as many errors as before":              {judge.Metric{}, counts(random, monday, 60, 1000, 0.01), counts(random, monday, 60, 1000, 0.01), judge.Pass, "less than matters"},
		"fewer successes":                       {judge.Metric{Worse: judge.Lower, Matters: &judge.Band{Relative: 0.1}}, counts(random, monday, 60, 100, 0.9), counts(random, monday, 60, 100, 0.7), judge.Fail, "0.9 times matters"},
		"more errors than requests no one made": {judge.Metric{}, counts(random, monday, 60, 100, 0.1), counted(drawn(monday, 60, normal(random, 3, 0)), 0), judge.Inconclusive, "no finite counts of trials"},
	} {
		t.Run(name, func(t *testing.T) {
			test.metric.Name = "latency"
			result := judged(t, judge.Settings{Metrics: []judge.Metric{test.metric}}, judge.Series{Metric: "latency", Control: test.control, Experiment: test.experiment})
			if m := result.Metrics[0]; m.Verdict != test.verdict || !strings.Contains(m.Why, test.says) || result.Verdict != test.verdict {
				t.Errorf("%s, %s: %s\n%+v", result.Verdict, m.Verdict, m.Why, m.Tests)
			}
		})
	}
}

// TestRollUp of metrics to one verdict.
func TestRollUp(t *testing.T) {
	random := noise(2)
	series := func(name string, middle, deviation float64, n int) judge.Series {
		return judge.Series{Metric: name, Control: drawn(monday, n, normal(random, 100, deviation)), Experiment: drawn(monday, n, normal(random, middle, deviation))}
	}
	good, bad, unsure := series("good", 100, 10, 60), series("bad", 150, 10, 60), series("unsure", 100, 60, 6)
	type metrics = []judge.Metric
	for name, test := range map[string]struct {
		settings judge.Settings
		data     []judge.Series
		verdict  judge.Verdict
		says     string
	}{
		"all pass":          {judge.Settings{}, []judge.Series{good}, judge.Pass, "the metric passed"},
		"one fails":         {judge.Settings{}, []judge.Series{good, bad, unsure}, judge.Fail, "bad failed. bad: "},
		"one is unsure":     {judge.Settings{}, []judge.Series{good, unsure}, judge.Inconclusive, "unsure is inconclusive. unsure: "},
		"nothing":           {judge.Settings{}, nil, judge.Inconclusive, "no metric that decides"},
		"a shadow fails":    {judge.Settings{Metrics: metrics{{Name: "bad", Shadow: true}}}, []judge.Series{good, bad}, judge.Pass, "the metric passed"},
		"only a shadow":     {judge.Settings{Metrics: metrics{{Name: "good", Shadow: true}}}, []judge.Series{good}, judge.Inconclusive, "no metric that decides"},
		"enough pass":       {judge.Settings{Pass: 60, Metrics: metrics{{Name: "good", Weight: 3}}}, []judge.Series{good, bad}, judge.Pass, "bad failed (score 75 of the 60 to pass)"},
		"too few may pass":  {judge.Settings{Pass: 60, Metrics: metrics{{Name: "bad", Weight: 3}}}, []judge.Series{good, bad, unsure}, judge.Fail, "score from 20 to 40"},
		"it depends":        {judge.Settings{Pass: 60}, []judge.Series{good, bad, unsure}, judge.Inconclusive, "score from 33.33 to 66.67"},
		"critical":          {judge.Settings{Pass: 10, Metrics: metrics{{Name: "bad", Critical: true}}}, []judge.Series{good, bad}, judge.Fail, "bad failed, which is critical"},
		"critical, unsure":  {judge.Settings{Pass: 10, Metrics: metrics{{Name: "unsure", Critical: true}}}, []judge.Series{good, unsure}, judge.Inconclusive, "unsure is inconclusive"},
		"critical, lost":    {judge.Settings{Pass: 10, Metrics: metrics{{Name: "lost", Critical: true}}}, []judge.Series{good}, judge.Inconclusive, "the control has no data"},
		"groups":            {judge.Settings{Pass: 80, Groups: map[string]float64{"a": 9}, Metrics: metrics{{Name: "good", Group: "a"}, {Name: "bad", Group: "b"}}}, []judge.Series{good, bad}, judge.Pass, "score 90 of the 80"},
		"groups, otherwise": {judge.Settings{Pass: 80, Groups: map[string]float64{"b": 9}, Metrics: metrics{{Name: "good", Group: "a"}, {Name: "bad", Group: "b"}}}, []judge.Series{good, bad}, judge.Fail, "score 10 of the 80"},
	} {
		t.Run(name, func(t *testing.T) {
			if result := judged(t, test.settings, test.data...); result.Verdict != test.verdict || !strings.Contains(result.Why, test.says) {
				t.Errorf("%s: %s", result.Verdict, result.Why)
			}
		})
	}
}

// TestShadowsCostNothing: what only is watched changes no other's probability.
func TestShadowsCostNothing(t *testing.T) {
	random := noise(3)
	one := judge.Series{Metric: "a", Control: drawn(monday, 30, normal(random, 100, 10)), Experiment: drawn(monday, 30, normal(random, 112, 10))}
	two := one
	two.Metric = "b"
	alone := judged(t, judge.Settings{}, one).Metrics[0].Tests[0].Adjusted
	if beside := judged(t, judge.Settings{Metrics: []judge.Metric{{Name: "a"}, {Name: "b", Shadow: true}}}, one, two).Metrics[0].Tests[0].Adjusted; beside != alone {
		t.Errorf("%v beside a shadow, %v alone", beside, alone)
	}
	if beside := judged(t, judge.Settings{}, one, two).Metrics[0].Tests[0].Adjusted; !(beside > alone) {
		t.Errorf("%v beside another, %v alone", beside, alone)
	}
}

// TestJudgedAgainToTheSameBytes from what was kept.
func TestJudgedAgainToTheSameBytes(t *testing.T) {
	random := noise(4)
	data := []judge.Series{
		{Metric: "latency", Control: drawn(monday, 50, normal(random, 100, 10)), Experiment: drawn(monday, 40, normal(random, 100, 10))},
		{Metric: "errors", Control: counts(random, monday, 50, 100, 0.01), Experiment: counts(random, monday, 50, 100, 0.02)},
		{Metric: "lost", Control: []judge.Sample{{Value: judge.Number(math.NaN())}, {Value: judge.Number(math.Inf(-1))}}},
	}
	first := judged(t, judge.Settings{Look: 2, Metrics: []judge.Metric{{Name: "latency", Tolerance: &judge.Band{Relative: 0.07, Absolute: 1.5}, Matters: &judge.Band{Relative: 0.1, Absolute: 2}}}}, data...)
	text, err := json.Marshal(judge.Archive{Settings: first.Settings, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	var kept judge.Archive
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	for i := range kept.Data {
		random.Shuffle(len(kept.Data[i].Control), func(a, b int) {
			kept.Data[i].Control[a], kept.Data[i].Control[b] = kept.Data[i].Control[b], kept.Data[i].Control[a]
		})
	}
	kept.Data[0], kept.Data[2] = kept.Data[2], kept.Data[0]
	again := judged(t, kept.Settings, kept.Data...)
	one, err := json.Marshal(first)
	two, _ := json.Marshal(again)
	if err != nil || string(one) != string(two) {
		t.Errorf("%v\n%s\n%s", err, one, two)
	}
	kept.Data[2].Control[0].Value++
	if other := judged(t, kept.Settings, kept.Data...); other.Digest == first.Digest {
		t.Error("other data have the same digest")
	}
}

// TestSlowLeak: no interval shows it, and all together do.
func TestSlowLeak(t *testing.T) {
	random := noise(5)
	memory := judge.Series{
		Metric: "memory", Control: drawn(monday, 480, normal(random, 1000, 40)),
		Experiment: drawn(monday, 480, func(minute int) float64 { return 1000 + 0.3*float64(minute) + 40*random.NormFloat64() }),
	}
	settings := judge.Settings{Metrics: []judge.Metric{{Name: "memory", Unit: "MB", Worse: judge.Higher, Matters: &judge.Band{Relative: 0.1}}}}
	chain, err := judge.Chain(settings, []judge.Series{memory}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if chain.Verdict != judge.Fail || !strings.Contains(chain.Why, "it changes steadily") {
		t.Errorf("%s: %s", chain.Verdict, chain.Why)
	}
	if first := chain.Intervals[0]; len(chain.Intervals) != 8 || first.Verdict == judge.Fail {
		t.Errorf("%d intervals, the first: %s", len(chain.Intervals), first.Why)
	}
	// A day that rises for both is no leak.
	rising := func(minute int) float64 { return 1000 + 0.3*float64(minute) + 40*random.NormFloat64() }
	memory.Control, memory.Experiment = drawn(monday, 480, rising), drawn(monday, 480, rising)
	if chain, err = judge.Chain(settings, []judge.Series{memory}, time.Hour); err != nil || chain.Verdict != judge.Pass {
		t.Errorf("%v %s: %s", err, chain.Verdict, chain.Why)
	}
}

// TestHarmThatWentAway is found by the interval that it was in. Hours later a day's swing may
// have done as much to what is compared with before, and not to what is of the same time.
func TestHarmThatWentAway(t *testing.T) {
	harmed := func(random *rand.Rand, hour int) []judge.Sample {
		return drawn(monday, 480, func(minute int) float64 {
			return 100 + 10*random.NormFloat64() + map[bool]float64{true: 60}[minute/60 == hour]
		})
	}
	for name, test := range map[string]struct {
		began time.Time
		hour  int
		doubt judge.Doubt
	}{
		"before, at once":      {monday.Add(-8 * time.Hour), 0, ""},
		"before, hours later":  {monday.Add(-8 * time.Hour), 3, judge.DoubtTime},
		"control, hours later": {monday, 3, ""},
	} {
		random := noise(6) // Each has its own, so that they may come in any order.
		control := drawn(test.began, 480, normal(random, 100, 10))
		latency := judge.Series{Metric: "latency", Control: control, Experiment: harmed(random, test.hour)}
		chain, err := judge.Chain(judge.Settings{Metrics: []judge.Metric{{Name: "latency", Spread: 10}}}, []judge.Series{latency}, time.Hour)
		if err != nil || chain.Together.Verdict == judge.Fail {
			t.Fatalf("%s: %v %s: %s", name, err, chain.Together.Verdict, chain.Why)
		}
		interval := chain.Intervals[test.hour]
		if test.doubt != "" {
			// What grew before may have done it, hours after a change; it depends on the noise.
			if shift := interval.Metrics[0].Tests[0]; interval.Verdict != judge.Fail && (interval.Verdict != judge.Inconclusive || shift.Doubt != test.doubt) {
				t.Errorf("%s: %s, %q: %s", name, interval.Verdict, shift.Doubt, shift.Why)
			}
			continue
		}
		if said := fmt.Sprintf("interval %d of 8", test.hour+1); chain.Verdict != judge.Fail || !strings.Contains(chain.Why, said) {
			t.Errorf("%s: %s: %s", name, chain.Verdict, chain.Why)
		}
	}
}

// TestTimeOfDayIsNoHarm, nor hides any, where both sides share it.
func TestTimeOfDayIsNoHarm(t *testing.T) {
	random := noise(7)
	day := func(more float64) func(int) float64 {
		return func(minute int) float64 {
			return 100 + 80*math.Sin(float64(minute)/1440*2*math.Pi) + more + 8*random.NormFloat64()
		}
	}
	settings := judge.Settings{Metrics: []judge.Metric{{Name: "latency", Worse: judge.Higher}}}
	for more, want := range map[float64]judge.Verdict{0: judge.Pass, 50: judge.Fail} {
		data := judge.Series{Metric: "latency", Control: drawn(monday, 720, day(0)), Experiment: drawn(monday, 720, day(more))}
		if result := judged(t, settings, data); result.Verdict != want {
			t.Errorf("with %g more: %s: %s", more, result.Verdict, result.Why)
		}
	}
}

// TestManyLooks: bounded values and rates have tests of their own.
func TestManyLooks(t *testing.T) {
	random := noise(8)
	data := []judge.Series{
		{Metric: "share", Control: drawn(monday, 400, func(int) float64 { return random.Float64() * 0.4 }), Experiment: drawn(monday, 400, func(int) float64 { return 0.5 + random.Float64()*0.4 })},
		{Metric: "errors", Control: counts(random, monday, 60, 100, 0.01), Experiment: counts(random, monday, 60, 100, 0.05)},
		{Metric: "noisy", Control: drawn(monday, 400, normal(random, 100, 10)), Experiment: drawn(monday, 400, normal(random, 130, 10))},
	}
	result := judged(t, judge.Settings{Look: 9, Metrics: []judge.Metric{
		{Name: "share", Range: &judge.Range{Low: 0, High: 1}}, {Name: "errors"}, {Name: "noisy", Noise: 10},
	}}, data...)
	for i, method := range []string{"Waudby-Smith", "mixture sequential", "normal mixture"} {
		if m := result.Metrics[i]; m.Verdict != judge.Fail || !strings.Contains(m.Tests[0].Method, method) {
			t.Errorf("%s: %s by %s: %s", m.Name, m.Verdict, m.Tests[0].Method, m.Why)
		}
	}
	outside := judged(t, judge.Settings{Look: 1, Metrics: []judge.Metric{{Name: "share", Range: &judge.Range{Low: 0, High: 0.8}}}}, data[0])
	if outside.Verdict != judge.Inconclusive || !strings.Contains(outside.Why, "out of the range from 0 to 0.8") {
		t.Errorf("%s: %s", outside.Verdict, outside.Why)
	}
	// What one look shows is less at the ninth.
	checkClose(t, "p", float64(judged(t, judge.Settings{Look: 9}, judge.Series{Metric: "a", Control: without(data[2].Control[:6]), Experiment: without(data[2].Experiment[:6])}).Metrics[0].Tests[0].P),
		90*float64(judged(t, judge.Settings{}, judge.Series{Metric: "a", Control: without(data[2].Control[:6]), Experiment: without(data[2].Experiment[:6])}).Metrics[0].Tests[0].P), 1e-3)
}

// TestWrongSettings are told, with what to do.
func TestWrongSettings(t *testing.T) {
	metric := func(m judge.Metric) judge.Settings {
		m.Name = "a"
		return judge.Settings{Metrics: []judge.Metric{m}}
	}
	half := 0.5
	for says, settings := range map[string]judge.Settings{
		"alpha is 0.7":           {Alpha: 0.7},
		"alpha is NaN":           {Alpha: math.NaN()},
		"pass is 101":            {Pass: 101},
		"correct is":             {Correct: "none"},
		"look is -1":             {Look: -1},
		"is there twice":         {Metrics: []judge.Metric{{Name: "a"}, {Name: "a"}}},
		"its name":               {Metrics: []judge.Metric{{}}},
		`group "b" has no`:       {Groups: map[string]float64{"b": 1}, Metrics: []judge.Metric{{Name: "a"}}},
		`group "" has the`:       {Groups: map[string]float64{"": -1}, Metrics: []judge.Metric{{Name: "a"}}},
		"the kind":               metric(judge.Metric{Kind: "rates"}),
		"worse is":               metric(judge.Metric{Worse: "up"}),
		"no_data is":             metric(judge.Metric{NoData: "ok"}),
		"tolerated than":         metric(judge.Metric{Tolerance: &judge.Band{Relative: 0.5}, Matters: &judge.Band{Relative: 0.1}}),
		"cannot fall by 150%":    metric(judge.Metric{Kind: judge.Events, Worse: judge.Lower, Matters: &judge.Band{Relative: 1.5}}),
		"spread is 0.5":          metric(judge.Metric{Spread: 0.5}),
		"weight is -1":           metric(judge.Metric{Weight: -1}),
		"broken is 2":            metric(judge.Metric{Broken: new(2.0)}),
		"least is -3":            metric(judge.Metric{Least: -3}),
		"its range is":           metric(judge.Metric{Range: &judge.Range{Low: 2, High: 1}}),
		"noise is":               metric(judge.Metric{Noise: -1}),
		"a range and a noise":    metric(judge.Metric{Noise: 1, Range: &judge.Range{High: 1}}),
		"critical and a":         metric(judge.Metric{Critical: true, Shadow: true}),
		"its limit is none":      metric(judge.Metric{Limit: &judge.Limit{}}),
		"its limit is no number": metric(judge.Metric{Limit: &judge.Limit{Below: new(math.NaN())}}),
		"allows 3 of 3":          metric(judge.Metric{Limit: &judge.Limit{Below: &half, Allow: 3, Of: 3}}),
	} {
		_, err := judge.Judge(settings, nil)
		known, ok := err.(*fault.Error)
		if !ok || known.Kind != fault.Invalid || known.Hint == "" || !strings.Contains(known.Message, says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	for says, data := range map[string][]judge.Series{
		"two series": {{Metric: "a"}, {Metric: "a"}},
		"1000001":    {{Metric: "a", Control: make([]judge.Sample, judge.MaxSamples+1)}},
		"1001":       make([]judge.Series, judge.MaxMetrics+1),
		"cannot be":  {{Metric: "a", Control: []judge.Sample{{At: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)}}}},
	} {
		if says == "1001" {
			for i := range data {
				data[i].Metric = strings.Repeat("a", i%200+1) + strings.Repeat("b", i/200)
			}
		}
		if _, err := judge.Judge(judge.Settings{}, data); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	for says, length := range map[string]time.Duration{"no length": 0, "480 intervals": time.Second} {
		data := []judge.Series{{Metric: "a", Experiment: drawn(monday, 481, func(int) float64 { return 1 })}}
		if _, err := judge.Chain(judge.Settings{}, data, length); err == nil || says == "no length" && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if _, err := judge.Chain(judge.Settings{}, []judge.Series{{Metric: "a", Control: make([]judge.Sample, 1)}}, time.Hour); err == nil || !strings.Contains(err.Error(), "without a time") {
		t.Errorf("%v", err)
	}
}

func TestBands(t *testing.T) {
	for text, want := range map[string]judge.Band{
		"5%": {Relative: 0.05}, "3": {Absolute: 3}, "5% + 3": {Relative: 0.05, Absolute: 3}, "0": {}, "1e-3": {Absolute: 0.001}, " 7 %": {Relative: 0.07},
	} {
		var band, again judge.Band
		if err := band.UnmarshalText([]byte(text)); err != nil || math.Abs(band.Relative-want.Relative) > 1e-12 || band.Absolute != want.Absolute {
			t.Errorf("%s: %+v %v", text, band, err)
		}
		written, _ := band.MarshalText()
		if err := again.UnmarshalText(written); err != nil || again != band {
			t.Errorf("%s is written %s: %+v %v", text, written, again, err)
		}
	}
	for _, text := range []string{"", "five", "-1", "5% 3", "NaN", "Inf", "+", "1e999"} {
		if err := new(judge.Band).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a band", text)
		}
	}
}
