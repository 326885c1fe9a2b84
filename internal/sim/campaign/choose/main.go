// Command choose writes the seeds with which a campaign begins (campaign.Cover): few, whose
// runs meet every required situation twice. It makes runs for as long as it is told, and
// changes nothing but the file; "make sim-cover" calls it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"time"

	"lehr.dev/internal/sim"
	"lehr.dev/internal/sim/campaign"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == campaign.ChildCommand {
		os.Exit(campaign.ChildMain(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := choose(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "choose:", err)
		os.Exit(1)
	}
}

func choose(ctx context.Context) error {
	run := sim.Options{Seed: 1}
	flag.Float64Var(&run.Hours, "hours", 8, "hours of disturbances in each run")
	flag.Float64Var(&run.Density, "density", 4, "disturbances in an hour")
	runs := flag.Int("runs", 600, "how many seeds to choose among, from 1 on")
	times := flag.Int("times", 2, "how often each situation is to be met")
	workers := flag.Int("workers", 2, "runs at a time")
	file := flag.String("write", "internal/sim/campaign/cover.json", "the file to write")
	flag.Parse()

	program, err := os.Executable()
	if err != nil {
		return err
	}
	marks := map[uint64][]string{}
	var hours float64
	start := time.Now()
	sum, err := campaign.Run(ctx, campaign.Options{
		Run: run, Runs: *runs, Workers: *workers, Program: []string{program, campaign.ChildCommand},
		Each: func(o sim.Outcome, _ *campaign.Sum) { marks[o.Seed] = slices.Collect(maps.Keys(o.Marks)) },
	})
	if err != nil {
		return err
	}
	if sum.Failed > 0 {
		return fmt.Errorf("a run failed: see it with lehr sim --seed 1 --total-hours %g --hours %g --density %g", run.Hours*float64(*runs), run.Hours, run.Density)
	}
	missed := sim.Missed(sum.Marks)
	seeds := campaign.Choose(marks, *times)
	hours = run.Hours * float64(len(seeds))
	text, err := json.Marshal(map[string]any{"hours": run.Hours, "density": run.Density, "seeds": seeds})
	if err != nil {
		return err
	}
	fmt.Printf("%d of %d seeds, %g h, chosen in %s; met by none: %q\n", len(seeds), sum.Runs, hours, time.Since(start).Round(time.Second), missed)
	return os.WriteFile(*file, append(text, '\n'), 0o644)
}
