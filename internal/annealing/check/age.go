package check

import (
	"errors"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// minimumAge waits until the target incarnation, or the asset's content in it,
// was published so long ago.
func (c *Configured) minimumAge(config *intentpb.MinimumAge) {
	c.NeedsOrigin = true
	least := config.GetAge().AsDuration()
	c.judge = func(f Facts) intent.Verdict {
		subject, published := f.Origin.Incarnation.String()+" was", f.Origin.Published
		if config.GetOfContent() {
			if f.Origin.Lost != nil {
				return c.broken(f.Origin.Lost)
			}
			subject, published = "its content came with "+f.Origin.Since.String()+", which was", f.Origin.Appeared
		}
		if published.IsZero() {
			return c.broken(errors.New("it is not known when " + f.Origin.Incarnation.String() + " was published"))
		}
		old := published.Add(least)
		if !f.Now.Before(old) {
			return c.passes(time.Time{}).Rests("%s published at %s, %s ago; it must be %s old", subject, instant(published), f.Now.Sub(published).Round(time.Second), least)
		}
		return c.waits(intent.WaitAge, old, "%s published at %s and must be %s old; it is at %s", subject, instant(published), least, instant(old))
	}
}
