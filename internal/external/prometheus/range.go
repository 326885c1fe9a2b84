package prometheus

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/fault"
)

// maxRangeTime that an answer about a range may take: somebody waits for it.
const maxRangeTime = 30 * time.Second

// RangeOf is a query of the values within a time, both ends included, at each step.
type RangeOf struct {
	Query    string
	From, To time.Time
	Step     time.Duration
}

// Run is one series of an answer: its values, which may be NaN, and their times.
type Run struct {
	Labels map[string]string
	Times  []time.Time
	Values []float64
}

// Range asks a Prometheus within 30 seconds. No series is no error.
func Range(ctx context.Context, at external.Request, q RangeOf) ([]Run, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxRangeTime, fault.New(fault.Unavailable, "there was no answer within %s", maxRangeTime))
	defer cancel()
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	answer, err := ask(ctx, at, "query_range", url.Values{
		"query": {q.Query}, "start": {seconds(q.From)}, "end": {seconds(q.To)},
		"step": {strconv.FormatFloat(q.Step.Seconds(), 'f', 3, 64)}, "timeout": {maxRangeTime.String()},
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case answer.kind != "matrix":
		return nil, fault.New(fault.Unavailable, "the query gives a %.40s, not values over time", answer.kind)
	}
	return runs(answer.result)
}

func runs(result json.RawMessage) ([]Run, error) {
	var series []struct {
		Metric     map[string]string
		Values     []pair
		Histograms json.RawMessage
	}
	if err := json.Unmarshal(result, &series); err != nil {
		return nil, fault.New(fault.Unavailable, "its answer cannot be read: %w", err)
	}
	if series == nil { // Not a list, such as null, is no empty one.
		return nil, fault.New(fault.Unavailable, "its answer cannot be read: it has no result")
	}
	if len(series) > maxSeries {
		return nil, fault.New(fault.Unavailable, "the query gives %d series, more than %d; aggregate, for example by sum by (version) (…)", len(series), maxSeries)
	}
	found := make([]Run, len(series))
	for i, s := range series {
		if s.Histograms != nil {
			return nil, fault.New(fault.Unavailable, "the query gives a histogram and no number; take one out of it, for example by histogram_quantile")
		}
		found[i].Labels = s.Metric
		for _, p := range s.Values {
			seconds, ok := p[0].(float64)
			value, err := p.value()
			if !ok || err != nil {
				return nil, fault.New(fault.Unavailable, "its answer cannot be read: %v is no time and value", p)
			}
			found[i].Times = append(found[i].Times, time.UnixMilli(int64(seconds*1000+0.5)).UTC())
			found[i].Values = append(found[i].Values, value)
		}
	}
	return found, nil
}
