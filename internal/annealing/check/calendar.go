package check

import (
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/calendar"
	"lehr.dev/internal/ground/intent"
)

// calendar lets pushes begin only while it is open. A pass holds until it
// closes.
func (c *Configured) calendar(config *intentpb.Calendar) error {
	hours, err := calendar.New(config)
	if err != nil {
		return err
	}
	c.judge = func(f Facts) intent.Verdict {
		answer := hours.At(f.Now)
		switch {
		case answer.Open:
			return c.passes(answer.Until).Rests("open at %s", hours.Time(f.Now))
		case answer.Until.IsZero():
			return c.waits(intent.WaitCalendar, answer.Until, "%s; it does not open within two years", answer.Why)
		}
		return c.waits(intent.WaitCalendar, answer.Until, "%s; opens at %s", answer.Why, hours.Time(answer.Until))
	}
	return nil
}
