package judge

import (
	"cmp"
	"math"
	"slices"
)

// maxTrend is the most points that a trend is looked for in: their pairs are
// counted.
const maxTrend = 1000

// Point is a value at a place, such as a time in seconds.
type Point struct{ X, Y float64 }

// Trend is what the test of Mann and Kendall says.
type Trend struct {
	// S counts the pairs that rise, less those that fall.
	S float64
	// P is the probability of such an S, or a larger one, where nothing rises.
	P float64
	// Slope is the median of the slopes of all pairs, per unit of X (Theil 1950; Sen
	// 1968), with its interval; ends that the points are too few to give are infinite.
	Slope Interval

	// degrees of freedom that are left; 0: none.
	degrees float64
}

// MannKendall tests whether points rise, in any shape (Mann 1945; Kendall 1975,
// with ties and continuity corrected), and estimates their slope. Neighbours that
// are alike widen the variance (after Hamed and Rao 1998, by the correlation of
// neighbours alone), from leastTrend points on: of fewer it is not known. Points of
// equal X are not compared. It is Invalid for more than 1000 points; what is not finite
// is left out.
func MannKendall(points []Point, confidence float64) (Trend, error) {
	if len(points) > maxTrend {
		return Trend{}, tooMany("points of a trend", len(points), maxTrend)
	}
	points = slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
		return math.IsNaN(p.X) || math.IsInf(p.X, 0) || math.IsNaN(p.Y) || math.IsInf(p.Y, 0)
	})
	slices.SortFunc(points, func(a, b Point) int { return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y)) })
	trend := Trend{P: 1, Slope: Interval{0, math.Inf(-1), math.Inf(1)}}
	var slopes []float64
	for i, a := range points {
		for _, b := range points[i+1:] {
			if b.X > a.X {
				slopes = append(slopes, clamp((b.Y-a.Y)/(b.X-a.X)))
				trend.S += float64(cmp.Compare(b.Y, a.Y))
			}
		}
	}
	if len(slopes) == 0 {
		return trend, nil
	}
	slices.Sort(slopes)
	trend.Slope.Estimate = median(slopes)
	variance := kendallVariance(points)
	if variance <= 0 {
		trend.Slope.Low, trend.Slope.High = trend.Slope.Estimate, trend.Slope.Estimate
		return trend, nil
	}
	rests := make([]float64, len(points))
	for i, p := range points {
		rests[i] = clamp(p.Y - trend.Slope.Estimate*(p.X-points[0].X))
	}
	inflated, degrees := 1.0, math.Inf(1)
	if len(points) >= leastTrend {
		inflated = inflation(1, ranksOf(rests))
		degrees = float64(len(points))/inflated - 2
	}
	if degrees < 1 {
		return trend, nil
	}
	deviation := math.Sqrt(variance * inflated)
	trend.degrees = degrees
	trend.P = studentUpper((trend.S-1)/deviation, degrees)
	if wide := studentQuantile((1-confidence)/2, degrees) * deviation; wide <= float64(len(slopes)) {
		first := int((float64(len(slopes)) - wide) / 2)
		trend.Slope.Low, trend.Slope.High = slopes[first], slopes[len(slopes)-1-first]
	}
	return trend, nil
}

// clamp keeps an overflow a number.
func clamp(v float64) float64 { return max(-math.MaxFloat64, min(math.MaxFloat64, v)) }

// kendallVariance of S, with ties in Y.
func kendallVariance(points []Point) float64 {
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.Y
	}
	slices.Sort(values)
	pairs := func(n float64) float64 { return n * (n - 1) * (2*n + 5) / 18 }
	variance := pairs(float64(len(values)))
	for start := 0; start < len(values); {
		end := start + 1
		for end < len(values) && values[end] == values[start] {
			end++
		}
		variance -= pairs(float64(end - start))
		start = end
	}
	return variance
}

// ranksOf gives equal values the mean of their ranks, from 1 on.
func ranksOf(values []float64) []float64 {
	ranks := make([]float64, len(values))
	order := ascending(values)
	for start := 0; start < len(order); {
		end := start + 1
		for end < len(order) && values[order[end]] == values[order[start]] {
			end++
		}
		for _, at := range order[start:end] {
			ranks[at] = float64(start+end+1) / 2
		}
		start = end
	}
	return ranks
}
