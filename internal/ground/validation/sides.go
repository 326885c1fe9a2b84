package validation

import (
	"fmt"
	"math"
	"slices"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/judge"
)

// maxClockSkew is how far a source's clock may be before Lehr's.
const maxClockSkew = time.Minute

// sides of a metric: the samples that count, and why they cannot be used.
type sides struct {
	metric *Measure
	series judge.Series
	// broken says why; empty: they can.
	broken string
	// old: they are whole, but for the end.
	old bool
	// sampleTimes are when there were samples of what changed, and of the control.
	sampleTimes [2]sampleTimes
}

// sides of each metric, in the order of the settings.
func (l *look) sides(readings []Reading) ([]sides, error) {
	byName := map[string]*Reading{}
	for i := range readings {
		r := &readings[i]
		if byName[r.Metric] != nil {
			return nil, fault.New(fault.Invalid, "there are two readings of the metric %.60q", r.Metric).WithHint("read each metric once")
		}
		byName[r.Metric] = r
	}
	all := make([]sides, len(l.Metrics))
	for i := range l.Metrics {
		m := &l.Metrics[i]
		all[i] = sides{metric: m, series: judge.Series{Metric: m.Judge.Name}}
		reading := byName[m.Judge.Name]
		if reading == nil {
			all[i].broken = "it was not read"
			continue
		}
		all[i].series.Experiment, all[i].broken = l.side(m, reading.Experiment, l.start, l.until)
		if m.Compare == None {
			continue
		}
		start, end := l.start, l.until
		if m.Compare == Before {
			// What is sampled while it changes is of neither.
			start, end = l.changeStart.Add(-l.Before), l.changeStart
		}
		control, broken := l.side(m, reading.Control, start, end)
		if all[i].series.Control = control; broken != "" && all[i].broken == "" {
			all[i].broken = l.baselineText(m.Compare) + broken
		}
	}
	l.zeros(all)
	for i := range all {
		s := &all[i]
		if s.broken == "" {
			s.sampleTimes = [2]sampleTimes{sampleTimesOf(s.series.Experiment), sampleTimesOf(s.series.Control)}
		}
		s.check(l)
	}
	return all, nil
}

// baselineText what it was compared, in words, with when: that may be long ago.
func (l *look) baselineText(c Comparison) string {
	return map[Comparison]string{Before: fmt.Sprintf("before the change, which began at %s, ", instant(l.changeStart)), Control: "of the control, "}[c]
}

// side of a metric within a time, both ends included, and why it cannot be used. No
// samples are no reason yet.
func (l *look) side(m *Measure, s Side, start, end time.Time) (selected []judge.Sample, broken string) {
	if s.Failed != "" {
		return nil, s.Failed
	}
	if most := max(len(s.Samples), len(s.Trials)); most > l.MostOfSide() {
		return nil, fmt.Sprintf("it has %d samples, more than %d; aggregate them, as to one for each step", most, l.MostOfSide())
	}
	for _, sample := range slices.Concat(s.Samples, s.Trials) {
		if sample.At.IsZero() {
			return nil, "a sample has no time"
		}
		if sample.At.After(l.now.Add(maxClockSkew)) {
			return nil, fmt.Sprintf("a sample is of %s, which is yet to come: the clock of its source is ahead", instant(sample.At))
		}
	}
	clip := func(samples []judge.Sample) (selected []judge.Sample) {
		for _, one := range samples {
			if !one.At.Before(start) && !one.At.After(end) {
				selected = append(selected, one)
			}
		}
		return selected
	}
	selected = clip(s.Samples)
	if m.Source.Of != "" {
		selected = m.joined(selected, clip(s.Trials))
	}
	if m.NaN == NaNIgnore || m.NaN == NaNZero {
		selected = m.numbers(selected)
	}
	return selected, ""
}

// joined gives events the trials of the same time; events of no known trials are left
// out. Where absence is zero, trials without events had none.
func (m *Measure) joined(events, trials []judge.Sample) (joined []judge.Sample) {
	byTime := map[int64]judge.Number{}
	for _, e := range events {
		byTime[e.At.UnixNano()] = e.Value
	}
	for _, t := range trials {
		value, ok := byTime[t.At.UnixNano()]
		if ok || m.Absent == AbsentZero {
			joined = append(joined, judge.Sample{At: t.At, Value: value, Of: new(t.Value)})
		}
	}
	return joined
}

// numbers are samples by the rule for those that are none.
func (m *Measure) numbers(samples []judge.Sample) (selected []judge.Sample) {
	for _, s := range samples {
		switch {
		case finite(s):
			selected = append(selected, s)
		case m.NaN == NaNZero && math.IsNaN(float64(s.Value)) && (s.Of == nil || isNumber(float64(*s.Of))):
			s.Value = 0
			selected = append(selected, s)
		}
	}
	return selected
}

func finite(s judge.Sample) bool {
	return isNumber(float64(s.Value)) && (s.Of == nil || isNumber(float64(*s.Of)))
}

func isNumber(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// zeros fills in what an absence means, where another metric that decides shows by its
// samples that the same source was well: else an outage would look like no errors.
func (l *look) zeros(all []sides) {
	for i := range all {
		s := &all[i]
		if s.metric.Absent != AbsentZero || s.metric.Source.Of != "" || s.broken != "" {
			continue
		}
		s.series.Experiment = l.filled(s.series.Experiment, witness(all, s, func(o sides) []judge.Sample { return o.series.Experiment }))
		if s.metric.Compare != None {
			s.series.Control = l.filled(s.series.Control, witness(all, s, func(o sides) []judge.Sample {
				if o.metric.Compare != s.metric.Compare {
					return nil
				}
				return o.series.Control
			}))
		}
	}
}

// witness are the most numbers that another metric of the same source has of a side.
func witness(all []sides, target *sides, side func(sides) []judge.Sample) (most []judge.Sample) {
	for _, candidate := range all {
		if candidate.metric.Judge.Shadow || candidate.metric.Absent == AbsentZero || candidate.broken != "" || !candidate.metric.Source.same(target.metric.Source) {
			continue
		}
		if numbers := slices.DeleteFunc(slices.Clone(side(candidate)), func(s judge.Sample) bool { return !finite(s) }); len(numbers) > len(most) {
			most = numbers
		}
	}
	return most
}

// same reports whether two are asked of one.
func (s Source) same(other Source) bool {
	return s.Prometheus == other.Prometheus && s.HTTP == other.HTTP && s.SQL == other.SQL && s.Plugin == other.Plugin && slices.Equal(s.Command, other.Command)
}

// filled has a zero at each time at which there is a witness, and no sample within half
// a step.
func (l *look) filled(samples, witnesses []judge.Sample) []judge.Sample {
	times := make([]int64, len(samples))
	for i, s := range samples {
		times[i] = s.At.UnixNano()
	}
	slices.Sort(times)
	half := int64(l.Step / 2)
	for _, w := range witnesses {
		at := w.At.UnixNano()
		if i, _ := slices.BinarySearch(times, at-half); i == len(times) || times[i] > at+half {
			samples = append(samples, judge.Sample{At: w.At})
		}
	}
	return samples
}

// check says why samples cannot be used, and then leaves none, but of the last look old
// ones: the judge is to know nothing of what is broken.
func (s *sides) check(l *look) {
	for _, side := range []struct {
		samples []judge.Sample
		words   string
		until   time.Time
		needed  bool
		// judged: samples that are no numbers are judged by the limit.
		judged bool
	}{
		{s.series.Experiment, "", l.until, true, s.metric.NaN == NaNBad},
		{s.series.Control, l.baselineText(s.metric.Compare), l.until, s.metric.Compare != None, false},
	} {
		if s.broken != "" || !side.needed {
			continue
		}
		switch newest, numbers := newestOf(side.samples); {
		case len(side.samples) == 0:
			s.broken = side.words + "it has no samples"
		case !side.judged && (numbers == 0 || float64(len(side.samples)-numbers) > *s.metric.Judge.Broken*float64(len(side.samples))):
			s.broken = fmt.Sprintf("%s%d of %d samples are no numbers", side.words, len(side.samples)-numbers, len(side.samples))
		case !l.last() && (side.words == "" || s.metric.Compare == Control) && side.until.Sub(newest) > s.metric.Fresh:
			// What the last look has seen still counts while it grows.
			s.old = l.number == l.all
			s.broken = fmt.Sprintf("%sits newest sample is of %s, %s before the end of what is looked at", side.words, instant(newest), side.until.Sub(newest).Round(time.Second))
		}
	}
	if s.broken != "" && !s.old {
		s.series.Control, s.series.Experiment = nil, nil
	}
}

// newestOf samples, and how many are numbers.
func newestOf(samples []judge.Sample) (newest time.Time, numbers int) {
	for _, s := range samples {
		if s.At.After(newest) {
			newest = s.At
		}
		if finite(s) {
			numbers++
		}
	}
	return newest, numbers
}

// clipped an interval: of what changed, and of a control of the same time.
func (s sides) clipped(start, end time.Time) sides {
	cut := func(samples []judge.Sample) (selected []judge.Sample) {
		for _, one := range samples {
			if !one.At.Before(start) && one.At.Before(end) {
				selected = append(selected, one)
			}
		}
		return selected
	}
	s.series.Experiment = cut(s.series.Experiment)
	if s.metric.Compare == Control {
		s.series.Control = cut(s.series.Control)
	}
	return s
}

// unseen names the metrics that decide, and have no number on a side that they need. One that
// takes what is no number for bad needs none of what changed.
func unseen(all []sides) (names []string) {
	for _, s := range all {
		_, changed := newestOf(s.series.Experiment)
		if s.metric.NaN == NaNBad {
			changed = len(s.series.Experiment)
		}
		_, control := newestOf(s.series.Control)
		if !s.metric.Judge.Shadow && (changed == 0 || s.metric.Compare != None && control == 0) {
			names = append(names, s.metric.Judge.Name)
		}
	}
	return names
}

func seriesOf(all []sides) []judge.Series {
	series := make([]judge.Series, len(all))
	for i, s := range all {
		series[i] = s.series
	}
	return series
}
