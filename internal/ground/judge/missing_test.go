package judge_test

import (
	"testing"

	"pgregory.net/rapid"

	"lehr.dev/internal/ground/judge"
)

// TestMissingDataNeverMakesAnotherFail (S11): to take all data of one metric away never
// turns a judgement into a failure, nor into a pass.
func TestMissingDataNeverMakesAnotherFail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := noise(uint64(rapid.IntRange(0, 10_000).Draw(t, "seed")))
		settings := judge.Settings{
			Correct: rapid.SampledFrom([]judge.Correction{judge.FamilyWise, judge.FalseDiscovery}).Draw(t, "correct"),
			Pass:    rapid.SampledFrom([]float64{100, 60}).Draw(t, "pass"), Marginal: rapid.SampledFrom([]float64{0, 30}).Draw(t, "marginal"),
		}
		var data []judge.Series
		for _, name := range []string{"a", "b", "c"} {
			more := rapid.SampledFrom([]float64{100, 112, 125, 140}).Draw(t, name)
			data = append(data, judge.Series{Metric: name, Control: drawn(monday, 20, normal(r, 100, 20)), Experiment: drawn(monday, 20, normal(r, more, 20))})
		}
		whole, err := judge.Judge(settings, data)
		if err != nil {
			t.Fatal(err)
		}
		data[0].Control, data[0].Experiment = nil, nil
		less, err := judge.Judge(settings, data)
		if err != nil {
			t.Fatal(err)
		}
		if less.Verdict != judge.Inconclusive && less.Verdict != whole.Verdict {
			t.Fatalf("%s became %s: %s", whole.Verdict, less.Verdict, less.Why)
		}
	})
}

// TestMarginal: between the score to fail and that to pass it is inconclusive.
func TestMarginal(t *testing.T) {
	r := noise(1)
	data := []judge.Series{
		{Metric: "bad", Control: drawn(monday, 40, normal(r, 100, 5)), Experiment: drawn(monday, 40, normal(r, 200, 5))},
		{Metric: "good", Control: drawn(monday, 40, normal(r, 100, 5)), Experiment: drawn(monday, 40, normal(r, 100, 5))},
	}
	for _, test := range []struct {
		pass, marginal float64
		critical       bool
		want           judge.Verdict
	}{
		{100, 0, false, judge.Fail}, {100, 51, false, judge.Fail}, {100, 50, false, judge.Inconclusive},
		{50, 0, false, judge.Pass}, {50, 10, false, judge.Pass}, {100, 50, true, judge.Fail}, {90, 10, false, judge.Inconclusive},
	} {
		result, err := judge.Judge(judge.Settings{Pass: test.pass, Marginal: test.marginal, Metrics: []judge.Metric{{Name: "bad", Critical: test.critical}}}, data)
		if err != nil || result.Verdict != test.want {
			t.Errorf("%+v: %v %s: %s", test, err, result.Verdict, result.Why)
		}
	}
	for _, marginal := range []float64{-1, 91} {
		if _, err := judge.Judge(judge.Settings{Pass: 90, Marginal: marginal}, data); err == nil {
			t.Errorf("marginal %v is taken", marginal)
		}
	}
}
