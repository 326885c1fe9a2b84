package check

import (
	"errors"
	"fmt"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
)

// peak keeps a push from leaving less than was asked of the asset lately. One
// that takes nothing away passes without a look at the answer: when the source
// is down, adding capacity is what may help.
func (c *Configured) peak(config *intentpb.Peak, typeName intent.TypeName, types *rule.Environment) error {
	err := c.labelled(config.GetLabels(), typeName, types)
	if err == nil && config.GetServes() != "" {
		_, err = types.Compile(config.GetServes(), typeName)
	}
	if err != nil {
		return err
	}
	c.Sized = &Sized{config.GetServes(), config.GetDimension()}
	if c.Sized.Expression == "" && c.Sized.Dimension == "" {
		c.Sized.Dimension = DefaultDimension
	}
	text := excerpt(config.GetQuery(), maxQueryShown)
	ask := c.judgeByAnswer(Question{Source: Prometheus, Place: config.GetPrometheus(), Text: config.GetQuery(), Keep: keepOf(config.GetKeep())}, func(f Facts, a Answer) intent.Verdict {
		peak, err := c.highest(f, a, text)
		if err != nil {
			return c.broken(err)
		}
		served, least := f.Own[c].Serves, peak*config.GetHeadroom()
		if !exceeds(least, served.Target) {
			return c.passes(c.holdsUntil(a)).Rests("it would serve %s, the recent peak is %s × %s; %s old", number(served.Target), number(peak), number(config.GetHeadroom()), aged(f.Now, a.At))
		}
		return c.waits(intent.WaitPeak, time.Time{}, "it serves %s and would serve %s, less than the recent peak %s × %s = %s (%s); asked at %s",
			number(served.Current), number(served.Target), number(peak), number(config.GetHeadroom()), number(least), text, instant(a.At))
	})
	c.judge = func(f Facts) intent.Verdict {
		own, ok := f.Own[c]
		switch {
		case !ok:
			return c.broken(errors.New("it is not known how much it serves"))
		case own.Unsized != nil:
			return c.broken(own.Unsized)
		case !own.Serves.Falls():
			return c.passes(time.Time{})
		}
		return ask(f)
	}
	return nil
}

// highest of the asset's series.
func (c *Configured) highest(f Facts, a Answer, query string) (float64, error) {
	own, err := c.pick(f, a)
	samples := own.Samples
	if err == nil {
		err = finite(query, samples)
	}
	if err != nil {
		return 0, err
	}
	if len(samples) == 0 {
		return 0, fmt.Errorf("%s gives no value%s, so the recent peak is not known", query, labelsText(f.Own[c].Labels))
	}
	peak := samples[0].Value
	for _, s := range samples {
		peak = max(peak, s.Value)
	}
	if peak < 0 {
		return 0, fmt.Errorf("%s is %s, which is no peak", query, number(peak))
	}
	return peak, nil
}
