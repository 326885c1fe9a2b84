package judge

import (
	"math"
	"slices"
	"sort"
	"sync"
	"time"
)

// together: both sides were sampled at the same time, for the most of it.
func isConcurrent(control, experiment side) bool {
	if !control.timed() || !experiment.timed() {
		return false
	}
	cBegan, cEnded := control.times[0], control.times[len(control.times)-1]
	eBegan, eEnded := experiment.times[0], experiment.times[len(experiment.times)-1]
	overlap := earlier(cEnded, eEnded).Sub(later(cBegan, eBegan))
	all := later(cEnded, eEnded).Sub(earlier(cBegan, eBegan))
	return all > 0 && overlap > all/2
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// blocks of time: of each side, the block of each sample.
type blocks struct {
	bySide [2][]int
	count  int
}

// blocksOf both sides that are as short as can be while most samples of each side have some
// of the other in theirs: at best one of the shorter side, and as many of the other as there
// are for each. It is not enough where most have none.
func blocksOf(control, experiment side) (b blocks, enough bool) {
	fewer := min(len(control.times), len(experiment.times))
	for per := 1; per <= 8 && fewer/per > 1; per *= 2 {
		b = divided(control, experiment, fewer/per)
		if wanted := 1 - 0.1*float64(per); b.shared() >= max(wanted, 0.5) {
			return b, true
		}
	}
	return b, false
}

// shared is the share of samples that have some of the other side in their block, of the side
// where it is less.
func (b blocks) shared() float64 {
	there := [2][]bool{make([]bool, b.count), make([]bool, b.count)}
	for side, of := range b.bySide {
		for _, k := range of {
			there[side][k] = true
		}
	}
	least := 1.0
	for side, of := range b.bySide {
		both := 0
		for _, k := range of {
			if there[1-side][k] {
				both++
			}
		}
		least = min(least, float64(both)/float64(len(of)))
	}
	return least
}

// divided are samples in so many blocks at most, of about as many samples each; those of one
// time are in one.
func divided(control, experiment side, most int) blocks {
	times := append(append(make([]time.Time, 0, len(control.times)+len(experiment.times)), control.times...), experiment.times...)
	sort.Slice(times, func(i, j int) bool { return times[i].Before(times[j]) })
	b := blocks{count: 1}
	var ends []time.Time // the first time of each block but the first
	for i := 1; i < most; i++ {
		at := times[i*len(times)/most]
		if at.After(times[0]) && (len(ends) == 0 || at.After(ends[len(ends)-1])) {
			ends = append(ends, at)
		}
	}
	b.count = len(ends) + 1
	for side, s := range [][]time.Time{control.times, experiment.times} {
		b.bySide[side] = make([]int, len(s))
		for i, at := range s {
			b.bySide[side][i] = sort.Search(len(ends), func(k int) bool { return ends[k].After(at) })
		}
	}
	return b
}

// alongside compares samples of the same time within blocks of it, so that what moves both
// sides, such as the time of day, is taken off.
type alongside struct {
	// inBlock are the values of each side, by blocks that have some of both, in their order.
	inBlock [2][][]float64
	equal   bool
	// means are the differences of the blocks' means.
	means []float64
	// inflated and blocks of the differences.
	inflated, count float64
	// exchanged is the variance of their mean if within each block each exchange of sides were
	// as likely, where most values are equal: the few of a side may all be one by chance, and
	// then seem to have none.
	exchanged float64
	// assumed compares too few blocks to see how alike they are; it is reckoned once.
	assumed func() (w welch, ok bool)
}

func newAlongside(control, experiment side, b blocks, equal bool) alongside {
	all := [2][][]float64{make([][]float64, b.count), make([][]float64, b.count)}
	for side, values := range [][]float64{control.values, experiment.values} {
		for i, v := range values {
			all[side][b.bySide[side][i]] = append(all[side][b.bySide[side][i]], v)
		}
	}
	a := alongside{equal: equal}
	for k := range b.count {
		if len(all[0][k]) > 0 && len(all[1][k]) > 0 {
			a.inBlock[0] = append(a.inBlock[0], all[0][k])
			a.inBlock[1] = append(a.inBlock[1], all[1][k])
			a.means = append(a.means, clamp(mean(all[1][k])-mean(all[0][k])))
			if n, m := float64(len(all[0][k])), float64(len(all[1][k])); equal {
				a.exchanged += squares(slices.Concat(all[0][k], all[1][k])) / (n + m - 1) * (1/n + 1/m)
			}
		}
	}
	a.count = float64(len(a.means))
	a.exchanged /= a.count * a.count
	// Ranks of what stays long on one side show less of it than values do.
	a.inflated = max(inflation(0, a.means), inflation(0, a.scores(1, 0)))
	a.assumed = sync.OnceValues(a.assume)
	return a
}

// aligned are the values with the borne taken off the experiment's, and off each block the
// median of all that is in it then: which side they are of does not matter for what is taken
// off, so that within a block each exchange of sides is as likely (Hodges and Lehmann 1962).
func (a alongside) aligned(sign, borne float64) (p pair) {
	p = pair{blocks: len(a.means), inflation: 1}
	for k := range a.means {
		both := make([]float64, 0, len(a.inBlock[0][k])+len(a.inBlock[1][k]))
		for _, v := range a.inBlock[0][k] {
			both = append(both, sign*v)
		}
		for _, v := range a.inBlock[1][k] {
			both = append(both, clamp(sign*v-borne))
		}
		middle := median(both)
		for i, v := range both {
			if i < len(a.inBlock[0][k]) {
				p.control, p.controlBlock = append(p.control, clamp(v-middle)), append(p.controlBlock, k)
			} else {
				p.experiment, p.experimentBlock = append(p.experiment, clamp(v-middle)), append(p.experimentBlock, k)
			}
		}
	}
	return p
}

// scores of the blocks, in the order of time: the ranks of the experiment's values, less what
// they would sum to if each exchange within the block were as likely.
func (a alongside) scores(sign, borne float64) []float64 {
	p := a.aligned(sign, borne)
	c, e := rankedTogether(p.control, p.experiment)
	scores, all, sizes := make([]float64, p.blocks), make([]float64, p.blocks), make([][2]float64, p.blocks)
	for i, k := range p.controlBlock {
		all[k] += c[i]
		sizes[k][0]++
	}
	for i, k := range p.experimentBlock {
		scores[k] += e[i]
		all[k] += e[i]
		sizes[k][1]++
	}
	for k := range scores {
		scores[k] -= all[k] * sizes[k][1] / (sizes[k][0] + sizes[k][1])
	}
	return scores
}

func (a alongside) effective() float64 { return a.count / a.inflated }

// few: it is not seen how alike neighbours are.
func (a alongside) few() bool { return a.effective() < leastEffective }

// p is of Student's test of the blocks' scores (Conover and Iman 1981), which asks nothing of
// how values within a block depend on each other, with as many degrees of freedom as there
// are independent blocks.
func (a alongside) p(sign, borne float64) float64 {
	if a.effective() >= leastSure {
		return a.alike(sign, borne)
	}
	control, experiment := a.sides()
	p := 1.0
	if !a.few() {
		p = a.alike(sign, borne)
	} else if w, ok := a.assumed(); ok {
		w.difference *= sign
		p = max(ordersOf(float64(len(control)), float64(len(experiment))), w.p(borne))
	}
	return eitherOf(a.few(), p, beyondSwing(control, experiment, sign, borne))
}

// alike is p of blocks that show how alike they are.
func (a alongside) alike(sign, borne float64) float64 {
	directed := multiply(a.means, sign)
	switch {
	case a.equal:
		return max(a.student(a.scores(sign, 0), 0, 0), a.student(directed, borne, a.exchanged))
	case a.effective() < leastRanked && squares(directed) > 0:
		se := math.Sqrt(squares(directed) / (a.count * (a.count - 1)) * a.inflated)
		return max(signsAlone(a.effective()+2.5), studentUpper((mean(directed)-borne)/se, a.effective()-1))
	}
	return a.student(a.scores(sign, borne), 0, 0)
}

// sides are all values of both.
func (a alongside) sides() (control, experiment []float64) {
	return slices.Concat(a.inBlock[0]...), slices.Concat(a.inBlock[1]...)
}

func (a alongside) assume() (w welch, ok bool) {
	if a.equal && a.exchanged > 0 {
		return welch{}, false
	}
	size := len(a.means)
	return assumed([][]float64{a.means}, [][]float64{sharing(size, 1)}, fromMeans(size))
}

func (a alongside) assumedInterval(at, alpha float64) Interval {
	bounds := Interval{at, math.Inf(-1), math.Inf(1)}
	if w, ok := a.assumed(); ok {
		bounds = w.interval(alpha).around(at)
	}
	return bounds
}

// student is the p of the mean of blocks' values, of which the variance is at least as much.
func (a alongside) student(values []float64, borne, least float64) float64 {
	excess := mean(values) - borne
	if excess <= 0 {
		return 1
	}
	se := math.Sqrt(max(least, squares(values)/(a.count*(a.count-1))) * a.inflated)
	if !(se > 0) {
		return signsAlone(a.effective())
	}
	return max(signsAlone(a.effective()), studentUpper(excess/se, a.effective()-1))
}

// interval is that of Hodges and Lehmann, of all differences between aligned values: of
// blocks of one sample of each side these are the averages of Walsh (1949). Its width is that
// of the scores.
func (a alongside) interval(alpha float64) Interval {
	bounds := a.alikeInterval(alpha)
	if a.effective() < leastSure {
		control, experiment := a.sides()
		return bounds.beyondSwings(control, experiment, alpha)
	}
	return bounds
}

func (a alongside) alikeInterval(alpha float64) Interval {
	if a.equal {
		middle := mean(a.means)
		if a.few() {
			return a.assumedInterval(clamp(middle), alpha)
		}
		wide := studentQuantile(alpha/2, a.effective()-1) * math.Sqrt(max(a.exchanged, squares(a.means)/(a.count*(a.count-1)))*a.inflated)
		return Interval{clamp(middle), clamp(middle - wide), clamp(middle + wide)}
	}
	first := a.aligned(1, 0)
	at := newDifferences(first.control, first.experiment).middle()
	p := a.aligned(1, at)
	d := newDifferences(p.control, p.experiment)
	at = clamp(at + d.middle())
	if a.few() {
		return a.assumedInterval(at, alpha)
	}
	scores := a.scores(1, at)
	pairs := len(p.control) * len(p.experiment)
	wide := studentQuantile(alpha/2, a.effective()-1) * math.Sqrt(squares(scores)*a.count/(a.count-1)*a.inflated)
	r := p.rank(0)
	k := int(math.Floor(min(r.mean, float64(pairs)-r.mean) - wide))
	if !(squares(scores) > 0) {
		k = (pairs - 1) / 2
	}
	if k < 0 || wide > float64(pairs) { // So few have no interval by their ranks.
		return a.assumedInterval(at, alpha)
	}
	shifted := at - d.middle()
	return Interval{at, min(at, clamp(shifted+d.at(k))), max(at, clamp(shifted+d.at(pairs-1-k)))}
}

func (a alongside) found(bounds Interval, alpha, level, borne, matters float64) float64 {
	if w, ok := a.assumed(); ok && a.few() {
		return foundBy(bounds, alpha, level, borne, matters, w.degrees, 1, 0)
	}
	return foundBy(bounds, alpha, level, borne, matters, a.effective()-1, 1, 0)
}
