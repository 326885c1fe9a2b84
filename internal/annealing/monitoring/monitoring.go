// Package monitoring asks Prometheus and Alertmanager what checks ask, by their
// stable JSON API, as far as the operator's policy (package external) allows.
// What is no whole answer is an error: down, refused, partial, too large, of
// another kind. It keeps nothing and judges nothing; the enforcer calls it
// through its Options.
package monitoring

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/annealing/check"
	"lehr.dev/internal/external"
	"lehr.dev/internal/external/prometheus"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

const (
	// maxTime that an answer may take. A plan waits a little longer.
	maxTime = 4 * time.Second
	// maxAlerts of an answer.
	maxAlerts = 2000
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
	samples, size, err := prometheus.Now(ctx, at, q.Text, maxTime)
	answer := check.Answer{Bytes: size}
	for _, s := range samples {
		answer.Samples = append(answer.Samples, check.Sample{Labels: s.Labels, Value: s.Value})
	}
	return answer, err
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
		return check.Answer{}, fault.New(fault.Unavailable, "it refuses the matchers: %s", external.Shown(text))
	case status != http.StatusOK:
		return check.Answer{}, external.Refused(status)
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
	if len(list) > maxAlerts {
		return check.Answer{}, fault.New(fault.Unavailable, "%d alerts match, more than %d; narrow the matchers", len(list), maxAlerts)
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
