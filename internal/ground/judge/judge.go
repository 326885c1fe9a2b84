// Package judge says whether a change did harm: it compares samples of what
// changed (the experiment, or after) with those of what did not (the control, or
// before), and gives pass, fail or inconclusive, with the sentence that says why.
// It fails what is shown to be worse by as much as matters, passes what is shown
// not to be, and says so where the data show neither. Missing or broken data is
// never a pass, unless the settings say so (S11).
//
// It is pure: no clock, no randomness, no I/O; the same settings and data give the
// same bytes. Time is O(n log n) in samples, memory O(n), within MaxSamples.
// Rollouts and "lehr judge" call it; it acts on nothing.
package judge

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Verdict of a test, a metric or all.
type Verdict string

// Verdicts.
const (
	Pass         Verdict = "pass"
	Fail         Verdict = "fail"
	Inconclusive Verdict = "inconclusive"
)

// Result of a judgement. Numbers have six digits.
type Result struct {
	Verdict Verdict `json:"verdict"`
	// Why is a sentence or some, for people.
	Why string `json:"why"`
	// Score is the share of weights that passed, in percent; Best is what it would be if
	// all that is inconclusive had passed.
	Score Number `json:"score"`
	Best  Number `json:"best"`
	// Metrics in the order of the settings.
	Metrics []MetricResult `json:"metrics"`
	// Digest of the data; Settings with all defaults filled in. Both give this result
	// again.
	Digest   string   `json:"digest"`
	Settings Settings `json:"settings"`
}

// MetricResult is what came of one metric.
type MetricResult struct {
	Name       string  `json:"name"`
	Unit       string  `json:"unit,omitempty"`
	Group      string  `json:"group,omitempty"`
	Critical   bool    `json:"critical,omitempty"`
	Shadow     bool    `json:"shadow,omitempty"`
	Verdict    Verdict `json:"verdict"`
	Why        string  `json:"why"`
	Control    Summary `json:"control"`
	Experiment Summary `json:"experiment"`
	Tests      []Test  `json:"tests"`

	// missed is how many tests there would be, had there been data.
	missed int
}

// Summary of one side, in the metric's unit; of events, Middle and Mean are their rate.
type Summary struct {
	Samples int `json:"samples"`
	// Broken samples are in no other number.
	Broken int    `json:"broken,omitempty"`
	Least  Number `json:"least"`
	Middle Number `json:"median"`
	Mean   Number `json:"mean"`
	Most   Number `json:"most"`
	// Events of trials.
	Events Number `json:"events,omitempty"`
	Of     Number `json:"of,omitempty"`
}

// Test is one question asked of a metric.
type Test struct {
	// Kind is shift, spread, rate, mean, trend or limit.
	Kind string `json:"kind"`
	// Method is what was reckoned, by name.
	Method string `json:"method"`
	// Estimate is what changed, from Low to High at the confidence 1 - alpha: a
	// difference in the metric's unit, or a ratio (spread, rate); of a limit, how many
	// samples are beyond it.
	Estimate Number `json:"estimate"`
	Low      Number `json:"low"`
	High     Number `json:"high"`
	// Tolerated and Matters bound Estimate, in the same terms.
	Tolerated Number `json:"tolerated"`
	Matters   Number `json:"matters"`
	// CLES is the probability that a value of the experiment is the larger one, of a
	// shift; Cliff's delta is 2·CLES - 1.
	CLES Number `json:"cles,omitempty"`
	// P is of what was seen, or worse, if no more changed than is tolerated, at all looks
	// together; Adjusted is for all tests together. Both are 0 or 1 of a limit, which is no
	// test of chance.
	P        Number `json:"p"`
	Adjusted Number `json:"adjusted"`
	// Effective is how many independent samples the side with fewer of them is worth, of a
	// shift or a rate, where times are known.
	Effective Number `json:"effective,omitempty"`
	// Detectable is the smallest harm that would have been found with the probability Power:
	// a difference, of a spread and a rate a ratio; 0: it is not known, or there is none.
	Detectable Number  `json:"detectable,omitempty"`
	Power      Number  `json:"power,omitempty"`
	Verdict    Verdict `json:"verdict"`
	// Doubt is why it is inconclusive.
	Doubt Doubt `json:"doubt,omitempty"`
	// Wanted is about how many samples of each side would tell, of the doubts dependent and
	// states; 0: it cannot be said.
	Wanted int    `json:"wanted,omitempty"`
	Why    string `json:"why"`

	// harmful: the estimate is as much as matters. decides: a pass needs it.
	// ruledOut: the interval holds nothing that matters.
	harmful, decides, ruledOut bool
	// changes of values that are one of two; wantedAt is Wanted of them at a level of P.
	changes  int
	wantedAt func(level float64) int
	// needs is how many independent samples would tell, where neighbours are alike; 0:
	// leastEffective.
	needs int
	// level is P if what moves with time were left aside; 0: it is as P.
	level float64
	// wouldFind is Detectable at a level of P; nil: it is not known.
	wouldFind func(level float64) float64
	// explain is the sentence so far, for each verdict.
	explain func(Test) string
}

// Doubt says why a test is inconclusive.
type Doubt string

// Doubts.
const (
	// DoubtWide: what matters is not ruled out.
	DoubtWide Doubt = "wide"
	// DoubtChance: as much as matters was seen, and it may be chance.
	DoubtChance Doubt = "chance"
	// DoubtTime: as much as matters is shown, and it may be what moves with time, such as a
	// drift from before or the time of day.
	DoubtTime Doubt = "time"
	// DoubtDependent: neighbours are so alike that there are too few independent samples.
	DoubtDependent Doubt = "dependent"
	// DoubtStates: all samples are one of two values, and changed so seldom that nobody knows
	// whether they change by themselves.
	DoubtStates Doubt = "states"
	// DoubtRange: values are out of the range that there can be.
	DoubtRange Doubt = "range"
)

// Judge judges data by settings. Neither the order of series, nor that of samples,
// matters; samples whose times are known are put in theirs. It is Invalid when
// settings make no sense, or there is more than its limits.
func Judge(settings Settings, data []Series) (Result, error) {
	ordered, err := canonical(data)
	if err != nil {
		return Result{}, err
	}
	settings, err = settings.settled(ordered)
	if err != nil {
		return Result{}, err
	}
	result := Result{Settings: settings}
	if result.Digest, err = digest(ordered); err != nil {
		return Result{}, err
	}
	series := map[string]Series{}
	for _, s := range ordered {
		series[s.Metric] = s
	}
	for _, m := range settings.Metrics {
		result.Metrics = append(result.Metrics, judgement{settings, m}.assess(series[m.Name]))
	}
	result.adjust()
	for i := range result.Metrics {
		result.Metrics[i].decide()
	}
	result.decide()
	return result, nil
}

// Archive is a judgement that can be made again: its settings and data.
type Archive struct {
	Settings Settings `json:"settings"`
	Data     []Series `json:"data"`
}

// judgement of one metric.
type judgement struct {
	Settings
	metric Metric
}

// alpha of this look: all looks together spend Alpha, since 1/(1·2) + 1/(2·3) + … is 1.
func (j judgement) alpha() float64 { return j.Alpha / j.spending() }

// spending is what a P that holds at one look is multiplied by to hold at all.
func (j judgement) spending() float64 {
	if j.Look == 0 {
		return 1
	}
	return float64(j.Look) * float64(j.Look+1)
}

func (j judgement) assess(series Series) MetricResult {
	m := j.metric
	control, experiment := usable(series.Control, m.Kind, nil), usable(series.Experiment, m.Kind, m.Limit)
	result := MetricResult{
		Name: m.Name, Unit: m.Unit, Group: m.Group, Critical: m.Critical, Shadow: m.Shadow,
		Control: summary(control), Experiment: summary(experiment), Tests: []Test{},
	}
	if len(experiment.limited) > 0 {
		result.Tests = append(result.Tests, j.limit(experiment))
	}
	sides := []namedSide{{"control", control}, {"experiment", experiment}}
	limited := m.Limit != nil && len(series.Control) == 0
	if limited {
		// A limit needs no control, and counts what is no number.
		sides = sides[1:]
	}
	switch verdict, reason := j.unusable(sides, limited); {
	case limited && reason == "":
	case reason != "":
		result.Verdict, result.Why, result.missed = verdict, reason, 3
		if m.Kind == Events {
			result.missed = 1
		}
	case m.Kind == Events:
		result.Tests = append(result.Tests, j.rate(control, experiment))
	default:
		result.Tests = append(result.Tests, j.values(control, experiment)...)
	}
	return result
}

type namedSide struct {
	name string
	side side
}

// unusable says why nothing can be said of sides; empty: it can. Where only the limit is
// asked, a sample that it counts is of use even if it is no number.
func (j judgement) unusable(sides []namedSide, limited bool) (Verdict, string) {
	m := j.metric
	for _, s := range sides {
		used := s.side.size()
		if limited {
			used = len(s.side.limited)
		}
		all := used + s.side.broken
		switch {
		case all == 0:
			return noData(m.NoData, s.name)
		case j.tooBroken(s.side):
			return Inconclusive, fmt.Sprintf("%s of the %s's %s cannot be used: no finite %s, more than the share of %s that may be",
				number(float64(s.side.broken)), s.name, count(all, "sample"), map[Kind]string{Values: "numbers", Events: "counts of trials"}[m.Kind], percent(*m.Broken))
		case used < m.Least:
			return Inconclusive, fmt.Sprintf("the %s has %s, fewer than %d", s.name, count(used, "sample"), m.Least)
		case m.Kind == Events && s.side.notFinite == 0 && total(s.side.counts).Of == 0:
			return noData(m.NoData, s.name)
		}
	}
	return "", ""
}

func (j judgement) tooBroken(s side) bool {
	return float64(s.broken) > *j.metric.Broken*float64(s.size()+s.broken)
}

func noData(policy Policy, side string) (Verdict, string) {
	reason := "the " + side + " has no data"
	switch policy {
	case NoDataFails:
		return Fail, reason + ", which counts as a failure"
	case NoDataPasses:
		return Pass, reason + ", which counts as a pass"
	}
	return Inconclusive, reason
}

func summary(s side) Summary {
	result := Summary{Samples: s.size(), Broken: s.broken + s.notFinite}
	if len(s.counts) > 0 {
		sum := total(s.counts)
		result.Events, result.Of = figure(sum.Events), figure(sum.Of)
		result.Mean = figure(sum.rate())
		result.Middle = result.Mean
		rates := ratesOf(s.counts)
		result.Least, result.Most = figure(slices.Min(rates)), figure(slices.Max(rates))
		return result
	}
	if len(s.values) == 0 {
		return result
	}
	result.Least, result.Most = figure(slices.Min(s.values)), figure(slices.Max(s.values))
	result.Middle, result.Mean = figure(median(s.values)), figure(mean(s.values))
	return result
}

func ratesOf(counts []Count) []float64 {
	rates := make([]float64, len(counts))
	for i, c := range counts {
		rates[i] = c.rate()
	}
	return rates
}

// adjust the probabilities of all tests that decide; those of shadows are
// adjusted apart, so that to watch something costs nothing. Tests that could not be made
// count as well: otherwise missing data of one metric would let another fail (S11).
func (r *Result) adjust() {
	for _, shadow := range []bool{false, true} {
		var family []*Test
		var places []int // assess the family, among the probabilities
		var probabilities []float64
		for i := range r.Metrics {
			for k := range r.Metrics[i].Tests {
				if t := &r.Metrics[i].Tests[k]; r.Metrics[i].Shadow == shadow && t.Kind != limitKind {
					family, places = append(family, t), append(places, len(probabilities))
					probabilities = append(probabilities, float64(t.P))
				}
			}
			if r.Metrics[i].Shadow == shadow {
				probabilities = append(probabilities, slices.Repeat([]float64{1}, r.Metrics[i].missed)...)
			}
		}
		adjusted := Holm(probabilities)
		if r.Settings.Correct == FalseDiscovery {
			adjusted = BenjaminiHochberg(probabilities)
		}
		for i, t := range family {
			t.Adjusted = figure(adjusted[places[i]])
			t.decide(r.Settings.Alpha, r.Settings.Alpha/float64(len(probabilities)))
		}
	}
}

// decide a test of chance, by the alpha of all tests, and that of it alone among them.
func (t *Test) decide(alpha, alone float64) {
	doubt := t.Doubt
	t.Doubt = ""
	switch {
	case t.harmful && float64(t.Adjusted) <= alpha:
		t.Verdict = Fail
	case t.decides && doubt != "":
		t.Verdict, t.Doubt = Inconclusive, doubt
	case t.harmful && t.level > 0 && t.level <= alone:
		t.Verdict, t.Doubt = Inconclusive, DoubtTime
	case t.harmful:
		t.Verdict, t.Doubt = Inconclusive, cmp.Or(doubt, DoubtChance)
	case t.decides && !t.ruledOut:
		t.Verdict, t.Doubt = Inconclusive, DoubtWide
	default:
		t.Verdict = Pass
	}
	if t.wouldFind != nil {
		if found := t.wouldFind(alone); found > 0 && !math.IsInf(found, 0) {
			t.Detectable, t.Power = figure(found), power
		}
	}
	if t.Doubt == DoubtStates {
		t.Wanted = t.wantedAt(alone)
	}
	t.Why = t.explain(*t)
}

// decide a metric by its tests: the worst of them, and those that say so.
func (m *MetricResult) decide() {
	for _, verdict := range []Verdict{Fail, Inconclusive, Pass} {
		var reasons []string
		for _, t := range m.Tests {
			if t.Verdict == verdict && (verdict != Pass || t.decides) {
				reasons = append(reasons, t.Why)
			}
		}
		switch {
		case m.Verdict == verdict && m.Why != "":
			// What could not be compared comes first.
			m.Why = strings.Join(append([]string{m.Why}, reasons...), "; ")
			return
		case len(reasons) > 0:
			if m.Verdict = verdict; m.Why != "" {
				reasons = append(reasons, m.Why)
			}
			m.Why = strings.Join(reasons, "; ")
			return
		}
	}
}
