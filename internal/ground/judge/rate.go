package judge

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Count is how many events there were of how many trials, or in how much time.
type Count struct{ Events, Of float64 }

// rate of events; 0 of no trials.
func (c Count) rate() float64 {
	if c.Of > 0 {
		return clamp(c.Events / c.Of)
	}
	return 0
}

// countedOut is the most events of which the binomial distribution is taken as
// it is; of more the normal one is as good.
const countedOut = 1e6

// RateRatio tests whether the experiment's rate of events is more than ratio times
// the control's; P is the probability of as many events, or more, in the
// experiment if it were just that. Given how many there were on both sides, those
// of the experiment follow a binomial distribution, exactly (Przyborowski and
// Wilenski 1940). For errors among requests, where a rate is no more than 1, it errs
// on the safe side. Without trials on both sides, or for a ratio that is not
// positive, P is 1.
func RateRatio(control, experiment Count, ratio float64) (p float64) {
	share := experiment.Of * ratio / (experiment.Of*ratio + control.Of)
	if !(control.Of > 0) || !(share > 0) || !(share < 1) {
		return 1
	}
	return atLeast(experiment.Events, control.Events+experiment.Events, share)
}

// RatioInterval estimates the ratio of the experiment's rate to the control's, with
// the interval of Clopper and Pearson (1934) for the binomial share. Ends that the
// events are too few to give are 0 and infinite.
func RatioInterval(control, experiment Count, confidence float64) Interval {
	interval := Interval{math.Inf(1), 0, math.Inf(1)}
	if !(control.Of > 0) || !(experiment.Of > 0) || control.Events+experiment.Events == 0 {
		interval.Estimate = 1
		return interval
	}
	if control.Events > 0 {
		interval.Estimate = experiment.rate() / control.rate()
	}
	total, tail := control.Events+experiment.Events, (1-confidence)/2
	ratio := func(share float64) float64 { return share / (1 - share) * control.Of / experiment.Of }
	if experiment.Events > 0 {
		interval.Low = ratio(halve(func(share float64) bool { return atLeast(experiment.Events, total, share) < tail }))
	}
	if control.Events > 0 {
		interval.High = ratio(halve(func(share float64) bool { return atLeast(control.Events, total, 1-share) >= tail }))
	}
	return interval
}

// halve finds where in (0, 1) what holds below holds no more.
func halve(holds func(float64) bool) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		if middle := (low + high) / 2; holds(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// atLeast is the probability of at least so many of a total, each with a share.
// Events need not be whole: those that come in bursts count for less.
func atLeast(events, total, share float64) float64 {
	switch {
	case events <= 0:
		return 1
	case share <= 0:
		return 0
	case share >= 1:
		return 1
	case total > countedOut:
		return upper((events - 0.5 - total*share) / math.Sqrt(total*share*(1-share)))
	}
	return mathext.RegIncBeta(events, total-events+1, share)
}

// bursts is by how much the events of samples scatter more than by chance: the
// statistic of Pearson over its degrees of freedom, at least 1 (McCullagh and
// Nelder 1989, section 6.2). Each side is compared with its own rate.
func bursts(sides ...[]Count) float64 {
	sum, degrees := 0.0, 0.0
	for _, counts := range sides {
		rate := total(counts).rate()
		if rate == 0 {
			continue
		}
		degrees--
		for _, c := range counts {
			if expected := rate * c.Of; expected > 0 {
				deviation := c.Events - expected
				sum += deviation * deviation / expected
				degrees++
			}
		}
	}
	if degrees < 1 || sum <= degrees {
		return 1
	}
	return clamp(sum / degrees)
}

// scattering is how events come.
type scattering struct {
	// by is how many events count as one: they come in bursts, and neighbours are alike; apart
	// is that without the likeness.
	by, apart float64
	// effective is how many independent samples there are of the side with fewer; timed: when
	// they were sampled is known.
	effective float64
	timed     bool
	// alongside: both sides are of one time.
	alongside bool
	// successive has the rates, where one side is after the other; else nil.
	successive *successive
}

// wider scatters as much more as a quantile of Student is wider than the normal one: how much
// events scatter is only known from so many samples.
func (s scattering) wider(tail float64, fewest int) scattering {
	more := func(degrees float64) float64 {
		if !(degrees > 0) || math.IsInf(degrees, 1) {
			return 1
		}
		return math.Pow(studentQuantile(tail, degrees)/studentQuantile(tail, math.Inf(1)), 2)
	}
	s.by *= more(s.effective - 1)
	if s.timed {
		s.apart *= more(float64(fewest) - 1)
	}
	return s
}

// Beside a control, how alike bursts are is hidden by the chance of single events. Where they
// are seen to be so alike that muchAlike of them are worth one, they may be more so, and it
// takes leastOfAlike independent samples to tell.
const (
	muchAlike    = 4
	leastOfAlike = 12
)

// few: it is not seen how alike neighbours are.
func (s scattering) few() bool { return s.effective < float64(s.least()) }

// least is how many independent samples it takes to see that.
func (s scattering) least() int {
	if s.alongside && s.by > muchAlike*s.apart {
		return leastOfAlike
	}
	return leastEffective
}

// ratio of rates of two counts that are made of both sides', with what it may be: as their scatter
// gives it, or if that is narrower, as it would be if a slow change made a rate rateSwing times
// as large at most.
func (s scattering) ratio(control, experiment Count, confidence float64, counts func(c, e Count) (Count, Count)) Interval {
	ratioBy := func(by float64) Interval {
		c, e := counts(control.dividedBy(by), experiment.dividedBy(by))
		return RatioInterval(c, e, confidence)
	}
	loose := ratioBy(s.apart)
	in := Interval{loose.Estimate, 0, math.Inf(1)}
	if !s.few() {
		in = ratioBy(s.by)
	}
	if s.timed {
		in.Low, in.High = max(in.Low, loose.Low/rateSwing), min(in.High, loose.High*rateSwing)
	}
	return in
}

// scatterOf both sides. Where they are of the same time, what is shared is no scatter: given
// how many events both have in a block of time, those of the experiment are binomial.
func scatterOf(control, experiment side) scattering {
	if !control.timed() || !experiment.timed() {
		eventSize := bursts(control.counts, experiment.counts)
		return scattering{by: eventSize, apart: eventSize, effective: math.Inf(1)}
	}
	if isConcurrent(control, experiment) {
		if b, enough := blocksOf(control, experiment); enough {
			return scatterWithin(sumsOf(control, experiment, b))
		}
	}
	s := newSuccessive(ratesAt(control), ratesAt(experiment), total(control.counts).rate(), true)
	apart := bursts(control.counts, experiment.counts)
	rests := s.line(s.kept).rests
	s.inflated = likenessOf(1, rests[0], rests[1]).ofEvents(apart)
	return scattering{timed: true, by: apart * s.inflated, apart: apart, effective: s.effective(), successive: &s}
}

// ratesAt are the rates of a side at each time.
func ratesAt(s side) side {
	rates := side{}
	for start := 0; start < len(s.times); {
		end := start + 1
		for end < len(s.times) && s.times[end].Equal(s.times[start]) {
			end++
		}
		if sum := total(s.counts[start:end]); sum.Of > 0 || start == 0 {
			rates.values, rates.times = append(rates.values, sum.rate()), append(rates.times, s.times[start])
		}
		start = end
	}
	return rates
}

// sumsOf both sides in each block.
func sumsOf(control, experiment side, b blocks) [][2]Count {
	sums := make([][2]Count, b.count)
	for side, s := range [][]Count{control.counts, experiment.counts} {
		for i, c := range s {
			sum := &sums[b.bySide[side][i]][side]
			sum.Events += c.Events
			sum.Of += c.Of
		}
	}
	return sums
}

// scatterWithin blocks of both sides: the statistic of Pearson, as that of bursts.
func scatterWithin(sums [][2]Count) scattering {
	var all [2]Count
	for _, s := range sums {
		if s[0].Of > 0 && s[1].Of > 0 {
			for i := range all {
				all[i] = total([]Count{all[i], s[i]})
			}
		}
	}
	var rests []float64
	squares, degrees := 0.0, -1.0
	for _, s := range sums {
		if !(s[0].Of > 0) || !(s[1].Of > 0) {
			continue
		}
		rest, events := 0.0, s[0].Events+s[1].Events
		expected := [2]float64{all[0].rate() * s[0].Of, all[1].rate() * s[1].Of}
		if share := expected[1] / (expected[0] + expected[1]); events > 0 && share > 0 && share < 1 {
			rest = (s[1].Events - events*share) / math.Sqrt(events*share*(1-share))
			squares += rest * rest
			degrees++
		}
		rests = append(rests, rest)
	}
	apart := 1.0
	if degrees >= 1 {
		apart = clamp(max(1, squares/degrees))
	}
	alike := likenessOf(0, rests).ofEvents(apart)
	return scattering{timed: true, alongside: true, by: apart * alike, apart: apart, effective: float64(len(rests)) / alike}
}

func total(counts []Count) (sum Count) {
	for _, c := range counts {
		sum.Events += c.Events
		sum.Of += c.Of
	}
	return sum
}

func (c Count) dividedBy(divisor float64) Count { return Count{c.Events / divisor, c.Of / divisor} }

// assumedRates is the p of rates of too few times to see how alike they are.
func assumedRates(control, experiment side, sign, borne float64) float64 {
	c, e := ratesAt(control), ratesAt(experiment)
	switch where := compared(c, e, total(control.counts).rate()).(type) {
	case alongside:
		if w, ok := where.assumed(); ok {
			w.difference *= sign
			return w.p(borne)
		}
	case successive:
		if p, ok := where.assumedP(sign, borne); ok {
			return p
		}
	}
	return 1
}
