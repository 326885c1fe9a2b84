package campaign

import (
	"context"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lehr.dev/internal/sim"
)

func run(t *testing.T, o Options) *Sum {
	t.Helper()
	sum, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestMain is also a program that makes runs for another.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ChildCommand {
		os.Exit(ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// program is this one.
func program(t *testing.T) []string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{path, ChildCommand}
}

func TestSumsDoNotDependOnWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	one := run(t, Options{Run: sim.Options{Seed: 3, Hours: 0.05}, Runs: 3, Workers: 1})
	one.Hours = math.Round(one.Hours * 1e6) // Sums of fractions depend on their order.
	for _, processes := range [][]string{nil, program(t)} {
		many := run(t, Options{Run: sim.Options{Seed: 3, Hours: 0.05}, Runs: 3, Workers: 3, Program: processes})
		many.Hours = math.Round(many.Hours * 1e6)
		if diff := cmp.Diff(one, many, cmp.AllowUnexported(Sum{})); diff != "" || one.Runs != 3 || one.Steps == 0 {
			t.Errorf("with one worker, and three by %q: %s", processes, diff)
		}
	}
}

func TestTheClockEndsACampaignThatMissesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	short := Options{Run: sim.Options{Seed: 3, Hours: 0.05}, TotalHours: 1, Workers: 1, Clock: 1}
	if sum := run(t, short); sum.Runs != 1 {
		t.Errorf("a campaign whose time is over made %d runs, want the first one alone", sum.Runs)
	}
	short.Complete = true
	if sum := run(t, short); sum.Runs < 2 || sum.Hours < short.TotalHours || len(sim.Missed(sum.Marks)) == 0 {
		t.Errorf("it ended after %d runs and %f h with %d situations missing, want all its hours", sum.Runs, sum.Hours, len(sim.Missed(sum.Marks)))
	}
}

// TestAProcessTellsAllOfARun: what failed is made smaller by its plan, and told of.
func TestAProcessTellsAllOfARun(t *testing.T) {
	options := sim.Options{Seed: 3, Hours: 0.05, Density: 200}
	here, err := sim.Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	var there sim.Outcome
	run(t, Options{Run: options, Runs: 1, Workers: 1, Program: program(t), Each: func(o sim.Outcome, _ *Sum) { there = o }})
	if diff := cmp.Diff(here, there); diff != "" || len(here.Plan) == 0 || len(here.Cells) == 0 || len(here.Story) == 0 {
		t.Errorf("here, and in a process: %s", diff)
	}
}

// TestAProcessThatEnds: a run that was not made is no run that went well.
func TestAProcessThatEnds(t *testing.T) {
	for name, program := range map[string][]string{"at once": {"true"}, "never begun": {"/nonexistent"}} {
		sum, err := Run(t.Context(), Options{Run: sim.Options{Seed: 3, Hours: 0.05}, Runs: 2, Workers: 2, Program: program})
		if err == nil || sum.Runs > 0 {
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
	}
}

func TestTotalHours(t *testing.T) {
	sum := run(t, Options{Run: sim.Options{Seed: 3, Hours: 0.05}, TotalHours: 0.6, Workers: 1})
	if sum.Hours < 0.6 || sum.Hours-sum.Hours/float64(sum.Runs) >= 0.6 {
		t.Errorf("%d runs of %f h", sum.Runs, sum.Hours)
	}
}

func TestInterruptedRunsDoNotCount(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	sum, err := Run(ctx, Options{Run: sim.Options{Seed: 3, Hours: 0.05}, TotalHours: 1e6, Workers: 2, Program: program(t), Each: func(sim.Outcome, *Sum) {
		if told++; told == 2 {
			cancel()
		}
	}})
	if err != nil || sum.Failed > 0 || sum.Runs != told {
		t.Errorf("%v: %+v, told %d", err, sum, told)
	}
}

// TestNothingIsLeft: a campaign goes on for days.
func TestNothingIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	before := goleak.IgnoreCurrent()
	for _, processes := range [][]string{nil, program(t)} {
		run(t, Options{Run: sim.Options{Seed: 1, Hours: 0.05}, Runs: 4, Workers: 2, Program: processes})
	}
	goleak.VerifyNone(t, before)
}

func TestEveryPropertyIsInWords(t *testing.T) {
	sum := run(t, Options{Run: sim.Options{Seed: 3, Hours: 0.01}, Runs: 1, Workers: 1})
	for property := range sum.Checked {
		if _, ok := properties[property]; !ok {
			t.Errorf("%s is not in words", property)
		}
	}
	if len(sum.Checked) < 10 {
		t.Errorf("only %d properties", len(sum.Checked))
	}
}
