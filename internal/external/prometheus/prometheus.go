// Package prometheus asks a Prometheus by its stable JSON API: for the value of each series
// now, and for values over time. What is no whole answer is an error: down, refused,
// partial, too large, of another kind. It keeps nothing and judges nothing. Checks,
// validations of rollouts and "lehr judge" ask through it.
package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/fault"
)

// maxSeries of an answer.
const maxSeries = 2000

// Sample is the value of one series.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Now asks for the value of each series, and says how many bytes were answered. The
// context bounds the time; the Prometheus is told of it.
func Now(ctx context.Context, at external.Request, query string, timeout time.Duration) ([]Sample, int, error) {
	answer, err := ask(ctx, at, "query", url.Values{"query": {query}, "timeout": {timeout.String()}})
	if err != nil {
		return nil, 0, err
	}
	list, err := samples(answer.kind, answer.result)
	return list, answer.bytes, err
}

// answer is what Prometheus answered, whole: its kind, and the rest of its JSON.
type answer struct {
	kind   string
	result json.RawMessage
	bytes  int
}

// ask asks Prometheus by one of its methods of querying.
func ask(ctx context.Context, at external.Request, method string, form url.Values) (answer, error) {
	at.URL = at.URL.JoinPath("api/v1", method)
	at.Form = form
	status, text, err := external.Fetch(ctx, at)
	var reply struct {
		Status, ErrorType, Error string
		Warnings                 []string
		Data                     struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	malformed := json.Unmarshal([]byte(text), &reply)
	switch {
	case malformed == nil && reply.Status == "error":
		return answer{}, fault.New(fault.Unavailable, "it refuses the query (%s): %s", external.Shown(reply.ErrorType), external.Shown(reply.Error))
	case err != nil:
		return answer{}, err
	case status != http.StatusOK:
		return answer{}, external.Refused(status)
	case malformed != nil || reply.Status != "success":
		return answer{}, fault.New(fault.Unavailable, "what it answered is not Prometheus's")
	case len(reply.Warnings) > 0:
		return answer{}, fault.New(fault.Unavailable, "its answer is not whole: %s", external.Shown(reply.Warnings[0]))
	}
	return answer{reply.Data.ResultType, reply.Data.Result, len(text)}, nil
}

// pair is a time and a value, which is a text.
type pair [2]any

func (p pair) value() (float64, error) {
	text, ok := p[1].(string)
	if !ok {
		return 0, fmt.Errorf("%v is no value", p[1])
	}
	return strconv.ParseFloat(text, 64)
}

// samples of a result that has one value for each series, or one at all.
func samples(kind string, result json.RawMessage) ([]Sample, error) {
	wrong := func(err error) error {
		return fault.New(fault.Unavailable, "its answer cannot be read: %w", err)
	}
	switch kind {
	case "vector":
		var series []struct {
			Metric    map[string]string
			Value     *pair
			Histogram json.RawMessage
		}
		if err := json.Unmarshal(result, &series); err != nil {
			return nil, wrong(err)
		}
		if series == nil { // Not a list, such as null, is no empty one.
			return nil, wrong(errors.New("it has no result"))
		}
		if len(series) > maxSeries {
			return nil, fault.New(fault.Unavailable, "the query gives %d series, more than %d; aggregate, for example by sum by (cluster) (…)", len(series), maxSeries)
		}
		found := make([]Sample, 0, len(series))
		for _, s := range series {
			if s.Value == nil {
				return nil, fault.New(fault.Unavailable, "the query gives a histogram and no number; take one out of it, for example by histogram_quantile")
			}
			value, err := s.Value.value()
			if err != nil {
				return nil, wrong(err)
			}
			found = append(found, Sample{Labels: s.Metric, Value: value})
		}
		return found, nil
	case "scalar":
		var p pair
		if err := json.Unmarshal(result, &p); err != nil {
			return nil, wrong(err)
		}
		value, err := p.value()
		if err != nil {
			return nil, wrong(err)
		}
		return []Sample{{Value: value}}, nil
	default:
		return nil, fault.New(fault.Unavailable, "the query gives a %.40s, not one number for each series; put a function such as rate or max_over_time around a range", kind)
	}
}
