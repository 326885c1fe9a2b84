package judge

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"lehr.dev/internal/ground/fault"
)

// Limits of one judgement, so that it is bounded in time and memory.
const (
	// MaxMetrics of one judgement.
	MaxMetrics = 1000
	// MaxSamples of all metrics together.
	MaxSamples = 1_000_000
	// maxName is the length of a name or a unit, in bytes.
	maxName = 253
)

// Direction says which change of a metric is harm.
type Direction string

// Directions.
const (
	Higher Direction = "higher"
	Lower  Direction = "lower"
	Either Direction = "either"
)

// Kind says what samples are.
type Kind string

// Kinds of samples.
const (
	// Values are measured, such as latencies, and compared by their ranks.
	Values Kind = "values"
	// Events are counted, such as errors, each sample of so many trials, and compared
	// by their rates.
	Events Kind = "events"
)

// Policy says what a metric without samples counts as.
type Policy string

// Policies. An empty one is Unsure.
const (
	NoDataUnsure Policy = "inconclusive"
	NoDataFails  Policy = "fail"
	NoDataPasses Policy = "pass"
)

// Correction says how probabilities are adjusted for how many tests there are.
type Correction string

// Corrections; see Holm and BenjaminiHochberg.
const (
	FamilyWise     Correction = "holm"
	FalseDiscovery Correction = "benjamini-hochberg"
)

// Settings say how a judgement is made. The zero value of each is its default.
type Settings struct {
	// Alpha is the probability to find harm where there is none, in all tests and
	// looks together: above 0 and below 0.5; default 0.05.
	Alpha float64 `json:"alpha" yaml:"alpha"`
	// Correct is the correction; default FamilyWise.
	Correct Correction `json:"correct" yaml:"correct"`
	// Pass is the score to pass with, above 0 and at most 100, the default.
	Pass float64 `json:"pass" yaml:"pass"`
	// Marginal is the score below which it fails; from there to Pass it is inconclusive.
	// Default Pass.
	Marginal float64 `json:"marginal,omitempty" yaml:"marginal"`
	// Look numbers the looks at data that grow, from 1 on; 0: there is one alone.
	Look int `json:"look,omitempty" yaml:"look"`
	// Groups are the weights of groups of metrics; default 1 each.
	Groups map[string]float64 `json:"groups,omitempty" yaml:"groups"`
	// Metrics, each by its name; others that data have take all defaults.
	Metrics []Metric `json:"metrics" yaml:"metrics"`
}

// Metric says how one metric is judged. The zero value of each is its default.
type Metric struct {
	Name string `json:"name" yaml:"name"`
	// Unit is written behind numbers.
	Unit string `json:"unit,omitempty" yaml:"unit"`
	// Group that it belongs to.
	Group string `json:"group,omitempty" yaml:"group"`
	// Kind of samples; default Values, or Events where samples are of trials.
	Kind Kind `json:"kind" yaml:"kind"`
	// Worse is the harmful direction; default Either, of events Higher.
	Worse Direction `json:"worse" yaml:"worse"`
	// Tolerance is a change that is always borne; default 5%, of events 0.
	Tolerance *Band `json:"tolerance" yaml:"tolerance"`
	// Matters is the smallest change that is harm, and that a pass rules out; default
	// 20%, of events 50%.
	Matters *Band `json:"matters" yaml:"matters"`
	// Spread is the ratio of spreads, from 1 on, that is harm; default 2.
	Spread float64 `json:"spread,omitempty" yaml:"spread"`
	// Limit of the experiment's values, or rates of events; nil: none.
	Limit *Limit `json:"limit,omitempty" yaml:"limit"`
	// Range of values that there can be: their means are then compared by what holds at
	// any look, when Look is given.
	Range *Range `json:"range,omitempty" yaml:"range"`
	// Noise is a deviation that values stray from their mean by no more than normal
	// ones do, in their unit; used as Range is; 0: unknown.
	Noise float64 `json:"noise,omitempty" yaml:"noise"`
	// Critical: when it fails, all does, and unless it passes, nothing does.
	Critical bool `json:"critical,omitempty" yaml:"critical"`
	// Shadow: it is told of, and never decides.
	Shadow bool `json:"shadow,omitempty" yaml:"shadow"`
	// Weight in its group, above 0; default 1.
	Weight float64 `json:"weight" yaml:"weight"`
	// NoData is what no samples on a side count as.
	NoData Policy `json:"no_data" yaml:"no_data"`
	// Broken is the share of samples of a side, from 0 to 1, that may be no finite
	// numbers; they are counted and left out. Default 0.1.
	Broken *float64 `json:"broken" yaml:"broken"`
	// Least is how many samples each side needs, from 1 on; default 5.
	Least int `json:"least" yaml:"least"`
}

// Band is a change: a share of the control's middle, or of its rate of events, plus
// a number in the metric's unit, both at least 0. It is written "5%", "3", or
// "5% + 3".
type Band struct{ Relative, Absolute float64 }

// MarshalText writes it as it is read.
func (b Band) MarshalText() ([]byte, error) {
	relative := strconv.FormatFloat(b.Relative*100, 'g', -1, 64) + "%"
	absolute := strconv.FormatFloat(b.Absolute, 'g', -1, 64)
	switch {
	case b.Absolute == 0:
		return []byte(relative), nil
	case b.Relative == 0:
		return []byte(absolute), nil
	}
	return []byte(relative + " + " + absolute), nil
}

// UnmarshalText is Invalid for what is no band.
func (b *Band) UnmarshalText(text []byte) error {
	*b = Band{}
	for part := range strings.SplitSeq(string(text), " + ") {
		number, relative := strings.CutSuffix(strings.TrimSpace(part), "%")
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(value >= 0) || math.IsInf(value, 0) {
			return fault.New(fault.Invalid, "%.40q is no change", text).WithHint("write a share such as 5%%, a number in the metric's unit such as 3, or both: 5%% + 3")
		}
		if relative {
			b.Relative += value / 100
		} else {
			b.Absolute += value
		}
	}
	return nil
}

// width a middle, in its unit.
func (b Band) width(middle float64) float64 { return clamp(b.Relative*math.Abs(middle) + b.Absolute) }

// Limit is what samples of the experiment must keep, whatever the control does.
type Limit struct {
	// Above and Below are what no sample may be; nil: there is none.
	Above *float64 `json:"above,omitempty" yaml:"above"`
	Below *float64 `json:"below,omitempty" yaml:"below"`
	// Allow so many samples beyond it, of the newest Of; Of 0: of all.
	Allow int `json:"allow,omitempty" yaml:"allow"`
	Of    int `json:"of,omitempty" yaml:"of"`
	// NaN: a sample that is NaN is beyond it, and none is broken for not being finite.
	NaN bool `json:"nan,omitempty" yaml:"nan"`
}

// Range of values.
type Range struct {
	Low  float64 `json:"low" yaml:"low"`
	High float64 `json:"high" yaml:"high"`
}

// settled fills in defaults, for the metrics of data too, and is Invalid for what
// makes no sense.
func (s Settings) settled(series []Series) (Settings, error) {
	orElse(&s.Alpha, 0.05)
	orElse(&s.Pass, 100)
	if s.Correct == "" {
		s.Correct = FamilyWise
	}
	switch {
	case !(s.Alpha > 0 && s.Alpha < 0.5):
		return s, wrong("alpha is %g", s.Alpha).WithHint("write a probability above 0 and below 0.5, such as 0.05")
	case !(s.Pass > 0 && s.Pass <= 100):
		return s, wrong("pass is %g", s.Pass).WithHint("write a score above 0 and up to 100")
	case !(s.Marginal >= 0 && s.Marginal <= s.Pass):
		return s, wrong("marginal is %g", s.Marginal).WithHint("write a score above 0 and up to that to pass, which is %g", s.Pass)
	case s.Correct != FamilyWise && s.Correct != FalseDiscovery:
		return s, wrong("correct is %.40q", s.Correct).WithHint("write %s or %s", FamilyWise, FalseDiscovery)
	case s.Look < 0 || s.Look > 1_000_000:
		return s, wrong("look is %d", s.Look).WithHint("number the looks from 1 on; leave it out when there is one")
	}
	metrics := make(map[string]*Series, len(series))
	for i := range series {
		metrics[series[i].Metric] = &series[i]
	}
	metricNames := map[string]bool{}
	s.Metrics = slices.Clone(s.Metrics)
	for i := range s.Metrics {
		name := s.Metrics[i].Name
		if metricNames[name] {
			return s, wrong("metric %.60q is there twice", name).WithHint("leave one of them out")
		}
		metricNames[name] = true
	}
	for _, one := range series {
		if !metricNames[one.Metric] {
			s.Metrics = append(s.Metrics, Metric{Name: one.Metric})
		}
	}
	if len(s.Metrics) > MaxMetrics {
		return s, tooMany("metrics", len(s.Metrics), MaxMetrics)
	}
	groups := map[string]bool{}
	for i := range s.Metrics {
		s.Metrics[i].fill(metrics[s.Metrics[i].Name])
		if err := s.Metrics[i].check(); err != nil {
			return s, err
		}
		groups[s.Metrics[i].Group] = true
	}
	for name, weight := range s.Groups {
		if !(weight > 0) || weight > 1e9 {
			return s, wrong("group %.60q has the weight %g", name, weight).WithHint("write a number above 0; a metric that is not to decide is a shadow")
		}
		if !groups[name] {
			return s, wrong("group %.60q has no metric", name).WithHint("write group: %.60s at a metric, or leave the group out", name)
		}
	}
	return s, nil
}

func orElse(value *float64, usual float64) {
	if *value == 0 {
		*value = usual
	}
}

// fill in what was left open; series may be nil.
func (m *Metric) fill(series *Series) {
	if m.Kind == "" {
		m.Kind = Values
		if series != nil && series.counted() {
			m.Kind = Events
		}
	}
	tolerance, matters, worse := 0.05, 0.2, Either
	if m.Kind == Events {
		tolerance, matters, worse = 0, 0.5, Higher
	}
	if m.Worse == "" {
		m.Worse = worse
	}
	if m.Tolerance == nil {
		m.Tolerance = &Band{Relative: tolerance}
		if m.Matters != nil {
			// What is borne is no more than what matters.
			m.Tolerance = &Band{min(tolerance, m.Matters.Relative), 0}
		}
	}
	if m.Matters == nil {
		m.Matters = &Band{max(matters, m.Tolerance.Relative), m.Tolerance.Absolute}
	}
	if m.Kind == Values {
		orElse(&m.Spread, 2)
	}
	orElse(&m.Weight, 1)
	if m.NoData == "" {
		m.NoData = NoDataUnsure
	}
	if m.Broken == nil {
		m.Broken = new(0.1)
	}
	if m.Least == 0 {
		m.Least = 5
	}
}

func (m *Metric) check() error {
	invalid := func(format string, arguments ...any) *fault.Error {
		return wrong("metric %.60q: "+format, append([]any{m.Name}, arguments...)...)
	}
	switch {
	case m.Name == "" || len(m.Name) > maxName || len(m.Unit) > maxName || len(m.Group) > maxName:
		return invalid("its name, unit or group has no bytes, or more than %d", maxName).WithHint("write shorter ones")
	case m.Kind != Values && m.Kind != Events:
		return invalid("the kind %.40q is not known", m.Kind).WithHint("write values or events")
	case m.Worse != Higher && m.Worse != Lower && m.Worse != Either:
		return invalid("worse is %.40q", m.Worse).WithHint("write higher, lower or either")
	case m.NoData != NoDataUnsure && m.NoData != NoDataFails && m.NoData != NoDataPasses:
		return invalid("no_data is %.40q", m.NoData).WithHint("write inconclusive, fail or pass")
	case m.Tolerance.Relative > m.Matters.Relative || m.Tolerance.Absolute > m.Matters.Absolute:
		return invalid("more is tolerated than matters").WithHint("write a tolerance that is no more than matters, in its share and in its number")
	case m.Kind == Events && m.Worse != Higher && m.Matters.Relative >= 1:
		return invalid("a rate cannot fall by %g%%", m.Matters.Relative*100).WithHint("write matters below 100%%")
	case m.Kind == Values && !(m.Spread >= 1):
		return invalid("spread is %g", m.Spread).WithHint("write the ratio of spreads that is harm, from 1 on")
	case !(m.Weight > 0) || m.Weight > 1e9:
		return invalid("weight is %g", m.Weight).WithHint("write a number above 0; a metric that is not to decide is a shadow")
	case !(*m.Broken >= 0 && *m.Broken <= 1):
		return invalid("broken is %g", *m.Broken).WithHint("write a share from 0 to 1")
	case m.Least < 1 || m.Least > MaxSamples:
		return invalid("least is %d", m.Least).WithHint("write a number of samples from 1 to %d", MaxSamples)
	case m.Range != nil && (!(m.Range.Low < m.Range.High) || math.IsInf(m.Range.High-m.Range.Low, 0)):
		return invalid("its range is from %g to %g", m.Range.Low, m.Range.High).WithHint("write the least and the largest value that there can be")
	case !(m.Noise >= 0) || math.IsInf(m.Noise, 0):
		return invalid("noise is %g", m.Noise).WithHint("write a deviation above 0, in the metric's unit")
	case m.Range != nil && m.Noise > 0:
		return invalid("it has a range and a noise").WithHint("leave one out")
	case m.Critical && m.Shadow:
		return invalid("it is critical and a shadow").WithHint("leave one out")
	}
	return m.checkLimit(invalid)
}

func (m *Metric) checkLimit(invalid func(string, ...any) *fault.Error) error {
	l := m.Limit
	switch {
	case l == nil:
		return nil
	case l.Above == nil && l.Below == nil:
		return invalid("its limit is none").WithHint("write above: 500, or below: 0.99")
	case l.Above != nil && math.IsNaN(*l.Above) || l.Below != nil && math.IsNaN(*l.Below):
		return invalid("its limit is no number").WithHint("write above: 500, or below: 0.99")
	case l.Allow < 0 || l.Of < 0 || l.Of > 0 && l.Allow >= l.Of:
		return invalid("its limit allows %d of %d samples", l.Allow, l.Of).WithHint("write fewer that are allowed than are looked at, both from 0 on")
	}
	return nil
}

func wrong(format string, arguments ...any) *fault.Error {
	return fault.New(fault.Invalid, format, arguments...)
}

func tooMany(noun string, n, most int) *fault.Error {
	return wrong("there are %d %s, more than %d", n, noun, most).WithHint("judge fewer at once, or take wider steps of time")
}
