package cli

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/judge"
)

// sampleColumns that a file of samples may have.
var sampleColumns = []string{"time", "metric", "group", "value", "of"}

// readSamples reads a CSV file. Its samples are the experiment's from a time on, or
// as their group says where that is zero.
func readSamples(path string, at time.Time) ([]judge.Series, error) {
	file, err := files.OpenGiven(path)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot read the samples: %w", err).WithHint("name a file of samples that can be read")
	}
	defer file.Close()
	return parseSamples(file, path, at)
}

func parseSamples(source io.Reader, path string, at time.Time) ([]judge.Series, error) {
	reader := csv.NewReader(source)
	reader.TrimLeadingSpace, reader.ReuseRecord = true, true
	header, err := reader.Read()
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s has no header: %v", path, err).WithHint("begin it with time,metric,group,value")
	}
	place := map[string]int{}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
		if _, duplicate := place[name]; duplicate || !slices.Contains(sampleColumns, name) {
			return nil, fault.New(fault.Invalid, "%s: the column %.40q is not known, or there twice", path, name).WithHint("columns are %s", strings.Join(sampleColumns, ", "))
		}
		place[name] = i
	}
	for _, needed := range []string{"metric", "value", map[bool]string{true: "group", false: "time"}[at.IsZero()]} {
		if _, ok := place[needed]; !ok {
			return nil, fault.New(fault.Invalid, "%s has no column %s", path, needed).WithHint("begin it with time,metric,group,value; a time and --at stand for a group")
		}
	}
	byName := map[string]*judge.Series{}
	for n := 0; ; n++ {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return inOrderOfNames(byName), nil
		}
		if err == nil && n >= judge.MaxSamples {
			err = fault.New(fault.Invalid, "there are more than %d samples", judge.MaxSamples)
		}
		if err == nil {
			err = addSample(byName, place, record, at)
		}
		if err != nil {
			line := 0
			if wrong, isParseError := errors.AsType[*csv.ParseError](err); isParseError {
				line, err = wrong.Line, wrong.Err
			} else if len(record) > 0 {
				line, _ = reader.FieldPos(0)
			}
			return nil, fault.New(fault.Invalid, "%s:%d: %v", path, line, err).WithHint("write a line such as 2026-11-21T08:00:00Z,latency,control,103.5")
		}
	}
}

// addSample adds one line.
func addSample(series map[string]*judge.Series, place map[string]int, record []string, at time.Time) error {
	cell := func(column string) string {
		if i, ok := place[column]; ok {
			return strings.TrimSpace(record[i])
		}
		return ""
	}
	name := strings.Clone(cell("metric"))
	s := series[name]
	if s == nil {
		if len(series) >= judge.MaxMetrics {
			return fault.New(fault.Invalid, "there are more than %d metrics", judge.MaxMetrics)
		}
		s = &judge.Series{Metric: name}
		series[name] = s
	}
	sample := judge.Sample{}
	value, err := parseValue(cell("value"))
	if err != nil {
		return err
	}
	sample.Value = judge.Number(value)
	if text := cell("of"); text != "" {
		total, err := parseValue(text)
		if err != nil {
			return err
		}
		sample.Of = new(judge.Number(total))
	}
	if text := cell("time"); text != "" {
		if sample.At, err = parseTime(text); err != nil {
			return err
		}
	}
	group := strings.ToLower(cell("group"))
	if group == "" && !at.IsZero() {
		if sample.At.IsZero() {
			return fault.New(fault.Invalid, "it has neither a group nor a time")
		}
		group = map[bool]string{true: "before", false: "after"}[sample.At.Before(at)]
	}
	switch group {
	case "control", "before":
		s.Control = append(s.Control, sample)
	case "experiment", "after":
		s.Experiment = append(s.Experiment, sample)
	default:
		return fault.New(fault.Invalid, "the group %.40q is neither control nor experiment", group)
	}
	return nil
}

// parseValue reads a number; an empty one is missing.
func parseValue(text string) (float64, error) {
	if text == "" {
		text = "NaN"
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fault.New(fault.Invalid, "%.40q is no number", text)
	}
	return value, nil
}

// parseTime reads a time of RFC 3339, or seconds since 1970.
func parseTime(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	// Of the years 1970 to 9999.
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0 && seconds < 253402300800) {
		return time.Time{}, fault.New(fault.Invalid, "%.40q is no time; write 2026-11-21T08:00:00Z, or seconds since 1970", text)
	}
	return time.UnixMilli(int64(seconds * 1000)).UTC(), nil
}

func inOrderOfNames(byName map[string]*judge.Series) []judge.Series {
	list := make([]judge.Series, 0, len(byName))
	for _, s := range byName {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b judge.Series) int { return strings.Compare(a.Metric, b.Metric) })
	return list
}

// decodeKept reads what -o json wrote.
func decodeKept(text []byte) (judgement keptJudgement, err error) {
	if err := json.Unmarshal(text, &judgement); err != nil {
		return judgement, err
	}
	if len(judgement.Data) == 0 {
		return judgement, errors.New("it holds no data")
	}
	return judgement, nil
}
