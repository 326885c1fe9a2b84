package check

import (
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
)

// timely is how long the answer of a condition on the time holds.
const timely = 10 * time.Second

// condition is CEL over the asset at its target, what a push would do, and what
// is known now. Without a value it is broken.
func (c *Configured) condition(config *intentpb.Condition, typeName intent.TypeName, types *rule.Environment) error {
	must, err := types.Condition(config.GetMust(), typeName, rule.Moving)
	if err != nil {
		return err
	}
	c.NeedsContent = true
	c.NeedsOrigin = must.Reads("facts", "age") || must.Reads("facts", "published")
	timed := must.Reads("facts", "now") || must.Reads("facts", "age")
	c.judge = func(f Facts) intent.Verdict {
		holds, err := must.Holds(f.Content, rule.Added{Push: rule.Push{
			Plan: f.Plan, Now: f.Now, Incarnation: f.Origin.Incarnation, Published: f.Origin.Published, Mode: string(f.Mode), Health: f.Health,
		}})
		switch {
		case err != nil:
			return c.broken(err)
		case holds && timed:
			return c.passes(f.Now.Add(timely)).Rests("it was so: %s", intent.Shown(config.GetMust()))
		case holds:
			return c.passes(time.Time{}).Rests("it was so: %s", intent.Shown(config.GetMust()))
		case config.GetMessage() != "":
			return c.waits(intent.WaitCondition, time.Time{}, "%s (must: %s)", config.GetMessage(), intent.Shown(config.GetMust()))
		}
		return c.waits(intent.WaitCondition, time.Time{}, "must: %s", intent.Shown(config.GetMust()))
	}
	return nil
}
