package generate

import (
	"context"
	"maps"
	"slices"
	"time"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate/work"
)

// Checking programs are run and kept as generators are, after these: each rests on what it
// reads, and runs again when that changes. They give no assets, and what they find keeps
// nothing from being built.

// checked is a checking program in the last build.
type checked struct {
	// unread: what it runs for could not be read.
	unread []intent.Finding
}

// Checked is what is known of a checking program.
type Checked struct {
	// Failed says why its runs gave no answer; empty: all did.
	Failed []intent.Finding
	// Reported is what it found, in the order of its runs. Of what failed it found nothing.
	Reported []work.Report
	// Again: a run was stopped from outside, and is tried again after a while.
	Again bool
}

// Check brings the runs of checking programs up to date with what a build without findings
// gave. An error says that nothing can be concluded.
func (g *Graph) Check(ctx context.Context, checkers []definition.Generator, inputs Inputs, now time.Time) error {
	for _, name := range slices.Sorted(maps.Keys(g.checks)) {
		if !slices.ContainsFunc(checkers, func(c definition.Generator) bool { return c.Name == name }) {
			if err := g.dropCheck(ctx, name); err != nil {
				return err
			}
		}
	}
	for _, checker := range checkers {
		state := &checked{}
		g.checks[checker.Name] = state
		var err error
		if state.unread, err = g.generator(ctx, checker, inputs, now); err != nil {
			return err
		}
	}
	return nil
}

// Checked is what the last Check knows of a checking program.
func (g *Graph) Checked(name string) (c Checked) {
	if state := g.checks[name]; state != nil {
		c.Failed = slices.Clone(state.unread)
	}
	for _, file := range slices.Sorted(maps.Keys(g.runs[name])) {
		run := g.runs[name][file]
		c.Again = c.Again || !run.until.IsZero()
		if len(run.findings) > 0 {
			c.Failed = append(c.Failed, run.findings...)
			continue
		}
		for _, warning := range run.warnings { // Of the sandbox.
			c.Reported = append(c.Reported, work.Report{Finding: warning})
		}
		c.Reported = append(c.Reported, run.reported...)
	}
	return c
}

// dropCheck forgets a checking program.
func (g *Graph) dropCheck(ctx context.Context, name string) error {
	if g.checks[name] == nil {
		return nil
	}
	if err := g.dropAll(ctx, name); err != nil {
		return err
	}
	delete(g.checks, name)
	return nil
}

// dropAll runs of a generator or a checking program.
func (g *Graph) dropAll(ctx context.Context, name string) error {
	delete(g.settled, name)
	delete(g.splits, name)
	return g.drop(ctx, name, slices.Sorted(maps.Keys(g.runs[name])))
}
