package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/judge"
	"lehr.dev/internal/ground/validation"
)

// judgementKind is the page of the record of a validation: all samples as plots, and what was found of them.
const judgementKind = "judgement"

// judgementView is a record of a validation.
type judgementView struct {
	validation.Record
	Command string
}

// metricView is what was found of a metric, with its plot.
type metricView struct {
	validation.Metric
	Plot  *chart
	Tests []testView
	// Failed says why a source gave no samples, by side.
	Failed []string
}

// testView is one question that was asked of a metric, in words.
type testView struct {
	Kind, Estimate, Tolerated, Matters, P string
	Verdict, Why                          string
}

// showJudgement shows the record that an address names.
func showJudgement(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "What was judged")
	if err != nil {
		return page{}, err
	}
	pageData.Fixed = true
	pageData.Back = crumb{"rollouts", link(at.partition, "rollouts", "")}
	if rollout, run, ok := rolloutOfRecord(at.name); ok {
		back := address{kind: "rollout", partition: at.partition, name: rollout}
		pageData.Back = crumb{"rollout " + rollout, back.withValue("run", run)}
	}
	packed, err := r.Judgement(ctx, at.partition, at.name)
	if err != nil {
		return page{}, err
	}
	text, err := validation.Unpack(packed)
	if err != nil {
		return page{}, err
	}
	record, err := validation.ReadRecord(text)
	if err != nil {
		return page{}, err
	}
	pageData.Title = "Validation " + record.Settings.Name
	pageData.Parts = []part{makePart("record", "judgement", judgementView{record, r.command(at.partition, "rollout", "record", at.name, "-o", "record.json")})}
	for i := range record.Assessment.Metrics {
		view := viewMetric(&record, &record.Assessment.Metrics[i])
		pageData.Parts = append(pageData.Parts, makePart("metric:"+view.Judged.Name, "judged-metric", view))
	}
	return pageData, nil
}

// rolloutOfRecord finds the run in the name of a record, as "20261123T131500Z/frontends@3/canary/errors".
func rolloutOfRecord(name string) (rollout, run string, ok bool) {
	words := strings.Split(name, "/")
	if len(words) != 4 {
		return "", "", false
	}
	return strings.Cut(words[1], "@")
}

func viewMetric(record *validation.Record, metric *validation.Metric) metricView {
	view := metricView{Metric: *metric}
	at := slices.IndexFunc(record.Readings, func(r validation.Reading) bool { return r.Metric == metric.Judged.Name })
	limits := slices.IndexFunc(record.Settings.Metrics, func(m validation.Measure) bool { return m.Judge.Name == metric.Judged.Name })
	if at >= 0 {
		reading := record.Readings[at]
		for side, failed := range map[string]string{"what changed": reading.Experiment.Failed, "what it is compared with": reading.Control.Failed} {
			if failed != "" {
				view.Failed = append(view.Failed, side+": "+failed)
			}
		}
		slices.Sort(view.Failed)
		drawing := drawing{Name: metric.Judged.Name, Unit: metric.Judged.Unit, Changed: record.Changed, From: record.Assessment.From, Until: record.Assessment.Until}
		drawing.add("values", rates(reading.Experiment))
		drawing.add("baseline", rates(reading.Control))
		if limits >= 0 {
			if limit := record.Settings.Metrics[limits].Judge.Limit; limit != nil {
				drawing.Above, drawing.Below = limit.Above, limit.Below
			}
		}
		view.Plot = drawing.draw()
	}
	for _, test := range metric.Judged.Tests {
		view.Tests = append(view.Tests, viewTest(test, metric.Judged.Unit))
	}
	return view
}

// rates of a side: values, or of events the share of trials.
func rates(side validation.Side) (points []timedValue) {
	trials := map[time.Time]float64{}
	for _, sample := range side.Trials {
		trials[sample.At] = float64(sample.Value)
	}
	for _, sample := range side.Samples {
		value := float64(sample.Value)
		if sample.Of != nil {
			value /= float64(*sample.Of)
		} else if of, ok := trials[sample.At]; ok {
			value /= of
		}
		points = append(points, timedValue{sample.At, value})
	}
	slices.SortFunc(points, func(a, b timedValue) int { return a.at.Compare(b.at) })
	return points
}

// viewTest says a test in words: a difference in the unit of the metric, a ratio, or a count of samples.
func viewTest(test judge.Test, unit string) testView {
	view := testView{Kind: test.Kind, Verdict: string(test.Verdict), Why: test.Why}
	say := func(n judge.Number) string {
		switch test.Kind {
		case "limit":
			return fmt.Sprintf("%.4g samples", float64(n))
		case "spread", "rate":
			return fmt.Sprintf("× %.4g", float64(n))
		}
		return strings.TrimSpace(fmt.Sprintf("%+.4g %s", float64(n), unit))
	}
	view.Estimate = say(test.Estimate)
	if test.Kind == "limit" {
		return view // It is no test of chance.
	}
	if isNumber(float64(test.Low)) && isNumber(float64(test.High)) {
		view.Estimate += fmt.Sprintf(", from %s to %s", say(test.Low), say(test.High))
	}
	view.Tolerated, view.Matters = say(test.Tolerated), say(test.Matters)
	view.P = fmt.Sprintf("%.3g", float64(test.Adjusted))
	return view
}
