package judge

import (
	"cmp"
	"fmt"
	"math"
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
func (t *Test) bound(m *Metric, interval Interval, tolerated, matters float64) {
	t.Estimate, t.Low, t.High = figure(interval.Estimate), figure(interval.Low), figure(interval.High)
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
	comparison := compared(control, experiment, level(control.values))
	first := j.shift(comparison, control, experiment)
	twoStates, isState := statesOf(control, experiment)
	seldom := isState && control.timed() && experiment.timed() && twoStates.few()
	if j.Look > 0 && (m.Range != nil || m.Noise > 0) && !seldom && !foretold(control, experiment) {
		first = j.mean(control, experiment)
	}
	tests := []Test{first}
	if !mostlyEqual(control.values, experiment.values) && !isState {
		tests = append(tests, j.spread(control, experiment))
	} // Else how far values are from their median is the mean, which has a tolerance.
	if control.timed() && experiment.timed() && !isState { // One of two values grows no more than once.
		if trend, enough := j.trend(control, experiment); enough {
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

// method of a comparison, by name.
func method(where comparison, exact bool) string {
	switch where := where.(type) {
	case alongside:
		if where.equal {
			return "aligned ranks and difference of means within blocks of time, since most values are equal"
		}
		return "aligned ranks within blocks of time, Hodges-Lehmann"
	case successive:
		if where.equal {
			return "ranks and difference of means, since most values are equal; covariance with time"
		}
		return "ranks, Hodges-Lehmann; covariance with time"
	case untimed:
		name := "Mann-Whitney, Hodges-Lehmann"
		if where.equal {
			name = "Mann-Whitney, difference of means, since most values are equal"
		}
		if exact {
			name += ", exact"
		}
		return name
	}
	return ""
}

// shift asks whether values are larger or smaller.
func (j judgement) shift(where comparison, control, experiment side) Test {
	m := &j.metric
	at := level(control.values)
	tolerated, matters := m.Tolerance.width(at), m.Matters.width(at)
	t := Test{Kind: "shift", Method: method(where, max(len(control.values), len(experiment.values)) <= exactSide), decides: true}
	interval := where.interval(j.alpha())
	t.P = figure(min(1, j.spending()*m.worst(func(sign float64) float64 { return where.p(sign, tolerated) })))
	t.CLES = figure(plainPair(control.values, experiment.values).rankSum(0).CLES)
	t.Effective = figure(where.effective())
	states, isState := statesOf(control, experiment)
	seldom := isState && control.timed() && experiment.timed() && states.few()
	bySelf := 0.0 // The p of changing so seldom by itself.
	if seldom {
		bySelf = min(1, j.spending()*states.p())
		t.P = figure(max(float64(t.P), bySelf))
	} else if isState && control.timed() && experiment.timed() {
		t.P = figure(max(float64(t.P), min(1, j.spending()*m.worst(func(sign float64) float64 {
			return states.pOfShares(control.values, experiment.values, sign, tolerated)
		}))))
	}
	if bySelf > j.Alpha {
		interval = states.strays(interval)
	}
	t.bound(m, interval, tolerated, matters)
	switch {
	case t.ruledOut:
	case seldom && (t.harmful || bySelf > j.Alpha):
		t.Doubt, t.changes = DoubtStates, states.changes
		t.wantedAt = func(level float64) int { return states.wanted(level / j.spending()) }
	case where.effective() < leastEffective:
		t.Doubt, t.Wanted = DoubtDependent, wantedOf(control, experiment, where.effective(), leastEffective)
	}
	if s, ok := where.(successive); ok {
		t.level = max(bySelf, min(1, j.spending()*m.worst(func(sign float64) float64 { return s.levels(sign, tolerated) })))
	}
	t.wouldFind = func(level float64) float64 {
		return where.found(interval, j.alpha(), level/j.spending()/float64(len(m.signs())), tolerated, matters)
	}
	controlMedian, experimentMedian, how := median(control.values), median(experiment.values), ""
	if mostlyEqual(control.values, experiment.values) {
		controlMedian, experimentMedian, how = mean(control.values), mean(experiment.values), " on average"
	}
	t.explain = j.saysDifference(controlMedian, experimentMedian, how)
	return t
}

// saysDifference tells of a difference, for each verdict.
func (j judgement) saysDifference(control, experiment float64, qualifier string) func(Test) string {
	m := &j.metric
	confidence := percent(1 - j.alpha())
	return func(t Test) string {
		text := fmt.Sprintf("%s%s after %s", withUnit(figure(experiment), m.Unit), qualifier, withUnit(figure(control), m.Unit))
		text += fmt.Sprintf(", changed by %s (%s to %s at %s)", withUnit(t.Estimate, m.Unit), number(float64(t.Low)), number(float64(t.High)), confidence)
		return text + j.concludes(t, m.Unit)
	}
}

func (j judgement) concludes(t Test, unit string) string {
	switch {
	case t.Verdict == Fail:
		return fmt.Sprintf(": %s matters, and p is %s for no more than the %s that is tolerated", withUnit(t.Matters, unit), number(float64(t.Adjusted)), withUnit(t.Tolerated, unit))
	case t.Verdict == Inconclusive && t.Doubt == DoubtDependent:
		return fmt.Sprintf(": as neighbours may be alike, these are worth %s independent samples, fewer than %d: a slow change of both sides may look so; %s would tell", number(float64(t.Effective)), cmp.Or(t.needs, leastEffective), t.wants())
	case t.Verdict == Inconclusive && t.Doubt == DoubtStates:
		return fmt.Sprintf(": all samples are one of two values, and %s within a side %s too few to know how often that changes by itself; %s would tell, if no more of them change", changesSeen(t.changes), plural(t.changes, "is", "are"), t.wants())
	case t.Verdict == Inconclusive && t.Doubt == DoubtTime:
		return fmt.Sprintf(": %s matters, and what grew before, or a time of day, may have done it (p is %s); a control of the same time would tell, or a longer time before", withUnit(t.Matters, unit), number(float64(t.Adjusted)))
	case t.Verdict == Inconclusive && t.harmful:
		return fmt.Sprintf(": %s matters, and it may be chance (p is %s for no more than the %s that is tolerated)", withUnit(t.Matters, unit), number(float64(t.Adjusted)), withUnit(t.Tolerated, unit))
	case t.Verdict == Inconclusive:
		return fmt.Sprintf(": a change of %s, which matters, is not ruled out; more samples would tell", withUnit(t.Matters, unit))
	case t.ruledOut:
		return fmt.Sprintf(": less than the %s that matters", withUnit(t.Matters, unit)) + t.wouldHave("a change of "+withUnit(t.Detectable, unit))
	default:
		return fmt.Sprintf(": no change of %s, which matters, is shown", withUnit(t.Matters, unit)) + t.wouldHave("a change of "+withUnit(t.Detectable, unit))
	}
}

// wants says how many samples would tell.
func (t Test) wants() string {
	if t.Wanted == 0 {
		return "more samples"
	}
	return fmt.Sprintf("about %d samples of each side", t.Wanted)
}

// wouldHave says which harm would have been found.
func (t Test) wouldHave(harm string) string {
	if t.Detectable == 0 || math.IsInf(float64(t.Detectable), 0) {
		return ""
	}
	return fmt.Sprintf("; %s would have been found with a probability of %s", harm, percent(float64(t.Power)))
}

// limit counts samples beyond it: no chance is reckoned with.
func (j judgement) limit(experiment side) Test {
	m, l := &j.metric, j.metric.Limit
	values := experiment.limited
	if l.Of > 0 && len(values) > l.Of {
		values = values[len(values)-l.Of:]
	}
	violations := 0
	for _, v := range values {
		if math.IsNaN(v) || l.Above != nil && v > *l.Above || l.Below != nil && v < *l.Below {
			violations++
		}
	}
	t := Test{
		Kind: limitKind, Method: "count", Estimate: Number(violations), Low: Number(violations), High: Number(violations),
		Tolerated: Number(l.Allow), Matters: Number(l.Allow + 1), P: 1, Adjusted: 1, Verdict: Pass, decides: true,
	}
	if violations > l.Allow {
		t.Verdict, t.P, t.Adjusted = Fail, 0, 0
	}
	bounds := ""
	if l.Above != nil {
		bounds = "above " + withUnit(figure(*l.Above), m.Unit)
	}
	if l.Below != nil {
		if bounds != "" {
			bounds += " or "
		}
		bounds += "below " + withUnit(figure(*l.Below), m.Unit)
	}
	if l.NaN {
		bounds += " or no number"
	}
	t.Why = fmt.Sprintf("%d of %s %s %s, and %d may be", violations, count(len(values), "sample"), plural(violations, "is", "are"), bounds, l.Allow)
	return t
}

// rate asks whether there are more events, or fewer.
func (j judgement) rate(control, experiment side) Test {
	m := &j.metric
	scatter := scatterOf(control, experiment).wider(j.alpha()/2, min(control.size(), experiment.size()))
	controlCount, experimentCount := total(control.counts), total(experiment.counts)
	t := Test{Kind: "rate", Method: "ratio of rates, binomial", decides: true, Effective: figure(scatter.effective)}
	// chanceOf as many events, or more, if the rate is no more than so many times what is
	// tolerated, and so many events count as one.
	chanceOf := func(by, times float64) float64 {
		if p, valid := j.wager(control, experiment, by, times); valid {
			return p
		}
		return min(1, j.spending()*m.worst(func(sign float64) float64 {
			c, e, ratio := directed(sign, controlCount.dividedBy(by), experimentCount.dividedBy(by), m.Tolerance.share(1/times))
			return RateRatio(c, e, times*ratio)
		}))
	}
	if _, valid := j.wager(control, experiment, scatter.by, 1); valid {
		t.Method = "mixture sequential probability ratio"
	}
	p := chanceOf(scatter.by, 1)
	t.level = p
	if scatter.successive != nil {
		// What goes on as it did before, or with the time of day, is no harm.
		t.Method += "; covariance with time"
		p = max(p, min(1, j.spending()*m.worst(func(sign float64) float64 {
			return scatter.successive.pOfStep(sign, m.Tolerance.width(controlCount.rate()))
		})))
	}
	if scatter.few() {
		p, t.level = min(1, j.spending()*m.worst(func(sign float64) float64 {
			return assumedRates(control, experiment, sign, m.Tolerance.width(controlCount.rate()))
		})), 1
	}
	if scatter.timed {
		p = eitherOf(scatter.few(), p, chanceOf(scatter.apart, rateSwing))
	}
	t.P = figure(p)
	interval := scatter.ratio(controlCount, experimentCount, 1-j.alpha(), func(c, e Count) (Count, Count) { return c, e })
	t.Estimate, t.Low, t.High = figure(interval.Estimate), figure(interval.Low), figure(interval.High)
	t.ruledOut = true
	for _, sign := range m.signs() {
		_, _, tolerated := directed(sign, controlCount, experimentCount, *m.Tolerance)
		_, e, ratio := directed(sign, controlCount, experimentCount, *m.Matters)
		estimated := scatter.ratio(controlCount, experimentCount, 1-j.alpha(), func(c, e Count) (Count, Count) {
			c, e, _ = directed(sign, c, e, *m.Matters)
			return c, e
		})
		t.harmful = t.harmful || e.Events > 0 && estimated.Estimate >= ratio && estimated.Estimate > tolerated
		// Without events nothing got worse, and Least says whether that tells.
		t.ruledOut = t.ruledOut && (estimated.High <= ratio || e.Events == 0)
	}
	if scatter.few() && !t.ruledOut {
		t.Doubt, t.needs = DoubtDependent, scatter.least()
		t.Wanted = wantedOf(control, experiment, scatter.effective, scatter.least())
	}
	t.Tolerated, t.Matters = figure(m.ratioOf(*m.Tolerance, controlCount.rate())), figure(m.ratioOf(*m.Matters, controlCount.rate()))
	if !scatter.few() {
		t.wouldFind = func(level float64) float64 {
			return j.ratioFound(interval, scatter, controlCount.rate(), level/j.spending()/float64(len(m.signs())))
		}
	}
	t.explain = j.saysRate(controlCount, experimentCount, scatter.by, control.trials || experiment.trials)
	return t
}

// ratioFound is the ratio of rates that would have been found at a level of p with the
// probability power, by the interval, whose ends are about as far from the estimate in
// logarithms.
func (j judgement) ratioFound(bounds Interval, scatter scattering, rate, level float64) float64 {
	m := &j.metric
	normal, larger, allowed := math.Inf(1), 1.0, 0.0
	if s := scatter.successive; s != nil {
		larger, allowed = s.larger(), s.allowed/rate
	}
	if !(bounds.Low > 0) || math.IsInf(bounds.High, 0) || !(rate > 0) {
		return 0
	}
	logarithms := Interval{0, math.Log(bounds.Low), math.Log(bounds.High)}
	ratio := func(b Band) float64 { return math.Abs(math.Log(max(1e-9, m.ratioOf(b, rate)))) }
	found := math.Exp(foundBy(logarithms, j.alpha(), level, ratio(*m.Tolerance), ratio(*m.Matters), normal, larger, math.Log1p(allowed)))
	if m.Worse == Lower {
		return 1 / found
	}
	return found
}

// directed returns what to compare, so that a ratio above the one returned is harm.
// What is borne as a number counts as events of the other side, which makes up for
// its chance too, on the safe side.
func directed(sign float64, control, experiment Count, band Band) (c, e Count, ratio float64) {
	if sign > 0 {
		return Count{control.Events + band.Absolute*control.Of, control.Of}, experiment, 1 + band.Relative
	}
	return Count{experiment.Events + band.Absolute*experiment.Of, experiment.Of}, control, 1 / max(1-band.Relative, 1e-9)
}

// share of what a band bears as a number.
func (b Band) share(level float64) Band {
	return Band{Absolute: level * b.Absolute, Relative: b.Relative}
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

func (j judgement) saysRate(control, experiment Count, scatter float64, trials bool) func(Test) string {
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
		if t.Doubt == DoubtDependent {
			return fmt.Sprintf("%s after %s", rate(experiment), rate(control)) + j.concludes(t, "")
		}
		text := fmt.Sprintf("%s after %s, %s times the rate (%s to %s at %s)", rate(experiment), rate(control), number(float64(t.Estimate)), number(float64(t.Low)), number(float64(t.High)), confidence)
		if scatter > 1.5 {
			text += fmt.Sprintf(", in bursts or alike, so that %s count as one", number(scatter))
		}
		matters := number(float64(t.Matters)) + " times"
		if m.Matters.Absolute > 0 {
			written, _ := m.Matters.MarshalText()
			matters = "a change by " + string(written)
		}
		switch {
		case t.Verdict == Fail:
			return text + fmt.Sprintf(": %s matters, and p is %s", matters, number(float64(t.Adjusted)))
		case t.Verdict == Inconclusive && t.Doubt == DoubtTime:
			return text + fmt.Sprintf(": %s matters, and what grew before, or a time of day, may have done it (p is %s); a control of the same time would tell, or a longer time before", matters, number(float64(t.Adjusted)))
		case t.Verdict == Inconclusive && t.harmful:
			return text + fmt.Sprintf(": %s matters, and it may be chance (p is %s)", matters, number(float64(t.Adjusted)))
		case t.Verdict == Inconclusive:
			return text + fmt.Sprintf(": %s, which matters, is not ruled out; more samples would tell", matters)
		}
		return text + fmt.Sprintf(": less than matters (%s)", matters) + t.wouldHave(number(float64(t.Detectable))+" times the rate")
	}
}

// wager bets on the events of both sides, in the order of time, where they came
// at the same time and there are many looks. So many events count as one, and the rate is
// more than so many times what is tolerated.
func (j judgement) wager(control, experiment side, scatter, times float64) (p float64, valid bool) {
	if j.Look == 0 || !isConcurrent(control, experiment) || math.IsInf(scatter, 0) {
		return 0, false
	}
	sums := sumsOf(control, experiment, divided(control, experiment, len(control.times)+len(experiment.times)))
	p = j.metric.worst(func(sign float64) float64 {
		wager := Wager{}
		for _, s := range sums {
			c, e, ratio := directed(sign, s[0].dividedBy(scatter), s[1].dividedBy(scatter), j.metric.Tolerance.share(1/times))
			wager.AddRates(c, e, times*ratio)
		}
		return wager.P()
	})
	return p, true
}

// foretold says whether means can be compared by what holds at any look: no pair foretells
// the next, and nothing lies between both sides but what changed.
func foretold(control, experiment side) bool {
	n := min(len(control.values), len(experiment.values))
	near, all := 0.0, 0.0
	differences := make([]float64, n)
	for i := range n {
		differences[i] = experiment.values[i] - control.values[i]
	}
	center := mean(differences)
	for i, d := range differences {
		all += (d - center) * (d - center)
		if i > 0 {
			near += (d - center) * (differences[i-1] - center)
		}
	}
	apart := control.timed() && experiment.timed() && !isConcurrent(control, experiment)
	return apart || near > all/math.Sqrt(float64(n))
}

// mean compares means by what holds at any look. Values are compared in pairs, in
// the order of time; those without another are left out.
func (j judgement) mean(control, experiment side) Test {
	m := &j.metric
	at := mean(control.values)
	tolerated := m.Tolerance.width(at)
	t := Test{Kind: "mean", Method: "confidence sequence, Waudby-Smith and Ramdas", decides: true}
	width, outOfRange := 0.0, 0
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
			outOfRange += countOutside(c, *m.Range) + countOutside(e, *m.Range)
		}
		if differences[i] = e - c; err == nil && outOfRange == 0 {
			err = sequence.Add(differences[i])
		}
	}
	interval := Interval{0, math.Inf(-1), math.Inf(1)}
	t.P = 1
	if err == nil && outOfRange == 0 {
		interval = sequence.Interval()
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
	t.bound(m, interval, tolerated, m.Matters.width(at))
	t.explain = j.saysDifference(mean(control.values), mean(experiment.values), " on average")
	if outOfRange > 0 {
		t.Doubt = DoubtRange
		t.explain = func(Test) string {
			return fmt.Sprintf("%s out of the range from %s to %s, so that nothing follows; mend the range", plural(outOfRange, "1 value is", fmt.Sprintf("%d values are", outOfRange)), number(m.Range.Low), number(m.Range.High))
		}
	}
	return t
}

func countOutside(v float64, r Range) int {
	if v < r.Low || v > r.High {
		return 1
	}
	return 0
}
