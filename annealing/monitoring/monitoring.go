// Package monitoring asks Prometheus and Alertmanager what checks ask, by their
// stable JSON API, as far as the operator's policy (package external) allows.
// What is no whole answer is an error: down, refused, partial, too large, of
// another kind. It keeps nothing and judges nothing; the enforcer calls it
// through its Options.
package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lehr.dev/annealing/check"
	"lehr.dev/external"
	"lehr.dev/fault"
	"lehr.dev/intent"
)

const (
	// maxTime that an answer may take. A plan waits a little longer.
	maxTime = 4 * time.Second
	// maxSeries and alerts of an answer.
	maxSeries = 2000
	// maxSaid is how much is told of what a source says went wrong, in bytes.
	maxSaid = 300
)

// Asker asks for the checks of one partition. It is safe for concurrent use.
type Asker struct {
	partition intent.PartitionID
	policy    string
}

// New returns an asker under the policy in a file, which is read for each
// question; no file: the zero policy.
func New(partition intent.PartitionID, policy string) *Asker { return &Asker{partition, policy} }

// Ask answers a question within four seconds.
func (a *Asker) Ask(ctx context.Context, q check.Question) (check.Answer, error) {
	policy, err := external.ReadPolicy(a.policy)
	if err != nil {
		return check.Answer{}, err
	}
	at, err := policy.Place(a.partition, string(q.Source), q.Place)
	if err != nil {
		return check.Answer{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, fault.New(fault.Unavailable, "there was no answer within %s", maxTime))
	defer cancel()
	var answer check.Answer
	switch q.Source {
	case check.Prometheus:
		answer, err = query(ctx, at, q)
	case check.Alertmanager:
		answer, err = alerts(ctx, at, q)
	default:
		err = fault.New(fault.Invalid, "there is no monitoring of the kind %q", q.Source)
	}
	if err != nil && ctx.Err() != nil {
		return answer, context.Cause(ctx)
	}
	return answer, err
}

// query asks for the value of each series now.
func query(ctx context.Context, at external.Request, q check.Question) (check.Answer, error) {
	found, err := ask(ctx, at, "query", url.Values{"query": {q.Text}, "timeout": {maxTime.String()}})
	if err != nil {
		return check.Answer{}, err
	}
	answer := check.Answer{Bytes: found.bytes}
	answer.Samples, err = samples(found.kind, found.result)
	return answer, err
}

// found is what Prometheus answered, whole: its kind, and the rest of its JSON.
type found struct {
	kind   string
	result json.RawMessage
	bytes  int
}

// ask asks Prometheus by one of its methods of querying.
func ask(ctx context.Context, at external.Request, method string, form url.Values) (found, error) {
	at.URL = at.URL.JoinPath("api/v1", method)
	at.Form = form
	status, text, err := external.Fetch(ctx, at)
	var said struct {
		Status, ErrorType, Error string
		Warnings                 []string
		Data                     struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	malformed := json.Unmarshal([]byte(text), &said)
	switch {
	case malformed == nil && said.Status == "error":
		return found{}, fault.New(fault.Unavailable, "it refuses the query (%s): %s", shown(said.ErrorType), shown(said.Error))
	case err != nil:
		return found{}, err
	case status != http.StatusOK:
		return found{}, refused(status)
	case malformed != nil || said.Status != "success":
		return found{}, fault.New(fault.Unavailable, "what it answered is not Prometheus's")
	case len(said.Warnings) > 0:
		return found{}, fault.New(fault.Unavailable, "its answer is not whole: %s", shown(said.Warnings[0]))
	}
	return found{said.Data.ResultType, said.Data.Result, len(text)}, nil
}

// refused says what a status means.
func refused(status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.New(fault.Denied, "it refuses whoever asks (%d); whoever runs the server lists it with its secret, under monitoring, in the file of --external-checks", status)
	default:
		return fault.New(fault.Unavailable, "it answered %d; redirects are not followed", status)
	}
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
func samples(kind string, result json.RawMessage) ([]check.Sample, error) {
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
		found := make([]check.Sample, 0, len(series))
		for _, s := range series {
			if s.Value == nil {
				return nil, fault.New(fault.Unavailable, "the query gives a histogram and no number; take one out of it, for example by histogram_quantile")
			}
			value, err := s.Value.value()
			if err != nil {
				return nil, wrong(err)
			}
			found = append(found, check.Sample{Labels: s.Metric, Value: value})
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
		return []check.Sample{{Value: value}}, nil
	default:
		return nil, fault.New(fault.Unavailable, "the query gives a %.40s, not one number for each series; put a function such as rate or max_over_time around a range", kind)
	}
}

// alerts asks for those that are active.
func alerts(ctx context.Context, at external.Request, q check.Question) (check.Answer, error) {
	at.URL = at.URL.JoinPath("api/v2/alerts")
	at.URL.RawQuery = url.Values{
		"active": {"true"}, "silenced": {strconv.FormatBool(q.Silenced)}, "inhibited": {strconv.FormatBool(q.Inhibited)},
		"filter": strings.Split(q.Text, "\n"),
	}.Encode()
	status, text, err := external.Fetch(ctx, at)
	switch {
	case err != nil:
		return check.Answer{}, err
	case status == http.StatusBadRequest:
		return check.Answer{}, fault.New(fault.Unavailable, "it refuses the matchers: %s", shown(text))
	case status != http.StatusOK:
		return check.Answer{}, refused(status)
	}
	var list []struct {
		Labels       map[string]string
		StartsAt     *time.Time
		GeneratorURL string
		Status       *struct{ State string }
	}
	// Not a list, such as null, is no empty one.
	if err := json.Unmarshal([]byte(text), &list); err != nil || list == nil {
		return check.Answer{}, fault.New(fault.Unavailable, "what it answered is not Alertmanager's")
	}
	if len(list) > maxSeries {
		return check.Answer{}, fault.New(fault.Unavailable, "%d alerts match, more than %d; narrow the matchers", len(list), maxSeries)
	}
	answer := check.Answer{Bytes: len(text)}
	for _, one := range list {
		if one.StartsAt == nil || one.Status == nil {
			return check.Answer{}, fault.New(fault.Unavailable, "what it answered is not Alertmanager's")
		}
		answer.Alerts = append(answer.Alerts, check.Alert{Labels: one.Labels, Since: *one.StartsAt, Link: one.GeneratorURL})
	}
	return answer, nil
}

func shown(text string) string {
	if text = strings.TrimSpace(text); len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return intent.Shown(text)
}
