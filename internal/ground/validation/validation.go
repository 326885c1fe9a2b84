// Package validation says whether what a rollout changed is good or bad, by samples of
// metrics from before and after, of what changed and what did not, or by limits. It
// decides when to look, which samples count, and what missing or broken data mean: they
// are neither good nor bad (S11); package judge has the statistics.
//
// It is pure: it takes settings, samples and now, keeps nothing between two looks, and so
// goes on after a restart. The strategist calls it with what package sampling read.
package validation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/judge"
)

// Verdict on a change, or on one metric of it.
type Verdict string

// Verdicts. Only Good and Bad are found; the others say why neither is.
const (
	// Good: all of its time has passed, and what matters is ruled out.
	Good Verdict = "good"
	// Bad: harm is shown, or a limit is broken. It may be so at any look.
	Bad Verdict = "bad"
	// Inconclusive: all of its time has passed, and neither is shown. A person decides.
	Inconclusive Verdict = "inconclusive"
	// Waiting: some of its time is left.
	Waiting Verdict = "waiting"
	// Broken: a source gives no answer, or none that can be used. It is asked again.
	Broken Verdict = "broken"
)

// Verdicts are all, the worst news first.
func Verdicts() []Verdict { return []Verdict{Bad, Broken, Inconclusive, Waiting, Good} }

// Side is what came of asking for one metric of what changed, or of what did not.
type Side struct {
	// Samples in any order. Those outside of the time that is looked at are left out.
	Samples []judge.Sample `json:"samples"`
	// Trials are how many trials the samples of events are of, where that is asked for
	// apart.
	Trials []judge.Sample `json:"trials,omitempty"`
	// Failed says why there is no answer, in words; empty: there is.
	Failed string `json:"failed,omitempty"`
}

// Reading of one metric.
type Reading struct {
	Metric     string `json:"metric"`
	Control    Side   `json:"control"`
	Experiment Side   `json:"experiment"`
}

// Assessment is what a look found.
type Assessment struct {
	Verdict Verdict `json:"verdict"`
	// Why is a sentence or some, for people.
	Why string `json:"why"`
	// Look of Looks this is; 0: before the first.
	Look  int `json:"look"`
	Looks int `json:"looks"`
	// From and Until bound the samples of what changed that were looked at.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Next is when to look again; zero: never, unless a person asks.
	Next time.Time `json:"next,omitzero"`
	// Score is the share of weights that are good, in percent; Best is what it would be
	// if all that is not known were.
	Score judge.Number `json:"score"`
	Best  judge.Number `json:"best"`
	// Metrics by name.
	Metrics []Metric `json:"metrics"`
	// Intervals that are whole, each judged alone; empty when there is one alone.
	Intervals []Interval `json:"intervals,omitempty"`
}

// Metric is what a look found of one metric, with its numbers.
type Metric struct {
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	// Compared is with what it is; empty: it was not looked at yet.
	Compared Comparison `json:"compared,omitempty"`
	// Alone: Compared is before, since nothing is left that did not change.
	Alone bool `json:"alone,omitempty"`
	// Judged is what the judge says of the samples; it knows of no time that is left.
	Judged judge.MetricResult `json:"judged"`
}

// Interval is what one interval alone shows: harm that went away is seen in it.
type Interval struct {
	Verdict judge.Verdict `json:"verdict"`
	Why     string        `json:"why"`
	// Unseen are metrics that decide, and have no samples in it.
	Unseen []string `json:"unseen,omitempty"`
}

// retry is when a source that is broken is asked again at the latest.
const retry = time.Minute

// Change is what is assessed, by when it was made.
type Change struct {
	// Began is when it was begun; zero: at Done. What is before it is compared with.
	Began time.Time
	// Done is since when all that is changed has it.
	Done time.Time
}

// Assess says what is known now of a change, by the readings so far.
// Neither their order, nor that of samples or metrics, matters. Between two looks it says
// the same as at the last. It is Invalid when the settings make no sense, or a metric was
// read twice.
func Assess(s Settings, change Change, readings []Reading, now time.Time) (Assessment, error) {
	a, _, err := assess(s, change, readings, now)
	return a, err
}

// assess, and return the samples that were judged.
func assess(s Settings, change Change, readings []Reading, now time.Time) (a Assessment, all []sides, err error) {
	s, err = s.settled()
	if err != nil {
		return a, nil, err
	}
	l := lookAt(s, change, now)
	if l.number == 0 {
		return l.tooEarly(), nil, nil
	}
	if l.last() {
		if err = l.grow(readings); err != nil {
			return a, nil, err
		}
	}
	if all, err = l.sides(readings); err != nil {
		return a, nil, err
	}
	overall, err := l.judge(all)
	if err != nil {
		return a, nil, err
	}
	a = l.assessment(overall, all)
	if a.Intervals, err = l.intervals(all); err != nil {
		return a, nil, err
	}
	l.decide(&a, overall, all)
	if slices.ContainsFunc(a.Metrics, func(m Metric) bool { return m.Alone }) {
		a.Why += "; nothing is left that did not change, so it is compared with before"
	}
	return a, all, nil
}

// look is one of those at growing samples.
type look struct {
	Settings
	changeStart, start, until, now time.Time
	number, all                    int
	// grown by so many steps after the last look, it still has no samples of as much time
	// as is missing.
	grown   int
	missing time.Duration
}

// lookAt is the look that is due. The change is of whole seconds, as samples are that are
// asked for since then.
func lookAt(s Settings, change Change, now time.Time) *look {
	changeEnd, changeStart := change.Done.UTC().Truncate(time.Second), change.Began.UTC().Truncate(time.Second)
	if change.Began.IsZero() || changeStart.After(changeEnd) {
		changeStart = changeEnd
	}
	l := &look{Settings: s, changeStart: changeStart, start: changeEnd.Add(s.WarmUp), now: now}
	lasts := l.lasts()
	l.all = int((lasts + l.Every - 1) / l.Every)
	l.number = min(l.all, max(0, int(l.now.Sub(l.start)/l.Every)))
	if l.now.Sub(l.start) >= lasts {
		l.number = l.all
	}
	l.until = l.start.Add(min(lasts, time.Duration(l.number)*l.Every))
	return l
}

// nextLook a look, the next one.
func (l *look) nextLook() time.Time {
	if l.short() {
		return l.until.Add(l.Every)
	}
	return l.start.Add(min(l.lasts(), time.Duration(l.number+1)*l.Every))
}

func (l *look) last() bool { return l.number == l.all && !l.short() }

func (l *look) tooEarly() Assessment {
	reason := fmt.Sprintf("the first look is at %s", instant(l.nextLook()))
	if l.WarmUp > 0 {
		reason += fmt.Sprintf(", after a warm-up of %s", l.WarmUp)
	}
	a := Assessment{Verdict: Waiting, Why: reason, Looks: l.all, Next: l.nextLook(), Metrics: []Metric{}, Best: 100}
	for _, m := range l.Metrics {
		a.Metrics = append(a.Metrics, Metric{Verdict: Waiting, Why: "it was not looked at yet", Judged: judge.MetricResult{
			Name: m.Judge.Name, Unit: m.Judge.Unit, Group: m.Judge.Group, Critical: m.Judge.Critical, Shadow: m.Judge.Shadow, Verdict: judge.Inconclusive, Tests: []judge.Test{},
		}})
	}
	return a
}

// judge all samples so far. Where there are intervals, they share one half of alpha.
func (l *look) judge(sides []sides) (judge.Result, error) {
	settings := l.judgeSettings()
	if l.all > 1 || l.grown > 0 || l.short() {
		settings.Look = l.heardAt(sides)
	}
	if l.Intervals > 1 {
		settings.Alpha /= 2
	}
	return judge.Judge(settings, seriesOf(sides))
}

// intervals judges each that is whole alone; a look at one more takes less of alpha.
func (l *look) intervals(all []sides) (intervals []Interval, err error) {
	for i := 1; l.Intervals > 1 && !l.start.Add(time.Duration(i)*l.Interval).After(l.until); i++ {
		settings := l.judgeSettings()
		settings.Alpha /= 2
		settings.Look = i
		part := make([]sides, len(all))
		for k, s := range all {
			part[k] = s.clipped(l.start.Add(time.Duration(i-1)*l.Interval), l.start.Add(time.Duration(i)*l.Interval))
		}
		result, err := judge.Judge(settings, seriesOf(part))
		if err != nil {
			return nil, err
		}
		one := Interval{Verdict: result.Verdict, Why: result.Why}
		if one.Unseen = unseen(part); len(one.Unseen) > 0 && one.Verdict != judge.Fail {
			one.Verdict, one.Why = judge.Inconclusive, "there are no samples of "+some(one.Unseen)
		}
		intervals = append(intervals, one)
	}
	return intervals, nil
}

// assessment of each metric.
func (l *look) assessment(overall judge.Result, all []sides) Assessment {
	a := Assessment{Look: l.number, Looks: l.all, From: l.start, Until: l.until, Score: overall.Score, Best: overall.Best, Metrics: []Metric{}}
	for i, judged := range overall.Metrics {
		m := Metric{Judged: judged, Why: judged.Why, Compared: all[i].metric.Compare, Alone: all[i].metric.Alone}
		switch {
		case judged.Verdict == judge.Fail:
			m.Verdict = Bad
		case all[i].broken != "":
			m.Verdict, m.Why = Broken, all[i].broken
		case !l.last():
			m.Verdict = Waiting
		case judged.Verdict == judge.Pass:
			m.Verdict = Good
		default:
			m.Verdict = Inconclusive
		}
		if m.Alone {
			m.Why = "compared with before, since nothing is left that did not change: " + m.Why
		}
		a.Metrics = append(a.Metrics, m)
	}
	return a
}

// decide all by its metrics and intervals.
func (l *look) decide(a *Assessment, overall judge.Result, all []sides) {
	broken := slices.DeleteFunc(slices.Clone(all), func(s sides) bool { return s.broken == "" || s.metric.Judge.Shadow })
	unseen := slices.IndexFunc(a.Intervals, func(i Interval) bool { return len(i.Unseen) > 0 })
	failed := slices.IndexFunc(a.Intervals, func(i Interval) bool { return i.Verdict == judge.Fail })
	switch {
	case overall.Verdict == judge.Fail:
		a.Verdict, a.Why = Bad, overall.Why
	case failed >= 0:
		a.Verdict, a.Why = Bad, fmt.Sprintf("interval %d of %d: %s", failed+1, max(l.Intervals, len(a.Intervals)), a.Intervals[failed].Why)
	case l.givesUp():
		a.Verdict, a.Why = Inconclusive, l.missingWhy()+"; a person decides"
	case len(broken) > 0:
		a.Verdict, a.Why = Broken, brokenWhy(broken)
		a.Next = l.now.Add(min(retry, l.Every))
		if next := l.nextLook(); !l.last() && next.Before(a.Next) {
			a.Next = next
		}
	case l.short():
		a.Verdict, a.Next = Waiting, l.nextLook()
		a.Why = fmt.Sprintf("%s, which shows no harm; the next look is at %s", l.missingWhy(), instant(a.Next))
	case !l.last():
		a.Verdict, a.Next = Waiting, l.nextLook()
		a.Why = fmt.Sprintf("look %d of %d shows no harm; the next is at %s", l.number, l.all, instant(a.Next))
	case unseen >= 0 && l.grown == 0:
		a.Verdict, a.Why = Inconclusive, fmt.Sprintf("interval %d of %d: %s", unseen+1, l.Intervals, a.Intervals[unseen].Why)
	case overall.Verdict == judge.Pass:
		a.Verdict, a.Why = Good, overall.Why
	default:
		a.Verdict, a.Why = Inconclusive, overall.Why
	}
}

// missingWhy says how much of its time a look that is short has seen.
func (l *look) missingWhy() string {
	return fmt.Sprintf("samples are missing: since %s it has seen %s of the %s that it is to look at", instant(l.start), (l.lasts() - l.missing).Round(time.Second), l.lasts())
}

// brokenWhy names the first that are.
func brokenWhy(broken []sides) string {
	words := make([]string, len(broken))
	for i, s := range broken {
		words[i] = s.metric.Judge.Name + ": " + s.broken
	}
	return "nothing is known of " + plural(len(broken), "a metric", fmt.Sprintf("%d metrics", len(broken))) + ": " + some(words)
}

// some of a list, for people.
func some(list []string) string {
	const few = 3
	if len(list) > few {
		return strings.Join(list[:few], "; ") + fmt.Sprintf("; and %d more", len(list)-few)
	}
	return strings.Join(list, "; ")
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }
