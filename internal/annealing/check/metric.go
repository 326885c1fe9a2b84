package check

import (
	"errors"
	"fmt"
	"math"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
)

// metric waits until every series that the query gives is within its limits.
func (c *Configured) metric(config *intentpb.Metric, typeName intent.TypeName, types *rule.Environment) error {
	err := c.labelled(config.GetLabels(), typeName, types)
	if err == nil && config.Below != nil && config.Above != nil && config.Over != nil {
		err = errors.New("over takes one limit")
	}
	if err != nil {
		return err
	}
	text := excerpt(config.GetQuery(), maxQueryShown)
	c.judge = c.judgeByAnswer(Question{Source: Prometheus, Place: config.GetPrometheus(), Text: Ranged(config), Keep: keepOf(config.GetKeep())}, func(f Facts, a Answer) intent.Verdict {
		own, err := c.pick(f, a)
		samples := own.Samples
		if err == nil {
			err = finite(text, samples)
		}
		if err != nil {
			return c.broken(err)
		}
		if len(samples) == 0 {
			return c.absent(config.GetAbsent(), f, a, text)
		}
		var worst Sample
		violations, most := 0, 0.0
		for _, s := range samples {
			if excess, exceeded := limitExcess(config, s.Value); exceeded {
				if violations++; violations == 1 || excess > most {
					worst, most = s, excess
				}
			}
		}
		if violations == 0 {
			return c.passes(c.holdsUntil(a)).Rests("%s is %s%s, and must be %s; %s old", text, number(samples[0].Value), ofSeries(len(samples)), limits(config), aged(f.Now, a.At))
		}
		tally := ""
		if len(samples) > 1 {
			tally = fmt.Sprintf(" (%d of %d series are not so)", violations, len(samples))
		}
		return c.waits(intent.WaitMetric, time.Time{}, "%s is %s%s%s, and must be %s%s; asked at %s",
			text, number(worst.Value), labelsText(worst.Labels), periodText(config), limits(config), tally, instant(a.At))
	})
	return nil
}

// maxQueryShown is how much of a query is told in a reason, in bytes.
const maxQueryShown = 120

// Ranged is the query that is asked: of the last while, its worst value.
func Ranged(config *intentpb.Metric) string {
	period := config.GetOver().AsDuration()
	if period <= 0 {
		return config.GetQuery()
	}
	const parts = 240 // Of the while, at each of which the query is asked.
	step := max(time.Second, min(time.Minute, period/parts).Round(time.Second))
	aggregate := func(function string) string {
		// A comment in the query ends with its line.
		return fmt.Sprintf("%s((\n%s\n)[%ds:%ds])", function, config.GetQuery(), int(period.Seconds()), int(step.Seconds()))
	}
	if config.Below != nil {
		return aggregate("max_over_time")
	}
	return aggregate("min_over_time")
}

func periodText(config *intentpb.Metric) string {
	if period := config.GetOver().AsDuration(); period > 0 {
		return fmt.Sprintf(" at its worst within %s", period)
	}
	return ""
}

// limitExcess reports whether a value is not within the limits, and by how much.
func limitExcess(config *intentpb.Metric, value float64) (excess float64, exceeded bool) {
	switch {
	case config.Below != nil && value >= config.GetBelow():
		return value - config.GetBelow(), true
	case config.Above != nil && value <= config.GetAbove():
		return config.GetAbove() - value, true
	}
	return 0, false
}

// ofSeries says of how many a value is the first.
func ofSeries(count int) string {
	if count == 1 {
		return ""
	}
	return fmt.Sprintf(" and in %d more series within limits too", count-1)
}

// aged is how old an answer is, in seconds.
func aged(now, at time.Time) time.Duration { return now.Sub(at).Round(time.Second) }

func limits(config *intentpb.Metric) string {
	switch {
	case config.Below != nil && config.Above != nil:
		return fmt.Sprintf("above %s and below %s", number(config.GetAbove()), number(config.GetBelow()))
	case config.Below != nil:
		return "below " + number(config.GetBelow())
	}
	return "above " + number(config.GetAbove())
}

// finite: what is no number says nothing, such as a ratio of nothing to nothing.
func finite(query string, samples []Sample) error {
	for _, s := range samples {
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			return fmt.Errorf("%s is %v%s, which is no measure", query, s.Value, labelsText(s.Labels))
		}
	}
	return nil
}

// absent says what it means that there is no series.
func (c *Configured) absent(means intentpb.Metric_Absence, f Facts, a Answer, query string) intent.Verdict {
	switch text := query + " gives no value" + labelsText(f.Own[c].Labels); means {
	case intentpb.Metric_ABSENCE_PASS:
		return c.passes(c.holdsUntil(a))
	case intentpb.Metric_ABSENCE_WAIT:
		return c.waits(intent.WaitMetric, time.Time{}, "%s; asked at %s", text, instant(a.At))
	default:
		return c.broken(errors.New(text + `, and so says nothing; "absent" says what that means`))
	}
}
