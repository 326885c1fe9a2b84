package validation

import (
	"cmp"
	"slices"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/judge"
)

// Limits of a validation, so that each look is bounded in time and memory.
const (
	MaxMetrics = 100
	// LeastStep is the shortest time between two samples, LeastEvery between two looks.
	LeastStep  = time.Second
	LeastEvery = 5 * time.Second
	// MostTime of all intervals together, of the warm-up, and of the time before.
	MostTime = 30 * 24 * time.Hour
	// MostSamples of one side of a metric, and MostAllSamples of all together, which bound
	// what a record holds, and how long a look takes: two seconds or so.
	MostSamples    = 5_000
	MostAllSamples = 50_000
	// MostLooks and MostIntervals of a validation.
	MostLooks     = 10_000
	MostIntervals = 24
	// MostGrowth is how many looks there may be after the last one, to see what there were
	// no samples of. Then a person decides.
	MostGrowth = 100
)

// Defaults.
const (
	usualInterval = 10 * time.Minute
	usualStep     = 15 * time.Second
	// A sample is fresh for so many steps, and at least so long, or half an interval if
	// that is less.
	freshSteps = 5
	leastFresh = time.Minute
)

// Comparison is what samples of what changed are compared with.
type Comparison string

// Comparisons; an empty one is the validation's, and of that Before.
const (
	Before  Comparison = "before"
	Control Comparison = "control"
	None    Comparison = "none"
)

// Absence is what no samples mean.
type Absence string

// Absences; an empty one is AbsentWaits.
const (
	AbsentWaits Absence = "wait"
	AbsentZero  Absence = "zero"
)

// NaN is what becomes of samples that are no finite numbers; of NaNZero, infinite ones
// are left out. NaNBad is of what changed: NaN is beyond the limit, and an infinite sample is
// where it is above or below it; of what it is compared with, it is as NaNBroken.
type NaN string

// Rules for NaN; an empty one is NaNBroken.
const (
	NaNBroken NaN = "broken"
	NaNIgnore NaN = "ignore"
	NaNZero   NaN = "zero"
	NaNBad    NaN = "bad"
)

// Settings of a validation. The zero value of each is its default.
type Settings struct {
	Name string `json:"name,omitempty"`
	// WarmUp is how long after the change samples count for nothing.
	WarmUp time.Duration `json:"warm_up"`
	// Interval is how long one is, default 10m, and Intervals how many there are,
	// default 1: so long it lasts.
	Interval  time.Duration `json:"interval"`
	Intervals int           `json:"intervals"`
	// Every is how often it looks; default Interval.
	Every time.Duration `json:"every"`
	// Step is the time between two samples; default 15s.
	Step time.Duration `json:"step"`
	// Before is how much of the time before the change began is compared with; default as
	// long as it lasts.
	Before time.Duration `json:"before"`
	// Compare is that of metrics which do not say; default Before.
	Compare Comparison `json:"compare"`
	// Alpha, Correct, Pass, Marginal and Groups are as package judge has them.
	Alpha    float64            `json:"alpha,omitempty"`
	Correct  judge.Correction   `json:"correct,omitempty"`
	Pass     float64            `json:"pass,omitempty"`
	Marginal float64            `json:"marginal,omitempty"`
	Groups   map[string]float64 `json:"groups,omitempty"`
	Metrics  []Measure          `json:"metrics"`
}

// Measure is one metric, where it is read, and which change of it is harm.
type Measure struct {
	// Judge is as package judge takes it. Its limit is what AtMost and AtLeast are to
	// people; its NoData stays open.
	Judge judge.Metric `json:"judge"`
	// Compare with what; empty: as the validation says.
	Compare Comparison `json:"compare"`
	// Alone: it was to be compared with what did not change, of which nothing is left, and is
	// with before.
	Alone  bool    `json:"alone,omitempty"`
	Absent Absence `json:"absent"`
	NaN    NaN     `json:"nan"`
	// Fresh is how old the newest sample may be at the end of what is looked at, and how
	// far two may be apart; default five steps, or if that is more the lesser of a minute
	// and half an interval. A longer time without samples does not count.
	Fresh time.Duration `json:"fresh"`
	// Source is not looked at here.
	Source Source `json:"source"`
}

// Source is who is asked for samples, and what. One of the first five is given.
type Source struct {
	// Prometheus and HTTP are a URL or the name that the operator gave to one, SQL the
	// name of a database, Plugin that of a plugin.
	Prometheus string   `json:"prometheus,omitempty"`
	HTTP       string   `json:"http,omitempty"`
	SQL        string   `json:"sql,omitempty"`
	Command    []string `json:"command,omitempty"`
	Plugin     string   `json:"plugin,omitempty"`
	Query      string   `json:"query,omitempty"`
	// Of asks for trials; Experiment and Control are what $selector stands for.
	Of         string `json:"of,omitempty"`
	Experiment string `json:"experiment,omitempty"`
	Control    string `json:"control,omitempty"`
	// Timeout of an answer; 0: as package sampling has it.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// MostOfSide is how many samples one side of a metric may have.
func (s *Settings) MostOfSide() int {
	return min(MostSamples, MostAllSamples/(2*max(1, len(s.Metrics))))
}

// lasts is for how long it looks, after the warm-up.
func (s *Settings) lasts() time.Duration { return time.Duration(s.Intervals) * s.Interval }

// Window is what samples are needed of at a time: of what changed, from From to Until; of
// a control the same; of what is compared with before, from Before to Began. Until goes
// on after the last look, for some of the time before may have no samples.
type Window struct {
	Before, Began, From, Until time.Time
	// Look that they are for; 0: it is too early to look.
	Look int
}

// Window at a time of a change. It is Invalid as Check is.
func (s Settings) Window(change Change, now time.Time) (Window, error) {
	s, err := s.settled()
	if err != nil {
		return Window{}, err
	}
	l := lookAt(s, change, now)
	end := l.until
	if l.last() {
		end = l.grownBy(l.mostGrown())
	}
	return Window{Before: l.changeStart.Add(-s.Before), Began: l.changeStart, From: l.start, Until: end, Look: l.number}, nil
}

// Check is Invalid for what makes no sense.
func (s Settings) Check() error {
	_, err := s.settled()
	return err
}

// Settled has all defaults filled in, and its metrics in the order of their names. It is
// Invalid for what makes no sense.
func (s Settings) Settled() (Settings, error) { return s.settled() }

func (s Settings) settled() (Settings, error) {
	s.Interval = cmp.Or(s.Interval, usualInterval)
	s.Intervals = cmp.Or(s.Intervals, 1)
	s.Every = cmp.Or(s.Every, s.Interval)
	s.Step = cmp.Or(s.Step, usualStep)
	if err := s.checkTimes(); err != nil {
		return s, err
	}
	s.Before = cmp.Or(s.Before, s.lasts())
	s.Compare = cmp.Or(s.Compare, Before)
	if s.Before < s.Step || s.Before > MostTime || s.Before/s.Step > MostSamples {
		return s, wrong("before is %s", s.Before).WithHint("write a time from one step to %s, and to %d steps", MostTime, MostSamples)
	}
	s.Metrics = slices.Clone(s.Metrics)
	slices.SortStableFunc(s.Metrics, func(a, b Measure) int { return cmp.Compare(a.Judge.Name, b.Judge.Name) })
	decides := false
	for i := range s.Metrics {
		m := &s.Metrics[i]
		m.fill(&s)
		if err := m.check(); err != nil {
			return s, err
		}
		decides = decides || !m.Judge.Shadow
	}
	switch {
	case len(s.Metrics) == 0 || len(s.Metrics) > MaxMetrics:
		return s, wrong("there are %d metrics", len(s.Metrics)).WithHint("write 1 to %d", MaxMetrics)
	case int(max(s.lasts(), s.Before)/s.Step) >= s.MostOfSide():
		return s, wrong("samples at each %s are more than the %d that each side of %d metrics may have", s.Step, s.MostOfSide(), len(s.Metrics)).WithHint("write a longer step, or judge fewer metrics or a shorter time")
	case !decides:
		return s, wrong("every metric is a shadow, and none decides").WithHint("remove shadow from one")
	}
	// The judge has more to ask of settings.
	_, err := judge.Judge(s.judgeSettings(), nil)
	return s, err
}

func (s *Settings) checkTimes() error {
	switch {
	case s.WarmUp < 0 || s.WarmUp > MostTime:
		return wrong("warm_up is %s", s.WarmUp).WithHint("write a time up to %s", MostTime)
	case s.Intervals < 1 || s.Intervals > MostIntervals:
		return wrong("intervals is %d", s.Intervals).WithHint("write 1 to %d", MostIntervals)
	case s.Interval < LeastEvery || s.Interval > MostTime || s.lasts() > MostTime:
		return wrong("interval is %s, %d of them", s.Interval, s.Intervals).WithHint("write an interval of at least %s; all together may be as long as %s", LeastEvery, MostTime)
	case s.Every < LeastEvery || s.Every > s.lasts() || s.lasts()/s.Every > MostLooks:
		return wrong("every is %s, and all intervals together are %s", s.Every, s.lasts()).WithHint("write a time from %s on that is no longer than all intervals, for at most %d looks", LeastEvery, MostLooks)
	case s.Step < LeastStep || s.Step > s.Interval || s.lasts()/s.Step > MostSamples:
		return wrong("step is %s, and all intervals together are %s", s.Step, s.lasts()).WithHint("write a time from %s on that is no longer than an interval, for at most %d samples", LeastStep, MostSamples)
	}
	return nil
}

// fill in what was left open.
func (m *Measure) fill(s *Settings) {
	m.Compare = cmp.Or(m.Compare, s.Compare)
	m.Absent, m.NaN = cmp.Or(m.Absent, AbsentWaits), cmp.Or(m.NaN, NaNBroken)
	m.Fresh = cmp.Or(m.Fresh, max(freshSteps*s.Step, min(leastFresh, s.Interval/2)))
	if m.Source.Of != "" && m.Judge.Kind == "" {
		m.Judge.Kind = judge.Events
	}
	if m.Judge.Broken == nil {
		m.Judge.Broken = new(0.1)
	}
	if m.NaN == NaNBad && m.Judge.Limit != nil {
		limit := *m.Judge.Limit
		limit.NaN, m.Judge.Limit = true, &limit
	}
}

func (m *Measure) check() error {
	invalid := func(format string, arguments ...any) *fault.Error {
		return wrong("metric %.60q: "+format, append([]any{m.Judge.Name}, arguments...)...)
	}
	switch {
	case m.Compare != Before && m.Compare != Control && m.Compare != None:
		return invalid("compare is %.40q", m.Compare).WithHint("write before, control or none")
	case m.Compare == None && m.Judge.Limit == nil:
		return invalid("it is compared with nothing, and has no limit").WithHint("write at_most or at_least, or compare: before")
	case m.Absent != AbsentWaits && m.Absent != AbsentZero:
		return invalid("absent is %.40q", m.Absent).WithHint("write wait or zero")
	case m.NaN != NaNBroken && m.NaN != NaNIgnore && m.NaN != NaNZero && m.NaN != NaNBad:
		return invalid("nan is %.40q", m.NaN).WithHint("write broken, ignore, zero or bad")
	case m.NaN == NaNBad && m.Judge.Limit == nil:
		return invalid("nan is bad, and it has no limit that such a sample could be beyond").WithHint("write at_most or at_least, or nan: broken")
	case m.Fresh < 0 || m.Fresh > MostTime:
		return invalid("fresh is %s", m.Fresh).WithHint("write a time up to %s", MostTime)
	case m.Judge.NoData != "" && m.Judge.NoData != judge.NoDataUnsure:
		return invalid("no_data is %.40q", m.Judge.NoData).WithHint("leave it out: of a rollout, missing data is neither good nor bad")
	case m.Judge.Kind == judge.Values && m.Source.Of != "":
		return invalid("values have no trials").WithHint("remove of, or write kind: events")
	}
	return nil
}

// judgeSettings for one look.
func (s *Settings) judgeSettings() judge.Settings {
	settings := judge.Settings{Alpha: s.Alpha, Correct: s.Correct, Pass: s.Pass, Marginal: s.Marginal, Groups: s.Groups}
	if settings.Alpha == 0 {
		settings.Alpha = usualAlpha
	}
	for _, m := range s.Metrics {
		settings.Metrics = append(settings.Metrics, m.Judge)
	}
	return settings
}

// usualAlpha is the judge's; intervals take a half of it.
const usualAlpha = 0.05

func wrong(format string, arguments ...any) *fault.Error {
	return fault.New(fault.Invalid, format, arguments...)
}

var (
	comparisons = map[intentpb.Validation_Comparison]Comparison{
		intentpb.Validation_COMPARISON_BEFORE: Before, intentpb.Validation_COMPARISON_CONTROL: Control, intentpb.Validation_COMPARISON_NONE: None,
	}
	corrections = map[intentpb.Validation_Correction]judge.Correction{
		intentpb.Validation_CORRECTION_HOLM: judge.FamilyWise, intentpb.Validation_CORRECTION_BENJAMINI_HOCHBERG: judge.FalseDiscovery,
	}
	kinds = map[intentpb.ValidationMetric_Kind]judge.Kind{
		intentpb.ValidationMetric_KIND_VALUES: judge.Values, intentpb.ValidationMetric_KIND_EVENTS: judge.Events,
	}
	directions = map[intentpb.ValidationMetric_Direction]judge.Direction{
		intentpb.ValidationMetric_DIRECTION_HIGHER: judge.Higher, intentpb.ValidationMetric_DIRECTION_LOWER: judge.Lower, intentpb.ValidationMetric_DIRECTION_EITHER: judge.Either,
	}
	nans = map[intentpb.ValidationMetric_NotANumber]NaN{
		intentpb.ValidationMetric_NOT_A_NUMBER_IGNORE: NaNIgnore, intentpb.ValidationMetric_NOT_A_NUMBER_ZERO: NaNZero,
		intentpb.ValidationMetric_NOT_A_NUMBER_BAD: NaNBad,
	}
)

// Of a validation of a policy: its settings, with all defaults filled in. It is Invalid
// for what makes no sense.
func Of(v *intentpb.Validation) (Settings, error) {
	s := Settings{
		Name: v.GetName(), WarmUp: v.GetWarmUp().AsDuration(), Interval: v.GetInterval().AsDuration(), Intervals: int(v.GetIntervals()),
		Every: v.GetEvery().AsDuration(), Step: v.GetStep().AsDuration(), Before: v.GetBefore().AsDuration(), Compare: comparisons[v.GetCompare()],
		Alpha: v.GetAlpha(), Correct: corrections[v.GetCorrect()], Pass: v.GetPass(), Marginal: v.GetMarginal(), Groups: v.GetGroups(),
	}
	for _, m := range v.GetMetrics() {
		one, err := measureOf(m)
		if err != nil {
			return s, err
		}
		s.Metrics = append(s.Metrics, one)
	}
	return s.settled()
}

// Length is how long a validation takes after a change, if no samples are late.
func (s Settings) Length() time.Duration { return s.WarmUp + s.lasts() }

// Lasts is how long the validations of a policy that a rollout waits for take at least, since
// the last asset of a stage changed.
func Lasts(policy *intentpb.Policy, rollout *intentpb.Rollout) (least time.Duration) {
	for _, v := range policy.GetValidations() {
		if !slices.Contains(rollout.GetValidate(), v.GetName()) {
			continue
		}
		if s, err := Of(v); err == nil {
			least = max(least, s.WarmUp+s.lasts())
		}
	}
	return least
}

// CheckMetric is Invalid for a metric of a policy that makes no sense by itself, compared
// so where it does not say.
func CheckMetric(m *intentpb.ValidationMetric, compare intentpb.Validation_Comparison) error {
	one, err := measureOf(m)
	if err != nil {
		return err
	}
	one.fill(&Settings{Compare: cmp.Or(comparisons[compare], Before), Step: usualStep})
	if err := one.check(); err != nil {
		return err
	}
	_, err = judge.Judge(judge.Settings{Metrics: []judge.Metric{one.Judge}}, nil)
	return err
}

func measureOf(m *intentpb.ValidationMetric) (Measure, error) {
	one := Measure{
		Judge: judge.Metric{
			Name: m.GetName(), Unit: m.GetUnit(), Group: m.GetGroup(), Kind: kinds[m.GetKind()], Worse: directions[m.GetWorse()], Spread: m.GetSpread(),
			Noise: m.GetNoise(), Critical: m.GetCritical(), Shadow: m.GetShadow(), Weight: m.GetWeight(), Broken: m.Broken, Least: int(m.GetLeast()),
		},
		Compare: comparisons[m.GetCompare()], NaN: nans[m.GetNan()], Fresh: m.GetFresh().AsDuration(),
		Source: Source{
			Prometheus: m.GetSource().GetPrometheus(), HTTP: m.GetSource().GetHttp(), SQL: m.GetSource().GetSql(), Command: m.GetSource().GetCommand().GetLine(), Plugin: m.GetSource().GetPlugin(),
			Query: m.GetSource().GetQuery(), Of: m.GetSource().GetOf(), Experiment: m.GetSource().GetExperiment(), Control: m.GetSource().GetControl(), Timeout: m.GetSource().GetTimeout().AsDuration(),
		},
	}
	if m.GetAbsent() == intentpb.ValidationMetric_ABSENCE_ZERO {
		one.Absent = AbsentZero
	}
	for _, band := range []struct {
		text string
		into **judge.Band
	}{{m.GetTolerance(), &one.Judge.Tolerance}, {m.GetMatters(), &one.Judge.Matters}} {
		if band.text == "" {
			continue
		}
		*band.into = &judge.Band{}
		if err := (*band.into).UnmarshalText([]byte(band.text)); err != nil {
			return one, err
		}
	}
	if m.AtMost != nil || m.AtLeast != nil {
		one.Judge.Limit = &judge.Limit{Above: m.AtMost, Below: m.AtLeast, Allow: int(m.GetAllow()), Of: int(m.GetNewest())}
	}
	if r := m.GetRange(); r != nil {
		one.Judge.Range = &judge.Range{Low: r.GetLow(), High: r.GetHigh()}
	}
	return one, nil
}
