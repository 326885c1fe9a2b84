package judge

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// Dispersion is what the test of Brown and Forsythe says of two samples or more.
type Dispersion struct {
	// F has one degree of freedom less than there are samples, and as many as there
	// are values less samples.
	F float64
	// P is the probability of as much if all were spread alike.
	P float64
	// t is of two samples: positive when the second is spread more.
	t float64
	// within are the degrees of freedom within samples.
	within float64
}

// BrownForsythe tests whether samples are spread alike around their medians, by
// an analysis of variance of the distances from them (Levene 1960; Brown and Forsythe
// 1974). Where they lie does not matter. Of the robust tests it is the one that is
// wrong no more often than it says for skewed and heavy-tailed samples, as latencies
// are: that of Fligner and Killeen is, twice to four times as often. What is not
// finite is left out; with fewer than two samples that are not empty, or nothing
// spread, P is 1.
func BrownForsythe(samples ...[]float64) Dispersion {
	var means, sizes []float64
	all, groups, between, within, largest := 0.0, 0.0, 0.0, 0.0, 0.0
	distances := make([][]float64, len(samples))
	for i, sample := range samples {
		kept := finite(sample)
		center := median(kept)
		for _, v := range kept {
			distances[i] = append(distances[i], clamp(math.Abs(v-center)))
			largest = max(largest, distances[i][len(distances[i])-1])
		}
	}
	if !(largest > 0) {
		return Dispersion{P: 1}
	}
	grand := 0.0
	for _, d := range distances {
		slices.Sort(d)
		for i := range d {
			d[i] /= largest // So that no square overflows.
		}
		n, m := float64(len(d)), mean(d)
		means, sizes = append(means, m), append(sizes, n)
		all += n
		grand += n * m
		if n > 0 {
			groups++
		}
		for _, v := range d {
			within += (v - m) * (v - m)
		}
	}
	for i, m := range means {
		between += sizes[i] * (m - grand/all) * (m - grand/all)
	}
	said := Dispersion{P: 1, within: all - groups}
	if groups < 2 || said.within < 1 || !(between > 1e-18) {
		return said
	}
	said.F = clamp(between / (groups - 1) / (within / said.within))
	said.P = mathext.RegIncBeta(said.within/2, (groups-1)/2, said.within/(said.within+(groups-1)*said.F))
	if len(samples) == 2 {
		said.t = math.Copysign(math.Sqrt(said.F), means[1]-means[0])
	}
	return said
}

// more is the probability of as much, or more, in the second of two samples, of
// which the variance is larger by inflation.
func (d Dispersion) more(inflation float64) float64 {
	if d.t == 0 {
		return 1
	}
	tail := mathext.RegIncBeta(d.within/2, 0.5, d.within/(d.within+d.t*d.t/inflation)) / 2
	if d.t < 0 {
		return 1 - tail
	}
	return tail
}

// spreadOf is the mean distance from the median, in the unit of the values.
func spreadOf(values []float64) float64 {
	center, sum := median(values), 0.0
	for _, v := range values {
		sum += math.Abs(v-center) / float64(len(values))
	}
	return sum
}

// median of finite values; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]/2 + sorted[len(sorted)/2]/2
}

// mean of finite values, summed in their order, from the least on, so that equal
// ones have no other; 0 of none.
func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	sum := 0.0
	for _, v := range sorted {
		sum += v/float64(len(values)) - sorted[0]/float64(len(values))
	}
	return sorted[0] + sum
}
