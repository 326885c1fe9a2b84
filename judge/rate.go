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
		return c.Events / c.Of
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
				off := c.Events - expected
				sum += off * off / expected
				degrees++
			}
		}
	}
	if degrees < 1 || sum <= degrees {
		return 1
	}
	return sum / degrees
}

func total(counts []Count) (sum Count) {
	for _, c := range counts {
		sum.Events += c.Events
		sum.Of += c.Of
	}
	return sum
}

func (c Count) over(by float64) Count { return Count{c.Events / by, c.Of / by} }
