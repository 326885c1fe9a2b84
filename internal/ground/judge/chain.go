package judge

import (
	"fmt"
	"slices"
	"time"
)

// maxIntervals of a chain.
const maxIntervals = 1000

// ChainResult is what came of intervals that follow each other.
type ChainResult struct {
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	// Together is the judgement of all data at once: it has the most samples, and sees
	// trends. It takes one half of alpha.
	Together Result `json:"together"`
	// Intervals each alone; they share the other half. One that is inconclusive says
	// nothing: it has few samples.
	Intervals []Result `json:"intervals"`
}

// Chain judges data interval by interval: each alone, so that harm that went away
// is found, and all together, so that harm is that no interval shows. It fails when
// any fails, and passes when all together do. Intervals are of a length, from the
// experiment's first sample on. Where control and experiment are of the same time,
// both are cut; else each interval is compared with all of the control. It is
// Invalid as Judge is, for samples without a time, and for more than 1000 intervals.
func Chain(settings Settings, data []Series, length time.Duration) (ChainResult, error) {
	settings, err := settings.settled(data)
	if err != nil {
		return ChainResult{}, err
	}
	intervals, err := split(data, length)
	if err != nil {
		return ChainResult{}, err
	}
	whole := settings
	whole.Alpha = settings.Alpha / 2
	chain := ChainResult{}
	if chain.Together, err = Judge(whole, data); err != nil {
		return ChainResult{}, err
	}
	settings.Alpha /= 2 * float64(len(intervals))
	for _, interval := range intervals {
		result, err := Judge(settings, interval)
		if err != nil {
			return ChainResult{}, err
		}
		chain.Intervals = append(chain.Intervals, result)
	}
	chain.decide()
	return chain, nil
}

func (c *ChainResult) decide() {
	c.Verdict, c.Why = c.Together.Verdict, "all together: "+c.Together.Why
	if c.Verdict == Fail {
		return
	}
	for i, one := range c.Intervals {
		if one.Verdict == Fail {
			c.Verdict, c.Why = Fail, fmt.Sprintf("interval %d of %d: %s", i+1, len(c.Intervals), one.Why)
			return
		}
	}
}

// split cuts data into intervals.
func split(data []Series, length time.Duration) ([][]Series, error) {
	if length <= 0 {
		return nil, wrong("an interval of %s has no length", length).WithHint("write one such as 10m")
	}
	var start, end time.Time
	for _, s := range data {
		for _, sample := range slices.Concat(s.Control, s.Experiment) {
			if sample.At.IsZero() {
				return nil, wrong("metric %.60q has a sample without a time", s.Metric).WithHint("intervals are of time: give each sample one")
			}
		}
		for _, sample := range s.Experiment {
			if start.IsZero() || sample.At.Before(start) {
				start = sample.At
			}
			end = later(end, sample.At)
		}
	}
	number := func(at time.Time) int { return int(at.Sub(start) / length) }
	if number(end) >= maxIntervals {
		return nil, tooMany("intervals", number(end)+1, maxIntervals)
	}
	intervals := make([][]Series, number(end)+1)
	for _, s := range data {
		concurrent := isConcurrent(usable(inOrder(s.Control), Values, nil), usable(inOrder(s.Experiment), Values, nil))
		for i := range intervals {
			inInterval := func(at time.Time) bool { return !at.Before(start) && number(at) == i }
			part := Series{Metric: s.Metric, Control: s.Control, Experiment: only(s.Experiment, inInterval)}
			if concurrent {
				part.Control = only(s.Control, inInterval)
			}
			intervals[i] = append(intervals[i], part)
		}
	}
	return intervals, nil
}

func only(samples []Sample, include func(time.Time) bool) (selected []Sample) {
	for _, s := range samples {
		if include(s.At) {
			selected = append(selected, s)
		}
	}
	return selected
}
