package check

import (
	"fmt"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// Environment of an application that is delivered.
type Environment struct {
	// Application is PARTITION/NAME.
	Application, Name string
}

// Train is the train of releases that is in an environment.
type Train struct {
	// At is when somebody looked.
	At time.Time
	// Release is its number; 0: no train is in it.
	Release int
	Version string
	// Since is when the environment was given the version.
	Since time.Time
	// Err: it is not known.
	Err error
}

// train waits while a train is in an environment, and no longer than the policy says. Meanwhile people see
// the difference, and nothing is pushed.
func (c *Configured) train(config *intentpb.Train) {
	c.Kind, c.Environment = KindTrain, Environment{config.GetApplication(), config.GetEnvironment()}
	c.judge = func(f Facts) intent.Verdict {
		train, ok := f.Trains[c.Environment]
		if !ok {
			train.Err = fmt.Errorf("which train is in %s of %s is not known", c.Environment.Name, c.Environment.Application)
		}
		end := train.Since.Add(config.GetLongest().AsDuration())
		switch {
		case train.Err != nil:
			return c.broken(train.Err)
		case train.Release == 0 || !f.Now.Before(end):
			return c.passes(train.At.Add(timely))
		}
		return c.waits(intent.WaitTrain, end, "release %d is in %s of %s with version %s since %s: that is shown and not enforced until all is good with it, and no longer than until %s",
			train.Release, c.Environment.Name, c.Environment.Application, train.Version, train.Since.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339))
	}
}
