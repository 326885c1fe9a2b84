package judge

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/mathext"
)

const limitKind = "limit"

// signs of the directions that are harm: +1 up, -1 down.
func (m *Metric) signs() []float64 {
	switch m.Worse {
	case Higher:
		return []float64{1}
	case Lower:
		return []float64{-1}
	}
	return []float64{1, -1}
}

// worst of the probabilities of each direction, of which there are one or two.
func (m *Metric) worst(p func(sign float64) float64) float64 {
	least := 1.0
	signs := m.signs()
	for _, sign := range signs {
		least = min(least, float64(len(signs))*p(sign))
	}
	return least
}

// bound judges an estimate of a difference, and its interval.
func (t *Test) bound(m *Metric, in Interval, tolerated, matters float64) {
	t.Estimate, t.Low, t.High = figure(in.Estimate), figure(in.Low), figure(in.High)
	t.Tolerated, t.Matters = figure(tolerated), figure(matters)
	t.ruledOut = true
	for _, sign := range m.signs() {
		changed := Number(sign) * t.Estimate
		t.harmful = t.harmful || changed >= t.Matters && changed > t.Tolerated
		t.ruledOut = t.ruledOut && max(Number(sign)*t.Low, Number(sign)*t.High) <= t.Matters
	}
}

// values asks all that is asked of measured values.
func (j judgement) values(control, experiment side) []Test {
	m := &j.metric
	p, aligned := pairOf(control, experiment)
	first := j.shift(p, control, experiment)
	if j.Look > 0 && (m.Range != nil || m.Noise > 0) {
		first = j.mean(control, experiment)
	}
	tests := []Test{first, j.spread(p)}
	if control.timed() && experiment.timed() {
		if trend, enough := j.trend(control, experiment, aligned); enough {
			tests = append(tests, trend)
		}
	}
	return tests
}

// level is what a band is a share of.
func level(values []float64) float64 {
	if middle := median(values); middle != 0 {
		return middle
	}
	return mean(values)
}

// shift asks whether values are larger or smaller.
func (j judgement) shift(p pair, control, experiment side) Test {
	m := &j.metric
	at := level(control.values)
	tolerated, matters := m.Tolerance.of(at), m.Matters.of(at)
	t := Test{Kind: "shift", Method: "Mann-Whitney, Hodges-Lehmann", decides: true}
	exact := false
	in := p.shift(j.alpha())
	if p.mostlyEqual() {
		// The middle of the differences is 0 whatever the rest does.
		t.Method = "Mann-Whitney, difference of means, since most values are equal"
		in = meanDifference(p, j.alpha())
		tolerated = 0 // It would break the ties, all one way.
	}
	t.P = figure(min(1, j.spending()*m.worst(func(sign float64) float64 {
		directed := p
		if sign < 0 {
			directed = p.negated()
		}
		said := directed.rankSum(tolerated)
		exact = said.Exact
		return said.P
	})))
	if exact {
		t.Method += ", exact"
	}
	t.CLES = figure(p.rankSum(0).CLES)
	t.bound(m, in, m.Tolerance.of(at), matters)
	t.says = j.saysDifference(median(control.values), median(experiment.values), "")
	if p.mostlyEqual() {
		t.says = j.saysDifference(mean(control.values), mean(experiment.values), " on average")
	}
	return t
}

// mostlyEqual: so many values are one that the median difference is 0.
func (p pair) mostlyEqual() bool {
	common := median(p.control)
	for _, values := range [][]float64{p.control, p.experiment} {
		equal := 0
		for _, v := range values {
			if v == common {
				equal++
			}
		}
		if 2*equal < len(values) {
			return false
		}
	}
	return !slices.ContainsFunc(slices.Concat(p.control, p.experiment), func(v float64) bool { return math.IsInf(v, 0) })
}

// meanDifference with the interval of Welch (1947), by the normal distribution.
func meanDifference(p pair, alpha float64) Interval {
	estimate := mean(p.experiment) - mean(p.control)
	variance := 0.0
	for _, values := range [][]float64{p.control, p.experiment} {
		center, n := mean(values), float64(len(values))
		for _, v := range values {
			variance += (v - center) * (v - center) / (n * max(1, n-1))
		}
	}
	wide := -mathext.NormalQuantile(alpha/2) * math.Sqrt(variance*p.inflation)
	return Interval{clamp(estimate), clamp(estimate - wide), clamp(estimate + wide)}
}

// saysDifference tells of a difference, for each verdict.
func (j judgement) saysDifference(before, after float64, how string) func(Test) string {
	m := &j.metric
	confidence := percent(1 - j.alpha())
	return func(t Test) string {
		text := fmt.Sprintf("%s%s after %s", with(figure(after), m.Unit), how, with(figure(before), m.Unit))
		text += fmt.Sprintf(", changed by %s (%s to %s at %s)", with(t.Estimate, m.Unit), number(float64(t.Low)), number(float64(t.High)), confidence)
		return text + j.concludes(t, m.Unit)
	}
}

func (j judgement) concludes(t Test, unit string) string {
	switch {
	case t.Verdict == Fail:
		return fmt.Sprintf(": %s matters, and p is %s for no more than the %s that is tolerated", with(t.Matters, unit), number(float64(t.Adjusted)), with(t.Tolerated, unit))
	case t.Verdict == Inconclusive && t.harmful:
		return fmt.Sprintf(": %s matters, and it may be chance (p is %s for no more than the %s that is tolerated)", with(t.Matters, unit), number(float64(t.Adjusted)), with(t.Tolerated, unit))
	case t.Verdict == Inconclusive:
		return fmt.Sprintf(": a change of %s, which matters, is not ruled out; more samples would tell", with(t.Matters, unit))
	case t.ruledOut:
		return fmt.Sprintf(": less than the %s that matters", with(t.Matters, unit))
	default:
		return fmt.Sprintf(": no change of %s, which matters, is shown", with(t.Matters, unit))
	}
}

// spread asks whether values scatter more. It finds harm, and never stands in the
// way of a pass: to show that spreads are alike takes many more samples.
func (j judgement) spread(p pair) Test {
	m := &j.metric
	before, after := spreadOf(p.control), spreadOf(p.experiment)
	ratio := 1.0
	if after > 0 {
		ratio = after / before
	}
	said := BrownForsythe(p.control, p.experiment)
	t := Test{
		Kind: "spread", Method: "Brown-Forsythe", P: figure(min(1, j.spending()*said.more(p.inflation))), Estimate: figure(ratio), Low: 0, High: figure(math.Inf(1)),
		Tolerated: 1, Matters: figure(m.Spread), harmful: ratio >= m.Spread && ratio > 1,
	}
	t.says = func(t Test) string {
		text := fmt.Sprintf("values are %s from their median on average, after %s: %s times as far", with(figure(after), m.Unit), with(figure(before), m.Unit), number(ratio))
		if t.Verdict == Fail {
			return text + fmt.Sprintf(", and %s times matters; p is %s", number(m.Spread), number(float64(t.Adjusted)))
		}
		return text + fmt.Sprintf(", and %s times as far is not shown", number(m.Spread))
	}
	return t
}

// limit counts samples beyond it: no chance is reckoned with.
func (j judgement) limit(experiment side) Test {
	m, l := &j.metric, j.metric.Limit
	values := experiment.values
	if m.Kind == Events {
		values = ratesOf(experiment.counts)
	}
	if l.Of > 0 && len(values) > l.Of {
		values = values[len(values)-l.Of:]
	}
	beyond := 0
	for _, v := range values {
		if l.Above != nil && v > *l.Above || l.Below != nil && v < *l.Below {
			beyond++
		}
	}
	t := Test{
		Kind: limitKind, Method: "count", Estimate: Number(beyond), Low: Number(beyond), High: Number(beyond),
		Tolerated: Number(l.Allow), Matters: Number(l.Allow + 1), P: 1, Adjusted: 1, Verdict: Pass, decides: true,
	}
	if beyond > l.Allow {
		t.Verdict, t.P, t.Adjusted = Fail, 0, 0
	}
	said := ""
	if l.Above != nil {
		said = "above " + with(figure(*l.Above), m.Unit)
	}
	if l.Below != nil {
		if said != "" {
			said += " or "
		}
		said += "below " + with(figure(*l.Below), m.Unit)
	}
	t.Why = fmt.Sprintf("%d of %s %s %s, and %d may be", beyond, count(len(values), "sample"), plural(beyond, "is", "are"), said, l.Allow)
	return t
}

// rate asks whether there are more events, or fewer.
func (j judgement) rate(control, experiment side) Test {
	m := &j.metric
	scatter := bursts(control.counts, experiment.counts)
	before, after := total(control.counts).over(scatter), total(experiment.counts).over(scatter)
	t := Test{Kind: "rate", Method: "ratio of rates, binomial", decides: true}
	t.P = figure(min(1, j.spending()*m.worst(func(sign float64) float64 {
		c, e, ratio := directed(sign, before, after, *m.Tolerance)
		return RateRatio(c, e, ratio)
	})))
	if p, valid := j.wager(control, experiment); valid {
		t.P, t.Method = figure(p), "mixture sequential probability ratio"
	}
	in := RatioInterval(before, after, 1-j.alpha())
	t.Estimate, t.Low, t.High = figure(in.Estimate), figure(in.Low), figure(in.High)
	t.ruledOut = true
	for _, sign := range m.signs() {
		_, _, tolerated := directed(sign, before, after, *m.Tolerance)
		c, e, ratio := directed(sign, before, after, *m.Matters)
		estimated := RatioInterval(c, e, 1-j.alpha())
		t.harmful = t.harmful || e.Events > 0 && estimated.Estimate >= ratio && estimated.Estimate > tolerated
		// Without events nothing got worse, and Least says whether that tells.
		t.ruledOut = t.ruledOut && (estimated.High <= ratio || e.Events == 0)
	}
	t.Tolerated, t.Matters = figure(m.ratioOf(*m.Tolerance, before.rate())), figure(m.ratioOf(*m.Matters, before.rate()))
	t.says = j.saysRate(total(control.counts), total(experiment.counts), scatter, control.trials || experiment.trials)
	return t
}

// directed returns what to compare, so that a ratio above the one returned is harm.
// What is borne as a number counts as events of the other side, which makes up for
// its chance too, on the safe side.
func directed(sign float64, before, after Count, band Band) (c, e Count, ratio float64) {
	if sign > 0 {
		return Count{before.Events + band.Absolute*before.Of, before.Of}, after, 1 + band.Relative
	}
	return Count{after.Events + band.Absolute*after.Of, after.Of}, before, 1 / max(1-band.Relative, 1e-9)
}

// ratioOf a band to a rate, in the harmful direction.
func (m *Metric) ratioOf(band Band, rate float64) float64 {
	change := band.Relative
	if band.Absolute > 0 {
		change += band.Absolute / rate
	}
	if m.Worse == Lower {
		return 1 - change
	}
	return 1 + change
}

func (j judgement) saysRate(before, after Count, scatter float64, trials bool) func(Test) string {
	m := &j.metric
	confidence := percent(1 - j.alpha())
	rate := func(c Count) string {
		return fmt.Sprintf("%s of %s (%s)", number(c.Events), number(c.Of), percent(c.rate()))
	}
	if !trials {
		rate = func(c Count) string {
			return fmt.Sprintf("%s in %s (%s each)", number(c.Events), count(int(c.Of), "sample"), number(c.rate()))
		}
	}
	return func(t Test) string {
		text := fmt.Sprintf("%s after %s, %s times the rate (%s to %s at %s)", rate(after), rate(before), number(float64(t.Estimate)), number(float64(t.Low)), number(float64(t.High)), confidence)
		if scatter > 1.5 {
			text += fmt.Sprintf(", in bursts, so that %s count as one", number(scatter))
		}
		matters := number(float64(t.Matters)) + " times"
		if m.Matters.Absolute > 0 {
			written, _ := m.Matters.MarshalText()
			matters = "a change by " + string(written)
		}
		switch {
		case t.Verdict == Fail:
			return text + fmt.Sprintf(": %s matters, and p is %s", matters, number(float64(t.Adjusted)))
		case t.Verdict == Inconclusive && t.harmful:
			return text + fmt.Sprintf(": %s matters, and it may be chance (p is %s)", matters, number(float64(t.Adjusted)))
		case t.Verdict == Inconclusive:
			return text + fmt.Sprintf(": %s, which matters, is not ruled out; more samples would tell", matters)
		}
		return text + fmt.Sprintf(": less than matters (%s)", matters)
	}
}

// wager bets on the events of both sides, in the order of time, where they came
// at the same time and there are many looks.
func (j judgement) wager(control, experiment side) (p float64, valid bool) {
	if j.Look == 0 || !together(control, experiment) {
		return 0, false
	}
	blocks := blocksOf(control, experiment, len(control.times)+len(experiment.times))
	sums := make([][2]Count, blocks.count)
	for side, s := range [][]Count{control.counts, experiment.counts} {
		for i, c := range s {
			sum := &sums[blocks.of[side][i]][side]
			sum.Events += c.Events
			sum.Of += c.Of
		}
	}
	p = j.metric.worst(func(sign float64) float64 {
		wager := Wager{}
		for _, s := range sums {
			wager.AddRates(directed(sign, s[0], s[1], *j.metric.Tolerance))
		}
		return wager.P()
	})
	return p, true
}

// mean compares means by what holds at any look. Values are compared in pairs, in
// the order of time; those without another are left out.
func (j judgement) mean(control, experiment side) Test {
	m := &j.metric
	at := mean(control.values)
	tolerated := m.Tolerance.of(at)
	t := Test{Kind: "mean", Method: "confidence sequence, Waudby-Smith and Ramdas", decides: true}
	width, outside := 0.0, 0
	var sequence *Sequence
	var err error
	if m.Range != nil {
		width = m.Range.High - m.Range.Low
		sequence, err = Bounded(-width, width, j.Alpha)
	} else {
		t.Method = "confidence sequence, normal mixture"
		sequence, err = SubGaussian(m.Noise*math.Sqrt2, j.Alpha)
	}
	n := min(len(control.values), len(experiment.values))
	differences := make([]float64, n)
	for i := range n {
		c, e := control.values[i], experiment.values[i]
		if m.Range != nil {
			outside += beyond(c, *m.Range) + beyond(e, *m.Range)
		}
		if differences[i] = e - c; err == nil && outside == 0 {
			err = sequence.Add(differences[i])
		}
	}
	in := Interval{0, math.Inf(-1), math.Inf(1)}
	t.P = 1
	if err == nil && outside == 0 {
		in = sequence.Interval()
		t.P = figure(m.worst(func(sign float64) float64 {
			wager := Wager{}
			for _, d := range differences {
				if m.Range != nil {
					wager.AddDifference(sign*d, width, tolerated)
				} else {
					wager.AddNormal(sign*d, m.Noise*math.Sqrt2, tolerated)
				}
			}
			return wager.P()
		}))
	}
	t.bound(m, in, tolerated, m.Matters.of(at))
	t.says = j.saysDifference(mean(control.values), mean(experiment.values), " on average")
	if outside > 0 {
		t.says = func(Test) string {
			return fmt.Sprintf("%s out of the range from %s to %s, so that nothing follows; mend the range", plural(outside, "1 value is", fmt.Sprintf("%d values are", outside)), number(m.Range.Low), number(m.Range.High))
		}
	}
	return t
}

func beyond(v float64, r Range) int {
	if v < r.Low || v > r.High {
		return 1
	}
	return 0
}

// Points of a trend: fewer tell nothing, and more are put together.
const (
	leastTrend = 8
	mostTrend  = 30
)

// trend asks whether values grow worse while time passes, too slowly for any
// interval of it to show. As spread it never stands in the way of a pass.
func (j judgement) trend(control, experiment side, alongside bool) (Test, bool) {
	m := &j.metric
	size := min(mostTrend, len(experiment.values)/3)
	began, ended := experiment.times[0], experiment.times[len(experiment.times)-1]
	points := pointsOf(experiment, began, ended, size)
	if alongside {
		points = less(points, pointsOf(control, began, ended, size))
	} else {
		own, err := MannKendall(pointsOf(control, control.times[0], control.times[len(control.times)-1], size), 0.5)
		if err != nil {
			return Test{}, false
		}
		// What grew before goes on growing.
		for i := range points {
			points[i].Y = clamp(points[i].Y - own.Slope.Estimate*points[i].X)
		}
	}
	if len(points) < leastTrend {
		return Test{}, false
	}
	seconds := points[len(points)-1].X - points[0].X
	var rising Trend
	p := m.worst(func(sign float64) float64 {
		directed := slices.Clone(points)
		for i := range directed {
			directed[i].Y *= sign
		}
		found, _ := MannKendall(directed, 1-j.alpha())
		if sign > 0 || m.Worse == Lower {
			rising = found
			if sign < 0 {
				rising.Slope = Interval{-found.Slope.Estimate, -found.Slope.High, -found.Slope.Low}
			}
		}
		return found.P
	})
	at := level(control.values)
	t := Test{Kind: "trend", Method: "Mann-Kendall, Theil-Sen", P: figure(min(1, j.spending()*p))}
	t.bound(m, Interval{clamp(rising.Slope.Estimate * seconds), rising.Slope.Low * seconds, rising.Slope.High * seconds}, m.Tolerance.of(at), m.Matters.of(at))
	t.says = func(t Test) string {
		took := time.Duration(seconds * float64(time.Second)).Round(time.Second)
		text := fmt.Sprintf("it changes steadily, by %s within %s (%s to %s at %s)", with(t.Estimate, m.Unit), took, number(float64(t.Low)), number(float64(t.High)), percent(1-j.alpha()))
		if t.Verdict == Pass {
			text = "if " + text
		}
		return text + j.concludes(t, m.Unit)
	}
	return t, true
}

// pointsOf a side: the medians of equal parts of a time, at their middles, in
// seconds from its beginning.
func pointsOf(s side, began, ended time.Time, parts int) (points []Point) {
	if !ended.After(began) || parts < 1 {
		return nil
	}
	width := ended.Sub(began).Seconds() / float64(parts)
	values := make([][]float64, parts)
	for i, at := range s.times {
		if part := int(at.Sub(began).Seconds() / width); !at.Before(began) && !at.After(ended) {
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
func less(points, others []Point) (both []Point) {
	for _, p := range points {
		for _, o := range others {
			if o.X == p.X {
				both = append(both, Point{p.X, clamp(p.Y - o.Y)})
			}
		}
	}
	return both
}
