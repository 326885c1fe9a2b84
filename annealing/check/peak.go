package check

import (
	"errors"
	"fmt"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/intent"
	"lehr.dev/rule"
)

// Served is how much an asset serves now, and would after a push.
type Served struct {
	Amount
	// Err says why that is not known.
	Err error
}

// Sized says how a check tells what an asset serves: by an expression, or by a
// dimension of its Capacity addon.
type Sized struct {
	Expression, Dimension string
}

// peak keeps a push from leaving less than was asked of the asset lately. One
// that takes nothing away passes without a look at the answer: when the source
// is down, adding capacity is what may help.
func (c *Configured) peak(asked *intentpb.Peak, over intent.TypeName, types *rule.Environment) error {
	which, err := c.labels(asked.GetLabels(), over, types)
	if err == nil && asked.GetServes() != "" {
		_, err = types.Compile(asked.GetServes(), over)
	}
	if err != nil {
		return err
	}
	c.Sized = &Sized{asked.GetServes(), asked.GetDimension()}
	if c.Sized.Expression == "" && c.Sized.Dimension == "" {
		c.Sized.Dimension = DefaultDimension
	}
	c.NeedsContent = true
	text := shown(asked.GetQuery(), maxQueryShown)
	ask := c.asks(Question{Source: Prometheus, Place: asked.GetPrometheus(), Text: asked.GetQuery(), Keep: keepOf(asked.GetKeep())}, func(f Facts, a Answer) intent.Verdict {
		peak, err := highest(f, a, which, text)
		if err != nil {
			return c.broken(err)
		}
		served, least := f.Served[c], peak*asked.GetHeadroom()
		if !exceeds(least, served.Target) {
			return c.passes(c.until(a))
		}
		return c.waits(intent.WaitPeak, time.Time{}, "it serves %s and would serve %s, less than the recent peak %s × %s = %s (%s); asked at %s",
			number(served.Current), number(served.Target), number(peak), number(asked.GetHeadroom()), number(least), text, instant(a.At))
	})
	c.judge = func(f Facts) intent.Verdict {
		served, known := f.Served[c]
		switch {
		case !known:
			return c.broken(errors.New("it is not known how much it serves"))
		case served.Err != nil:
			return c.broken(served.Err)
		case !served.Falls():
			return c.passes(time.Time{})
		}
		return ask(f)
	}
	return nil
}

// highest of the asset's series.
func highest(f Facts, a Answer, which labels, query string) (float64, error) {
	own, err := which.pick(f, a)
	samples := own.Samples
	if err == nil {
		err = finite(query, samples)
	}
	if err != nil {
		return 0, err
	}
	if len(samples) == 0 {
		wanted, _ := which.of(f.Content)
		return 0, fmt.Errorf("%s gives no value%s, so the recent peak is not known", query, about(wanted))
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
