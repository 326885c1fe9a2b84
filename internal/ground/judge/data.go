package judge

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"
)

// Number is a number as JSON has none for all: NaN and the infinities are texts
// there, "NaN", "+Inf" and "-Inf".
type Number float64

// MarshalJSON never fails.
func (n Number) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(n), 'g', -1, 64)
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		text = strconv.Quote(text)
	}
	return []byte(text), nil
}

// UnmarshalJSON is Invalid for what is no number.
func (n *Number) UnmarshalJSON(text []byte) error {
	literal := string(text)
	if err := json.Unmarshal(text, &literal); err == nil && literal != "NaN" && literal != "+Inf" && literal != "-Inf" {
		return wrong("%.40q is no number", literal)
	}
	value, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return wrong("%.40s is no number", text)
	}
	*n = Number(value)
	return nil
}

// figure is a number of a result: six digits, so that what is shown is what was
// compared, and the last bits of another machine's arithmetic are not in it.
func figure(f float64) Number {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'e', 5, 64), 64)
	if err != nil { // It became infinite.
		return Number(f)
	}
	return Number(rounded + 0) // No negative zero.
}

// Sample is one value, or count of events.
type Sample struct {
	// At is when it was taken; zero: unknown.
	At    time.Time `json:"at,omitzero"`
	Value Number    `json:"value"`
	// Of is how many trials a count of events is of, such as requests; nil: counts are
	// of one unit of time each.
	Of *Number `json:"of,omitempty"`
}

// Series are the samples of one metric: of what did not change, or before it did;
// and of what changed, or after.
type Series struct {
	Metric     string   `json:"metric"`
	Control    []Sample `json:"control"`
	Experiment []Sample `json:"experiment"`
}

// counted: some samples are counts of trials.
func (s *Series) counted() bool {
	hasTrials := func(s Sample) bool { return s.Of != nil }
	return slices.ContainsFunc(s.Control, hasTrials) || slices.ContainsFunc(s.Experiment, hasTrials)
}

// canonical puts series and samples into one order, whatever theirs was. It is
// Invalid when there are too many, or two series of a metric.
func canonical(data []Series) ([]Series, error) {
	sorted := slices.Clone(data)
	slices.SortStableFunc(sorted, func(a, b Series) int { return cmp.Compare(a.Metric, b.Metric) })
	samples := 0
	for i := range sorted {
		s := &sorted[i]
		if i > 0 && s.Metric == sorted[i-1].Metric {
			return nil, wrong("there are two series of the metric %.60q", s.Metric).WithHint("put their samples together")
		}
		samples += len(s.Control) + len(s.Experiment)
		s.Control, s.Experiment = inOrder(s.Control), inOrder(s.Experiment)
	}
	if samples > MaxSamples {
		return nil, tooMany("samples", samples, MaxSamples)
	}
	return sorted, nil
}

func inOrder(samples []Sample) []Sample {
	sorted := make([]Sample, len(samples))
	for i, s := range samples {
		if !s.At.IsZero() {
			s.At = s.At.UTC().Round(0)
		}
		sorted[i] = s
	}
	slices.SortFunc(sorted, func(a, b Sample) int {
		return cmp.Or(a.At.Compare(b.At), byOrder(float64(a.Value), float64(b.Value)), byOrder(a.trials(), b.trials()), cmp.Compare(a.trialsRank(), b.trialsRank()))
	})
	return sorted
}

// byOrder tells zeros apart, as JSON does.
func byOrder(a, b float64) int { return cmp.Compare(orderOf(a), orderOf(b)) }

// trialsRank is 1 where trials are told.
func (s Sample) trialsRank() int {
	if s.Of == nil {
		return 0
	}
	return 1
}

// trials of the sample; 1 where none are told.
func (s Sample) trials() float64 {
	if s.Of == nil {
		return 1
	}
	return float64(*s.Of)
}

// digest of data in their canonical order: SHA-256 over their JSON.
func digest(data []Series) (string, error) {
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(data); err != nil {
		return "", wrong("the data cannot be written: %w", err).WithHint("samples are of the years 0 to 9999")
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), nil
}

// side is what is left of one side of a series.
type side struct {
	// values in the order of time, where it is known, and their times.
	values []float64
	times  []time.Time
	// counts in place of values, of events.
	counts []Count
	// trials: counts are of trials, not of one unit of time each.
	trials bool
	broken int
	// limited are the values, or rates of events, that the limit is of, in the same order; no
	// more than notFinite of them are in neither values nor counts.
	limited   []float64
	notFinite int
}

// timed: when each sample was taken is known.
func (s *side) timed() bool { return len(s.times) > 0 && !s.times[0].IsZero() }

func (s *side) size() int { return max(len(s.values), len(s.counts)) }

// maxCount is the largest count that is taken for one.
const maxCount = 1 << 53

// usable leaves out what is broken, and counts it. Samples are in order, so those
// of unknown time come first. The limit is nil on a side that it is not of.
func usable(samples []Sample, kind Kind, limit *Limit) (result side) {
	keep := func(v float64) {
		if limit != nil {
			result.limited = append(result.limited, v)
		}
	}
	for _, s := range samples {
		v, trials := float64(s.Value), s.trials()
		result.trials = result.trials || s.Of != nil
		switch isFinite := !math.IsNaN(v) && !math.IsInf(v, 0); {
		case !isFinite && limit != nil && limit.NaN:
			keep(v)
			result.notFinite++
		case !isFinite:
			result.broken++
		case kind == Values:
			keep(v)
			result.values = append(result.values, v)
			result.times = append(result.times, s.At)
		case v < 0 || v > maxCount || !(trials >= 0) || trials > maxCount || trials == 0 && v > 0:
			result.broken++
		default:
			keep(Count{v, trials}.rate())
			result.counts = append(result.counts, Count{v, trials})
			result.times = append(result.times, s.At)
		}
	}
	return result
}
