package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/sim"
	"lehr.dev/internal/sim/monitor"
	"lehr.dev/internal/sim/mutation"
)

// runHours of disturbances in each run: then all heals and must settle, which
// takes about half an hour more.
const runHours = 2

// runDensity is how many disturbances come in an hour: more than in other
// runs, for the defects are in what overlaps.
const runDensity = 120

// calmHours and calmDensity are the length and density of the campaign's runs, for
// defects that show when much is let alone for minutes.
const calmHours, calmDensity = 8, 4

// storyHours and storyDensity are those of runs that deliver, in which what one disturbance
// begins goes on by itself for minutes: of these many are wanted.
const storyHours, storyDensity = 3, 80

// runner runs seeds in this process, with the defects that its environment
// switches on.
type runner struct {
	runs, on, story bool
	seed            uint64
	budget, hours   float64
	// replicas that share the store.
	replicas int
	density  float64
	// of: only seeds with runs of this kind are run.
	of mutation.Kind
	// class of all targets, and the only property that counts; empty: any.
	class, breaks string
}

// told is what a run came to.
type told struct {
	Seed       uint64
	Hours      float64
	Effects    int
	Hash       string
	Violations []monitor.Violation `json:",omitempty"`
	Marks      map[string]int      `json:",omitempty"`
}

// run until a run fails, or the hours are used up.
func (r runner) run(ctx context.Context) error {
	lines := json.NewEncoder(os.Stdout)
	for used := 0.0; used < r.budget && ctx.Err() == nil; r.seed++ {
		if is, ok := mutation.Kinds[r.of]; ok && !is(r.seed) {
			continue
		}
		outcome, err := sim.Run(ctx, sim.Options{Seed: r.seed, Hours: r.hours, Density: r.density, Replicas: r.replicas, Class: classes[r.class], Breaks: r.breaks})
		if err != nil {
			return err
		}
		used += outcome.Hours
		line := told{Seed: r.seed, Hours: outcome.Hours, Effects: outcome.Effects, Hash: outcome.Hash, Violations: outcome.Violations, Marks: outcome.Marks}
		if err := lines.Encode(line); err != nil {
			return err
		}
		if r.story {
			for _, line := range outcome.Story {
				fmt.Fprintln(os.Stderr, line)
			}
		}
		if r.broke(outcome.Violations) && !r.on {
			return nil
		}
	}
	return ctx.Err()
}

// classes by their letters.
var classes = map[string]plugin.Guarantee{"F": plugin.Fenced, "C": plugin.CompareAndSet, "N": plugin.Unguarded}

// broke reports whether one of the violations is what is looked for.
func (r runner) broke(list []monitor.Violation) bool {
	return slices.ContainsFunc(list, func(v monitor.Violation) bool { return r.breaks == "" || v.Property == r.breaks })
}

// arguments for a process that does the same.
func (r runner) arguments() []string {
	return []string{
		"-run", "-seed", fmt.Sprint(r.seed), "-budget", fmt.Sprint(r.budget), "-hours", fmt.Sprint(r.hours), "-density", fmt.Sprint(r.density),
		"-replicas", fmt.Sprint(r.replicas), "-of", string(r.of), "-class", r.class, "-breaks", r.breaks,
	}
}
