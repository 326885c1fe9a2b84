package judge

import (
	"math"
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

// pOfShares compares how large a share of each side is high, if both change as often as was seen of
// them together, at a bound: a side that changed seldom shows little of its own likeness. Each sample
// is worth (1-r)/(1+r) independent ones, for the correlation r of neighbours: of a share h that is high,
// 1 - r is the share of steps that change over 2·h·(1-h).
func (s states) pOfShares(control, experiment []float64, sign, borne float64) float64 {
	changes := float64(s.changes) - cautiousChanges*math.Sqrt(float64(s.changes))
	n, m := float64(len(control)), float64(len(experiment))
	all := mean(slices.Concat(control, experiment))
	high := (all - s.low) / (s.high - s.low)
	unlike := min(1, changes/float64(s.steps)/(2*high*(1-high)))
	worth := unlike / (2 - unlike)
	w := welch{
		difference: sign * (mean(experiment) - mean(control)),
		se:         math.Sqrt((all - s.low) * (s.high - all) * (1/n + 1/m) / worth),
		degrees:    worth*(n+m) - 2,
	}
	return max(ordersOf(worth*n, worth*m), w.p(borne))
}

// cautiousChanges is how many standard errors below their number the changes are taken to be. It was
// chosen, as leastEffective was, by the grid of docs/design/judge-calibration.md.
const cautiousChanges = 0.6

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
