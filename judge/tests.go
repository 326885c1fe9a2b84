package judge

import (
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
	where := compared(control, experiment, level(control.values))
	first := j.shift(where, control, experiment)
	if j.Look > 0 && (m.Range != nil || m.Noise > 0) && !foretold(control, experiment) {
		first = j.mean(control, experiment)
	}
	tests := []Test{first}
	if !mostlyEqual(control.values, experiment.values) {
		tests = append(tests, j.spread(control, experiment))
	} // Else how far values are from their median is the mean, which has a tolerance.
	if control.timed() && experiment.timed() {
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
	tolerated, matters := m.Tolerance.of(at), m.Matters.of(at)
	t := Test{Kind: "shift", Method: method(where, max(len(control.values), len(experiment.values)) <= exactSide), decides: true}
	in := where.interval(j.alpha())
	t.P = figure(min(1, j.spending()*m.worst(func(sign float64) float64 { return where.p(sign, tolerated) })))
	t.CLES = figure(plainPair(control.values, experiment.values).rankSum(0).CLES)
	t.Effective = figure(where.effective())
	t.bound(m, in, tolerated, matters)
	if where.effective() < leastEffective && !t.ruledOut {
		t.Doubt = DoubtDependent
	}
	if s, is := where.(successive); is {
		t.level = min(1, j.spending()*m.worst(func(sign float64) float64 { return s.levels(sign, tolerated) }))
	}
	t.wouldFind = func(level float64) float64 {
		return where.found(in, j.alpha(), level/j.spending()/float64(len(m.signs())), tolerated, matters)
	}
	before, after, how := median(control.values), median(experiment.values), ""
	if mostlyEqual(control.values, experiment.values) {
		before, after, how = mean(control.values), mean(experiment.values), " on average"
	}
	t.says = j.saysDifference(before, after, how)
	return t
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
	case t.Verdict == Inconclusive && t.Doubt == DoubtDependent:
		return fmt.Sprintf(": as neighbours may be alike, these are worth %s independent samples, fewer than %d: a slow change of both sides may look so; more samples would tell", number(float64(t.Effective)), leastEffective)
	case t.Verdict == Inconclusive && t.Doubt == DoubtTime:
		return fmt.Sprintf(": %s matters, and what grew before, or a time of day, may have done it (p is %s); a control of the same time would tell, or a longer time before", with(t.Matters, unit), number(float64(t.Adjusted)))
	case t.Verdict == Inconclusive && t.harmful:
		return fmt.Sprintf(": %s matters, and it may be chance (p is %s for no more than the %s that is tolerated)", with(t.Matters, unit), number(float64(t.Adjusted)), with(t.Tolerated, unit))
	case t.Verdict == Inconclusive:
		return fmt.Sprintf(": a change of %s, which matters, is not ruled out; more samples would tell", with(t.Matters, unit))
	case t.ruledOut:
		return fmt.Sprintf(": less than the %s that matters", with(t.Matters, unit)) + t.wouldHave("a change of "+with(t.Detectable, unit))
	default:
		return fmt.Sprintf(": no change of %s, which matters, is shown", with(t.Matters, unit)) + t.wouldHave("a change of "+with(t.Detectable, unit))
	}
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
	scatter := scatterOf(control, experiment).wider(j.alpha()/2, min(control.size(), experiment.size()))
	before, after := total(control.counts), total(experiment.counts)
	t := Test{Kind: "rate", Method: "ratio of rates, binomial", decides: true, Effective: figure(scatter.effective)}
	// chanceOf as many events, or more, if the rate is no more than so many times what is
	// tolerated, and so many events count as one.
	chanceOf := func(by, times float64) float64 {
		if p, valid := j.wager(control, experiment, by, times); valid {
			return p
		}
		return min(1, j.spending()*m.worst(func(sign float64) float64 {
			c, e, ratio := directed(sign, before.over(by), after.over(by), m.Tolerance.share(1/times))
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
			return scatter.successive.above(sign, m.Tolerance.of(before.rate()))
		})))
	}
	if scatter.few() {
		p, t.level = min(1, j.spending()*m.worst(func(sign float64) float64 {
			return assumedRates(control, experiment, sign, m.Tolerance.of(before.rate()))
		})), 1
	}
	if scatter.timed {
		p = eitherOf(scatter.few(), p, chanceOf(scatter.apart, rateSwing))
	}
	t.P = figure(p)
	in := scatter.ratio(before, after, 1-j.alpha(), func(c, e Count) (Count, Count) { return c, e })
	t.Estimate, t.Low, t.High = figure(in.Estimate), figure(in.Low), figure(in.High)
	t.ruledOut = true
	for _, sign := range m.signs() {
		_, _, tolerated := directed(sign, before, after, *m.Tolerance)
		_, e, ratio := directed(sign, before, after, *m.Matters)
		estimated := scatter.ratio(before, after, 1-j.alpha(), func(c, e Count) (Count, Count) {
			c, e, _ = directed(sign, c, e, *m.Matters)
			return c, e
		})
		t.harmful = t.harmful || e.Events > 0 && estimated.Estimate >= ratio && estimated.Estimate > tolerated
		// Without events nothing got worse, and Least says whether that tells.
		t.ruledOut = t.ruledOut && (estimated.High <= ratio || e.Events == 0)
	}
	if scatter.few() && !t.ruledOut {
		t.Doubt = DoubtDependent
	}
	t.Tolerated, t.Matters = figure(m.ratioOf(*m.Tolerance, before.rate())), figure(m.ratioOf(*m.Matters, before.rate()))
	if !scatter.few() {
		t.wouldFind = func(level float64) float64 {
			return j.ratioFound(in, scatter, before.rate(), level/j.spending()/float64(len(m.signs())))
		}
	}
	t.says = j.saysRate(before, after, scatter.by, control.trials || experiment.trials)
	return t
}

// ratioFound is the ratio of rates that would have been found at a level of p with the
// probability power, by the interval, whose ends are about as far from the estimate in
// logarithms.
func (j judgement) ratioFound(in Interval, scatter scattering, rate, level float64) float64 {
	m := &j.metric
	normal, larger, allowed := math.Inf(1), 1.0, 0.0
	if s := scatter.successive; s != nil {
		larger, allowed = s.larger(), s.allowed/rate
	}
	if !(in.Low > 0) || math.IsInf(in.High, 0) || !(rate > 0) {
		return 0
	}
	logarithms := Interval{0, math.Log(in.Low), math.Log(in.High)}
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
func directed(sign float64, before, after Count, band Band) (c, e Count, ratio float64) {
	if sign > 0 {
		return Count{before.Events + band.Absolute*before.Of, before.Of}, after, 1 + band.Relative
	}
	return Count{after.Events + band.Absolute*after.Of, after.Of}, before, 1 / max(1-band.Relative, 1e-9)
}

// share of what a band bears as a number.
func (b Band) share(of float64) Band { return Band{Absolute: of * b.Absolute, Relative: b.Relative} }

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
		if t.Doubt == DoubtDependent {
			return fmt.Sprintf("%s after %s", rate(after), rate(before)) + j.concludes(t, "")
		}
		text := fmt.Sprintf("%s after %s, %s times the rate (%s to %s at %s)", rate(after), rate(before), number(float64(t.Estimate)), number(float64(t.Low)), number(float64(t.High)), confidence)
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
	if j.Look == 0 || !together(control, experiment) || math.IsInf(scatter, 0) {
		return 0, false
	}
	sums := sumsOf(control, experiment, divided(control, experiment, len(control.times)+len(experiment.times)))
	p = j.metric.worst(func(sign float64) float64 {
		wager := Wager{}
		for _, s := range sums {
			c, e, ratio := directed(sign, s[0].over(scatter), s[1].over(scatter), j.metric.Tolerance.share(1/times))
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
	apart := control.timed() && experiment.timed() && !together(control, experiment)
	return apart || near > all/math.Sqrt(float64(n))
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
		t.Doubt = DoubtRange
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
