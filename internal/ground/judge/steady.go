package judge

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Points of a trend: fewer tell nothing, and more are put together.
const (
	leastTrend = 10
	mostTrend  = 30
)

// trend asks whether values grow worse while time passes, too slowly for any interval of it
// to show.
func (j judgement) trend(control, experiment side) (Test, bool) {
	if t, enough := j.slope(control, experiment); enough {
		return t, true
	}
	return j.growth(control, experiment)
}

// slope is the trend of enough samples to see how alike neighbours are.
func (j judgement) slope(control, experiment side) (Test, bool) {
	m := &j.metric
	size := min(mostTrend, len(experiment.values)/3)
	start, end := experiment.times[0], experiment.times[len(experiment.times)-1]
	points := pointsOf(experiment, start, end, size)
	var earlier []Point
	if alongside := isConcurrent(control, experiment); alongside {
		points = less(points, pointsOf(control, start, end, size))
	} else {
		earlier = pointsOf(control, control.times[0], control.times[len(control.times)-1], min(mostTrend, len(control.values)/3))
		if len(earlier) < leastTrend {
			return Test{}, false
		}
		apart := start.Sub(control.times[0]).Seconds()
		for i := range points {
			points[i].X += apart
		}
	}
	if len(points) < leastTrend {
		return Test{}, false
	}
	at := level(control.values)
	seconds := points[len(points)-1].X - points[0].X
	s := slopes{points: points, earlier: earlier, allowed: dailySwing * math.Abs(at) * swing(earlier, points)}
	bounds, ok := s.interval(j.alpha())
	if !ok {
		return Test{}, false
	}
	tolerated := m.Tolerance.width(at)
	p := m.worst(func(sign float64) float64 { return s.p(sign, tolerated/seconds) })
	t := Test{Kind: "trend", Method: map[bool]string{true: "Mann-Kendall, Theil-Sen", false: "Theil-Sen, difference of slopes"}[earlier == nil], P: figure(min(1, j.spending()*p))}
	t.bound(m, Interval{clamp(bounds.Estimate * seconds), clamp(bounds.Low * seconds), clamp(bounds.High * seconds)}, tolerated, m.Matters.width(at))
	t.explain = j.saysGrowth(seconds, earlier != nil)
	return t, true
}

// saysGrowth tells of growth within so many seconds.
func (j judgement) saysGrowth(seconds float64, successive bool) func(Test) string {
	m := &j.metric
	return func(t Test) string {
		duration := time.Duration(seconds * float64(time.Second)).Round(time.Second)
		more := map[bool]string{true: " more than before"}[successive]
		text := fmt.Sprintf("it changes steadily, by %s%s within %s (%s to %s at %s)", withUnit(t.Estimate, m.Unit), more, duration, number(float64(t.Low)), number(float64(t.High)), percent(1-j.alpha()))
		if t.Verdict == Pass {
			text = "if " + text
		}
		return text + j.concludes(t, m.Unit)
	}
}

// leastSteps are the fewest steps that show growth.
const leastSteps = 4

// growth is the trend of too few samples to see how alike neighbours are. It asks whether the
// steps from one sample to the next go up: of a process of first order they stray from 0 by no
// more than independent ones, however alike neighbours are, since what goes up comes back. What
// is only seen, and not shown, keeps nothing from a pass.
func (j judgement) growth(control, experiment side) (Test, bool) {
	m := &j.metric
	start, end := experiment.times[0], experiment.times[len(experiment.times)-1]
	alongside := isConcurrent(control, experiment)
	size := min(mostTrend, len(experiment.values))
	if alongside {
		size = min(size, len(control.values))
	}
	points := pointsOf(experiment, start, end, size)
	var earlier steps
	swings := 0.0
	if alongside {
		points = less(points, pointsOf(control, start, end, size))
	} else {
		baseline := pointsOf(control, control.times[0], control.times[len(control.times)-1], min(mostTrend, len(control.values)))
		if earlier = stepsOf(baseline); earlier.count < leastSteps {
			return Test{}, false
		}
		for i := range points {
			points[i].X += start.Sub(control.times[0]).Seconds()
		}
		if len(points) > leastSteps {
			swings = swing(baseline, points)
		}
	}
	later := stepsOf(points)
	if later.count < leastSteps {
		return Test{}, false
	}
	at := level(control.values)
	seconds := points[len(points)-1].X - points[0].X
	tolerated, allowed := m.Tolerance.width(at), dailySwing*math.Abs(at)*swings*seconds
	w := later.subtract(earlier).multiply(seconds)
	p := m.worst(func(sign float64) float64 {
		directed := w
		directed.difference *= sign
		return max(signsAlone(later.count), directed.p(tolerated+allowed))
	})
	t := Test{Kind: "trend", Method: "Student's test of steps", P: figure(min(1, j.spending()*p))}
	t.bound(m, w.interval(j.alpha()), tolerated, m.Matters.width(at))
	t.harmful = t.harmful && float64(t.P) <= j.Alpha
	t.explain = j.saysGrowth(seconds, !alongside)
	return t, true
}

// steps from each point to the next: their sum over the time that they took, with its variance.
type steps struct{ slope, variance, count float64 }

func stepsOf(points []Point) (s steps) {
	if len(points) < 3 {
		return s
	}
	duration := points[len(points)-1].X - points[0].X
	s.count = float64(len(points) - 1)
	s.slope = clamp(points[len(points)-1].Y-points[0].Y) / duration
	for i, p := range points[1:] {
		rest := clamp(p.Y-points[i].Y) - s.slope*(p.X-points[i].X)
		s.variance += rest * rest
	}
	s.variance *= s.count / (s.count - 1) / (duration * duration)
	return s
}

// subtract the slope of others, of which there may be none.
func (s steps) subtract(others steps) welch {
	w := welch{difference: s.slope - others.slope, se: math.Sqrt(s.variance + others.variance), degrees: s.count - 1}
	if others.count > 1 && w.se > 0 {
		spent := s.variance*s.variance/(s.count-1) + others.variance*others.variance/(others.count-1)
		w.degrees = (s.variance + others.variance) * (s.variance + others.variance) / spent
	}
	return w
}

// multiply what differs, and its error.
func (w welch) multiply(factor float64) welch {
	w.difference, w.se = clamp(w.difference*factor), clamp(w.se*factor)
	return w
}

// slopes of what changed; and of what was before, if that is what it is compared with.
type slopes struct {
	points, earlier []Point
	// allowed for the time of day, for each second.
	allowed float64
}

// p of a slope that is steeper, in the direction of a sign, by more than is borne a second.
func (s slopes) p(sign, borne float64) float64 {
	directed := slices.Clone(s.points)
	for i := range directed {
		directed[i].Y = clamp(sign*directed[i].Y - (borne+s.allowed)*directed[i].X)
	}
	if s.earlier == nil {
		trend, _ := MannKendall(directed, 0.5)
		return trend.P
	}
	earlier := slices.Clone(s.earlier)
	for i := range earlier {
		earlier[i].Y *= sign
	}
	estimate, se, degrees := difference(earlier, directed)
	switch {
	case !(degrees >= 1) || estimate <= 0:
		return 1
	case !(se > 0):
		return signsAlone(float64(min(len(s.points), len(s.earlier))))
	}
	return studentUpper(estimate/se, degrees)
}

// interval of the slope, or of what it has more than that of before; unknown where neighbours
// are too alike.
func (s slopes) interval(alpha float64) (bounds Interval, ok bool) {
	if s.earlier == nil {
		trend, _ := MannKendall(s.points, 1-alpha)
		return trend.Slope, trend.degrees >= 1
	}
	estimate, se, degrees := difference(s.earlier, s.points)
	if !(degrees >= 1) {
		return bounds, false
	}
	wide := studentQuantile(alpha/2, degrees) * se
	return Interval{estimate, estimate - wide, estimate + wide}, true
}

// difference of the slopes of two sets of points, with the standard error that both have: an
// interval of Theil and Sen is about so many of its errors wide as one of Student.
func difference(earlier, later []Point) (estimate, se, degrees float64) {
	const tail = 0.1
	variance, spent := 0.0, 0.0
	for i, points := range [][]Point{earlier, later} {
		trend, _ := MannKendall(points, 1-2*tail)
		wide := trend.Slope.High - trend.Slope.Low
		if trend.degrees < 1 || math.IsInf(wide, 0) {
			return 0, 0, 0
		}
		estimate += map[int]float64{0: -1, 1: 1}[i] * trend.Slope.Estimate
		part := math.Pow(wide/2/studentQuantile(tail, trend.degrees), 2)
		variance += part
		spent += part * part / trend.degrees
	}
	if !(variance > 0) {
		return estimate, 0, math.Inf(1)
	}
	return estimate, math.Sqrt(variance), variance * variance / spent // Welch 1947.
}

// swing is by how much more the second points rise a second than the first, at the worst time
// of day, of a wave of a day whose height is 1; without first points 0: both sides share it.
func swing(earlier, later []Point) float64 {
	if earlier == nil {
		return 0
	}
	slope := func(points []Point, wave func(float64) float64) float64 {
		middle, along, both := 0.0, 0.0, 0.0
		for _, p := range points {
			middle += p.X / float64(len(points))
		}
		for _, p := range points {
			along += (p.X - middle) * (p.X - middle)
			both += (p.X - middle) * wave(2*math.Pi*p.X/day.Seconds())
		}
		return both / along
	}
	return math.Hypot(slope(later, math.Sin)-slope(earlier, math.Sin), slope(later, math.Cos)-slope(earlier, math.Cos))
}

// pointsOf a side: the medians of equal parts of a time, at their middles, in
// seconds from its beginning.
func pointsOf(s side, start, end time.Time, parts int) (points []Point) {
	if !end.After(start) || parts < 1 {
		return nil
	}
	width := end.Sub(start).Seconds() / float64(parts)
	values := make([][]float64, parts)
	for i, at := range s.times {
		if part := int(at.Sub(start).Seconds() / width); !at.Before(start) && !at.After(end) {
			part = min(part, parts-1)
			values[part] = append(values[part], s.values[i])
		}
	}
	for i, part := range values {
		if len(part) > 0 {
			points = append(points, Point{(float64(i) + 0.5) * width, median(part)})
		}
	}
	return points
}

// less takes the second points off the first, where both are.
func less(points, subtrahend []Point) (difference []Point) {
	for _, p := range points {
		for _, o := range subtrahend {
			if o.X == p.X {
				difference = append(difference, Point{p.X, clamp(p.Y - o.Y)})
			}
		}
	}
	return difference
}
