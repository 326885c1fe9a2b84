package sampling

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/external"
	"lehr.dev/internal/external/placeholder"
	"lehr.dev/internal/external/prometheus"
	"lehr.dev/internal/external/rows"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

// prometheus is asked for one series of values, and for trials where there are.
func (q *question) prometheus(ctx context.Context, policy *external.Policy) (read validation.Side, err error) {
	source := q.metric.Source
	at, err := policy.Place(q.partition, external.Prometheus, source.Prometheus)
	if err != nil {
		return read, err
	}
	if q.values.Selector, err = placeholder.PromQL(q.matchers, q.values); err != nil {
		return read, err
	}
	if read.Samples, err = q.series(ctx, at, source.Query); err != nil || source.Of == "" {
		return read, err
	}
	read.Trials, err = q.series(ctx, at, source.Of)
	return read, err
}

func (q *question) series(ctx context.Context, at external.Request, query string) ([]judge.Sample, error) {
	text, err := placeholder.PromQL(query, q.values)
	if err != nil {
		return nil, err
	}
	runs, err := prometheus.Range(ctx, at, prometheus.RangeOf{Query: text, From: q.values.Start, To: q.values.End, Step: q.values.Step})
	switch {
	case err != nil:
		return nil, err
	case len(runs) > 1:
		return nil, fault.New(fault.Invalid, "the query gives %d series, such as %v and %v, of which none is the metric", len(runs), runs[0].Labels, runs[1].Labels).
			WithHint("aggregate them, for example by sum(…) or max(…)")
	case len(runs) == 0:
		return nil, nil
	}
	samples := make([]judge.Sample, len(runs[0].Values))
	for i, value := range runs[0].Values {
		samples[i] = judge.Sample{At: runs[0].Times[i], Value: judge.Number(value)}
	}
	return samples, nil
}

// measureRequest is what services and programs are told.
type measureRequest struct {
	Validation string `json:"validation"`
	Metric     string `json:"metric"`
	Partition  string `json:"partition"`
	// Side is "experiment", "control" or "before".
	Side   string              `json:"side"`
	Assets []string            `json:"assets"`
	Scopes map[string][]string `json:"scopes"`
	// Start and End are included; Step is in seconds.
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	Step  float64   `json:"step"`
	Query string    `json:"query,omitempty"`
}

func (q *question) body() (string, error) {
	body := measureRequest{
		Validation: q.validation, Metric: q.metric.Judge.Name, Partition: string(q.partition), Side: string(q.side), Assets: q.values.Assets, Scopes: q.values.Scopes,
		Start: q.values.Start, End: q.values.End, Step: q.values.Step.Seconds(), Query: q.metric.Source.Query,
	}
	if body.Assets == nil {
		body.Assets = []string{}
	}
	if body.Scopes == nil {
		body.Scopes = map[string][]string{}
	}
	text, err := json.Marshal(body)
	return string(text), err
}

// http asks a service.
func (q *question) http(ctx context.Context, policy *external.Policy) (validation.Side, error) {
	at, err := policy.Place(q.partition, external.Metrics, q.metric.Source.HTTP)
	if err != nil {
		return validation.Side{}, err
	}
	if at.JSON, err = q.body(); err != nil {
		return validation.Side{}, err
	}
	status, text, err := external.Fetch(ctx, at)
	switch {
	case err != nil:
		return validation.Side{}, err
	case status < 200 || status > 299:
		return validation.Side{}, external.Refused(status)
	}
	return answer(text)
}

// command asks a program.
func (q *question) command(ctx context.Context, policy *external.Policy) (validation.Side, error) {
	line := q.metric.Source.Command
	if err := policy.MayRun(q.partition, line[0]); err != nil {
		return validation.Side{}, err
	}
	body, err := q.body()
	if err != nil {
		return validation.Side{}, err
	}
	ran, err := external.Run(ctx, line, body)
	switch {
	case err != nil:
		return validation.Side{}, err
	case ran.Exit != 0:
		return validation.Side{}, fault.New(fault.Unavailable, "it exited with %d: %s", ran.Exit, external.Shown(ran.Complaint))
	}
	return answer(ran.Text)
}

// plugin asks a plugin of checks.
func (q *question) plugin(ctx context.Context, policy *external.Policy) (read validation.Side, err error) {
	run, err := policy.Plugin(q.partition, q.metric.Source.Plugin)
	if err != nil {
		return read, err
	}
	request := &pluginpb.MeasureRequest{
		Validation: q.validation, Metric: q.metric.Judge.Name, Partition: string(q.partition), Side: string(q.side), Assets: q.values.Assets,
		Start: timestamppb.New(q.values.Start), End: timestamppb.New(q.values.End), Step: durationpb.New(q.values.Step), Query: q.metric.Source.Query, Most: uint32(q.most),
		Scopes: map[string]*pluginpb.ScopeValues{},
	}
	for name, values := range q.values.Scopes {
		request.Scopes[name] = &pluginpb.ScopeValues{Values: values}
	}
	response, err := q.plugins(ctx, run, request)
	if err != nil {
		return read, err
	}
	for _, s := range response.Samples {
		one := judge.Sample{At: s.At.AsTime(), Value: judge.Number(s.Value)}
		if s.Of != nil {
			one.Of = new(judge.Number(*s.Of))
		}
		read.Samples = append(read.Samples, one)
	}
	return read, nil
}

// answer reads what a service or a program says.
func answer(text string) (read validation.Side, err error) {
	var body struct {
		Samples *[]struct {
			At    json.RawMessage `json:"at"`
			Value json.RawMessage `json:"value"`
			Of    json.RawMessage `json:"of"`
		} `json:"samples"`
	}
	err = json.Unmarshal([]byte(text), &body)
	if err == nil && body.Samples == nil {
		// Nothing said is not that there are none.
		err = fmt.Errorf("it has no samples")
	}
	if err != nil {
		return read, unreadable("%v: %s", err, external.Shown(text))
	}
	for i, s := range *body.Samples {
		one := judge.Sample{}
		if one.At, err = moment(s.At); err != nil {
			return read, unreadable("sample %d: %v", i+1, err)
		}
		if one.Value, err = value(s.Value); err != nil {
			return read, unreadable("sample %d: %v", i+1, err)
		}
		if len(s.Of) > 0 {
			trials, err := value(s.Of)
			if err != nil {
				return read, unreadable("sample %d: %v", i+1, err)
			}
			one.Of = &trials
		}
		read.Samples = append(read.Samples, one)
	}
	return read, nil
}

func unreadable(format string, arguments ...any) error {
	return fault.New(fault.Invalid, "what it answered cannot be read: "+format, arguments...).
		WithHint(`it must answer {"samples": [{"at": "2026-11-21T08:00:00Z", "value": 1.5}]}`)
}

// value is a number, "NaN" or null.
func value(text json.RawMessage) (judge.Number, error) {
	if len(text) == 0 || string(text) == "null" {
		return number(nil)
	}
	return number(string(text))
}

// mostSeconds are those of the year 9999.
const mostSeconds = 253402300799

// moment is a time of RFC 3339, or seconds since 1970.
func moment(text json.RawMessage) (at time.Time, err error) {
	raw := string(text)
	if strings.HasPrefix(raw, `"`) {
		err = json.Unmarshal(text, &at)
	} else {
		var seconds float64
		if seconds, err = strconv.ParseFloat(raw, 64); err == nil && !(seconds >= 0 && seconds <= mostSeconds) {
			err = fmt.Errorf("%.40s is out of range", raw)
		}
		at = time.UnixMilli(int64(seconds * 1000)).UTC()
	}
	if err != nil {
		return at, fmt.Errorf("%.40q is no time", raw)
	}
	return at, nil
}

// sql asks a database for rows of a time, a value and maybe of how many trials.
func (q *question) sql(ctx context.Context, policy *external.Policy) (read validation.Side, err error) {
	text, arguments, err := placeholder.SQL(q.metric.Source.Query, q.values)
	if err != nil {
		return read, err
	}
	result, err := rows.Read(ctx, policy, rows.Query{
		Partition: q.partition, Database: q.metric.Source.SQL, Text: text, Arguments: arguments, MaxRows: q.most, PostgreSQL: true,
	})
	if err != nil {
		return read, err
	}
	if n := len(result.Columns); n != 2 && n != 3 {
		return read, fault.New(fault.Invalid, "the query gives %d columns", n).WithHint("select a time, a value, and of events the number of trials")
	}
	for i, row := range result.Rows {
		at, ok := row[0].(time.Time)
		if !ok {
			return read, fault.New(fault.Invalid, "row %d: %.40v is no time", i+1, row[0]).WithHint("select a timestamptz first, as by to_timestamp(seconds)")
		}
		one := judge.Sample{At: at.UTC()}
		if one.Value, err = number(row[1]); err != nil {
			return read, fault.New(fault.Invalid, "row %d: %w", i+1, err)
		}
		if len(row) == 3 {
			trials, err := number(row[2])
			if err != nil {
				return read, fault.New(fault.Invalid, "row %d: %w", i+1, err)
			}
			one.Of = &trials
		}
		read.Samples = append(read.Samples, one)
	}
	return read, nil
}
