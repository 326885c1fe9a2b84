package judge_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/judge"
)

// strange numbers are where arithmetic goes wrong.
var strange = []float64{0, math.Copysign(0, -1), 1, 1, 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e308, -1e308, math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-300, 1 << 53}

func samples(kinds *rapid.Generator[float64], most int) *rapid.Generator[[]judge.Sample] {
	return rapid.Custom(func(t *rapid.T) []judge.Sample {
		timed, of := rapid.Bool().Draw(t, "timed"), rapid.IntRange(0, 3).Draw(t, "of")
		var list []judge.Sample
		for i, v := range rapid.SliceOfN(kinds, 0, most).Draw(t, "values") {
			s := judge.Sample{Value: judge.Number(v)}
			if timed {
				s.At = monday.Add(time.Duration(i) * time.Minute)
			}
			if of == 0 {
				s.Of = new(judge.Number(rapid.SampledFrom(strange).Draw(t, "trials")))
			}
			list = append(list, s)
		}
		return list
	})
}

// TestAnythingIsJudged: whatever the data, there is a verdict with a reason, whose
// probabilities are some, and which can be written and made again.
func TestAnythingIsJudged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.OneOf(rapid.SampledFrom(strange), rapid.Float64(), rapid.Float64Range(0, 5))
		data := []judge.Series{{Metric: "a", Control: samples(kinds, 60).Draw(t, "control"), Experiment: samples(kinds, 60).Draw(t, "experiment")}}
		settings := judge.Settings{
			Look: rapid.IntRange(0, 2).Draw(t, "look"), Correct: rapid.SampledFrom([]judge.Correction{judge.FamilyWise, judge.FalseDiscovery}).Draw(t, "correct"),
			Metrics: []judge.Metric{{
				Name: "a", Least: rapid.IntRange(1, 3).Draw(t, "least"), Broken: new(rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "broken")),
				Worse: rapid.SampledFrom([]judge.Direction{"", judge.Higher, judge.Lower, judge.Either}).Draw(t, "worse"),
				Kind:  rapid.SampledFrom([]judge.Kind{"", judge.Values, judge.Events}).Draw(t, "kind"),
			}},
		}
		switch m := &settings.Metrics[0]; rapid.IntRange(0, 4).Draw(t, "more") {
		case 1:
			m.Range = &judge.Range{Low: -1, High: 10}
		case 2:
			m.Noise = 3
		case 3:
			m.Limit = &judge.Limit{Above: new(2.0), Below: new(-1.0), Allow: 1, Of: 5}
		case 4:
			m.Tolerance, m.Matters = &judge.Band{Absolute: 0.1}, &judge.Band{Relative: 0.1, Absolute: 0.2}
		}
		result, err := judge.Judge(settings, data)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(result)
		if err != nil || result.Why == "" || result.Metrics[0].Why == "" || result.Metrics[0].Verdict == "" {
			t.Fatalf("%v %s", err, text)
		}
		for _, test := range result.Metrics[0].Tests {
			if !(test.P >= 0 && test.P <= 1 && test.Adjusted >= 0 && test.Adjusted <= 1) || math.IsNaN(float64(test.Estimate)) || test.Why == "" {
				t.Fatalf("%s", text)
			}
		}
		again, err := judge.Judge(result.Settings, data)
		if repeated, _ := json.Marshal(again); err != nil || string(repeated) != string(text) {
			t.Fatalf("%v\n%s\n%s", err, text, repeated)
		}
		if chain, err := judge.Chain(settings, data, 20*time.Minute); err == nil && (chain.Verdict == "" || chain.Why == "") {
			t.Fatal("a chain has no verdict")
		}
	})
}

// TestMissingOrBrokenDataNeverPass (S11): where a side has no finite number, or too
// few, or too many of its samples are none.
func TestMissingOrBrokenDataNeverPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		good := drawn(monday, 20, normal(noise(1), 100, 10))
		bad := good
		switch broken := rapid.IntRange(0, 20).Draw(t, "broken"); {
		case rapid.Bool().Draw(t, "cut"):
			bad = good[:rapid.IntRange(0, 4).Draw(t, "left")]
		case broken > 2:
			bad = drawn(monday, 20, normal(noise(1), 100, 10))
			for i := range broken {
				bad[i].Value = judge.Number(rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}).Draw(t, "no number"))
			}
		default:
			t.Skip()
		}
		data := judge.Series{Metric: "a", Control: good, Experiment: bad}
		if rapid.Bool().Draw(t, "side") {
			data.Control, data.Experiment = bad, good
		}
		result, err := judge.Judge(judge.Settings{}, []judge.Series{data})
		if err != nil || result.Verdict != judge.Inconclusive {
			t.Fatalf("%v %s: %s", err, result.Verdict, result.Why)
		}
	})
}

// quarters have ties, and their differences no rounding, which breaks ties.
var quarters = rapid.SliceOfN(rapid.Map(rapid.OneOf(rapid.IntRange(-3, 3), rapid.IntRange(-4000, 4000)), func(i int) float64 { return float64(i) / 4 }), 1, 40)

// TestSymmetry: what is larger one way is smaller the other.
func TestSymmetry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := quarters.Draw(t, "a"), quarters.Draw(t, "b")
		one, other := judge.MannWhitney(a, b, 0), judge.MannWhitney(b, a, 0)
		if one.U+other.U != float64(len(a)*len(b)) || math.Abs(one.CLES+other.CLES-1) > 1e-12 || one.P+other.P < 1-1e-9 {
			t.Fatalf("%+v %+v", one, other)
		}
		shift, back := judge.Shift(a, b, 0.9), judge.Shift(b, a, 0.9)
		if math.Abs(shift.Estimate+back.Estimate) > 1e-9 || shift.Low > shift.Estimate || shift.High < shift.Estimate {
			t.Fatalf("%+v %+v", shift, back)
		}
		if !math.IsInf(shift.Low, 0) && (math.Abs(shift.Low+back.High) > 1e-9 || math.Abs(shift.High+back.Low) > 1e-9) {
			t.Fatalf("%+v %+v", shift, back)
		}
		if spread, back := judge.BrownForsythe(a, b), judge.BrownForsythe(b, a); math.Abs(spread.P-back.P) > 1e-9 {
			t.Fatalf("%+v %+v", spread, back)
		}
	})
}

// TestMoreShiftIsNeverLess: the larger the experiment, the larger what is told, and
// the smaller p.
func TestMoreShiftIsNeverLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		control, experiment := rapid.SliceOfN(rapid.Float64Range(-100, 100), 2, 40).Draw(t, "control"), rapid.SliceOfN(rapid.Float64Range(-100, 100), 2, 40).Draw(t, "experiment")
		more := rapid.Float64Range(0, 50).Draw(t, "more")
		moved := make([]float64, len(experiment))
		for i, v := range experiment {
			moved[i] = v + more
		}
		before, after := judge.MannWhitney(control, experiment, 0), judge.MannWhitney(control, moved, 0)
		shift, far := judge.Shift(control, experiment, 0.9), judge.Shift(control, moved, 0.9)
		if after.U < before.U || math.Abs(far.Estimate-shift.Estimate-more) > 1e-9 {
			t.Fatalf("%+v %+v", before, after)
		}
		// Ties change what chance gives, and small samples from exact to not; else it falls.
		tied := equalPairs(control, experiment) + equalPairs(control, moved)
		if tied == 0 && before.Exact == after.Exact && after.P > before.P+0.02 {
			t.Fatalf("%+v %+v", before, after)
		}
		// A tolerance is the same as so much less.
		if tolerant := judge.MannWhitney(control, experiment, more); tolerant.U > before.U {
			t.Fatalf("%+v %+v", before, tolerant)
		}
	})
}

// equalPairs counts values that are the same as another one's.
func equalPairs(control, experiment []float64) (pairs int) {
	seen := map[float64]int{}
	for _, v := range slices.Concat(control, experiment) {
		pairs += seen[v]
		seen[v]++
	}
	return pairs
}

// TestOrderDoesNotMatter, of samples or of series.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.Float64Range(0, 5)
		data := []judge.Series{
			{Metric: "a", Control: samples(kinds, 40).Draw(t, "control"), Experiment: samples(kinds, 40).Draw(t, "experiment")},
			{Metric: "b", Control: samples(kinds, 10).Draw(t, "control"), Experiment: samples(kinds, 10).Draw(t, "experiment")},
		}
		settings := judge.Settings{Metrics: []judge.Metric{{Name: "a"}, {Name: "b"}}}
		first, err := judge.Judge(settings, data)
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for _, s := range data {
			random.Shuffle(len(s.Control), func(i, j int) { s.Control[i], s.Control[j] = s.Control[j], s.Control[i] })
			random.Shuffle(len(s.Experiment), func(i, j int) { s.Experiment[i], s.Experiment[j] = s.Experiment[j], s.Experiment[i] })
		}
		data[0], data[1] = data[1], data[0]
		second, err := judge.Judge(settings, data)
		one, _ := json.Marshal(first)
		two, _ := json.Marshal(second)
		if err != nil || string(one) != string(two) {
			t.Fatalf("%v\n%s\n%s", err, one, two)
		}
	})
}

// TestScaleDoesNotMatter: in microseconds the verdict is that in milliseconds.
func TestScaleDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := noise(rapid.Uint64().Draw(t, "seed"))
		more := rapid.Float64Range(0.5, 2).Draw(t, "more")
		data := judge.Series{Metric: "a", Control: drawn(monday, 30, normal(random, 100, 10)), Experiment: drawn(monday, 30, normal(random, 100*more, 10))}
		one, err := judge.Judge(judge.Settings{}, []judge.Series{data})
		if err != nil {
			t.Fatal(err)
		}
		for _, side := range [][]judge.Sample{data.Control, data.Experiment} {
			for i := range side {
				side[i].Value *= 1024
			}
		}
		if other, err := judge.Judge(judge.Settings{}, []judge.Series{data}); err != nil || other.Verdict != one.Verdict {
			t.Fatalf("%v %s %s", err, one.Why, other.Why)
		}
	})
}
