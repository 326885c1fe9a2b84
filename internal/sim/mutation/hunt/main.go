// Command hunt looks for the deliberate defects of package mutation: it builds
// one program with all of them, runs the simulator with each switched on until
// a monitor tells, and prints which property told, after how long, with which
// seed. The program that it builds is itself: with -run it runs seeds. It
// changes nothing outside its folder of work; "make mutants" calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "hunt:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var r runner
	flag.BoolVar(&r.runs, "run", false, "run seeds and print what came of each, one JSON object a line")
	flag.Uint64Var(&r.seed, "seed", 1, "the first seed")
	flag.Float64Var(&r.budget, "budget", 1000, "simulated hours after which a defect counts as not found")
	flag.Float64Var(&r.hours, "hours", runHours, "hours of disturbances in each run")
	flag.Float64Var(&r.density, "density", runDensity, "disturbances in an hour")
	flag.IntVar(&r.replicas, "replicas", 0, "replicas that share the store")
	flag.StringVar((*string)(&r.of), "of", "", "run only seeds with runs of this kind: rollouts, fields, judged, ailing, telling, hours, trains, braked, caching, hinting, rotating, unserved, generations, sharing, outputs, common, delivering, releasing, health, circles or overreaching")
	flag.BoolVar(&r.on, "on", false, "with -run: go on after a violation")
	flag.BoolVar(&r.story, "story", false, "with -run: tell the story of each run")
	flag.StringVar(&r.class, "class", "", "of all targets, F, C or N; empty: each as its type has it")
	flag.StringVar(&r.breaks, "breaks", "", "the only property that counts")
	var h hunt
	flag.StringVar(&h.root, "root", ".", "the module's folder")
	flag.StringVar(&h.work, "work", "", "folder of work; empty: a temporary one")
	flag.IntVar(&h.workers, "workers", 2, "processes at a time")
	flag.IntVar(&h.starts, "starts", 3, "first seeds, of which the one that takes longest counts")
	flag.StringVar(&h.names, "mutants", "", "names, with commas; empty: all that are hunted")
	flag.BoolVar(&h.known, "known", false, "begin with the seeds that are known to find a defect")
	flag.BoolVar(&h.defences, "defences", false, "test each defence alone instead")
	flag.StringVar(&h.alone, "alone", "", "with -defences: their names, with commas; empty: all")
	flag.Float64Var(&h.quiet, "quiet", 30, "with -defences: simulated hours for which each must hold alone")
	flag.StringVar(&h.write, "write", "", "write what was found into this file, beside what it holds of others")
	flag.Parse()
	if r.runs {
		return r.run(ctx)
	}
	h.runner = r
	return h.run(ctx)
}
