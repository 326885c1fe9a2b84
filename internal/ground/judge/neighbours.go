package judge

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// leastEffective is how many independent samples a comparison needs at least: with less, how
// much they scatter is not known, whatever is reckoned.
const leastEffective = 5

// cautious is how many standard errors above its estimate the correlation of neighbours is
// taken to be, of so many samples: what is seen of it in few of them is little. It was chosen,
// as leastEffective was, by the grid of docs/design/judge-calibration.md.
func cautious(size float64) float64 { return 0.6 + 2.5/size }

// mostLags is how far apart samples are whose likeness is looked at.
const mostLags = 100

// inflation is by how much the variance of a mean is larger for values whose neighbours are
// alike, at least 1. It is the larger of two:
//
//   - that of a process of first order, (1+r)/(1-r) (Bartlett 1946), for the correlation r of
//     neighbours, freed from its bias, of about (1+4r)/n for each mean that was taken off
//     (Marriott and Pope 1954), and then taken at an upper bound, so that what cannot be known
//     of few samples counts as dependence (as Berger and Boos 1994 do with what a test does not
//     ask about);
//   - that of all correlations, as far as pairs of them are positive (the initial sequence of
//     Geyer 1992), for what is slow beneath much noise: its neighbours look little alike.
//
// Each series counts by its length, not by how much it scatters: harm that comes and goes is
// no likeness. Slopes are how many were taken off beside the means. It is infinite for too few
// values.
func inflation(slopes int, series ...[]float64) float64 {
	return likenessOf(slopes, series...).inflation()
}

// likeness of neighbours in series.
type likeness struct {
	centered [][]float64
	// size of all series, and the share of it that was taken off as means and slopes.
	size, taken float64
	longest     int
	// r is the upper bound of the correlation of neighbours. It is unknown of too few values.
	r     float64
	known bool
}

func likenessOf(slopes int, series ...[]float64) (l likeness) {
	means := 0.0
	for _, values := range series {
		l.size += float64(len(values))
		l.longest = max(l.longest, len(values))
		if len(values) > 0 {
			means++
		}
	}
	if 5*means >= l.size {
		return l
	}
	l.taken = (means + float64(slopes)) / l.size
	l.centered = make([][]float64, len(series))
	for i, values := range series {
		center := mean(values)
		for _, v := range values {
			l.centered[i] = append(l.centered[i], v-center)
		}
	}
	first := alikeAt(1, l.centered) / l.size
	if math.IsNaN(first) || math.IsInf(first, 0) {
		return l
	}
	r := max(-0.999, min(0.999, (first+l.taken)/(1-4*means/l.size))) // Of few values it may be beyond either.
	l.r, l.known = min(0.999, r+cautious(l.size)*math.Sqrt((1-r*r)/l.size)), true
	return l
}

func (l likeness) inflation() float64 {
	if !l.known {
		return math.Inf(1)
	}
	sum, lags := -1.0, 0.0
	for lag := 0; lag < min(mostLags, l.longest/2); lag += 2 {
		pair := (alikeAt(lag, l.centered) + alikeAt(lag+1, l.centered)) / l.size
		if lag > 0 {
			pair += l.taken
		}
		if pair <= l.taken {
			break
		}
		sum += 2 * pair
		lags = float64(lag + 1)
	}
	// What was taken off made all of it smaller; and a half of its standard error is added.
	sum *= (1 + math.Sqrt(2*(lags+1)/l.size)/2) / max(0.05, 1-l.taken*sum)
	return max(1, firstOrder(l.r), sum)
}

// firstOrder is the inflation of a process of first order.
func firstOrder(r float64) float64 { return (1 + r) / (1 - r) }

// ofEvents is the inflation of the scatter of events, which is dispersed as much: that of all
// of it, or if that is more, that of what it has beyond their own chance, which is
// independent and hides how alike the rest is. How much that is, and how alike, is taken at a
// bound again, chosen as cautious was.
func (l likeness) ofEvents(dispersion float64) float64 {
	inflated := l.inflation()
	if upper := dispersion * (1 + 0.5*math.Sqrt(2/l.size)); l.known && upper > 1 {
		r := max(0, min(mostLikeness, (l.r+0.5/math.Sqrt(l.size))/(1-1/upper)))
		inflated = max(inflated, (1+(upper-1)*firstOrder(r))/dispersion)
	}
	return inflated
}

// wantedOf is about how many samples of each side are worth so many independent ones, if they are as
// alike as was seen, and no more alike than is claimed to be held.
func wantedOf(control, experiment side, effective float64, least int) int {
	seen := float64(min(control.size(), experiment.size())) / effective
	return int(math.Ceil(float64(least) * min(seen, firstOrder(mostLikeness))))
}

// alikeAt is the correlation of values that are so many apart, times how many there are.
func alikeAt(lag int, centered [][]float64) (sum float64) {
	for _, values := range centered {
		products, all := 0.0, 0.0
		for i, v := range values {
			all += v * v
			if i >= lag {
				products += v * values[i-lag]
			}
		}
		if all > 0 {
			sum += products / all * float64(len(values))
		}
	}
	return sum
}

// studentUpper is the probability that a variable of Student with so many degrees of freedom
// is larger; of infinitely many it is normal.
func studentUpper(t, degrees float64) float64 {
	switch {
	case math.IsInf(degrees, 1) || math.IsInf(t, 0):
		return upper(t)
	case !(degrees > 0):
		return 1
	}
	tail := mathext.RegIncBeta(degrees/2, 0.5, degrees/(degrees+t*t)) / 2
	if t < 0 {
		return 1 - tail
	}
	return tail
}

// studentQuantile is what such a variable is above with the probability tail, below 0.5.
func studentQuantile(tail, degrees float64) float64 {
	switch {
	case math.IsInf(degrees, 1):
		return -mathext.NormalQuantile(tail)
	case !(degrees > 0):
		return math.Inf(1)
	}
	x := mathext.InvRegIncBeta(degrees/2, 0.5, 2*tail)
	return math.Sqrt(degrees * (1/x - 1))
}
