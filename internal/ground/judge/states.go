package judge

import (
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// states are samples of which each is one of two values, such as whether something is up. How
// often they change says how alike neighbours are: a side that has one value only says nothing of it.
type states struct {
	low, high float64
	// changes from one sample to the next, within each side, of so many steps.
	changes, steps int
}

// statesOf both sides; false: they have one value, or more than two.
func statesOf(control, experiment side) (s states, ok bool) {
	if len(control.values) == 0 || len(experiment.values) == 0 {
		return s, false
	}
	s.low = min(slices.Min(control.values), slices.Min(experiment.values))
	s.high = max(slices.Max(control.values), slices.Max(experiment.values))
	for _, values := range [][]float64{control.values, experiment.values} {
		for i, v := range values {
			if v != s.low && v != s.high {
				return s, false
			}
			if i > 0 {
				s.steps++
				if v != values[i-1] {
					s.changes++
				}
			}
		}
	}
	return s, s.low < s.high
}

// few: too few changes are seen to say from them how alike neighbours are.
func (s states) few() bool { return s.changes < leastEffective }

// p of so few changes, or fewer, if it changed as seldom as mostLikeness has it: then each step
// changes with the probability (1-r)/2. What is so steady is not steady by chance.
func (s states) p() float64 { return seldomBy(s.changes, s.steps) }

// seldomBy is p of so many changes in so many steps. Of sides that change never, half at most would
// differ.
func seldomBy(changes, steps int) float64 {
	p := distuv.Binomial{N: float64(steps), P: (1 - mostLikeness) / 2}.CDF(float64(changes))
	if changes == 0 {
		return p / 2
	}
	return p
}

// wanted is how many samples of each side show that, if no more changes are among them.
func (s states) wanted(level float64) int {
	samples := 2
	for samples < mostWanted && seldomBy(s.changes, 2*(samples-1)) > level {
		samples++
	}
	return samples
}

// mostWanted samples are asked for at most.
const mostWanted = 100_000

// strays is the interval of a difference of both sides, if what was seen may be a change that it
// makes by itself.
func (s states) strays(bounds Interval) Interval {
	width := clamp(s.high - s.low)
	return Interval{bounds.Estimate, min(bounds.Low, -width), max(bounds.High, width)}
}

func changesSeen(n int) string {
	if n == 0 {
		return "no changes"
	}
	return count(n, "change")
}
