package check

import (
	"errors"
	"fmt"
	"math"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
	"lehr.dev/rule"
)

// metric waits until every series that the query gives is within its limits.
func (c *Configured) metric(asked *intentpb.Metric, over intent.TypeName, types *rule.Environment) error {
	err := c.labelled(asked.GetLabels(), over, types)
	if err == nil && asked.Below != nil && asked.Above != nil && asked.Over != nil {
		err = errors.New("over takes one limit")
	}
	if err != nil {
		return err
	}
	text := shown(asked.GetQuery(), maxQueryShown)
	c.judge = c.asks(Question{Source: Prometheus, Place: asked.GetPrometheus(), Text: Ranged(asked), Keep: keepOf(asked.GetKeep())}, func(f Facts, a Answer) intent.Verdict {
		own, err := c.pick(f, a)
		samples := own.Samples
		if err == nil {
			err = finite(text, samples)
		}
		if err != nil {
			return c.broken(err)
		}
		if len(samples) == 0 {
			return c.absent(asked.GetAbsent(), f, a, text)
		}
		var worst Sample
		beyond, most := 0, 0.0
		for _, s := range samples {
			if by, is := outside(asked, s.Value); is {
				if beyond++; beyond == 1 || by > most {
					worst, most = s, by
				}
			}
		}
		if beyond == 0 {
			return c.passes(c.until(a))
		}
		others := ""
		if len(samples) > 1 {
			others = fmt.Sprintf(" (%d of %d series are not so)", beyond, len(samples))
		}
		return c.waits(intent.WaitMetric, time.Time{}, "%s is %s%s%s, and must be %s%s; asked at %s",
			text, number(worst.Value), about(worst.Labels), during(asked), limits(asked), others, instant(a.At))
	})
	return nil
}

// maxQueryShown is how much of a query is told in a reason, in bytes.
const maxQueryShown = 120

// Ranged is the query that is asked: of the last while, its worst value.
func Ranged(asked *intentpb.Metric) string {
	over := asked.GetOver().AsDuration()
	if over <= 0 {
		return asked.GetQuery()
	}
	const parts = 240 // Of the while, at each of which the query is asked.
	step := max(time.Second, min(time.Minute, over/parts).Round(time.Second))
	within := func(function string) string {
		// A comment in the query ends with its line.
		return fmt.Sprintf("%s((\n%s\n)[%ds:%ds])", function, asked.GetQuery(), int(over.Seconds()), int(step.Seconds()))
	}
	if asked.Below != nil {
		return within("max_over_time")
	}
	return within("min_over_time")
}

func during(asked *intentpb.Metric) string {
	if over := asked.GetOver().AsDuration(); over > 0 {
		return fmt.Sprintf(" at its worst within %s", over)
	}
	return ""
}

// outside reports whether a value is not within the limits, and by how much.
func outside(asked *intentpb.Metric, value float64) (by float64, is bool) {
	switch {
	case asked.Below != nil && value >= asked.GetBelow():
		return value - asked.GetBelow(), true
	case asked.Above != nil && value <= asked.GetAbove():
		return asked.GetAbove() - value, true
	}
	return 0, false
}

func limits(asked *intentpb.Metric) string {
	switch {
	case asked.Below != nil && asked.Above != nil:
		return fmt.Sprintf("above %s and below %s", number(asked.GetAbove()), number(asked.GetBelow()))
	case asked.Below != nil:
		return "below " + number(asked.GetBelow())
	}
	return "above " + number(asked.GetAbove())
}

// finite: what is no number says nothing, such as a ratio of nothing to nothing.
func finite(query string, samples []Sample) error {
	for _, s := range samples {
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			return fmt.Errorf("%s is %v%s, which is no measure", query, s.Value, about(s.Labels))
		}
	}
	return nil
}

// absent says what it means that there is no series.
func (c *Configured) absent(means intentpb.Metric_Absence, f Facts, a Answer, query string) intent.Verdict {
	switch text := query + " gives no value" + about(f.Own[c].Labels); means {
	case intentpb.Metric_ABSENCE_PASS:
		return c.passes(c.until(a))
	case intentpb.Metric_ABSENCE_WAIT:
		return c.waits(intent.WaitMetric, time.Time{}, "%s; asked at %s", text, instant(a.At))
	default:
		return c.broken(errors.New(text + `, and so says nothing; "absent" says what that means`))
	}
}
