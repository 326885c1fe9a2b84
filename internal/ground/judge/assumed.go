package judge

import (
	"math"
	"slices"
)

const (
	// mostLikeness is the correlation of neighbours that is assumed where too few samples are
	// there to see it: as much as is claimed to be held (docs/use/judge.md).
	mostLikeness = 0.95
	// mostAssumed samples of a side are compared so at most: more of them show how alike they
	// are, and the matrices stay small.
	mostAssumed = 100
	// mostSwing is how many times as large a slow change may make a level: where it is not seen
	// how alike neighbours are, what is more than that is shown as of independent samples. It was
	// chosen, as mostLikeness was, by the grid of docs/design/judge-calibration.md.
	mostSwing = 5
	// rateSwing is that of a rate of events.
	rateSwing = 3
)

// leastSure independent samples show what is overwhelming by their ranks, however far it lies;
// of fewer it is shown as of few samples.
const leastSure = 20

// leastRanked independent blocks show by their ranks that sides lie apart: the ranks of fewer
// say no more than so many signs. What they scatter by says somewhat more: how alike they are is
// known too little for a very small p.
const leastRanked = 10

// eitherOf is the p of two tests of one claim, of which one may show it (Bonferroni): the second is that
// of what no slow change does. Few samples have hardly another.
func eitherOf(few bool, p, beyond float64) float64 {
	share := 0.1
	if few {
		share = 0.5
	}
	return min(1, p/(1-share), beyond/share)
}

// beyondSwing is the p of two tests, which both have to show it: of the ranks, if a slow change made
// the level of a side mostSwing times that of the other; and of the logarithms, if it did so many
// times as they scatter within the sides. It asks for values that have a level: none is negative.
func beyondSwing(control, experiment []float64, sign, borne float64) float64 {
	if slices.Min(control) < 0 || slices.Min(experiment) < 0 {
		return 1
	}
	factor := mostSwing * sign
	if sign < 0 {
		factor = sign / mostSwing
	}
	ranks := plainPair(multiply(control, factor), multiply(experiment, sign)).rankSum(borne).P
	if ranks >= 0.5 {
		return ranks // It shows nothing, whatever the logarithms say, which take longer.
	}
	return max(ranks, beyondScatter(control, experiment, sign))
}

// beyondScatter is the p of how far the middles of the logarithms are apart, by how much they scatter
// within each side, of a process of first order: values whose logarithms move slowly, and far, are
// larger by more than mostSwing in many cases. It is 0 of more than mostAssumed samples, which
// show it otherwise.
func beyondScatter(control, experiment []float64, sign float64) float64 {
	if max(len(control), len(experiment)) > mostAssumed {
		return 0
	}
	n, m := len(control), len(experiment)
	both := logarithms(slices.Concat(control, experiment))
	w, ok := assumed([][]float64{both[:n], both[n:]}, [][]float64{sharing(n, -1), sharing(m, 1)}, fromMeans(n, m))
	if !ok {
		return 1
	}
	w.difference *= sign
	return w.p(0)
}

// logarithms of values that are not negative; half of the least of the others is added where one is 0.
func logarithms(values []float64) []float64 {
	start, least := 0.0, math.Inf(1)
	for _, v := range values {
		if v > 0 {
			least = min(least, v)
		}
	}
	if slices.Min(values) == 0 && !math.IsInf(least, 1) {
		start = least / 2
	}
	logs := make([]float64, len(values))
	for i, v := range values {
		if v+start > 0 {
			logs[i] = math.Log(clamp(v + start))
		}
	}
	return logs
}

// multiply values by a factor.
func multiply(values []float64, factor float64) []float64 {
	larger := make([]float64, len(values))
	for i, v := range values {
		larger[i] = clamp(factor * v)
	}
	return larger
}

// beyondSwings narrows an interval of a shift by what is more than a slow change could do.
func (bounds Interval) beyondSwings(control, experiment []float64, alpha float64) Interval {
	if slices.Min(control) < 0 || slices.Min(experiment) < 0 {
		return bounds
	}
	shiftBy := func(factor float64) Interval {
		return plainPair(control, multiply(experiment, factor)).shift(alpha)
	}
	shown := func(sign float64) bool { return beyondScatter(control, experiment, sign) <= alpha/2 }
	if low := shiftBy(1.0 / mostSwing).Low; low > 0 && shown(1) {
		bounds.Low = max(bounds.Low, min(bounds.Estimate, low))
	}
	if high := shiftBy(mostSwing).High; high < 0 && shown(-1) {
		bounds.High = min(bounds.High, max(bounds.Estimate, high))
	}
	return bounds
}

// assumed compares by one linear function of the values, such as the difference of two means,
// under the assumption that each series is of first order with mostLikeness: generalized least
// squares with a known correlation (Aitken 1935), with the degrees of freedom of Satterthwaite
// (1946). What is beyond what even that could do is shown, however few samples there are. It is
// not for values of which most are equal, for these say little of how much they scatter.
func assumed(values, weights [][]float64, rest func(column []float64) []float64) (w welch, ok bool) {
	var all, weighing []float64
	var series []int
	for i := range values {
		if len(values[i]) > mostAssumed {
			return welch{}, false
		}
		all, weighing = append(all, values[i]...), append(weighing, weights[i]...)
		for range values[i] {
			series = append(series, i)
		}
	}
	n := len(all)
	variance, trace, squared := 0.0, 0.0, 0.0
	alike := make([]float64, n)
	for apart := range alike {
		alike[apart] = math.Pow(mostLikeness, float64(apart))
	}
	// Rests of the columns of the correlation matrix: what is expected of the rests' squares.
	rests := make([][]float64, n)
	for i := range n {
		column := make([]float64, n)
		for k := range n {
			if series[i] == series[k] {
				column[k] = alike[max(i-k, k-i)]
			}
			variance += weighing[i] * column[k] * weighing[k]
		}
		rests[i] = rest(column)
		trace += rests[i][i]
	}
	for i := range n {
		for k := range n {
			squared += rests[i][k] * rests[k][i]
		}
		w.difference += weighing[i] * all[i]
	}
	remaining := 0.0
	for _, r := range rest(all) {
		remaining += r * r
	}
	switch {
	case !(trace > 0) || !(squared > 0) || !(remaining < math.MaxFloat64) || !(math.Abs(w.difference) < math.MaxFloat64):
		return welch{}, false
	case remaining == 0: // Each side is constant: what differs did not come slowly.
		return w, true
	}
	w.se, w.degrees = math.Sqrt(remaining/trace*variance), trace*trace/squared
	return w, true
}

// fromMeans takes the mean of each series off.
func fromMeans(sizes ...int) func(column []float64) []float64 {
	return func(column []float64) (rests []float64) {
		start := 0
		for _, size := range sizes {
			center := mean(column[start : start+size])
			for _, v := range column[start : start+size] {
				rests = append(rests, v-center)
			}
			start += size
		}
		return rests
	}
}

// sharing are equal weights that sum to whole.
func sharing(size int, whole float64) []float64 {
	weights := make([]float64, size)
	for i := range weights {
		weights[i] = whole / float64(size)
	}
	return weights
}
