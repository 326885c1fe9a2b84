package judge

import (
	"sort"
	"time"
)

// samples of a block, and blocks, that are compared within themselves, about.
const (
	perBlock  = 4
	maxBlocks = 200
)

// pairOf puts two sides together. Where both were sampled at the same time, what
// moves both, such as the time of day, is taken off: values are compared within
// blocks of time, aligned by their middles (Hodges and Lehmann 1962), of which aligned
// tells. Where their times are known, and neighbours are alike, all counts for less.
func pairOf(control, experiment side) (p pair, aligned bool) {
	p = plainPair(control.values, experiment.values)
	if !control.timed() || !experiment.timed() {
		return p, false
	}
	if together(control, experiment) {
		most := min(len(control.values), len(experiment.values)) / perBlock
		if b := blocksOf(control, experiment, min(most, maxBlocks)); b.count > 1 {
			aligned = p.align(b)
		}
	}
	p.inflation = inflation(p.control, p.experiment)
	return p, aligned
}

// together: both sides were sampled at the same time, for the most of it.
func together(control, experiment side) bool {
	if !control.timed() || !experiment.timed() {
		return false
	}
	cBegan, cEnded := control.times[0], control.times[len(control.times)-1]
	eBegan, eEnded := experiment.times[0], experiment.times[len(experiment.times)-1]
	both := earlier(cEnded, eEnded).Sub(later(cBegan, eBegan))
	all := later(cEnded, eEnded).Sub(earlier(cBegan, eBegan))
	return all > 0 && both > all/2
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
	of    [2][]int
	count int
}

// blocksOf divides samples into so many blocks at most, of about as many samples
// each; those of one time are in one.
func blocksOf(control, experiment side, most int) blocks {
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
		b.of[side] = make([]int, len(s))
		for i, at := range s {
			b.of[side][i] = sort.Search(len(ends), func(k int) bool { return ends[k].After(at) })
		}
	}
	return b
}

// align takes off each block what lies in the middle of its two medians, and puts
// all at the control's median. Blocks of one side alone are compared with nothing;
// where they hold the most, all is left as it was.
func (p *pair) align(b blocks) bool {
	inBlock := [2][][]float64{make([][]float64, b.count), make([][]float64, b.count)}
	for side, values := range [][]float64{p.control, p.experiment} {
		for i, v := range values {
			block := b.of[side][i]
			inBlock[side][block] = append(inBlock[side][block], v)
		}
	}
	at := median(p.control)
	middles := make([]float64, b.count)
	for k := range middles {
		middles[k] = median(inBlock[0][k])/2 + median(inBlock[1][k])/2
	}
	take := func(values []float64, of []int, side int) (kept []float64, keptOf []int) {
		for i, v := range values {
			if len(inBlock[1-side][of[i]]) > 0 {
				kept = append(kept, clamp(v-middles[of[i]]+at))
				keptOf = append(keptOf, of[i])
			}
		}
		return kept, keptOf
	}
	control, controlOf := take(p.control, b.of[0], 0)
	experiment, experimentOf := take(p.experiment, b.of[1], 1)
	if 2*len(control) < len(p.control) || 2*len(experiment) < len(p.experiment) {
		return false
	}
	*p = pair{control: control, experiment: experiment, controlBlock: controlOf, experimentBlock: experimentOf, blocks: b.count, inflation: 1}
	return true
}
