package validation_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

// leaking is an hour of latencies about 100 ms with the time of day in them, on both
// sides; those of what changed leak so much a minute, from the change on.
func leaking(r *rand.Rand, leak float64) validation.Reading {
	draw := func(leak float64) func(time.Duration) float64 {
		return func(at time.Duration) float64 {
			return 100 + 30*math.Sin(at.Minutes()/40) + leak*at.Minutes() + 100*0.15*r.NormFloat64()
		}
	}
	return validation.Reading{
		Metric:     "latency",
		Control:    validation.Side{Samples: drawn(changed, changed.Add(65*time.Minute), 15*time.Second, draw(0))},
		Experiment: validation.Side{Samples: drawn(changed, changed.Add(65*time.Minute), 15*time.Second, draw(leak))},
	}
}

// found says at which of the looks it is bad; 0: at none.
func found(t *testing.T, s validation.Settings, reading validation.Reading) int {
	for look := 1; look <= 6; look++ {
		now := changed.Add(5*time.Minute + time.Duration(look)*10*time.Minute)
		read := validation.Reading{
			Metric:     reading.Metric,
			Control:    validation.Side{Samples: only(reading.Control.Samples, now)},
			Experiment: validation.Side{Samples: only(reading.Experiment.Samples, now)},
		}
		a, err := validation.Assess(s, validation.Change{Done: changed}, []validation.Reading{read}, now)
		if err != nil || a.Verdict == validation.Broken || a.Look != look {
			t.Fatalf("%v %+v", err, a)
		}
		if a.Verdict == validation.Bad {
			return look
		}
	}
	return 0
}

// TestASlowLeakIsFound that keeps below a limit which is not broken where there is none,
// and without one nothing is found more often than alpha, over all looks and intervals.
func TestASlowLeakIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("judges 600 times")
	}
	const trials, alpha = 150, 0.05
	statistical := validation.Settings{WarmUp: 5 * time.Minute, Interval: 10 * time.Minute, Intervals: 6, Metrics: []validation.Measure{measure("latency")}}
	statistical.Metrics[0].Compare = validation.Control
	limited := statistical
	limited.Metrics = []validation.Measure{{Judge: judge.Metric{Name: "latency", Limit: &judge.Limit{Above: new(200.0), Allow: 4}}, Compare: validation.None}}
	shares := map[string]float64{}
	for seed := range uint64(trials) {
		for name, s := range map[string]validation.Settings{"statistical": statistical, "limit": limited} {
			for harm, leak := range map[string]float64{"": 0, ", leaking": 0.6} {
				if found(t, s, leaking(noise(seed), leak)) > 0 {
					shares[name+harm] += 1.0 / trials
				}
			}
		}
	}
	t.Logf("%v", shares)
	if most := alpha + 4*math.Sqrt(alpha*(1-alpha)/trials); shares["statistical"] > most {
		t.Errorf("harm is found in %.3f where there is none", shares["statistical"])
	}
	if shares["statistical, leaking"] < 0.95 {
		t.Errorf("the leak is found in %.3f", shares["statistical, leaking"])
	}
	// Else there would be no need for the other.
	if shares["limit"] > 0.05 || shares["limit, leaking"] > 0.5 {
		t.Errorf("the limit finds %v", shares)
	}
}
