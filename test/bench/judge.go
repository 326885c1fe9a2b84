package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"lehr.dev/internal/ground/judge"
)

// Trials of each kind of data, and samples of each side: an hour, one a minute.
const (
	judgeTrials  = 400
	judgeSamples = 60
)

// truth is a kind of data: what a side's sample is at a minute, without harm and
// with it. Values are about 100; counts are of so many requests.
type truth struct {
	name string
	// draw a value: of which side, at which minute, with harm.
	draw func(r *rand.Rand, experiment bool, minute float64, harm bool) float64
	// of requests; 0: it is no count.
	of float64
	// apart: the control is of the hour before.
	apart bool
}

// more is what harm does to a level.
func more(experiment, harm bool) float64 {
	if experiment && harm {
		return 1.35
	}
	return 1
}

// season of a day, at a minute of it.
func season(minute float64) float64 { return 1 + 0.5*math.Sin((minute+300)/1440*2*math.Pi) }

var truths = []truth{
	{name: "normal", draw: func(r *rand.Rand, experiment bool, _ float64, harm bool) float64 {
		return 100*more(experiment, harm) + 15*r.NormFloat64()
	}},
	{name: "lognormal_latency", draw: func(r *rand.Rand, experiment bool, _ float64, harm bool) float64 {
		return 100 * more(experiment, harm) * math.Exp(0.4*r.NormFloat64())
	}},
	{name: "heavy_tail", draw: func(r *rand.Rand, experiment bool, _ float64, harm bool) float64 {
		return 80 * more(experiment, harm) * math.Pow(r.Float64(), -1/1.8)
	}},
	{name: "wider", draw: func(r *rand.Rand, experiment bool, _ float64, harm bool) float64 {
		return 100 + 10*math.Pow(more(experiment, harm), 4)*r.NormFloat64()
	}},
	{name: "sparse_errors", of: 200, draw: func(r *rand.Rand, experiment bool, _ float64, harm bool) (errors float64) {
		rate := 0.001 * math.Pow(more(experiment, harm), 4)
		for range 200 {
			if r.Float64() < rate {
				errors++
			}
		}
		return errors
	}},
	{name: "drift", draw: func(r *rand.Rand, experiment bool, minute float64, harm bool) float64 {
		// What drifts up for both is no harm; a leak of one is.
		leak := 0.0
		if experiment && harm {
			leak = minute
		}
		return 100 + minute/2 + leak + 15*r.NormFloat64()
	}},
	{name: "daily_season", draw: func(r *rand.Rand, experiment bool, minute float64, harm bool) float64 {
		return 100*season(minute*12)*more(experiment, harm) + 15*r.NormFloat64()
	}},
	{name: "daily_season_before_after", apart: true, draw: func(r *rand.Rand, experiment bool, minute float64, harm bool) float64 {
		return 100*season(minute)*more(experiment, harm) + 10*r.NormFloat64()
	}},
	{name: "restart_spike", draw: func(r *rand.Rand, experiment bool, minute float64, harm bool) float64 {
		if experiment && minute >= 20 && minute < 22 {
			return 2000
		}
		return 100*more(experiment, harm) + 15*r.NormFloat64()
	}},
}

// measureJudge counts, for data of known truth, how often each way to judge finds
// harm where there is none, and where there is: Lehr's by its defaults for what is
// worse when higher; a fixed threshold, a quarter above the level that is known from
// before, on the mean; and plain Mann-Whitney with the defaults of Kayenta.
func measureJudge() error {
	for _, kind := range truths {
		for _, harm := range []bool{false, true} {
			found, unsure, threshold, plain := 0.0, 0.0, 0.0, 0.0
			for seed := range judgeTrials {
				series := kind.series(rand.New(rand.NewPCG(uint64(seed), 46)), harm)
				result, err := judge.Judge(judge.Settings{Metrics: []judge.Metric{{Name: kind.name, Worse: judge.Higher}}}, []judge.Series{series})
				if err != nil {
					return err
				}
				switch result.Verdict {
				case judge.Fail:
					found++
				case judge.Inconclusive:
					unsure++
				}
				control, experiment := ratesOf(series.Control), ratesOf(series.Experiment)
				if average(experiment) > 1.25*kind.level() {
					threshold++
				}
				if asKayenta(control, experiment) {
					plain++
				}
			}
			what := map[bool]string{false: "_false_positives", true: "_detected"}[harm]
			print("judge_"+kind.name+what, found/judgeTrials, "share")
			print("judge_"+kind.name+what+"_inconclusive", unsure/judgeTrials, "share")
			print("judge_"+kind.name+what+"_by_threshold", threshold/judgeTrials, "share")
			print("judge_"+kind.name+what+"_by_plain_mann_whitney", plain/judgeTrials, "share")
		}
	}
	return measureJudgeSpeed()
}

func (k *truth) series(r *rand.Rand, harm bool) judge.Series {
	series := judge.Series{Metric: k.name}
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	draw := func(experiment bool, minute int) judge.Sample {
		s := judge.Sample{At: start.Add(time.Duration(minute) * time.Minute), Value: judge.Number(k.draw(r, experiment, float64(minute), harm))}
		if k.of > 0 {
			s.Of = new(judge.Number(k.of))
		}
		return s
	}
	for minute := range judgeSamples {
		before := minute
		if k.apart {
			before -= judgeSamples
		}
		series.Control = append(series.Control, draw(false, before))
		series.Experiment = append(series.Experiment, draw(true, minute))
	}
	return series
}

// level that is known from before: of a long time without harm.
func (k *truth) level() float64 {
	r := rand.New(rand.NewPCG(1, 1))
	sum := 0.0
	const long = 10_000
	for i := range long {
		sum += k.draw(r, false, float64(i%judgeSamples), false) / long
	}
	if k.of > 0 {
		sum /= k.of
	}
	return sum
}

func ratesOf(samples []judge.Sample) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		if values[i] = float64(s.Value); s.Of != nil {
			values[i] /= float64(*s.Of)
		}
	}
	return values
}

func average(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}

// asKayenta is its classifier with its defaults, for an increase: the interval of
// the shift at 98% lies above a quarter of the estimate, and the mean grew.
func asKayenta(control, experiment []float64) bool {
	if slices.Equal(slices.Sorted(slices.Values(control)), slices.Sorted(slices.Values(experiment))) {
		return false
	}
	shift := judge.Shift(control, experiment, 0.98)
	ratio := average(experiment) / average(control)
	return shift.Low > 0.25*math.Abs(shift.Estimate) && !(ratio < 1)
}

// measureJudgeSpeed judges the most samples that are taken, of one metric.
func measureJudgeSpeed() error {
	r := rand.New(rand.NewPCG(1, 2))
	series := judge.Series{Metric: "many"}
	for range judge.MaxSamples / 2 {
		series.Control = append(series.Control, judge.Sample{Value: judge.Number(r.NormFloat64())})
		series.Experiment = append(series.Experiment, judge.Sample{Value: judge.Number(r.NormFloat64())})
	}
	start := time.Now()
	if _, err := judge.Judge(judge.Settings{}, []judge.Series{series}); err != nil {
		return err
	}
	machine.figure("judge_a_million_samples", time.Since(start).Seconds(), "s", judge.MaxSamples, byComputing)
	return nil
}
