// Package sampling reads the samples that validations of rollouts need: from Prometheus,
// services, databases, programs and plugins, each as far as the operator's policy (package
// external) allows, within limits of time, size and number. What is no whole answer is a
// reading that says why there is none; no reason holds a secret. It keeps nothing and
// judges nothing (package validation does); the strategist calls it.
package sampling

import (
	"context"
	"fmt"
	"sync"
	"time"

	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/internal/external"
	"lehr.dev/internal/external/placeholder"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

const (
	// usualTimeout of an answer, where none is given.
	usualTimeout = 10 * time.Second
	// maxTime that all metrics of one look may take: the strategist waits for a minute.
	maxTime = 50 * time.Second
	// atOnce questions are under way.
	atOnce = 8
)

// Part of a rollout's assets: those that changed, or those that did not.
type Part struct {
	Assets []intent.AssetID
	// Scopes are the values of the assets' scopes, by name.
	Scopes map[string][]string
}

// Subject is what samples are of.
type Subject struct {
	Experiment Part
	// Control are those that did not change, for metrics that are compared with them.
	Control Part
}

// Sampler reads for one partition. It is safe for concurrent use.
type Sampler struct {
	partition intent.PartitionID
	policy    string
	plugin    Plugin
}

// Plugin asks the plugin that is started by a command line.
type Plugin func(ctx context.Context, run []string, request *pluginpb.MeasureRequest) (*pluginpb.MeasureResponse, error)

// New returns a sampler under the policy in a file, which is read for each look; no file:
// the zero policy, by which public URLs alone may be asked. It asks plugins by the
// function.
func New(partition intent.PartitionID, policy string, ask Plugin) *Sampler {
	return &Sampler{partition, policy, ask}
}

// Read what is needed of a window, one reading for each metric, within 50 seconds. Before
// the first look it reads nothing.
func (s *Sampler) Read(ctx context.Context, settings validation.Settings, subject Subject, window validation.Window) ([]validation.Reading, error) {
	settings, err := settings.Settled()
	if err != nil || window.Look == 0 {
		return nil, err
	}
	policy, err := external.ReadPolicy(s.policy)
	readings := make([]validation.Reading, len(settings.Metrics))
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, fault.New(fault.Unavailable, "all metrics together took more than %s", maxTime))
	defer cancel()
	var waiting sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i := range settings.Metrics {
		m := &settings.Metrics[i]
		readings[i].Metric = m.Judge.Name
		for _, q := range questions(settings, m, subject, window) {
			q.partition, q.plugins = s.partition, s.plugin
			dst := &readings[i].Experiment
			if q.side != experimentSide {
				dst = &readings[i].Control
			}
			if err != nil {
				dst.Failed = external.Shown(err.Error())
				continue
			}
			places <- struct{}{}
			waiting.Go(func() {
				defer func() { <-places }()
				*dst = q.ask(ctx, policy)
			})
		}
	}
	waiting.Wait()
	return readings, nil
}

// side of a question, as services and programs are told.
type side string

const (
	experimentSide side = "experiment"
	controlSide    side = "control"
	beforeSide     side = "before"
)

// question is what is asked of one side of a metric.
type question struct {
	partition  intent.PartitionID
	validation string
	metric     *validation.Measure
	side       side
	values     placeholder.Values
	// matchers stand for $selector.
	matchers string
	// most samples of an answer.
	most    int
	plugins Plugin
}

// questions of a metric: of what changed, and of what it is compared with.
func questions(s validation.Settings, m *validation.Measure, subject Subject, w validation.Window) []question {
	ask := func(of side, part Part, start, end time.Time, matchers string) question {
		q := question{validation: s.Name, metric: m, side: of, matchers: matchers, most: s.MostOfSide()}
		q.values = placeholder.Values{Scopes: part.Scopes, Start: start, End: end, Step: s.Step}
		for _, id := range part.Assets {
			q.values.Assets = append(q.values.Assets, string(id))
		}
		return q
	}
	all := []question{ask(experimentSide, subject.Experiment, w.From, w.Until, m.Source.Experiment)}
	switch m.Compare {
	case validation.Before:
		all = append(all, ask(beforeSide, subject.Experiment, w.Before, w.Began, m.Source.Experiment))
	case validation.Control:
		all = append(all, ask(controlSide, subject.Control, w.From, w.Until, m.Source.Control))
	}
	return all
}

// ask for the samples of a side.
func (q *question) ask(ctx context.Context, policy *external.Policy) validation.Side {
	timeout := q.metric.Source.Timeout
	if timeout == 0 {
		timeout = usualTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fault.New(fault.Unavailable, "there was no answer within %s", timeout))
	defer cancel()
	var read validation.Side
	var err error
	switch source := q.metric.Source; {
	case source.Prometheus != "":
		read, err = q.prometheus(ctx, policy)
	case source.HTTP != "":
		read, err = q.http(ctx, policy)
	case source.SQL != "":
		read, err = q.sql(ctx, policy)
	case len(source.Command) > 0:
		read, err = q.command(ctx, policy)
	case source.Plugin != "":
		read, err = q.plugin(ctx, policy)
	default:
		err = fault.New(fault.Invalid, "it is not said who is asked")
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if most := max(len(read.Samples), len(read.Trials)); err == nil && most > q.most {
		err = fault.New(fault.Unavailable, "it gave %d samples, more than %d", most, q.most).WithHint("aggregate them, as to one for each step")
	}
	if err != nil {
		return validation.Side{Failed: external.Shown(err.Error())}
	}
	return read
}

// number of a source; NaN where there is none.
func number(value any) (judge.Number, error) {
	var n judge.Number
	text := fmt.Sprint(value)
	if value == nil {
		text = "NaN"
	}
	err := n.UnmarshalJSON([]byte(text))
	return n, err
}
