package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"lehr.dev/internal/cli"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/sim"
	"lehr.dev/internal/sim/campaign"
	"lehr.dev/internal/sim/scenario"
	"lehr.dev/sdk/client"
)

// simKit is the simulator, for the command.
func simKit() cli.SimKit {
	return cli.SimKit{
		Version: version(), Build: build, Kinds: simKinds,
		Play: playScript,
		Run: func(ctx context.Context, runs cli.SimRuns, each func(cli.SimRun, cli.SimSum)) (cli.SimSum, error) {
			program, err := os.Executable()
			if err != nil {
				return cli.SimSum{}, fault.New(fault.Unavailable, "cannot tell which program this is: %w", err)
			}
			var seeds []uint64
			if runs.Complete {
				seeds = campaign.Cover(simOptions(runs))
			}
			sum, err := campaign.Run(ctx, campaign.Options{
				Program: []string{program, campaign.ChildCommand}, Seeds: seeds,
				Run: simOptions(runs), Runs: runs.Runs, TotalHours: runs.TotalHours, Clock: runs.Clock, Complete: runs.Complete,
				Workers: runs.Workers, KeepGoing: runs.KeepGoing, Twice: runsTwice,
				Each: func(outcome sim.Outcome, sum *campaign.Sum) { each(simRun(outcome), simSum(sum)) },
			})
			if err != nil {
				return cli.SimSum{}, err
			}
			return simSum(sum), nil
		},
		Shrink: func(ctx context.Context, runs cli.SimRuns, failed cli.SimRun, most int) (cli.SimRun, error) {
			options := simOptions(runs)
			options.Seed, options.Trace = failed.Seed, nil
			shrunk, err := sim.Shrink(ctx, options, failed.Details.(sim.Outcome), most)
			return simRun(shrunk), err
		},
	}
}

// playScript plays one, and says at its end how it went.
func playScript(ctx context.Context, path string, w io.Writer) (bool, error) {
	text, err := files.Read(path, files.MostGiven)
	if err != nil {
		return false, fault.New(fault.NotFound, "cannot read the script: %w", err)
	}
	if err := scenario.Play(ctx, string(text), w, simulated); err != nil {
		fmt.Fprintf(w, "\nNOT SO: %v\n", err)
		return false, ctx.Err()
	}
	fmt.Fprintf(w, "\nAll is as the script says.\n")
	return true, nil
}

// simulated runs a command against a simulated server.
func simulated(ctx context.Context, c *client.Client, now func() time.Time, w io.Writer, args []string) int {
	terminal := cli.Terminal{Out: w, Err: w, Getenv: func(string) string { return "" }}
	return cli.Run(ctx, cli.Local{Client: c, Now: now, Version: "simulated"}, terminal, args)
}

// runsTwice: each run of so many is made twice.
const runsTwice = 20

func simOptions(runs cli.SimRuns) sim.Options {
	options := sim.Options{
		Seed: runs.Seed, Hours: runs.Hours, Density: runs.Density, Only: runs.Only, Replicas: runs.Replicas,
		Definition: runs.Definition, Before: runs.Before, Documents: runs.Documents, Trace: runs.Trace,
	}
	for _, kind := range runs.Without {
		options.Without = append(options.Without, sim.Kind(kind))
	}
	return options
}

func simKinds() (names []string) {
	for _, kind := range sim.Kinds() {
		names = append(names, string(kind))
	}
	return names
}

func simRun(outcome sim.Outcome) cli.SimRun {
	brief := outcome
	brief.Plan, brief.Story = nil, nil
	run := cli.SimRun{Seed: outcome.Seed, Story: outcome.Story, Value: brief, Details: outcome}
	for _, v := range outcome.Violations {
		run.Broken = append(run.Broken, cli.SimBroken{Property: v.Property, Says: campaign.Says(v.Property), What: v.What, At: v.At})
	}
	for _, d := range outcome.Plan {
		run.Disturbances = append(run.Disturbances, cli.SimDisturbance{Number: d.Number, Text: d.String()})
	}
	return run
}

func simSum(sum *campaign.Sum) cli.SimSum {
	converted := cli.SimSum{
		Runs: sum.Runs, Failed: sum.Failed, Planned: sum.Planned, Struck: sum.Struck, Effects: sum.Effects, Cells: sum.Cells,
		Hours: sum.Hours, Steps: sum.Steps, Marks: len(sum.Marks), Checked: sum.Checked, Value: sum,
	}
	if len(sum.Marks) > 0 {
		converted.Missing = sim.Missed(sum.Marks)
	}
	converted.Twice, converted.Required = sum.Twice, len(sim.Required)
	for property, asked := range sum.Checked {
		if asked == 0 {
			converted.Unchecked = append(converted.Unchecked, property)
		}
	}
	slices.Sort(converted.Unchecked)
	return converted
}
