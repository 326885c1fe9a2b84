package campaign

import (
	"context"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lehr.dev/sim"
)

func run(t *testing.T, o Options) *Sum {
	t.Helper()
	sum, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestSumsDoNotDependOnWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	one := run(t, Options{Run: sim.Options{Seed: 3, Hours: 0.05}, Runs: 3, Workers: 1})
	many := run(t, Options{Run: sim.Options{Seed: 3, Hours: 0.05}, Runs: 3, Workers: 3})
	// Sums of fractions depend on their order.
	one.Hours, many.Hours = math.Round(one.Hours*1e6), math.Round(many.Hours*1e6)
	if diff := cmp.Diff(one, many, cmp.AllowUnexported(Sum{})); diff != "" || one.Runs != 3 || one.Steps == 0 {
		t.Errorf("with one worker, and three: %s", diff)
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
	sum, err := Run(ctx, Options{Run: sim.Options{Seed: 3, Hours: 0.05}, TotalHours: 1e6, Workers: 2, Each: func(sim.Outcome, *Sum) {
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
	run(t, Options{Run: sim.Options{Seed: 1, Hours: 0.05}, Runs: 4, Workers: 2})
	goleak.VerifyNone(t, before)
}

func TestEveryPropertyIsInWords(t *testing.T) {
	sum := run(t, Options{Run: sim.Options{Seed: 3, Hours: 0.01}, Runs: 1, Workers: 1})
	for property := range sum.Checked {
		if _, known := properties[property]; !known {
			t.Errorf("%s is not in words", property)
		}
	}
	if len(sum.Checked) < 10 {
		t.Errorf("only %d properties", len(sum.Checked))
	}
}
