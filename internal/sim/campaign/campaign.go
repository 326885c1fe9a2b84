// Package campaign runs many seeds of the simulator, several at a time, and
// sums up what they met. It keeps sums and no runs, so that it can go on for
// days. It decides nothing about a run. "lehr sim" calls it.
package campaign

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lehr.dev/internal/sim"
	"lehr.dev/internal/sim/monitor"
)

// Options of a campaign.
type Options struct {
	// Run are those of every run; its seed is the first one's.
	Run sim.Options
	// Runs is how many seeds, from the first on; 0: TotalHours say it.
	Runs int
	// Seeds are run before those from the first on, which leave them out. Cover is some.
	Seeds []uint64
	// TotalHours of virtual time, over all runs.
	TotalHours float64
	// Clock ends a campaign of TotalHours earlier: after so much real time (0: never),
	// but with Complete not before all required situations were met.
	Clock    time.Duration
	Complete bool
	// Workers is how many run at a time.
	Workers int
	// Program makes runs, for each worker in a process of its own; it calls
	// ChildMain. Empty: all are made in this one, as are those that are traced, or
	// have only some of their disturbances.
	Program []string
	// Twice: each run of so many is made again, and must be the same (0: none).
	Twice int
	// KeepGoing runs on after a run that failed.
	KeepGoing bool
	// Each, if any, is told every run that ended, and the sum with it: one
	// call at a time, in no order.
	Each func(sim.Outcome, *Sum)
}

// Sum of runs.
type Sum struct {
	Runs    int     `json:"runs"`
	Failed  int     `json:"failed"`
	Twice   int     `json:"twice"`
	Hours   float64 `json:"hours"`
	Steps   uint64  `json:"steps"`
	Planned int     `json:"planned"`
	Struck  int     `json:"struck"`
	Effects int     `json:"effects"`
	// Cells is how many points × faults × phases were covered.
	Cells int `json:"cells"`
	// Marks are the situations that came about, Checked how often each
	// property was asked.
	Marks   map[string]int `json:"marks"`
	Checked map[string]int `json:"checked"`

	cells map[sim.Cell]struct{}
}

func newSum() *Sum {
	return &Sum{Marks: map[string]int{}, Checked: map[string]int{}, cells: map[sim.Cell]struct{}{}}
}

func (s *Sum) add(o sim.Outcome) {
	s.Runs++
	if o.Failed() {
		s.Failed++
	}
	s.Hours += o.Hours
	s.Steps += o.Steps
	s.Planned += len(o.Plan)
	s.Struck += o.Struck
	s.Effects += o.Effects
	for mark, n := range o.Marks {
		s.Marks[mark] += n
	}
	for property, n := range o.Checked {
		s.Checked[property] += n
	}
	for cell := range o.Cells {
		s.cells[cell] = struct{}{}
	}
	s.Cells = len(s.cells)
}

// Run runs the campaign. When the context ends, the sum is of the runs that
// ended before.
func Run(ctx context.Context, o Options) (*Sum, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &campaign{Options: o, seed: o.Run.Seed, sum: newSum(), cancel: cancel, start: time.Now()}
	var workers errgroup.Group
	for range max(o.Workers, 1) {
		workers.Go(func() error {
			simulate, end, err := c.begin(ctx)
			if err != nil {
				cancel()
				return err
			}
			defer end()
			for {
				seed, more := c.next(ctx)
				if !more {
					return nil
				}
				run := o.Run
				run.Seed = seed
				outcome, err := c.once(ctx, simulate, run)
				if ctx.Err() != nil {
					return nil // Cut off: it says nothing.
				}
				if err != nil {
					cancel()
					return err
				}
				c.ended(outcome)
			}
		})
	}
	err := workers.Wait()
	return c.sum, err
}

type campaign struct {
	Options
	cancel context.CancelFunc
	start  time.Time

	mutex sync.Mutex
	begun int
	// seed is the next of those from the first on.
	seed uint64
	sum  *Sum
}

// simulation makes a run.
type simulation func(context.Context, sim.Options) (sim.Outcome, error)

// begin gives a worker what makes its runs, until the end is called.
func (c *campaign) begin(ctx context.Context) (_ simulation, end func(), err error) {
	if len(c.Program) == 0 || c.Run.Trace != nil || c.Run.Only != nil {
		return sim.Run, func() {}, nil
	}
	process, err := newChild(ctx, c.Program)
	if err != nil {
		return nil, nil, err
	}
	// A run that it did not make is told of.
	return process.run, func() { _ = process.end() }, nil
}

// once makes a run, and makes it again if it is its turn.
func (c *campaign) once(ctx context.Context, simulate simulation, run sim.Options) (sim.Outcome, error) {
	outcome, err := simulate(ctx, run)
	if err != nil || c.Twice == 0 || run.Seed%uint64(c.Twice) != 0 {
		return outcome, err
	}
	run.Trace = nil
	again, err := simulate(ctx, run)
	if err != nil || ctx.Err() != nil {
		return outcome, err
	}
	if again.Hash != outcome.Hash {
		outcome.Violations = append(outcome.Violations, monitor.Violation{
			Property: "simulator", What: fmt.Sprintf("seed %d gave the run %s, and made again %s", run.Seed, outcome.Hash, again.Hash),
		})
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.sum.Twice++
	return outcome, nil
}

// next is the next seed, if there is to be another run.
func (c *campaign) next(ctx context.Context) (uint64, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	enough := c.begun >= c.Runs
	if c.TotalHours > 0 {
		enough = c.sum.Hours >= c.TotalHours || c.clockEnded()
	}
	if enough || ctx.Err() != nil {
		return 0, false
	}
	c.begun++
	if c.begun <= len(c.Seeds) {
		return c.Seeds[c.begun-1], true
	}
	for slices.Contains(c.Seeds, c.seed) {
		c.seed++
	}
	c.seed++
	return c.seed - 1, true
}

// clockEnded reports whether the campaign's real time is over.
func (c *campaign) clockEnded() bool {
	return c.Clock > 0 && c.begun > 0 && time.Since(c.start) >= c.Clock && !(c.Complete && len(sim.Missed(c.sum.Marks)) > 0)
}

func (c *campaign) ended(outcome sim.Outcome) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.sum.add(outcome)
	if c.Each != nil {
		c.Each(outcome, c.sum)
	}
	if outcome.Failed() && !c.KeepGoing {
		c.cancel()
	}
}
