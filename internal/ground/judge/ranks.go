package judge

import (
	"cmp"
	"math"
	"slices"
)

// exactSide is the largest side of which the distribution of U is counted out.
const exactSide = 25

// RankSum is what the test of Mann and Whitney says of two samples.
type RankSum struct {
	// U counts the pairs in which the experiment's value is the larger one; equal
	// ones count half.
	U float64
	// P is the probability of such a U, or a larger one, if the experiment's values
	// were not larger than the control's by more than the tolerance.
	P float64
	// CLES is U over the number of pairs: the common language effect size (McGraw
	// and Wong 1992), from 0 to 1. Cliff's delta is 2·CLES - 1.
	CLES float64
	// Exact: P was counted out; else it is an approximation.
	Exact bool
}

// MannWhitney tests whether the experiment's values are larger than the control's
// by more than the tolerance, which is in their unit and is taken off the
// experiment's. Samples of at most 25 on each side are counted out, with ties too
// (Streitberg and Röhmel 1986); others take the normal approximation with corrections
// for ties and continuity (Mann and Whitney 1947; Lehmann 1975). What is not finite is
// left out; with an empty side P is 1.
//
// P alone never decides. With enough samples the smallest difference is
// significant, and with few the largest is not: P mixes how large a difference is
// with how much was looked at. So a judgement asks as well how large the shift is,
// and how large it may be.
func MannWhitney(control, experiment []float64, tolerance float64) RankSum {
	return plainPair(finite(control), finite(experiment)).rankSum(tolerance)
}

// Interval is an estimate and what it may be at a confidence, both in one unit.
type Interval struct{ Estimate, Low, High float64 }

// Shift estimates by how much the experiment's values are larger: the median of
// all differences between both, with the interval that belongs to the test of Mann
// and Whitney (Hodges and Lehmann 1963; Moses 1965). The confidence is between 0 and
// 1. An end that the samples are too few to give is infinite. It takes O((n+m)
// log(n+m)) time and O(n+m) memory: differences are counted, not kept.
func Shift(control, experiment []float64, confidence float64) Interval {
	p := plainPair(finite(control), finite(experiment))
	return p.shift(1 - confidence)
}

// pair is two samples that are ranked together.
type pair struct {
	control, experiment []float64
	// Of each value the block within which it is compared; nil: there is one.
	controlBlock, experimentBlock []int
	blocks                        int
	// inflation of the variance, from 1 on, and the degrees of freedom that are left:
	// neighbours in time are alike.
	inflation, degrees float64
}

func plainPair(control, experiment []float64) pair {
	return pair{control: control, experiment: experiment, blocks: 1, inflation: 1, degrees: math.Inf(1)}
}

// negated asks the same in the other direction.
func (p pair) negated() pair {
	p.control, p.experiment = negate(p.control), negate(p.experiment)
	return p
}

func negate(values []float64) []float64 {
	negated := make([]float64, len(values))
	for i, v := range values {
		negated[i] = -v
	}
	return negated
}

// ranked is what the ranks of both samples together give.
type ranked struct {
	u, mean, variance float64
	ties              bool
}

// rank ranks the control's values and the experiment's less the tolerance. Mean
// and variance of U are those of all exchanges within blocks (Hodges and Lehmann
// 1962); with one block they are those of Mann and Whitney with ties.
func (p pair) rank(tolerance float64) ranked {
	type value struct {
		v          float64
		block      int
		experiment bool
	}
	all := make([]value, 0, len(p.control)+len(p.experiment))
	for i, v := range p.control {
		all = append(all, value{v, blockOf(p.controlBlock, i), false})
	}
	for i, v := range p.experiment {
		all = append(all, value{v - tolerance, blockOf(p.experimentBlock, i), true})
	}
	slices.SortFunc(all, func(a, b value) int { return cmp.Compare(a.v, b.v) })
	type sums struct{ n, m, sum, squares float64 }
	blocks := make([]sums, p.blocks)
	middle := float64(len(all)+1) / 2
	r := ranked{}
	m := float64(len(p.experiment))
	for start := 0; start < len(all); {
		end := start + 1
		for end < len(all) && all[end].v == all[start].v {
			end++
		}
		r.ties = r.ties || end-start > 1
		// Ranks are taken from their middle, so that squares lose little.
		rank := float64(start+end+1)/2 - middle
		for _, v := range all[start:end] {
			b := &blocks[v.block]
			if v.experiment {
				b.m++
				r.u += rank
			} else {
				b.n++
			}
			b.sum += rank
			b.squares += rank * rank
		}
		start = end
	}
	for _, b := range blocks {
		if size := b.n + b.m; size > 0 {
			r.mean += b.m * b.sum / size
			if size > 1 {
				r.variance += b.n * b.m / (size * (size - 1)) * max(0, b.squares-b.sum*b.sum/size)
			}
		}
	}
	least := m*(m+1)/2 - m*middle
	r.u -= least
	r.mean -= least
	r.variance *= p.inflation
	return r
}

func blockOf(blocks []int, i int) int {
	if blocks == nil {
		return 0
	}
	return blocks[i]
}

// countable: the distribution of U can be counted out.
func (p pair) countable() bool {
	return p.blocks == 1 && p.inflation == 1 && len(p.control) <= exactSide && len(p.experiment) <= exactSide
}

func (p pair) rankSum(tolerance float64) RankSum {
	n, m := len(p.control), len(p.experiment)
	if n == 0 || m == 0 {
		return RankSum{P: 1, CLES: 0.5}
	}
	r := p.rank(tolerance)
	result := RankSum{U: r.u, P: 1, CLES: r.u / (float64(n) * float64(m))}
	switch {
	case p.countable() && !r.ties:
		result.Exact = true
		// U is symmetric: as likely at least u as at most the pairs less u.
		result.P = distribution(n, m)[n*m-int(math.Round(r.u))]
	case p.countable():
		result.Exact = true
		result.P = p.countedWithTies(tolerance)
	case r.variance > 0:
		result.P = upper((r.u - r.mean - 0.5) / math.Sqrt(r.variance))
	}
	return result
}

// upper is the probability that a standard normal variable is larger.
func upper(z float64) float64 { return 0.5 * math.Erfc(z/math.Sqrt2) }

// distribution returns, for each u, the probability that U is at most that, for
// samples of n and m without ties (the recurrence of Mann and Whitney 1947).
func distribution(n, m int) []float64 {
	// rows[j] is the distribution of U for i and j values; i grows.
	rows := make([][]float64, m+1)
	for j := range rows {
		rows[j] = make([]float64, n*m+1)
		rows[j][0] = 1
	}
	for i := 1; i <= n; i++ {
		for j := 1; j <= m; j++ {
			// The largest of all is the control's, or the experiment's and beats i.
			for u := range rows[j] {
				rows[j][u] *= float64(i) / float64(i+j)
				if u >= i {
					rows[j][u] += float64(j) / float64(i+j) * rows[j-1][u-i]
				}
			}
		}
	}
	sum := 0.0
	for u, p := range rows[m] {
		sum += p
		rows[m][u] = min(1, sum)
	}
	return rows[m]
}

// countedWithTies is the share of all ways to choose the experiment's values out of both
// sides whose ranks sum to as much, or more, by the shift algorithm (Streitberg and Röhmel
// 1986): twice the ranks are whole, also those of ties.
func (p pair) countedWithTies(tolerance float64) float64 {
	lessened := make([]float64, len(p.experiment))
	for i, v := range p.experiment {
		lessened[i] = v - tolerance
	}
	ranks := ranksOf(slices.Concat(p.control, lessened))
	m, observed := len(p.experiment), 0
	for _, rank := range ranks[len(p.control):] {
		observed += int(2 * rank)
	}
	// ways[k][s] is in how many ways k of the values so far sum to s.
	ways := make([][]float64, m+1)
	most := len(ranks) * (len(ranks) + 1)
	for k := range ways {
		ways[k] = make([]float64, most+1)
	}
	ways[0][0] = 1
	sum := 0
	for i, rank := range ranks {
		twice := int(2 * rank)
		for k := min(i, m-1); k >= 0; k-- {
			for s := range sum + 1 {
				ways[k+1][s+twice] += ways[k][s]
			}
		}
		sum += twice
	}
	all, asMuch := 0.0, 0.0
	for s, count := range ways[m] {
		all += count
		if s >= observed {
			asMuch += count
		}
	}
	return min(1, asMuch/all)
}

// shift is the estimate and its interval at 1 - alpha.
func (p pair) shift(alpha float64) Interval {
	n, m := len(p.control), len(p.experiment)
	if n == 0 || m == 0 {
		return Interval{0, math.Inf(-1), math.Inf(1)}
	}
	differences := newDifferences(p.control, p.experiment)
	pairs := n * m
	estimate := differences.middle()
	// The first difference within the interval, from 0 on.
	first := -1
	r := p.rank(estimate)
	if p.countable() && !p.rank(0).ties {
		for u, cumulative := range distribution(n, m) {
			if cumulative > alpha/2 {
				first = u - 1
				break
			}
		}
	} else if r.variance > 0 {
		wide := min(float64(pairs), studentQuantile(alpha/2, p.degrees)*math.Sqrt(r.variance))
		first = int(math.Floor(min(r.mean, float64(pairs)-r.mean) - wide - 0.5))
	} else if n > 1 && m > 1 {
		first = (pairs - 1) / 2 // All are equal.
	}
	if first < 0 {
		return Interval{estimate, math.Inf(-1), math.Inf(1)}
	}
	return Interval{estimate, differences.at(first), differences.at(pairs - 1 - first)}
}

// differences of two samples, by their order, without making them all.
type differences struct{ control, experiment []float64 }

func newDifferences(control, experiment []float64) differences {
	return differences{ascendingCopy(control), ascendingCopy(experiment)}
}

// middle is the median of all differences.
func (d differences) middle() float64 {
	pairs := len(d.control) * len(d.experiment)
	middle := d.at((pairs - 1) / 2)
	if pairs%2 == 0 {
		middle = middle/2 + d.at(pairs/2)/2
	}
	return middle
}

// at is the k-th smallest difference, from 0 on: the smallest number that more
// than k differences do not exceed, found among all numbers by halving.
func (d differences) at(k int) float64 {
	low, high := orderOf(math.Inf(-1)), orderOf(math.Inf(1))
	for low < high {
		middle := low + (high-low)/2
		if d.upTo(numberOf(middle)) > k {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return numberOf(low)
}

// upTo counts the differences that are at most a number.
func (d differences) upTo(most float64) (count int) {
	i := len(d.control) // Control's values from here on are large enough.
	for _, e := range slices.Backward(d.experiment) {
		for i > 0 && !(e-d.control[i-1] > most) {
			i--
		}
		count += len(d.control) - i
	}
	return count
}

// orderOf numbers all numbers in their order (IEEE 754), so that they can be halved.
func orderOf(f float64) uint64 {
	bits := math.Float64bits(f)
	if bits>>63 == 1 {
		return ^bits
	}
	return bits | 1<<63
}

func numberOf(order uint64) float64 {
	if order>>63 == 1 {
		return math.Float64frombits(order &^ (1 << 63))
	}
	return math.Float64frombits(^order)
}

// finite leaves out what is no finite number.
func finite(values []float64) []float64 {
	result := make([]float64, 0, len(values))
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			result = append(result, v)
		}
	}
	return result
}
