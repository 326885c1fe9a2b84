package judge

import (
	"math"
	"sort"
	"sync"
	"time"
)

// A day, and the share of its level by which a metric may rise and fall with it: what
// changed by no more than that with the time of day is no harm.
const (
	day        = 24 * time.Hour
	dailySwing = 0.5
)

// successive compares what is after with what was before: it fails only for what is both
// higher than before (by ranks), and higher than where a straight line leads, along which what
// was before goes on, or a day's swing (by the analysis of covariance).
type successive struct {
	values [2][]float64
	// kept are they without outliers.
	kept [2][]float64
	// seconds of each value, from the middle of its side.
	seconds  [2][]float64
	distance float64
	equal    bool
	// inflated variance, as neighbours are alike; allowed for the time of day.
	inflated, allowed float64
	// assumedLevels compares both levels of too few values, and assumedStep is their step from
	// the line; each is reckoned once.
	assumedLevels, assumedStep func() (w welch, ok bool)
}

// nearby are the parts of the time before that may be compared with, the last of it: the
// longer, the better the line is known, and the further a day's swing strays from it.
var nearby = []float64{1, 0.5, 0.25, 0.125}

// leastNearby is how many samples such a part has at least.
const leastNearby = 20

// newSuccessive takes the part of the time before by which the smallest step could be shown:
// which one that is does not depend on the step.
func newSuccessive(control, experiment side, level float64, equal bool) successive {
	var best successive
	least := math.Inf(1)
	start, end := control.times[0], control.times[len(control.times)-1]
	for _, part := range nearby {
		cutoff := end.Add(-time.Duration(part * float64(end.Sub(start))))
		first := sort.Search(len(control.times), func(i int) bool { return !control.times[i].Before(cutoff) })
		if part < 1 && len(control.times)-first < leastNearby {
			break
		}
		s := successiveOf(side{values: control.values[first:], times: control.times[first:]}, experiment, level, equal)
		l := s.line(s.kept)
		if detectable := s.allowed + 3*math.Sqrt(l.squares/s.size()*l.times*s.inflated); part == 1 || detectable < least {
			best, least = s, detectable
		}
	}
	best.assumedLevels, best.assumedStep = sync.OnceValues(best.assumeLevels), sync.OnceValues(best.assumeStep)
	return best
}

func successiveOf(control, experiment side, level float64, equal bool) successive {
	s := successive{equal: equal}
	origin := control.times[0]
	var middles [2]float64
	for i, side := range []side{control, experiment} {
		values, seconds := eachTimeOnce(side, origin)
		middles[i] = mean(seconds)
		for k := range seconds {
			seconds[k] -= middles[i]
		}
		s.values[i], s.kept[i], s.seconds[i] = values, values, seconds
		if !equal {
			s.kept[i] = winsorized(values)
		}
	}
	s.distance = middles[1] - middles[0]
	daily := func(wave func(float64) float64) float64 {
		var waves [2][]float64
		for i, seconds := range s.seconds {
			for _, at := range seconds {
				waves[i] = append(waves[i], wave(2*math.Pi*(at+middles[i]-middles[0])/day.Seconds()))
			}
		}
		return s.line(waves).step
	}
	s.allowed = clamp(dailySwing * math.Abs(level) * math.Hypot(daily(math.Sin), daily(math.Cos)))
	s.inflated = s.line(s.kept).alike()
	return s
}

// alike is by how much the likeness of neighbours inflates the variance.
func (l line) alike() float64 { return inflation(1, l.rests[0], l.rests[1]) }

// eachTimeOnce are the medians of the values of each time, with their seconds since a time.
func eachTimeOnce(s side, origin time.Time) (values, seconds []float64) {
	for start := 0; start < len(s.times); {
		end := start + 1
		for end < len(s.times) && s.times[end].Equal(s.times[start]) {
			end++
		}
		values = append(values, median(s.values[start:end]))
		seconds = append(seconds, s.times[start].Sub(origin).Seconds())
		start = end
	}
	return values, seconds
}

// line is what is left of values when a straight line is taken off both sides.
type line struct {
	// step is by how much the experiment's are above the line; its variance is so many times
	// that of one value.
	step, times float64
	rests       [2][]float64
	// squares of the rests, summed.
	squares float64
}

// line through the values of both sides, with one slope and a step between them, by least
// squares (the analysis of covariance: Fisher 1932).
func (s successive) line(values [2][]float64) (l line) {
	along, both := 0.0, 0.0
	var middles [2]float64
	for i := range values {
		middles[i] = mean(values[i])
		for k, at := range s.seconds[i] {
			along += at * at
			both += at * (values[i][k] - middles[i])
		}
		l.times += 1 / float64(len(values[i]))
	}
	slope := 0.0
	if along > 0 {
		slope = both / along
		l.times += s.distance * s.distance / along
	}
	l.step = middles[1] - middles[0] - slope*s.distance
	for i := range values {
		l.rests[i] = make([]float64, len(values[i]))
		for k, at := range s.seconds[i] {
			rest := values[i][k] - middles[i] - slope*at
			l.rests[i][k] = rest
			l.squares += rest * rest
		}
	}
	return l
}

func (s successive) size() float64 { return float64(len(s.values[0]) + len(s.values[1])) }

func (s successive) effective() float64 {
	return float64(min(len(s.values[0]), len(s.values[1]))) / s.inflated
}

func (s successive) degrees() float64 { return s.size()/s.inflated - 3 }

func (s successive) directed(sign, borne float64) (values [2][]float64) {
	for i := range values {
		values[i] = make([]float64, len(s.values[i]))
		for k, v := range s.values[i] {
			values[i][k] = clamp(sign*v - borne*float64(i))
		}
	}
	return values
}

func rankBoth(values [2][]float64) [2][]float64 {
	c, e := rankedTogether(values[0], values[1])
	return [2][]float64{c, e}
}

// p is the larger of two, so that neither claim is rejected falsely more often than alpha
// (Berger 1982): that of no more than is borne above what was before, and that of no more
// above the line. The first is of Student's test of the ranks (Conover and Iman 1981).
func (s successive) p(sign, borne float64) float64 {
	p := 1.0
	if !s.few() {
		p = max(s.levels(sign, borne), s.pOfStep(sign, borne))
	} else if assumed, ok := s.assumedP(sign, borne); ok {
		p = max(assumed, ordersOf(float64(len(s.values[0])), float64(len(s.values[1]))))
	}
	if s.effective() >= leastSure {
		return p
	}
	return eitherOf(s.few(), p, beyondSwing(s.values[0], s.values[1], sign, borne))
}

// few: it is not seen how alike neighbours are.
func (s successive) few() bool { return s.effective() < leastEffective || s.degrees() < 1 }

// assumedP is p of too few values.
func (s successive) assumedP(sign, borne float64) (p float64, ok bool) {
	levels, ok := s.assumedLevels()
	step, hasStep := s.assumedStep()
	levels.difference *= sign
	step.difference *= sign
	return max(levels.p(borne), step.p(borne+s.allowed)), ok && hasStep
}

// partlyEqual: most values are equal, and some are not.
func (s successive) partlyEqual() bool {
	return s.equal && squares(s.values[0])+squares(s.values[1]) > 0
}

func (s successive) assumeLevels() (w welch, ok bool) {
	if s.partlyEqual() {
		return welch{}, false
	}
	n, m := len(s.values[0]), len(s.values[1])
	return assumed(s.values[:], [][]float64{sharing(n, -1), sharing(m, 1)}, fromMeans(n, m))
}

func (s successive) assumeStep() (w welch, ok bool) {
	n, m, along := len(s.values[0]), len(s.values[1]), 0.0
	weights := [][]float64{sharing(n, -1), sharing(m, 1)}
	for _, seconds := range s.seconds {
		for _, at := range seconds {
			along += at * at
		}
	}
	if s.partlyEqual() || !(along > 0) {
		return welch{}, false
	}
	for i, seconds := range s.seconds {
		for k, at := range seconds {
			weights[i][k] -= s.distance * at / along
		}
	}
	fromLine := func(column []float64) []float64 {
		l := s.line([2][]float64{column[:n], column[n:]})
		return append(append([]float64{}, l.rests[0]...), l.rests[1]...)
	}
	return assumed(s.kept[:], weights, fromLine)
}

// levels is the p of both levels alone.
func (s successive) levels(sign, borne float64) float64 {
	if s.few() {
		w, ok := s.assumedLevels()
		if !ok {
			return 1
		}
		w.difference *= sign
		return w.p(borne)
	}
	if s.equal {
		directed := s.directed(sign, 0)
		return max(s.level(rankBoth(directed)), newWelch(directed[0], directed[1], s.inflated).p(borne))
	}
	return s.level(rankBoth(s.directed(sign, borne)))
}

// level is the p of the difference of both middles.
func (s successive) level(values [2][]float64) float64 {
	n, m := float64(len(values[0])), float64(len(values[1]))
	within := (squares(values[0]) + squares(values[1])) / (n + m - 2)
	return s.student(mean(values[1])-mean(values[0]), within*(1/n+1/m))
}

// pOfStep is the p of the step from the line, of values without outliers.
func (s successive) pOfStep(sign, borne float64) float64 {
	l := s.line(s.kept)
	return s.student(sign*l.step-borne-s.allowed, l.squares/(s.size()-3)*l.times)
}

// winsorized puts what is far from the middle nearer: to outliers of so many times the median
// distance from the median (Tukey and McLaughlin 1963). Ranks would not do: of sides that lie
// apart they show how far no more.
func winsorized(values []float64) []float64 {
	const outliers = 4
	center, far := median(values), outliers*median(fromMedian(values))
	bounded := make([]float64, len(values))
	for i, v := range values {
		if bounded[i] = v; far > 0 {
			bounded[i] = max(center-far, min(center+far, v))
		}
	}
	return bounded
}

func (s successive) student(step, variance float64) float64 {
	switch {
	case step <= 0:
		return 1
	case !(variance > 0):
		return s.orderAlone()
	}
	return max(s.orderAlone(), studentUpper(step/math.Sqrt(variance*s.inflated), s.degrees()))
}

// orderAlone is the least that p can be: that of all orders of so many independent values the
// one came in which the sides lie apart.
func (s successive) orderAlone() float64 {
	return ordersOf(float64(len(s.values[0]))/s.inflated, float64(len(s.values[1]))/s.inflated)
}

// ordersOf is the share of the orders of so many values of both sides that one of them has.
func ordersOf(n, m float64) float64 {
	logarithm := func(of float64) float64 { l, _ := math.Lgamma(of + 1); return l }
	return math.Exp(logarithm(n) + logarithm(m) - logarithm(n+m))
}

func (s successive) interval(alpha float64) Interval {
	bounds := s.alikeInterval(alpha)
	if s.effective() < leastSure {
		return bounds.beyondSwings(s.values[0], s.values[1], alpha)
	}
	return bounds
}

func (s successive) alikeInterval(alpha float64) Interval {
	p := plainPair(s.values[0], s.values[1])
	p.inflation, p.degrees = s.inflated, s.degrees()
	if s.equal && !s.few() {
		return newWelch(p.control, p.experiment, s.inflated).interval(alpha)
	}
	bounds := p.shift(alpha)
	if !s.few() && !math.IsInf(bounds.Low, 0) && !math.IsInf(bounds.High, 0) {
		return bounds
	}
	w, ok := s.assumedLevels()
	if bounds = (Interval{bounds.Estimate, math.Inf(-1), math.Inf(1)}); ok { // So few have no interval by their ranks.
		bounds = w.interval(alpha).around(bounds.Estimate)
	}
	return bounds
}

func (s successive) found(bounds Interval, alpha, level, borne, matters float64) float64 {
	if w, ok := s.assumedLevels(); ok && s.few() {
		return foundBy(bounds, alpha, level, borne, matters, w.degrees, s.larger(), s.allowed)
	}
	return foundBy(bounds, alpha, level, borne, matters, s.degrees(), s.larger(), s.allowed)
}

// larger is how many times as large the error of a step from the line is, as that of the
// difference of both middles.
func (s successive) larger() float64 {
	return math.Sqrt(s.line(s.values).times / (1/float64(len(s.values[0])) + 1/float64(len(s.values[1]))))
}
