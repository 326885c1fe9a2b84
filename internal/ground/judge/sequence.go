package judge

import (
	"math"

	"lehr.dev/internal/ground/fault"
)

// Sequence is a mean that may be looked at after each value, as often as one
// likes: its interval holds at all looks together. Make one with Bounded or
// SubGaussian. Values need not be independent or alike, only have the same mean
// given those before. It keeps sums alone.
type Sequence struct {
	low, high, sigma, alpha float64
	// of bounded values, which are scaled to 0..1 here
	count, sum, squares float64
	weights, weighted   float64
	slack               float64
	// of all looks together
	interval Interval
}

// Bounded returns a sequence for values from low to high, by the empirical
// Bernstein bound with weights that can be foretold (Waudby-Smith and Ramdas 2024,
// theorem 2), which Howard, Ramdas, McAuliffe and Sekhon (2021) began. The interval
// is wrong at any look with a probability of alpha at most.
func Bounded(low, high, alpha float64) (*Sequence, error) {
	if !(low < high) || math.IsInf(high-low, 0) {
		return nil, fault.New(fault.Invalid, "values from %g to %g have no range", low, high).WithHint("name the least and the largest value that there can be")
	}
	return newSequence(Sequence{low: low, high: high, alpha: alpha})
}

// SubGaussian returns a sequence for values that stray from their mean no more
// than a normal variable of the deviation sigma does, in their unit: the normal
// mixture (Robbins 1970; Howard et al. 2021, equation 14; Johari et al. 2017 as the
// mixture sequential probability ratio test), tuned for a hundred values.
func SubGaussian(sigma, alpha float64) (*Sequence, error) {
	if !(sigma > 0) || math.IsInf(sigma, 0) {
		return nil, fault.New(fault.Invalid, "%g is no deviation of values", sigma).WithHint("name a number above 0, in the unit of the values")
	}
	return newSequence(Sequence{low: math.Inf(-1), high: math.Inf(1), sigma: sigma, alpha: alpha})
}

func newSequence(s Sequence) (*Sequence, error) {
	if !(s.alpha > 0 && s.alpha < 1) {
		return nil, fault.New(fault.Invalid, "%g is no probability to be wrong by", s.alpha).WithHint("name one above 0 and below 1, such as 0.05")
	}
	s.interval = Interval{0, s.low, s.high}
	return &s, nil
}

// Add adds the next value. It is Invalid when it is no number, or out of range.
func (s *Sequence) Add(value float64) error {
	if math.IsNaN(value) || math.IsInf(value, 0) || value < s.low || value > s.high {
		return fault.New(fault.Invalid, "%g is not from %g to %g", value, s.low, s.high).WithHint("mend the range, or the data")
	}
	if s.sigma > 0 {
		s.addNormal(value)
	} else {
		s.addBounded((value - s.low) / (s.high - s.low))
	}
	return nil
}

// Interval is the mean so far and what it may be.
func (s *Sequence) Interval() Interval { return s.interval }

// mixedFor is how many values the normal mixture is tightest for, about.
const mixedFor = 100

func (s *Sequence) addNormal(value float64) {
	s.count++
	s.sum = clamp(s.sum + value)
	v, rho := s.count*s.sigma*s.sigma, mixedFor*s.sigma*s.sigma/8
	radius := math.Sqrt((v+rho)*math.Log((v+rho)/(rho*s.alpha*s.alpha))) / s.count
	s.narrow(s.sum/s.count, s.sum/s.count, radius, 0, 1)
}

func (s *Sequence) addBounded(x float64) {
	// What is foretold stands on the values before.
	previousMean := (0.5 + s.sum) / (s.count + 1)
	variance := (0.25 + s.squares) / (s.count + 1)
	s.count++
	weight := min(0.5, math.Sqrt(2*math.Log(2/s.alpha)/(variance*s.count*math.Log(1+s.count))))
	s.sum += x
	currentMean := (0.5 + s.sum) / (s.count + 1)
	s.squares += (x - currentMean) * (x - currentMean)
	s.weights += weight
	s.weighted += weight * x
	s.slack += (x - previousMean) * (x - previousMean) * (-math.Log(1-weight) - weight)
	s.narrow(s.sum/s.count, s.weighted/s.weights, (math.Log(2/s.alpha)+s.slack)/s.weights, s.low, s.high-s.low)
}

// narrow takes in what this look says: what one look excludes stays so. The
// estimate may stray from it.
func (s *Sequence) narrow(estimate, center, radius, low, scale float64) {
	s.interval = Interval{
		Estimate: low + scale*estimate,
		Low:      max(s.interval.Low, low+scale*(center-radius)),
		High:     min(s.interval.High, low+scale*(center+radius)),
	}
}

// Wager is money that is bet against a claim: if that holds, it is multiplied by
// 20 at any time with a probability of 1/20 at most (Ville 1939), so that the
// smallest inverse so far is a P that holds at all looks together.
type Wager struct {
	// Of each ratio what its share of the money has become, as a logarithm.
	logs []float64
	most float64
	// of bounded differences
	count, sum, squares float64
}

// P of the claim, at all looks so far.
func (w *Wager) P() float64 { return min(1, math.Exp(-w.most)) }

// ratios that the experiment's rate is bet to be, of what is claimed.
var ratios = []float64{1.1, 1.25, 1.5, 2, 3, 5, 10, 30, 100}

// AddRates bets on the next events of both sides against the claim that the
// experiment's rate is at most ratio times the control's: a mixture of likelihood
// ratios (the mixture sequential probability ratio test: Robbins 1970; Johari et al.
// 2017) of the binomial distribution of RateRatio. How the trials divide may change.
func (w *Wager) AddRates(control, experiment Count, ratio float64) {
	if !(control.Of > 0) || !(experiment.Of > 0) || !(ratio > 0) || !(control.Events >= 0) || !(experiment.Events >= 0) {
		return
	}
	if w.logs == nil {
		w.logs = make([]float64, len(ratios))
	}
	odds := ratio * experiment.Of / control.Of
	all, largest := control.Events+experiment.Events, math.Inf(-1)
	for i, r := range ratios {
		w.logs[i] += experiment.Events*math.Log(r) - all*math.Log((1+r*odds)/(1+odds))
		largest = max(largest, w.logs[i])
	}
	sum := 0.0
	for _, l := range w.logs {
		sum += math.Exp(l-largest) / float64(len(ratios))
	}
	w.most = max(w.most, largest+math.Log(sum))
}

// AddDifference bets on the next difference, from -width to width, against the
// claim that their mean is at most most: a part of the money that the values
// before tell (Waudby-Smith and Ramdas 2024, section 5).
func (w *Wager) AddDifference(difference, width, most float64) {
	if !(width > 0) || !(math.Abs(difference) <= width) || !(math.Abs(most) < width) {
		return
	}
	if w.logs == nil {
		w.logs = make([]float64, 1)
	}
	// Scaled, so that no more than half of the money can be lost.
	x := (difference - most) / (width + most)
	bet := 0.0
	if mean := w.sum / (w.count + 1); mean > 0 {
		bet = min(0.5, mean/((0.25+w.squares)/(w.count+1)+mean*mean))
	}
	w.logs[0] += math.Log1p(bet * x)
	w.most = max(w.most, w.logs[0])
	w.count++
	w.sum += x
	w.squares += (x - w.sum/w.count) * (x - w.sum/w.count)
}

// AddNormal bets on the next value, which strays from its mean as SubGaussian
// says, against the claim that the mean is at most most: the normal mixture, where it
// is above.
func (w *Wager) AddNormal(value, sigma, most float64) {
	if !(sigma > 0) {
		return
	}
	w.count++
	w.sum = clamp(w.sum + clamp(value-most))
	v, rho := w.count*sigma*sigma, mixedFor*sigma*sigma/8
	excess := max(0, w.sum)
	w.most = max(w.most, excess*excess/(2*(v+rho))-math.Log((v+rho)/rho)/2)
}
