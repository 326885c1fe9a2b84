package judge

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/mathext/prng"
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
	// freedom are the degrees of freedom within samples.
	freedom float64
}

// BrownForsythe tests whether samples are spread alike around their medians, by
// an analysis of variance of the distances from them (Levene 1960; Brown and Forsythe
// 1974). Where they lie does not matter. Of the robust tests it is the one that is
// wrong no more often than it says for skewed and heavy-tailed samples, as latencies
// are: that of Fligner and Killeen is, twice to four times as often. What is not
// finite is left out; with fewer than two samples that are not empty, or nothing
// spread, P is 1.
func BrownForsythe(samples ...[]float64) Dispersion {
	distances := make([][]float64, len(samples))
	for i, sample := range samples {
		distances[i] = fromMedian(finite(sample))
	}
	return dispersion(distances)
}

// fromMedian are the distances of values from their median.
func fromMedian(values []float64) []float64 {
	center := median(values)
	distances := make([]float64, len(values))
	for i, v := range values {
		distances[i] = clamp(math.Abs(v - center))
	}
	return distances
}

// neighbourhood is how many values are neighbours in time, at least.
const neighbourhood = 16

// fromNeighbours are the distances of values from the median of those of their own side that
// are near them in time: what moves slowly is no scatter, and the other side hides none. Both
// sides have neighbourhoods of about as many values, which are as far apart: times of the side
// where they are closer are left out. Relative are the shares that they are of these medians:
// what scatters in proportion to its level scatters more while that is high. It is nil where
// values have no level.
func fromNeighbours(control, experiment side) (distances, relative [][]float64) {
	apart := max(apartOf(control), apartOf(experiment))
	sides := []side{thinned(control, apart), thinned(experiment, apart)}
	fewer := min(len(sides[0].values), len(sides[1].values))
	size := float64(fewer) / float64(max(1, fewer/neighbourhood))
	distances, relative = make([][]float64, 2), make([][]float64, 2)
	haveLevels := true
	for i, s := range sides {
		parts := max(1, int(math.Round(float64(len(s.values))/size)))
		for part := range parts {
			near := s.values[part*len(s.values)/parts : (part+1)*len(s.values)/parts]
			around := fromMedian(near)
			distances[i] = append(distances[i], around...)
			haveLevels = haveLevels && slices.Min(near) >= 0 && median(near) > 0
			for _, d := range around {
				relative[i] = append(relative[i], clamp(d/median(near)))
			}
		}
	}
	if !haveLevels {
		relative = nil
	}
	return distances, relative
}

// apartOf is the middle of the seconds between two times of a side.
func apartOf(s side) float64 {
	var seconds []float64
	for i := range s.times {
		if i > 0 && !s.times[i].Equal(s.times[i-1]) {
			seconds = append(seconds, s.times[i].Sub(s.times[i-1]).Seconds())
		}
	}
	return median(seconds)
}

// thinned leaves out times that follow another by much less than so many seconds.
func thinned(s side, apart float64) (sparse side) {
	for i, at := range s.times {
		if i == 0 || len(sparse.times) > 0 && (at.Equal(sparse.times[len(sparse.times)-1]) || at.Sub(sparse.times[len(sparse.times)-1]).Seconds() >= 0.75*apart) {
			sparse.values, sparse.times = append(sparse.values, s.values[i]), append(sparse.times, at)
		}
	}
	return sparse
}

// dispersion is the analysis of variance of distances.
func dispersion(samples [][]float64) Dispersion {
	var means, sizes []float64
	all, groups, betweenSquares, withinSquares, largest := 0.0, 0.0, 0.0, 0.0, 0.0
	distances := make([][]float64, len(samples))
	for i, sample := range samples {
		distances[i] = slices.Clone(sample)
		if len(sample) > 0 {
			largest = max(largest, slices.Max(sample))
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
			withinSquares += (v - m) * (v - m)
		}
	}
	for i, m := range means {
		betweenSquares += sizes[i] * (m - grand/all) * (m - grand/all)
	}
	result := Dispersion{P: 1, freedom: all - groups}
	if groups < 2 || result.freedom < 1 || !(betweenSquares > 1e-18) {
		return result
	}
	result.F = clamp(betweenSquares / (groups - 1) / (withinSquares / result.freedom))
	result.P = mathext.RegIncBeta(result.freedom/2, (groups-1)/2, result.freedom/(result.freedom+(groups-1)*result.F))
	if len(samples) == 2 {
		result.t = math.Copysign(math.Sqrt(result.F), means[1]-means[0])
	}
	return result
}

// more is the probability of as much, or more, in the second of two samples, of
// which the variance is larger by inflation.
func (d Dispersion) more(inflation float64) float64 {
	if d.t == 0 {
		return 1
	}
	return studentUpper(d.t/math.Sqrt(inflation), d.freedom/inflation)
}

// spread asks whether values scatter more: around their neighbours in time, where that is
// known, else around their median. It finds harm, and where as much as matters is only seen,
// and not shown, it keeps from a pass; it rules nothing out: to show that spreads are alike
// takes many more samples.
func (j judgement) spread(control, experiment side) Test {
	m := &j.metric
	distances, inflated, center := [][]float64{fromMedian(control.values), fromMedian(experiment.values)}, 1.0, "their median"
	var relative [][]float64
	if control.timed() && experiment.timed() {
		distances, relative = fromNeighbours(control, experiment)
		inflated, center = inflation(0, distances...), "their neighbours"
	}
	controlSpread, experimentSpread := mean(distances[0]), mean(distances[1])
	ratio := 1.0
	if experimentSpread > 0 {
		ratio = experimentSpread / controlSpread
	}
	fewest := float64(min(len(distances[0]), len(distances[1])))
	t := Test{
		Kind: "spread", Method: "Brown-Forsythe", P: 1, Estimate: figure(ratio), Low: 0, High: figure(math.Inf(1)),
		Tolerated: 1, Matters: figure(m.Spread), harmful: ratio >= m.Spread && ratio > 1,
	}
	few := control.timed() && experiment.timed() && fewest/inflated < leastEffective
	more := func(distances [][]float64) float64 {
		if few && elsewhere(control.values, experiment.values) {
			return 1
		} else if few {
			return dispersion([][]float64{multiply(distances[0], mostSwing), distances[1]}).more(1)
		}
		return dispersion(distances).more(inflated)
	}
	p := more(distances)
	if hasFewer(distances[0], distances[1]) {
		t.Method = "Brown-Forsythe and permutations"
		if p < j.Alpha { // Else it finds nothing, whatever permutations give.
			p = max(p, testByPermutation(distances[0], distances[1]))
		}
	}
	if relative != nil {
		p = max(p, more(relative))
		t.harmful = t.harmful && mean(relative[1]) >= m.Spread*mean(relative[0])
	}
	t.P = figure(min(1, j.spending()*p))
	if few {
		t.Doubt = DoubtDependent
	} else {
		t.wouldFind = func(level float64) float64 {
			return widerFound(distances, inflated, level/j.spending(), m.Spread)
		}
	}
	t.explain = func(t Test) string {
		text := fmt.Sprintf("values are %s from %s on average, after %s: %s times as far", withUnit(figure(experimentSpread), m.Unit), center, withUnit(figure(controlSpread), m.Unit), number(ratio))
		switch {
		case t.Verdict == Fail:
			return text + fmt.Sprintf(", and %s times matters; p is %s", number(m.Spread), number(float64(t.Adjusted)))
		case t.Verdict == Inconclusive:
			return text + fmt.Sprintf(", and %s times matters; it may be chance (p is %s)", number(m.Spread), number(float64(t.Adjusted)))
		}
		return text + fmt.Sprintf(", and %s times as far is not shown", number(m.Spread)) + t.wouldHave(number(float64(t.Detectable))+" times as far")
	}
	return t
}

const (
	// permutations is how many times testByPermutation draws at most.
	permutations = 10_000
	// exceedances is how many means as large end it earlier.
	exceedances = 20
)

// hasFewer reports whether the second sample has fewer values than the first, so that one
// outlier of it weighs more than one of the others.
func hasFewer(first, second []float64) bool { return len(second) < len(first) }

// testByPermutation returns the probability that as many distances as the second sample has,
// drawn of both samples without replacement, have a mean at least as large as the second
// sample's: a permutation test that ends early (Besag and Clifford, "Sequential Monte Carlo
// p-values", Biometrika 78, 1991). Of few values with heavy tails the t-test of Brown and
// Forsythe finds harm too often, since one outlier makes their mean; this test does not. It
// returns 0 where no drawn mean is as large. Draws have a fixed seed and sides have an order of
// their own, so that the same samples have the same probability, in any order and unit.
func testByPermutation(first, second []float64) float64 {
	all := slices.Concat(first, second)
	largest := slices.Max(all)
	if !(largest > 0) {
		return 1
	}
	for i := range all {
		all[i] /= largest // So that no sum overflows.
	}
	n, m := len(all), len(second)
	least := floats.Sum(all[n-m:]) * (1 - 1e-12) // Sums in another order differ in their last bits.
	random := prng.NewSplitMix64(uint64(n)<<32 + uint64(m))
	reached := 0
	for draw := 1; draw <= permutations; draw++ {
		for i := range m {
			other := i + int(random.Uint64()%uint64(n-i))
			all[i], all[other] = all[other], all[i]
		}
		if floats.Sum(all[:m]) < least {
			continue
		}
		if reached++; reached == exceedances {
			return float64(exceedances) / float64(draw)
		}
	}
	return float64(reached) / permutations
}

// elsewhere: all of the experiment's values lie on one side of the control's middle. What moved
// there slowly may scatter more for that.
func elsewhere(control, experiment []float64) bool {
	middle := median(control)
	return slices.Min(experiment) > middle || slices.Max(experiment) < middle
}

// widerFound is how many times as far values must lie, to be found at a level of p with the
// probability power, if they scatter as the control's do.
func widerFound(distances [][]float64, inflated, level, matters float64) float64 {
	n, m := float64(len(distances[0])), float64(len(distances[1]))
	center := mean(distances[0])
	if !(center > 0) || n+m <= 2 {
		return math.Inf(1)
	}
	noise := inflated * squares(distances[0]) / max(1, n-1) / (center * center)
	degrees := (n + m - 2) / inflated
	z, quantile := studentQuantile(1-power, math.Inf(1)), studentQuantile(level, degrees)
	finds := func(ratio float64) bool {
		pooled := noise * (n + m*ratio*ratio) / (n + m) * (1/n + 1/m)
		own := noise * (1/n + ratio*ratio/m)
		return ratio-1 >= quantile*math.Sqrt(pooled)+z*math.Sqrt(own) && ratio-matters >= z*math.Sqrt(noise*ratio*ratio*(1/n+1/m))
	}
	low, high := max(1, matters), 2*max(1, matters)
	for ; !finds(high); high *= 2 {
		if high > 1e6 {
			return math.Inf(1)
		}
	}
	for range 40 {
		if middle := (low + high) / 2; finds(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// median of finite values; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := ascendingCopy(values)
	return sorted[(len(sorted)-1)/2]/2 + sorted[len(sorted)/2]/2
}

// mean of finite values, summed in their order, from the least on, so that equal
// ones have no other; 0 of none.
func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := ascendingCopy(values)
	sum := 0.0
	for _, v := range sorted {
		sum += v/float64(len(values)) - sorted[0]/float64(len(values))
	}
	return sorted[0] + sum
}

// ascendingCopy returns values from the least on, in a slice of their size: much of what a
// judgement computes is such copies.
func ascendingCopy(values []float64) []float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted
}
