package judge

import (
	"math"
	"slices"
)

// comparison of where two sides lie. There is one for samples of unknown times (untimed),
// of the same time (alongside), and of one time after the other (successive).
type comparison interface {
	// p of what was seen, or more, if values of the experiment times sign were larger by no
	// more than borne, which is not negative.
	p(sign, borne float64) float64
	// interval of the shift at 1 - alpha.
	interval(alpha float64) Interval
	// effective is how many independent samples there are of the side, or pairs, with the
	// fewest.
	effective() float64
	// found is which shift would have been found at a level of p with the probability power,
	// by the interval, which is at 1 - alpha.
	found(in Interval, alpha, level, borne, matters float64) float64
}

// power with which a harm would have been found that is told of.
const power = 0.9

// compared says how two sides are compared, by when they were sampled.
func compared(control, experiment side, at float64) comparison {
	equal := mostlyEqual(control.values, experiment.values)
	switch {
	case !control.timed() || !experiment.timed():
		return untimed{plainPair(control.values, experiment.values), equal}
	case isConcurrent(control, experiment):
		if blocks, enough := blocksOf(control, experiment); enough {
			return newAlongside(control, experiment, blocks, equal)
		}
	}
	return newSuccessive(control, experiment, at, equal)
}

// mostlyEqual: so many values are one that the median difference is 0.
func mostlyEqual(control, experiment []float64) bool {
	common := median(control)
	for _, values := range [][]float64{control, experiment} {
		equal := 0
		for _, v := range values {
			if v == common {
				equal++
			}
		}
		if 2*equal < len(values) {
			return false
		}
	}
	return true
}

// untimed samples are taken to be independent.
type untimed struct {
	pair
	equal bool
}

func (u untimed) effective() float64 { return math.Inf(1) }

func (u untimed) directed(sign float64) pair {
	if sign < 0 {
		return u.negated()
	}
	return u.pair
}

// p where most values are equal is the larger of two: that of the ranks, with nothing taken
// off, since that would break the ties, all one way; and that of the means, with it.
func (u untimed) p(sign, borne float64) float64 {
	d := u.directed(sign)
	if !u.equal {
		return d.rankSum(borne).P
	}
	return max(d.rankSum(0).P, newWelch(d.control, d.experiment, 1).p(borne))
}

func (u untimed) interval(alpha float64) Interval {
	if u.equal {
		return newWelch(u.control, u.experiment, 1).interval(alpha)
	}
	return u.shift(alpha)
}

func (u untimed) found(bounds Interval, alpha, level, borne, matters float64) float64 {
	return foundBy(bounds, alpha, level, borne, matters, math.Inf(1), 1, 0)
}

// foundBy the standard error that an interval has: the shift that with the probability power
// is estimated to be as much as matters, and shown to be more than is borne and allowed, by a
// test whose error is larger than the interval's.
func foundBy(bounds Interval, alpha, level, borne, matters, degrees, larger, allowed float64) float64 {
	se := (bounds.High - bounds.Low) / 2 / studentQuantile(alpha/2, degrees)
	z := studentQuantile(1-power, math.Inf(1))
	return max(matters+z*se, borne+allowed+(studentQuantile(level, degrees)+z)*se*larger)
}

// welch compares means (Welch 1947), of values of which the variance is larger by inflation.
// The error is at least that of a variance which both sides share: the few values of a side
// may all be one by chance, and then seem to have none.
type welch struct{ difference, se, degrees float64 }

func newWelch(control, experiment []float64, inflation float64) welch {
	w := welch{difference: mean(experiment) - mean(control)}
	variance, spent := 0.0, 0.0
	for _, values := range [][]float64{control, experiment} {
		n := float64(len(values))
		part := inflation * squares(values) / (n * max(1, n-1))
		variance += part
		spent += part * part / max(n/inflation-1, 0.1)
	}
	w.degrees = variance * variance / spent
	n, m := float64(len(control)), float64(len(experiment))
	shared := inflation * (squares(control) + squares(experiment)) / max(1, n+m-2) * (1/n + 1/m)
	w.se = math.Sqrt(max(variance, shared))
	return w
}

// squares of the distances from the mean, summed.
func squares(values []float64) (sum float64) {
	center := mean(values)
	for _, v := range values {
		sum += (v - center) * (v - center)
	}
	return sum
}

func (w welch) p(borne float64) float64 {
	switch {
	case w.difference <= borne:
		return 1
	case !(w.se > 0):
		return 0
	}
	return studentUpper((w.difference-borne)/w.se, w.degrees)
}

func (w welch) interval(alpha float64) Interval {
	if !(w.se > 0) {
		return Interval{w.difference, w.difference, w.difference}
	}
	wide := studentQuantile(alpha/2, w.degrees) * w.se
	return Interval{clamp(w.difference), clamp(w.difference - wide), clamp(w.difference + wide)}
}

// around another estimate that is within it, such as one that outliers do not move.
func (bounds Interval) around(at float64) Interval {
	return Interval{at, min(at, bounds.Low), max(at, bounds.High)}
}

// rankedTogether are the ranks of both, from their middle.
func rankedTogether(control, experiment []float64) (c, e []float64) {
	ranks := ranksOf(slices.Concat(control, experiment))
	middle := float64(len(ranks)+1) / 2
	for i := range ranks {
		ranks[i] -= middle
	}
	return ranks[:len(control)], ranks[len(control):]
}

// signsAlone is the least that p can be: that so many independent signs are all one.
func signsAlone(effective float64) float64 { return math.Exp2(-effective) }
